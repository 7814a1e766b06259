"""Writing, by the write-ahead template."""

from penstock.testing._samples.connector.sink._sink import MinimalWriteAheadSink, create_sink

__all__ = ["MinimalWriteAheadSink", "create_sink"]
