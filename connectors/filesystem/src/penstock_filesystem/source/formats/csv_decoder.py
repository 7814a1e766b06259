"""CSV rows as typed columns: whole blocks by Arrow's parser, row by row where one does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.errors import BadDataError
from penstock_filesystem.source.formats.base import Rows, SplitState
from penstock_filesystem.source.formats.block_decoder import BlockDecoder
from penstock_filesystem.source.formats.csv_cells import Cell, row_cells
from penstock_filesystem.source.formats.csv_convert import CsvBlockParser
from penstock_filesystem.source.formats.csv_values import cell_converter
from penstock_filesystem.source.formats.lines import Line
from penstock_filesystem.source.line_reader import Block
from penstock_filesystem.source.malformed import BadRowPolicy

if TYPE_CHECKING:
    from penstock_filesystem.source.formats.csv import CsvFormat

__all__ = ["CsvDecoder"]


class CsvDecoder(BlockDecoder):
    """See :class:`BlockDecoder`."""

    format: CsvFormat

    def __init__(self, format_: CsvFormat, schema: pa.Schema, policy: BadRowPolicy, offsets: bool) -> None:
        super().__init__(format_, schema, policy, offsets)
        settings = format_.settings
        self._parser = CsvBlockParser(self.fields, settings.csv, settings.times, multi_line=settings.multi_line)
        self._converters = [cell_converter(field.type, settings.times) for field in self.fields]

    def decode(self, element: Block, state: SplitState) -> Iterator[Rows]:
        """See the base class."""
        yield from super().decode(self._without_header(element, state) if state.header_pending else element, state)

    def is_row(self, text: str) -> bool:
        """See the base class."""
        return self.format.is_row(text)

    def _without_header(self, block: Block, state: SplitState) -> Block:
        for line in self.format.rows(block):
            if not self.format.is_row(line.text):
                continue
            state.header_pending = False
            self._check_header(line.text, state.url)
            end = line.offset - block.offset + len(line.text.encode(self.format.block_encoding, "replace"))
            separator = self.format.separator
            if self.format.settings.line_sep is None:
                separator = b"\r\n" if block.data.startswith(b"\r\n", end) else block.data[end : end + 1]
            end += len(separator)
            return Block(block.data[end:], block.offset + end)
        return Block(b"", block.offset)

    def _check_header(self, text: str, url: str) -> None:
        dialect = self.format.settings.csv
        if dialect.enforce_schema:
            return
        names = [cell.text for cell in row_cells(text, dialect)]
        if [name.lower() for name in names] != [name.lower() for name in self.fields.names]:
            raise BadDataError(
                f"{url}: the header names {names}, the schema {self.fields.names}; mend one of them, "
                "or set enforceSchema to true to take columns by position"
            )

    def parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        """See the base class."""
        if self.offsets and self.format.settings.multi_line:
            return None
        data = self.format.to_utf8_lines(block.data) if not self.format.settings.multi_line else self._utf8(block.data)
        if data is None:
            return None
        if not self.format.settings.multi_line:
            data = self._without_blank_lines(data)
        if not data:
            return {field.name: pa.array([], field.type) for field in self.fields} or None
        return self._parser.parse(data)

    def _utf8(self, data: bytes) -> bytes | None:
        # Blank lines and comments between rows of which some hold line ends are for the closer look.
        comment = self.format.settings.csv.comment.encode()
        if b"\n\n" in data or b"\r\n\r\n" in data or data[:1] in b"\r\n" or (comment and comment in data):
            return None
        encoding = self.format.block_encoding
        try:
            return data if encoding in ("utf-8", "ascii") else data.decode(encoding).encode()
        except UnicodeDecodeError:
            return None

    def _without_blank_lines(self, data: bytes) -> bytes:
        comment = self.format.settings.csv.comment.encode()
        blank = data.startswith(b"\n") or b"\n\n" in data or (len(self.fields) == 1 and _has_space_at_end(data))
        if not blank and not (comment and (data.startswith(comment) or b"\n" + comment in data)):
            return data
        lines = data.split(b"\n")
        return b"\n".join(line for line in lines if line.strip() and not (comment and line.startswith(comment)))

    def convert(self, line: Line) -> Iterator[tuple[list[Any], str]]:
        """See the base class: values by position."""
        cells = row_cells(line.text, self.format.settings.csv)
        wanted = len(self._converters)
        reason = "" if len(cells) == wanted else f"{len(cells)} cells instead of {wanted}"
        row: list[Any] = []
        for field, convert, cell in zip(self.fields, self._converters, cells, strict=False):
            text = self._cell_text(cell)
            try:
                row.append(None if text is None else convert(text))
            except (ValueError, OverflowError):
                row.append(None)
                reason = reason or f"column {field.name}: {text!r} is not {field.type}"
        yield row + [None] * (wanted - len(row)), reason

    def _cell_text(self, cell: Cell) -> str | None:
        dialect = self.format.settings.csv
        if not cell.text and not cell.quoted:
            return None
        text = cell.text or dialect.empty_value
        return None if text == dialect.null_value else text


def _has_space_at_end(data: bytes) -> bool:
    return b" \n" in data or b"\t\n" in data or data.endswith((b" ", b"\t"))
