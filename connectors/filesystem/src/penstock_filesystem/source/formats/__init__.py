"""The file formats that can be read."""

from __future__ import annotations

from penstock_filesystem.source.formats.avro import AvroFormat
from penstock_filesystem.source.formats.base import Decoder, FileFormat, Rows, SplitState
from penstock_filesystem.source.formats.binary import BinaryFormat
from penstock_filesystem.source.formats.csv import CsvFormat
from penstock_filesystem.source.formats.json_lines import JsonFormat
from penstock_filesystem.source.formats.parquet import ParquetFormat
from penstock_filesystem.source.formats.text import TextFormat
from penstock_filesystem.source.options import FileSourceSettings

__all__ = ["Decoder", "FileFormat", "Rows", "SplitState", "create_format"]

_FORMATS: dict[str, type[FileFormat]] = {
    "text": TextFormat,
    "csv": CsvFormat,
    "json": JsonFormat,
    "parquet": ParquetFormat,
    "avro": AvroFormat,
    "binary": BinaryFormat,
}


def create_format(settings: FileSourceSettings) -> FileFormat:
    """The format that the option ``format`` names."""
    return _FORMATS[settings.format](settings)
