"""The source of ``penstock.filesystem``: text, CSV, JSON lines, Parquet, ORC, Avro and whole files."""

from penstock_filesystem.source._source import FileSystemSource

__all__ = ["FileSystemSource"]
