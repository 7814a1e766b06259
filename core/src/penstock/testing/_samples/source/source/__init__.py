"""Reading, batch and stream."""

from penstock.testing._samples.source.source._source import LinesSource

__all__ = ["LinesSource"]
