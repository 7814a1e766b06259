"""Every source with every sink: the systems, the streams between them, and the results of each pair."""
