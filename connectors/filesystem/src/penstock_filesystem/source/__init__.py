"""The source of ``penstock.filesystem``: text, CSV, JSON lines, Parquet, Avro and whole files."""

from penstock_filesystem.source.file_source import FileSource
from penstock_filesystem.source.options import SOURCE_OPTIONS

__all__ = ["SOURCE_OPTIONS", "FileSource"]
