"""Finding the cells of a page and hashing keys: compiled where it can be, else in Python, to the same effect."""

from penstock_cassandra.native._cells import native_problem, tokens_of, walk

__all__ = ["native_problem", "tokens_of", "walk"]
