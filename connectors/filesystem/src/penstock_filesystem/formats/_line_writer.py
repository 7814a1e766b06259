"""The base of the writers of text, CSV and JSON: a line per row."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values import TimeWriter, ValueText, concatenated
from penstock_filesystem.formats._options import WriteOptions
from penstock_filesystem.formats._writer_base import BinaryOutput, Encoder, FormatWriter, FramedEncoder

__all__ = ["LineWriter", "value_text"]


class LineWriter(FormatWriter):
    """Writes one line per row, and perhaps a header line."""

    codecs: ClassVar[dict[str, str]] = {"none": "", "gzip": ".gz", "zstd": ".zst"}
    suffix: ClassVar[str]

    def __init__(self, schema: pa.Schema, options: WriteOptions) -> None:
        super().__init__(schema, options)
        self.options = options

    @property
    def extension(self) -> str:
        """Suffix of the format and that of the codec."""
        return self.suffix + self.codecs[self.codec]

    def header(self) -> str:
        """Returns the first line, or nothing."""
        return ""

    def lines(self, batch: pa.RecordBatch) -> pa.Array:
        """Renders each row as a string, without its end."""
        raise NotImplementedError

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """Creates an encoder of lines."""
        return _LineEncoder(self, out)


class _LineEncoder(FramedEncoder):
    def __init__(self, writer: LineWriter, out: BinaryOutput) -> None:
        super().__init__(out, writer.header().encode(), writer.codec)
        self._writer = writer
        self.start()

    def render(self, batch: pa.RecordBatch) -> Any:
        return concatenated(pc.binary_join_element_wise(self._writer.lines(batch), "", self._writer.options.line_sep))


def value_text(options: WriteOptions) -> ValueText:
    """Returns the rendering of values as text, with the patterns of timestamps and dates that were chosen."""

    def writer(option: str, pattern: str | None, *, zoned: bool = False) -> TimeWriter | None:
        return TimeWriter(option, pattern, zoned=zoned) if pattern else None

    return ValueText(
        writer("timestampFormat", options.timestamp_pattern, zoned=True),
        writer("dateFormat", options.date_pattern),
        writer("timestampNTZFormat", options.ntz_pattern),
    )
