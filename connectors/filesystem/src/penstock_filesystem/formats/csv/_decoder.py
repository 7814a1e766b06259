"""CSV rows as typed columns: whole blocks by Arrow's parser, row by row where one does not fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.serialization.ddl import shown_type
from penstock.serialization.values import json_text
from penstock_filesystem.formats._block_decoder import BlockDecoder, TextRow
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._lines import Line
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import Rows, SplitState
from penstock_filesystem.formats._text_values import cell_converter
from penstock_filesystem.formats.csv._cells import Cell, CsvLines, column_names, has_blank_rows, row_cells
from penstock_filesystem.formats.csv._parser import CsvBlockParser

__all__ = ["CsvDecoder"]

_log = get_logger("penstock.filesystem")


class CsvDecoder(BlockDecoder):
    """Decodes whole blocks by :class:`CsvBlockParser`, and single rows by converters of cells."""

    lines: CsvLines

    def __init__(
        self, lines: CsvLines, options: ReadOptions, schema: pa.Schema, metrics: Metrics, offsets: bool
    ) -> None:
        super().__init__(lines, schema, options, metrics, offsets=offsets)
        self._dialect = lines.dialect
        self._has_warned = False
        self._parser = CsvBlockParser(self.fields, lines.dialect, options.times, multi_line=lines.multi_line)
        self._converters = [
            cell_converter(field.type, options.times, lines.dialect.not_finite) for field in self.fields
        ]

    def decode(self, element: Block, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of a block, without the file's header line."""
        yield from super().decode(self._without_header(element, state) if state.header_pending else element, state)

    def _without_header(self, block: Block, state: SplitState) -> Block:
        for line in self.lines.rows(block):
            if not self.lines.is_row(line.text):
                continue
            state.header_pending = False
            self._check_header(line.text, state.url)
            end = line.offset - block.offset + len(line.text.encode(self.lines.block_encoding, "replace"))
            separator = self.lines.separator
            if self.lines.line_sep is None:
                separator = b"\r\n" if block.data.startswith(b"\r\n", end) else block.data[end : end + 1]
            end += len(separator)
            return Block(block.data[end:], block.offset + end)
        return Block(b"", block.offset)

    def _check_header(self, text: str, url: str) -> None:
        wanted = [name.lower() for name in self.fields.names]
        names = [cell.text for cell in row_cells(text, self._dialect)]
        if [name.lower() for name in names] == wanted:
            return
        said = f"{url}: the header names {names}, the schema {self.fields.names}"
        if not self._dialect.enforce_schema:
            raise BadDataError(f"{said}; change one of them, or set enforceSchema to true to take columns by position")
        inferred = [name.lower() for name in column_names(text, self._dialect)]
        if inferred != wanted and not self._has_warned:
            self._has_warned = True
            _log.warning("%s: columns are taken by position; set enforceSchema to false to refuse such files", said)

    def parse_fast(self, block: Block) -> dict[str, pa.Array] | None:
        """Parses the block with Arrow, if it can be given to Arrow as it is or with its blank lines left out."""
        if self.offsets and self.lines.multi_line:
            return None
        data = self.lines.to_utf8_lines(block.data) if not self.lines.multi_line else self._utf8(block.data)
        if data is None:
            return None
        if not self.lines.multi_line:
            data = self._without_blank_lines(data)
        if not data:
            return {field.name: pa.array([], field.type) for field in self.fields} or None
        return self._parser.parse(data)

    def _utf8(self, data: bytes) -> bytes | None:
        # Blank lines and comments between rows of which some hold line ends are for the closer look.
        comment = self._dialect.comment.encode()
        if has_blank_rows(data, self._dialect) or (comment and comment in data):
            return None
        encoding = self.lines.block_encoding
        try:
            return data if encoding in ("utf-8", "ascii") else data.decode(encoding).encode()
        except UnicodeDecodeError:
            return None

    def _without_blank_lines(self, data: bytes) -> bytes:
        comment = self._dialect.comment.encode()
        blank = data.startswith(b"\n") or b"\n\n" in data or (len(self.fields) == 1 and _has_space_at_end(data))
        if not blank and not (comment and (data.startswith(comment) or b"\n" + comment in data)):
            return data
        lines = data.split(b"\n")
        return b"\n".join(line for line in lines if line.strip() and not (comment and line.startswith(comment)))

    def convert(self, line: Line) -> Iterator[TextRow]:
        """Yields the row of a line, with values by position."""
        cells = row_cells(line.text, self._dialect)
        wanted = len(self._converters)
        reason = "" if len(cells) == wanted else f"{len(cells)} cells instead of {wanted}"
        row: list[Any] = []
        left: dict[str, str] = {}
        if self.rescues and len(cells) > wanted:
            reason = ""
        for field, convert, cell in zip(self.fields, self._converters, cells, strict=False):
            text = self._cell_text(cell)
            try:
                row.append(None if text is None else convert(text))
            except (ValueError, OverflowError):
                row.append(None)
                if self.rescues:
                    left[field.name] = cell.text
                else:
                    reason = reason or f"column {field.name}: {text!r} is not {shown_type(field.type)}"
        if self.rescues:
            for number, cell in enumerate(cells[wanted:], wanted):
                left[f"_c{number}" if f"_c{number}" not in left else f"_c{number}_more"] = cell.text
        yield TextRow(row + [None] * (wanted - len(row)), reason, json_text(left) if left else None)

    def _cell_text(self, cell: Cell) -> str | None:
        dialect = self._dialect
        if not cell.text and not cell.quoted:
            return None
        text = cell.text or dialect.empty_value
        return None if text == dialect.null_value else text


def _has_space_at_end(data: bytes) -> bool:
    return b" \n" in data or b"\t\n" in data or data.endswith((b" ", b"\t"))
