"""Writing: exactly once."""

from penstock.testing._samples.sink.sink._sink import FilesTransactionalSink, create_sink

__all__ = ["FilesTransactionalSink", "create_sink"]
