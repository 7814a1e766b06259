"""A format of others as a writer."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pyarrow as pa

from penstock_filesystem.formats._options import WriteOptions
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter
from penstock_filesystem.formats.own._contract import FileEncoder
from penstock_filesystem.formats.own._find import find_format

__all__ = ["OwnWriter"]


class OwnWriter(FormatWriter):
    """Writes files by the encoders of a format."""

    codecs: ClassVar[dict[str, str]] = {"none": ""}

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        self.name = options.name  # type: ignore[misc]
        super().__init__(schema, options)
        self._own = dict(options.own)
        format_, values = find_format(options.name, options.own)
        self._writer = format_.create_writer(values, schema)

    @property
    def appends(self) -> bool:
        """As the format says."""
        return self._writer.appends

    @property
    def extension(self) -> str:
        """As the format says."""
        return self._writer.extension

    def validate(self) -> None:
        """Does nothing: the format has seen the schema."""

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates the format's encoder of one file."""
        return _OwnEncoder(self._writer.encoder(cast(Any, out)), out)

    def settings(self) -> tuple[object, ...]:
        """Returns all options of the format."""
        return tuple(sorted(self._own.items()))


class _OwnEncoder(Encoder):
    def __init__(self, encoder: FileEncoder, out: BinaryOutput) -> None:
        self._encoder = encoder
        self._out = out

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows."""
        self._encoder.write(batch)

    @property
    def size(self) -> int:
        """Bytes that are in the file."""
        return self._out.tell()

    def finish(self) -> None:
        """Completes the file."""
        self._encoder.finish()
