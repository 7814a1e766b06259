"""All formats by name."""

from __future__ import annotations

import pyarrow as pa

from penstock.options import OptionValues
from penstock_filesystem.sink._format import Format
from penstock_filesystem.sink._format_avro import AvroFormat
from penstock_filesystem.sink._format_lines import CsvFormat, JsonFormat, TextFormat
from penstock_filesystem.sink._format_parquet import ParquetFormat
from penstock_filesystem.sink._format_sequence import SequenceFileFormat

__all__ = ["create_format"]

_FORMATS: dict[str, type[Format]] = {
    kind.name: kind for kind in (ParquetFormat, CsvFormat, JsonFormat, TextFormat, AvroFormat, SequenceFileFormat)
}


def create_format(schema: pa.Schema, options: OptionValues) -> Format:
    """The format that the options ask for, for files with the columns of ``schema``."""
    return _FORMATS[options["format"]](schema, options)
