"""The rows of JSON files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.serialization.values import LooseJson
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._lines import Line, Lines
from penstock_filesystem.formats.json._dialect import JsonReadDialect

__all__ = ["JsonLines", "object_lines"]

#: What Arrow's parser takes for numbers.
_NON_NUMERIC = re.compile(rb"NaN|Inf")
_BLANK_LINE = re.compile(rb"(?:\A|\n)[ \t]*\n|\n[ \t]+\Z")


@dataclass(frozen=True)
class JsonLines(Lines):
    """The rows of JSON. With ``multi_line``, the block is one text."""

    dialect: JsonReadDialect

    @cached_property
    def loose(self) -> LooseJson:
        """The parser of a row."""
        return LooseJson(self.dialect)

    def rows(self, block: Block) -> Iterator[Line]:
        """Yields the texts of a block that each hold JSON."""
        if not self.multi_line:
            yield from self.lines(block)
            return
        text = block.data.decode(self.block_encoding, "replace")
        yield Line(0, text, "\ufffd" not in text, block.data)

    def is_row(self, text: str) -> bool:
        """Returns whether a text holds something besides blanks and, where they are taken, comments."""
        return bool(text.strip()) and not (self.dialect.comments and self.loose.is_blank(text))


def object_lines(lines: JsonLines, block: Block) -> tuple[bytes, int] | None:
    """Returns the rows of a block for Arrow's parser, and their number; ``None`` if each row must be looked at.

    Each is UTF-8, ended by a line feed, and begins with { and ends with }.
    """
    data = None if lines.multi_line else lines.to_utf8_lines(block.data)
    if data is None:
        return None
    if _BLANK_LINE.search(data):
        data = b"\n".join(line for line in data.split(b"\n") if line.strip())
    count = data.count(b"\n") + (not data.endswith(b"\n"))
    if not lines.dialect.non_numeric and _NON_NUMERIC.search(data):
        return None
    if not data or not _is_utf8(data) or not _begin_and_end_as_objects(data, count):
        return None
    return data, count


def _is_utf8(data: bytes) -> bool:
    """Returns whether the bytes are UTF-8, which Arrow's parser of JSON does not check."""
    try:
        pa.array([data], pa.large_binary()).cast(pa.large_string())
    except pa.ArrowInvalid:
        return False
    return True


def _begin_and_end_as_objects(data: bytes, count: int) -> bool:
    """Returns whether every one of ``count`` lines begins with { and ends with }, except for blanks."""

    def holds(data: bytes) -> bool:
        return data.startswith(b"{") and data.endswith((b"}\n", b"}")) and data.count(b"}\n{") == count - 1

    return holds(data) or holds(b"\n".join(line.strip() for line in data.split(b"\n")))
