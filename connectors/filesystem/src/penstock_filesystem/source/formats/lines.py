"""What text, CSV and JSON lines share: blocks of rows, their ends, their encoding."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from penstock_filesystem.source.formats.base import FileFormat
from penstock_filesystem.source.line_reader import Block, can_split_at, row_blocks
from penstock_filesystem.source.opened import OpenedFile, Utf8Stream, is_compressed, is_line_safe
from penstock_filesystem.source.split import FileSplit

__all__ = ["Line", "LineFormat", "halves", "merge_pieces"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ANY_END = re.compile(rb"\r\n|\n|\r")


class Line(NamedTuple):
    """One row as text, without its end. ``valid`` is false if its bytes were not of the encoding (then U+FFFD)."""

    offset: int
    text: str
    valid: bool


class LineFormat(FileFormat):
    """Base of the formats in which a row is a line."""

    @property
    def separator(self) -> bytes:
        """Bytes at which blocks are cut: those of lineSep, or a line feed (which also ends \\r\\n)."""
        encoding = self.settings.encoding if is_line_safe(self.settings.encoding) else "utf-8"
        return (self.settings.line_sep or "\n").encode(encoding)

    @property
    def block_encoding(self) -> str:
        """Encoding of the bytes in blocks."""
        return self.settings.encoding if is_line_safe(self.settings.encoding) else "utf-8"

    def is_splittable(self, path: str) -> bool:
        """See the base class."""
        settings = self.settings
        whole = settings.whole_text or settings.multi_line or is_compressed(path)
        return not whole and is_line_safe(settings.encoding) and can_split_at(self.separator)

    def elements(self, file: OpenedFile, split: FileSplit, schema: pa.Schema) -> Iterator[Block]:
        """See the base class: blocks of whole rows."""
        if self.is_splittable(file.path):
            with file.random_access() as stream:
                stream.seek(max(0, split.start - len(self.separator)))
                yield from _without_mark(row_blocks(stream.read, split.start, split.end, self.separator))
            return
        with file.stream() as raw:
            stream = raw if is_line_safe(self.settings.encoding) else Utf8Stream(raw, self.settings.encoding)
            yield from _without_mark(self.whole_file_blocks(stream.read))

    def whole_file_blocks(self, read: Callable[[int], bytes]) -> Iterator[Block]:
        """Blocks of a file that is one range."""
        return row_blocks(read, 0, None, self.separator)

    def sample(self, files: Sequence[OpenedFile]) -> Block:
        """The first block of the first file that holds something; an empty one if none does."""
        for file in files:
            split = FileSplit(file.path, 0, file.size, 0, file.size)
            for block in self.elements(file, split, pa.schema([])):
                if block.data.strip():
                    return block
        return Block(b"", 0)

    def lines(self, block: Block) -> Iterator[Line]:
        """The rows of a block as text, empty ones included."""
        if self.settings.line_sep is None:
            ends: Iterator[re.Match[bytes]] = _ANY_END.finditer(block.data)
        else:
            ends = re.finditer(re.escape(self.separator), block.data)
        position = 0
        for end in ends:
            yield self._line(block, position, end.start())
            position = end.end()
        if position < len(block.data):
            yield self._line(block, position, len(block.data))

    def rows(self, block: Block) -> Iterator[Line]:
        """The texts of a block that each hold a row (or several): its lines, unless a format has others."""
        return self.lines(block)

    def _line(self, block: Block, start: int, end: int) -> Line:
        data = block.data[start:end]
        try:
            return Line(block.offset + start, data.decode(self.block_encoding), True)
        except UnicodeDecodeError:
            return Line(block.offset + start, data.decode(self.block_encoding, "replace"), False)

    def to_utf8_lines(self, data: bytes) -> bytes | None:
        """The same rows as UTF-8, each ended by a line feed alone; ``None`` where that takes a look at each row."""
        encoding = self.block_encoding
        if encoding not in ("utf-8", "ascii"):
            try:
                data = data.decode(encoding).encode()
            except UnicodeDecodeError:
                return None
        elif encoding == "ascii" and not data.isascii():
            return None
        separator = self.settings.line_sep
        if separator is None:
            return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data
        if separator == "\n":
            return None if b"\r" in data else data
        return None if b"\n" in data or b"\r" in data else data.replace(separator.encode(), b"\n")

    def offsets_of(self, block: Block, keep: Callable[[str], bool]) -> pa.Array:
        """Byte offsets of the rows of a block that ``keep`` wants."""
        # Row by row in Python: only where the column _file_offset is read.
        return pa.array([line.offset for line in self.lines(block) if keep(line.text)], pa.int64())


def _without_mark(blocks: Iterator[Block]) -> Iterator[Block]:
    for block in blocks:
        if block.offset == 0 and block.data.startswith(_BYTE_ORDER_MARK):
            block = Block(block.data[len(_BYTE_ORDER_MARK) :], len(_BYTE_ORDER_MARK))
        yield block


def halves(block: Block, separator: bytes) -> tuple[Block, Block] | None:
    """A block cut between two rows near its middle; ``None`` if it is one row."""
    middle = len(block.data) // 2
    cut = block.data.rfind(separator, 0, middle) + len(separator)
    if cut < len(separator):
        cut = block.data.find(separator, middle) + len(separator)
        if cut < len(separator) or cut >= len(block.data):
            return None
    return Block(block.data[:cut], block.offset), Block(block.data[cut:], block.offset + cut)


def merge_pieces(pieces: list[dict[str, pa.Array]], schema: pa.Schema) -> dict[str, pa.Array]:
    """Columns of several pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    return {name: pa.concat_arrays([piece[name] for piece in pieces]) for name in schema.names}
