"""A third-party format as a writer."""

from __future__ import annotations

from typing import Any, ClassVar, cast

import pyarrow as pa

from penstock_filesystem.formats._options import WriteOptions
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter
from penstock_filesystem.formats.third_party._contract import FileEncoder
from penstock_filesystem.formats.third_party._find import load_format

__all__ = ["ThirdPartyWriter"]


class ThirdPartyWriter(FormatWriter):
    """Writes files by the encoders of a format."""

    codecs: ClassVar[dict[str, str]] = {"none": ""}

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        self.name = options.name  # type: ignore[misc]
        super().__init__(schema, options)
        self._writer, values = load_format(
            options.name, options.format_options, lambda f, values: f.create_writer(values, schema)
        )
        self._settings = tuple(sorted(values.texts(secrets=False).items()))

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
        return _FileEncoder(self._writer.encoder(cast(Any, out)), out)

    def settings(self) -> tuple[object, ...]:
        """Returns the options of the format that are no secrets: the result is stored."""
        return self._settings


class _FileEncoder(Encoder):
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
