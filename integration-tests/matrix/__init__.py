"""Every source to every sink: the systems, streams between them, and what was seen of each pair."""
