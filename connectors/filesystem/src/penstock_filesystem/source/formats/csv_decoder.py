"""CSV rows as typed columns: whole blocks by Arrow's parser, row by row where one does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import BadDataError
from penstock_filesystem.source.convert import TemporalConverter, cell_converter
from penstock_filesystem.source.formats.base import Decoder, Rows, SplitState
from penstock_filesystem.source.formats.csv_cells import Cell, row_cells
from penstock_filesystem.source.formats.csv_convert import CsvBlockParser
from penstock_filesystem.source.formats.lines import halves, merge_pieces
from penstock_filesystem.source.line_reader import Block
from penstock_filesystem.source.malformed import BadRowPolicy

if TYPE_CHECKING:
    from penstock_filesystem.source.formats.csv import CsvFormat

__all__ = ["CsvDecoder"]

#: A block smaller than this that does not fit is read row by row; a larger one is halved, to find the rows.
_SMALL_BYTES = 16 << 10


class CsvDecoder(Decoder):
    """See :class:`Decoder`."""

    def __init__(self, format_: CsvFormat, schema: pa.Schema, policy: BadRowPolicy, offsets: bool) -> None:
        settings = format_.settings
        self._format = format_
        self._schema = schema
        self._policy = policy
        self._offsets = offsets
        self._corrupt = settings.corrupt_column if settings.corrupt_column in schema.names else None
        self._cells = pa.schema([field for field in schema if field.name != self._corrupt])
        temporal = TemporalConverter(settings)
        self._parser = CsvBlockParser(self._cells, settings.csv, temporal, multi_line=settings.multi_line)
        self._converters = [cell_converter(field.type, temporal) for field in self._cells]

    def decode(self, element: Block, state: SplitState) -> Iterator[Rows]:
        """See the base class."""
        block = self._without_header(element, state) if state.header_pending else element
        pieces = list(self._pieces(block, state))
        if not pieces:
            return
        columns = merge_pieces([piece.columns for piece in pieces], self._schema)
        offsets = pa.concat_arrays([piece.offsets for piece in pieces]) if self._offsets else None
        yield Rows(columns, sum(piece.count for piece in pieces), offsets)

    def _without_header(self, block: Block, state: SplitState) -> Block:
        for line in self._format.rows(block):
            if not self._format.is_row(line.text):
                continue
            state.header_pending = False
            self._check_header(line.text, state.url)
            end = line.offset - block.offset + len(line.text.encode(self._format.block_encoding, "replace"))
            separator = self._format.separator
            if self._format.settings.line_sep is None:
                separator = b"\r\n" if block.data.startswith(b"\r\n", end) else block.data[end : end + 1]
            end += len(separator)
            return Block(block.data[end:], block.offset + end)
        return Block(b"", block.offset)

    def _check_header(self, text: str, url: str) -> None:
        dialect = self._format.settings.csv
        if dialect.enforce_schema:
            return
        names = [cell.text for cell in row_cells(text, dialect)]
        if [name.lower() for name in names] != [name.lower() for name in self._cells.names]:
            raise BadDataError(
                f"{url}: the header names {names}, the schema {self._cells.names}; mend one of them, "
                "or set enforceSchema to true to take columns by position"
            )

    def _pieces(self, block: Block, state: SplitState) -> Iterator[Rows]:
        """The rows of a block: at once, or halved until what does not fit is small."""
        if not block.data:
            return
        columns = self._parse_fast(block)
        if columns is not None:
            count = len(next(iter(columns.values())))
            if self._corrupt is not None:
                columns[self._corrupt] = pa.nulls(count, pa.string())
            yield Rows(columns, count, self._format_offsets(block) if self._offsets else None)
            return
        parts = None
        if len(block.data) > _SMALL_BYTES and not self._format.settings.multi_line:
            parts = halves(block, self._format.separator)
        if parts is None:
            yield self._parse_rows(block, state)
            return
        for part in parts:
            yield from self._pieces(part, state)

    def _parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        if self._offsets and self._format.settings.multi_line:
            return None
        data = (
            self._format.to_utf8_lines(block.data) if not self._format.settings.multi_line else self._utf8(block.data)
        )
        if data is None:
            return None
        if not self._format.settings.multi_line:
            data = self._without_blank_lines(data)
        if not data:
            return {field.name: pa.array([], field.type) for field in self._cells} or None
        return self._parser.parse(data)

    def _utf8(self, data: bytes) -> bytes | None:
        # Blank lines and comments between rows of which some hold line ends are for the closer look.
        comment = self._format.settings.csv.comment.encode()
        if b"\n\n" in data or b"\r\n\r\n" in data or data[:1] in b"\r\n" or (comment and comment in data):
            return None
        encoding = self._format.block_encoding
        try:
            return data if encoding in ("utf-8", "ascii") else data.decode(encoding).encode()
        except UnicodeDecodeError:
            return None

    def _without_blank_lines(self, data: bytes) -> bytes:
        comment = self._format.settings.csv.comment.encode()
        blank = data.startswith(b"\n") or b"\n\n" in data or (len(self._cells) == 1 and _has_space_at_end(data))
        if not blank and not (comment and (data.startswith(comment) or b"\n" + comment in data)):
            return data
        lines = data.split(b"\n")
        return b"\n".join(line for line in lines if line.strip() and not (comment and line.startswith(comment)))

    def _format_offsets(self, block: Block) -> pa.Array:
        return self._format.offsets_of(block, self._format.is_row)

    def _parse_rows(self, block: Block, state: SplitState) -> Rows:
        # Row by row in Python: only the few rows around one that does not fit get here.
        values: list[list[Any]] = [[] for _ in self._cells]
        corrupt: list[str | None] = []
        offsets: list[int] = []
        for line in self._format.rows(block):
            if not self._format.is_row(line.text):
                continue
            row, reason = self._convert(row_cells(line.text, self._format.settings.csv))
            reason = reason if line.valid else f"not {self._format.settings.encoding}"
            if reason and not self._policy.keeps(state.url, line.offset, line.text, reason):
                continue
            for column, value in zip(values, row, strict=True):
                column.append(value)
            corrupt.append(line.text if reason else None)
            offsets.append(line.offset)
        columns = {f.name: pa.array(v, f.type) for f, v in zip(self._cells, values, strict=True)}
        if self._corrupt is not None:
            columns[self._corrupt] = pa.array(corrupt, pa.string())
        return Rows(columns, len(offsets), pa.array(offsets, pa.int64()))

    def _convert(self, cells: list[Cell]) -> tuple[list[Any], str]:
        """Values by position, ``None`` for what does not fit, and what was wrong (empty: nothing)."""
        wanted = len(self._converters)
        reason = "" if len(cells) == wanted else f"{len(cells)} cells instead of {wanted}"
        row: list[Any] = []
        for field, convert, cell in zip(self._cells, self._converters, cells, strict=False):
            text = self._cell_text(cell)
            try:
                row.append(None if text is None else convert(text))
            except (ValueError, OverflowError):
                row.append(None)
                reason = reason or f"column {field.name}: {text!r} is not {field.type}"
        return row + [None] * (wanted - len(row)), reason

    def _cell_text(self, cell: Cell) -> str | None:
        dialect = self._format.settings.csv
        if not cell.text and not cell.quoted:
            return None
        text = cell.text or dialect.empty_value
        return None if text == dialect.null_value else text


def _has_space_at_end(data: bytes) -> bool:
    return b" \n" in data or b"\t\n" in data or data.endswith((b" ", b"\t"))
