"""Writing to Pravega."""

from penstock_pravega.sink._sink import create_sink

__all__ = ["create_sink"]
