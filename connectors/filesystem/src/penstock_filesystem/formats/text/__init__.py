"""Text files: a line is a row."""
