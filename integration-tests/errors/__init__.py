"""What a person sees of a mistake: cases, a process that runs many of them, and how what it printed is scored."""
