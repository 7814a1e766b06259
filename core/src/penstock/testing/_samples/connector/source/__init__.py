"""Reading, by the template for pieces that never change."""

from penstock.testing._samples.connector.source._source import MinimalSource

__all__ = ["MinimalSource"]
