"""Writing to Pravega."""

from penstock_pravega.sink._sink import ExactlyOncePravegaSink, PravegaSink, create_sink

__all__ = ["ExactlyOncePravegaSink", "PravegaSink", "create_sink"]
