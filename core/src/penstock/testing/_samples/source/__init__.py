"""A small source with an enumerator and a reader of its own: numbers in a local file that grows."""

from penstock.testing._samples.source._connector import LinesConnector

__all__ = ["LinesConnector"]
