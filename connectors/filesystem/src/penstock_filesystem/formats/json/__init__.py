"""JSON files: an object per line."""
