"""What text, CSV and JSON share: rows that are lines, their ends and their encoding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from penstock_filesystem.formats._blocks import BLOCK_BYTES, Block, can_split_at, row_blocks, whole_block
from penstock_filesystem.formats._compression import is_compressed
from penstock_filesystem.formats._input_file import InputFile, Utf8Stream, is_line_safe
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._reader_base import FormatReader

__all__ = ["BYTE_ORDER_MARK", "Line", "LineReader", "Lines", "halves", "merge_pieces"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ANY_END = re.compile(rb"\r\n|\n|\r")


class Line(NamedTuple):
    """One row as text, without its end. ``valid`` is false if its bytes were not of the encoding (then U+FFFD).

    ``data`` are the bytes of one that is not valid, where they are known.
    """

    offset: int
    text: str
    valid: bool
    data: bytes | None = None


@dataclass(frozen=True)
class Lines:
    """Where the rows of a text begin and end. ``line_sep`` ``None`` stands for \\n, \\r\\n and \\r.

    With ``multi_line``, rows may hold line ends: subclasses say where they end then.
    """

    encoding: str
    line_sep: str | None
    multi_line: bool

    @property
    def block_encoding(self) -> str:
        """Encoding of the bytes in blocks."""
        return self.encoding if is_line_safe(self.encoding) else "utf-8"

    @property
    def separator(self) -> bytes:
        """Bytes at which blocks are cut: those of lineSep, or a line feed (which also ends \\r\\n)."""
        return (self.line_sep or "\n").encode(self.block_encoding)

    def lines(self, block: Block) -> Iterator[Line]:
        """Yields the lines of a block as text, empty ones included."""
        if self.line_sep is None:
            ends: Iterator[re.Match[bytes]] = _ANY_END.finditer(block.data)
        else:
            ends = re.finditer(re.escape(self.separator), block.data)
        position = 0
        for end in ends:
            yield self._line(block, position, end.start())
            position = end.end()
        if position < len(block.data):
            yield self._line(block, position, len(block.data))

    def _line(self, block: Block, start: int, end: int) -> Line:
        data = block.data[start:end]
        try:
            return Line(block.offset + start, data.decode(self.block_encoding), True)
        except UnicodeDecodeError:
            return Line(block.offset + start, data.decode(self.block_encoding, "replace"), False, data)

    def bytes_of(self, line: Line) -> bytes:
        """Returns a row's bytes as they are in its block."""
        return line.text.encode(self.block_encoding, "replace") if line.data is None else line.data

    def rows(self, block: Block) -> Iterator[Line]:
        """Yields the texts of a block that each hold a row (or several)."""
        return self.lines(block)

    def is_row(self, text: str) -> bool:
        """Returns whether a text holds a row: it may be blank, or a comment."""
        return bool(text.strip())

    def offsets(self, block: Block) -> pa.Array:
        """Returns the byte offsets of the rows of a block."""
        # Row by row in Python: only where the column _file_offset is read.
        return pa.array([line.offset for line in self.lines(block) if self.is_row(line.text)], pa.int64())

    def to_utf8_lines(self, data: bytes) -> bytes | None:
        """Returns the same rows in UTF-8, each ended by a line feed alone; ``None`` if each row must be looked at."""
        encoding = self.block_encoding
        if encoding not in ("utf-8", "ascii"):
            try:
                data = data.decode(encoding).encode()
            except UnicodeDecodeError:
                return None
        elif encoding == "ascii" and not data.isascii():
            return None
        separator = self.line_sep
        if separator is None:
            return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data
        if separator == "\n":
            return None if b"\r" in data else data
        return None if b"\n" in data or b"\r" in data else data.replace(separator.encode(), b"\n")


class LineReader(FormatReader):
    """Base of the readers of formats in which a row is a line. With ``whole``, a file is one block, in memory."""

    def __init__(self, options: ReadOptions, lines: Lines | None = None, *, whole: bool = False) -> None:
        super().__init__(options)
        self.lines = lines or Lines(options.encoding, options.line_sep, options.multi_line)
        self._whole = whole

    def is_splittable(self, path: str) -> bool:
        """Returns whether rows can be found from anywhere in the file, without what is before them."""
        options = self.options
        whole = options.whole_text or options.multi_line or is_compressed(path)
        return not whole and is_line_safe(options.encoding) and can_split_at(self.lines.separator)

    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[Block]:
        """Yields blocks of whole rows."""
        if self.is_splittable(file.path):
            separator = self.lines.separator
            with file.raw() as stream:
                stream.seek(max(0, start - len(separator)))
                yield from _without_mark(row_blocks(stream.read, start, end, separator))
            return
        with file.stream() as raw:
            plain = raw if is_line_safe(self.options.encoding) else Utf8Stream(raw, self.options.encoding)
            yield from _without_mark(self.whole_file_blocks(plain.read))

    def whole_file_blocks(self, read: Callable[[int], bytes]) -> Iterator[Block]:
        """Yields the blocks of a file that is one range."""
        return iter([whole_block(read)]) if self._whole else row_blocks(read, 0, None, self.lines.separator)

    def sample(self, files: Sequence[InputFile]) -> Block:
        """Returns the first rows of the first file that holds something, a few MiB; an empty block if none does."""
        for file in files:
            data = b""
            for block in self.elements(file, 0, file.size, pa.schema([])):
                data += block.data
                if len(data) >= BLOCK_BYTES:
                    break
            if data.strip():
                return Block(data, 0)
        return Block(b"", 0)


def _without_mark(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        if block.offset == 0 and block.data.startswith(BYTE_ORDER_MARK):
            block = Block(block.data[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK))
        yield block


def halves(block: Block, separator: bytes) -> tuple[Block, Block] | None:
    """Cuts a block between two rows near its middle; ``None`` if it is one row."""
    middle = len(block.data) // 2
    cut = block.data.rfind(separator, 0, middle) + len(separator)
    if cut < len(separator):
        cut = block.data.find(separator, middle) + len(separator)
        if cut < len(separator) or cut >= len(block.data):
            return None
    return Block(block.data[:cut], block.offset), Block(block.data[cut:], block.offset + cut)


def merge_pieces(pieces: list[dict[str, pa.Array]], schema: pa.Schema) -> dict[str, pa.Array]:
    """Joins the columns of several pieces."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in schema.names}
