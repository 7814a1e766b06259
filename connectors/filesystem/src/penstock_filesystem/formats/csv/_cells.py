"""Rows and cells of CSV as text, for what Arrow's parser does not take."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._lines import Line, Lines
from penstock_filesystem.formats.csv._dialect import CsvReadDialect

__all__ = ["Cell", "CsvLines", "column_names", "has_blank_rows", "last_row_end", "row_cells"]


_BLANKS = " \t"


class Cell(NamedTuple):
    """The text of a cell, and whether it was quoted."""

    text: str
    quoted: bool


def row_cells(row: str, dialect: CsvReadDialect) -> list[Cell]:
    """Cuts a row into cells. An unclosed quote takes the rest of the row.

    Text after a closing quote is kept, unless it is blank.
    """
    cells: list[Cell] = []
    position = 0
    while True:
        start = position
        if dialect.trim_left:
            start = len(row) - len(row[position:].lstrip(_blanks(dialect)))
        if dialect.quote and row.startswith(dialect.quote, start):
            text, position = _quoted_text(row, start + 1, dialect)
            end = _find(row, dialect.sep, position)
            more = row[position:end]
            cells.append(Cell(text + more if more.strip(_BLANKS) else text, True))
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


def _row_pattern(dialect: CsvReadDialect) -> str:
    """Returns the regular expression of a row, or a comment, up to its end, which is the group 1.

    A quote counts at the beginning of a cell only. Each part leaves nothing that another way to match could take.
    """
    sep, quote = re.escape(dialect.sep), re.escape(dialect.quote)
    cell = rest = rf"[^{sep}\r\n]*"
    if quote:
        blanks = f"[{_blanks(dialect)}]*" if dialect.trim_left else ""
        cell = rf"{blanks}{quote}{_quoted_rest(dialect)}{rest}|{rest}"
    comment = rf"{re.escape(dialect.comment)}[^\r\n]*|" if dialect.comment else ""
    return rf"(?:{comment}(?:{cell})(?:{sep}(?:{cell}))*)(\r\n|\n|\r|\Z)"


def _quoted_rest(dialect: CsvReadDialect, *, escapes: bool = True) -> str:
    """Returns the regular expression of what follows an opening quote, up to the closing one or the end of all.

    ``escapes``: whether there are any; without them it is quicker.
    """
    quote, escape = re.escape(dialect.quote), re.escape(dialect.escape)
    if not escapes or not escape or escape == quote:
        return rf"[^{quote}]*(?:{quote}{quote}[^{quote}]*)*(?:{quote}|\Z)"
    others = f"[^{quote}{escape}]*"
    return rf"{others}(?:(?:{quote}{quote}|{escape}.){others})*(?:{quote}|{escape}?\Z)"


def _blanks(dialect: CsvReadDialect) -> str:
    return _BLANKS.replace(dialect.sep, "")


def _quoted_rows(text: str, dialect: CsvReadDialect) -> Iterator[tuple[int, str]]:
    """Yields rows whose quoted cells may hold line ends, with the position each starts at.

    As in Spark, a row of blanks is none if blanks before cells are stripped, unless the file ends with it.
    """
    blanks = _blanks(dialect) if dialect.trim_left else ""
    for match in re.finditer(_row_pattern(dialect), text, re.DOTALL):
        if match.start() < len(text):
            row = text[match.start() : match.start(1)]
            if not (blanks and row and match[1] and not row.strip(blanks)):
                yield match.start(), row


def has_blank_rows(data: bytes, dialect: CsvReadDialect) -> bool:
    """Returns whether there may be rows of blanks, or of nothing, between line ends."""
    blanks = f"[{_blanks(dialect)}]*".encode() if dialect.trim_left else b""
    # One pattern for both line ends takes twenty times as long: it has no first byte to look for.
    after = rb"\n" + blanks + rb"[\r\n]", rb"\r" + blanks + rb"\r"
    return bool(re.match(blanks + rb"[\r\n]", data)) or any(re.search(one, data) for one in after)


def last_row_end(data: bytes, dialect: CsvReadDialect) -> int:
    """Returns the position behind the last line feed that ends a row, whose quoted cells may hold others; 0: none."""
    quote, comment = dialect.quote.encode(), dialect.comment.encode()
    if not quote or quote not in data:
        return data.rfind(b"\n") + 1
    if not dialect.trim_left and dialect.sep.isascii() and (not comment or comment not in data):
        cell = _cell_pattern(dialect, escapes=dialect.escape.encode() in data)
        return _end_between(re.split(cell.encode(), data, flags=re.DOTALL), len(data))
    last = 0
    for match in re.finditer(_row_pattern(dialect).encode(), data, re.DOTALL):
        if match[1].endswith(b"\n"):
            last = match.end()
    return last


def _cell_pattern(dialect: CsvReadDialect, *, escapes: bool) -> str:
    """Returns the regular expression of a quoted cell, which is the group 1, where blanks before quotes count.

    It begins with the quote, which is found quickly, and looks back from there: a quote inside a cell opens nothing.
    """
    sep, quote = re.escape(dialect.sep), re.escape(dialect.quote)
    return rf"({quote}(?<![^{sep}\r\n]{quote}){_quoted_rest(dialect, escapes=escapes)})"


def _end_between(pieces: list[bytes], position: int) -> int:
    """Returns the position behind the last line feed in one of every other piece; the others are quoted cells."""
    for number in reversed(range(len(pieces))):
        position -= len(pieces[number])
        found = -1 if number % 2 else pieces[number].rfind(b"\n")
        if found >= 0:
            return position + found + 1
    return 0


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
        """Returns whether a text is neither blank nor a comment. With ``multi_line``, blanks that rows() yields are."""
        comment = self.dialect.comment
        return bool(text if self.multi_line else text.strip()) and not (comment and text.startswith(comment))
