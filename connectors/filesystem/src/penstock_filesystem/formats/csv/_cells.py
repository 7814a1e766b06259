"""Rows and cells of CSV as text, for what Arrow's parser does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._lines import Line, Lines
from penstock_filesystem.formats.csv._dialect import CsvReadDialect

__all__ = ["Cell", "CsvLines", "column_names", "row_cells"]


class Cell(NamedTuple):
    """The text of a cell, and whether it was quoted."""

    text: str
    quoted: bool


def row_cells(row: str, dialect: CsvReadDialect) -> list[Cell]:
    """Cuts a row into cells. An unclosed quote takes the rest of the row; text after a closing quote is kept."""
    cells: list[Cell] = []
    position = 0
    while True:
        if dialect.quote and row.startswith(dialect.quote, position):
            text, position = _quoted_text(row, position + 1, dialect)
            end = _find(row, dialect.sep, position)
            cells.append(Cell(text + row[position:end], True))
        else:
            end = _find(row, dialect.sep, position)
            text = row[position:end]
            text = text.lstrip() if dialect.trim_left else text
            cells.append(Cell(text.rstrip() if dialect.trim_right else text, False))
        if end == len(row):
            return cells
        position = end + 1


def column_names(row: str, dialect: CsvReadDialect) -> list[str]:
    """Returns what the columns of a file are called without a schema, going by its first row, as Spark."""
    first = [cell.text for cell in row_cells(row, dialect)]
    unnamed = ("", dialect.null_value)
    names = [n if dialect.header and n not in unnamed else f"_c{i}" for i, n in enumerate(first)]
    if len({name.lower() for name in names}) != len(names):
        names = [f"{n}{i}" if [m.lower() for m in names].count(n.lower()) > 1 else n for i, n in enumerate(names)]
    return names


def _find(row: str, text: str, position: int) -> int:
    found = row.find(text, position)
    return len(row) if found < 0 else found


def _quoted_text(row: str, position: int, dialect: CsvReadDialect) -> tuple[str, int]:
    out: list[str] = []
    quote, escape = dialect.quote, dialect.escape
    while position < len(row):
        char = row[position]
        following = row[position + 1 : position + 2]
        if char == escape and escape != quote and following in (quote, escape) and following:
            out.append(following)
            position += 2
        elif char != quote:
            out.append(char)
            position += 1
        elif following == quote:
            out.append(quote)
            position += 2
        else:
            return "".join(out), position + 1
    return "".join(out), position


def _quoted_rows(text: str, dialect: CsvReadDialect) -> Iterator[tuple[int, str]]:
    """Yields rows whose quoted cells may hold line ends, with the position each starts at."""
    special = re.escape(dialect.quote) if dialect.quote else r"(?!)"
    escaped = f"{re.escape(dialect.escape)}." if dialect.escape and dialect.escape != dialect.quote else r"(?!)"
    start, inside = 0, False
    for match in re.finditer(rf"({escaped})|({special})|\r\n|\n|\r", text, re.DOTALL):
        if match[1] is not None:
            continue
        if match[2] is not None:
            inside = not inside
        elif not inside:
            yield start, text[start : match.start()]
            start = match.end()
    if start < len(text):
        yield start, text[start:]


@dataclass(frozen=True)
class CsvLines(Lines):
    """The rows of CSV. With ``multi_line``, line ends in quotes end no row."""

    dialect: CsvReadDialect

    def rows(self, block: Block) -> Iterator[Line]:
        """Yields the rows of a block as text."""
        if not self.multi_line:
            yield from self.lines(block)
            return
        encoding = self.block_encoding
        text = block.data.decode(encoding, "replace")
        valid = "\ufffd" not in text
        offset, before = block.offset, 0
        for start, row in _quoted_rows(text, self.dialect):
            offset += len(text[before:start].encode(encoding, "replace"))
            before = start
            yield Line(offset, row, valid or "\ufffd" not in row)

    def is_row(self, text: str) -> bool:
        """Returns whether a text is neither blank nor a comment. With ``multi_line``, as in Spark, blanks are a row."""
        comment = self.dialect.comment
        return bool(text if self.multi_line else text.strip()) and not (comment and text.startswith(comment))
