"""Reads whole files as rows, with Spark's columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.serialization.ddl import shown_type
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._reader_base import Decoder, FormatReader, Rows, SplitState

__all__ = ["BinaryReader"]

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("modificationTime", pa.timestamp("us", "UTC")),
        pa.field("length", pa.int64()),
        pa.field("content", pa.binary()),
    ]
)


class BinaryReader(FormatReader):
    """Reads a file as a row: path, modificationTime, length, content. Memory holds its content, if that is wanted."""

    reads_empty_files = True

    def is_splittable(self, path: str) -> bool:
        """Always returns False."""
        return False

    def fixed_schema(self) -> pa.Schema:
        """Returns the columns of Spark's binaryFile."""
        return _SCHEMA

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for any other column."""
        for field in schema:
            if field.name not in _SCHEMA.names or not _SCHEMA.field(field.name).type.equals(field.type):
                columns = ", ".join(f"{f.name} {shown_type(f.type)}" for f in _SCHEMA)
                raise BadConfigurationError(
                    f"format binary has no column {field.name} of {shown_type(field.type)}; it has {columns}"
                )

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[bytes]:
        """Yields the file's bytes, all at once."""
        if "content" not in schema.names:
            yield b""
            return
        with file.raw() as stream:
            yield stream.read()

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder that adds the other columns."""
        return _BinaryDecoder(schema)


class _BinaryDecoder(Decoder):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def decode(self, element: bytes, state: SplitState) -> Iterator[Rows]:
        """Yields the file's row."""
        values = {
            "path": pa.array([state.url], pa.string()),
            "modificationTime": pa.array([state.mtime_ns // 1000], pa.timestamp("us", "UTC")),
            "length": pa.array([state.size], pa.int64()),
            "content": pa.array([element], pa.binary()),
        }
        yield Rows({name: values[name] for name in self._schema.names}, 1, pa.array([0], pa.int64()))
