"""Reads text files: one column ``value``, a row per line or per file."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.dead_letters import LETTER_TYPE
from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock_filesystem.formats._bad_rows import BadRows, letters_of
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._lines import LineReader, Lines
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Decoder, Rows, SplitState

__all__ = ["TextReader"]


class TextReader(LineReader):
    """Reads lines, or whole files with ``wholetext``. Bytes outside the encoding make a bad row (U+FFFD if kept)."""

    def __init__(self, options: ReadOptions) -> None:
        super().__init__(options, whole=options.whole_text)
        self.reads_empty_files = options.whole_text

    def fixed_schema(self) -> pa.Schema:
        """Returns ``value string``."""
        return pa.schema([pa.field("value", pa.string())])

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for any other column than ``value``, a string."""
        if any(field.name != "value" or not pa.types.is_string(field.type) for field in schema):
            raise BadConfigurationError(f"format text has one column, value string; the schema asks for {schema.names}")

    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder of lines."""
        return _TextDecoder(self.lines, self.options, schema, metrics, offsets)


class _TextDecoder(Decoder):
    def __init__(self, lines: Lines, options: ReadOptions, schema: pa.Schema, metrics: Metrics, offsets: bool) -> None:
        self._lines = lines
        self._whole_text = options.whole_text
        self._wants_value = "value" in schema.names
        self._letter = options.letter_column if options.letter_column in schema.names else None
        self._policy = BadRows(options.bad_records, metrics)
        self._offsets = offsets

    def decode(self, element: Block, state: SplitState) -> Iterator[Rows]:
        """Yields the lines of a block, or all of it as one row."""
        if self._whole_text:
            yield self._decode_whole(element, state)
            return
        column = None if self._offsets else self._decode_block(element)
        if column is not None:
            yield Rows(self._columns(column, pa.nulls(len(column), LETTER_TYPE)), len(column))
        else:
            yield self._decode_rows(element, state)

    def _decode_block(self, block: Block) -> pa.Array | None:
        data = self._lines.to_utf8_lines(block.data)
        if data is None:
            return None
        try:
            whole = pa.array([data], pa.large_binary()).cast(pa.large_string())
        except pa.ArrowInvalid:
            return None
        rows = pc.split_pattern(whole, "\n").values
        return rows.slice(0, len(rows) - 1) if data.endswith(b"\n") else rows

    def _decode_rows(self, block: Block, state: SplitState) -> Rows:
        # Row by row: for blocks with bytes that do not decode, and where offsets are wanted.
        texts: list[str | None] = []
        offsets: list[int] = []
        reasons: list[str | None] = []
        data: list[bytes | None] = []
        for line in self._lines.lines(block):
            if line.valid or self._policy.keeps(state.url, line.offset, line.text, self._reason):
                is_letter = not line.valid and self._letter is not None
                texts.append(None if is_letter else line.text)
                offsets.append(line.offset)
                reasons.append(self._reason if is_letter else None)
                data.append(self._lines.bytes_of(line) if is_letter else None)
        columns = self._columns(pa.array(texts, pa.string()), letters_of(state, reasons, offsets, data))
        return Rows(columns, len(texts), pa.array(offsets, pa.int64()))

    def _columns(self, values: pa.Array, letters: pa.Array) -> dict[str, pa.Array]:
        columns = {"value": values} if self._wants_value else {}
        return columns if self._letter is None else {**columns, self._letter: letters}

    def _decode_whole(self, block: Block, state: SplitState) -> Rows:
        text: str | None
        reason, data = None, None
        try:
            text = block.data.decode(self._lines.block_encoding)
        except UnicodeDecodeError:
            text = block.data.decode(self._lines.block_encoding, "replace")
            if not self._policy.keeps(state.url, 0, text, self._reason):
                return Rows({"value": pa.array([], pa.string())}, 0, pa.array([], pa.int64()))
            if self._letter is not None:
                text, reason, data = None, self._reason, block.data
        columns = self._columns(pa.array([text], pa.string()), letters_of(state, [reason], [0], [data]))
        return Rows(columns, 1, pa.array([0], pa.int64()))

    @property
    def _reason(self) -> str:
        return f"not {self._lines.encoding}"
