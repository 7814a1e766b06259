"""File formats: how the contents of files are read and written, whatever the files are for.

:func:`create_reader` and :func:`create_writer` look a format up by its name. Its module is imported only then, so a
process that reads loads no format's writer, and no library of a format that it does not use. A name that is not one of
ours is a third-party format (:mod:`penstock_filesystem.formats.third_party`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from penstock.options import load_object
from penstock_filesystem.formats._directory_names import (
    NULL_PARTITION,
    directory_values,
    escape_path_name,
    unescape_path_name,
)
from penstock_filesystem.formats._inference import SchemaInference, merge_schemas
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions, WriteOptions, check_encoding, check_line_sep
from penstock_filesystem.formats._reader_base import Decoder, FormatReader, NewColumnsError, Rows, SplitState
from penstock_filesystem.formats._text_values import DECIMAL, cell_converter
from penstock_filesystem.formats._whole_file import WholeFile
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter

__all__ = [
    "DECIMAL",
    "NULL_PARTITION",
    "READ_FORMATS",
    "WRITE_FORMATS",
    "BinaryOutput",
    "Decoder",
    "Encoder",
    "FormatReader",
    "FormatWriter",
    "InputFile",
    "NewColumnsError",
    "ReadOptions",
    "Rows",
    "SchemaInference",
    "SplitState",
    "WholeFile",
    "WriteOptions",
    "can_join_bytes",
    "cell_converter",
    "check_encoding",
    "check_line_sep",
    "create_reader",
    "create_writer",
    "directory_values",
    "escape_path_name",
    "merge_files",
    "merge_schemas",
    "unescape_path_name",
]

_READERS = {
    "text": "text._reader:TextReader",
    "csv": "csv._reader:CsvReader",
    "json": "json._reader:JsonLinesReader",
    "parquet": "parquet._reader:ParquetReader",
    "orc": "orc._reader:OrcReader",
    "avro": "avro._reader:AvroReader",
    "binary": "binary._reader:BinaryReader",
    "sequencefile": "sequence._reader:SequenceReader",
}
_WRITERS = {
    "parquet": "parquet._writer:ParquetWriter",
    "orc": "orc._writer:OrcWriter",
    "csv": "csv._writer:CsvWriter",
    "json": "json._writer:JsonLinesWriter",
    "text": "text._writer:TextWriter",
    "avro": "avro._writer:AvroWriter",
    "sequencefile": "sequence._writer:SequenceWriter",
}
#: Of those whose files are merged by writing their rows again.
_MERGERS = {"parquet": "parquet._writer:merge_parquet", "orc": "orc._writer:merge_orc"}

#: The values of the source's option ``format``.
READ_FORMATS = tuple(_READERS)
#: The values of the sink's option ``format``.
WRITE_FORMATS = tuple(_WRITERS)


def create_reader(options: ReadOptions) -> FormatReader:
    """Creates the reader of the format that ``options`` name."""
    reader: FormatReader = _load(_READERS.get(options.name, "third_party._reader:ThirdPartyReader"))(options)
    return reader


def create_writer(schema: pa.Schema, options: WriteOptions) -> FormatWriter:
    """Creates the writer of the format that ``options`` name, for files with the columns of ``schema``.

    Raises BadConfigurationError for options that the format does not take.
    """
    writer: FormatWriter = _load(_WRITERS.get(options.name, "third_party._writer:ThirdPartyWriter"))(schema, options)
    return writer


def can_join_bytes(name: str) -> bool:
    """Returns whether files of this format are joined byte by byte; others are merged by :func:`merge_files`."""
    return name not in _MERGERS


def merge_files(name: str, writer: FormatWriter, sources: Iterable[Any], out: BinaryOutput) -> None:
    """Writes the rows of ``sources`` (open files of the format ``name`` and of one schema) to ``out`` as one file.

    Takes the codec and the like from ``writer`` if it writes that format, too. Memory: one row group or stripe.
    """
    _load(_MERGERS[name])(writer, sources, out)


def _load(reference: str) -> Any:
    return load_object("format", f"{__name__}.{reference}")
