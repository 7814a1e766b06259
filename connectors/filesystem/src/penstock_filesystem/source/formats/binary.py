"""Whole files as rows, with Spark's columns."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock_filesystem.source.formats.base import Decoder, FileFormat, Rows, SplitState
from penstock_filesystem.source.opened import OpenedFile
from penstock_filesystem.source.split import FileSplit

__all__ = ["BinaryFormat"]

_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("modificationTime", pa.timestamp("us", "UTC")),
        pa.field("length", pa.int64()),
        pa.field("content", pa.binary()),
    ]
)


class BinaryFormat(FileFormat):
    """A file is a row: path, modificationTime, length, content. Memory holds a file; one without content isn't read."""

    reads_empty_files = True

    def is_splittable(self, path: str) -> bool:
        """See the base class."""
        return False

    def fixed_schema(self) -> pa.Schema:
        """As Spark's binaryFile."""
        return _SCHEMA

    def validate(self, schema: pa.Schema) -> None:
        """See the base class."""
        for field in schema:
            if field.name not in _SCHEMA.names or not _SCHEMA.field(field.name).type.equals(field.type):
                columns = ", ".join(f"{f.name} {f.type}" for f in _SCHEMA)
                raise BadConfigurationError(
                    f"format binary has no column {field.name} of {field.type}; it has {columns}"
                )

    def elements(self, file: OpenedFile, split: FileSplit, schema: pa.Schema) -> Iterator[bytes]:
        """See the base class."""
        if "content" not in schema.names:
            yield b""
            return
        with file.storage.fs.open_input_stream(file.path, compression=None) as stream:
            yield bytes(stream.read())

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """See the base class."""
        return _BinaryDecoder(schema)


class _BinaryDecoder(Decoder):
    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def decode(self, element: bytes, state: SplitState) -> Iterator[Rows]:
        """See the base class."""
        split = state.split
        values = {
            "path": pa.array([state.url], pa.string()),
            "modificationTime": pa.array([split.mtime_ns // 1000], pa.timestamp("us", "UTC")),
            "length": pa.array([split.size], pa.int64()),
            "content": pa.array([element], pa.binary()),
        }
        yield Rows({name: values[name] for name in self._schema.names}, 1, pa.array([0], pa.int64()))
