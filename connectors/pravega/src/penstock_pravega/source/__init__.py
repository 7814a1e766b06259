"""The Pravega source."""

from penstock_pravega.source._source import PravegaSource

__all__ = ["PravegaSource"]
