"""Comparisons with what you would use instead, run by ``scripts/bench``."""
