"""Cuts a range of bytes into blocks of whole rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["BLOCK_BYTES", "Block", "can_split_at", "quoted_row_blocks", "row_blocks", "whole_block"]

#: About as many bytes are in a block.
BLOCK_BYTES = 4 << 20
#: A row is in memory as a whole, some times over. Compressed, a small file may hold one of terabytes.
LARGEST_ROW = 1 << 30
_PAST_END_BYTES = 64 << 10
_WHOLE_READ_BYTES = 4 << 20


class Block(NamedTuple):
    """Whole rows, each with its end (but perhaps the file's last), from byte ``offset``."""

    data: bytes
    offset: int


def whole_block(read: Callable[[int], bytes]) -> Block:
    """Reads a file as one block, so into memory as a whole."""
    parts = []
    size = 0
    while part := read(_WHOLE_READ_BYTES):
        parts.append(part)
        size += len(part)
        _check_row(size)
    return Block(b"".join(parts), 0)


def _check_row(size: int) -> None:
    if size > LARGEST_ROW:
        raise ValueError(f"a row has more than {LARGEST_ROW} bytes")


def can_split_at(separator: bytes) -> bool:
    """Returns whether ends of rows are found from anywhere in a file: not if the separator may overlap with itself."""
    return not any(separator.startswith(separator[i:]) for i in range(1, len(separator)))


def row_blocks(
    read: Callable[[int], bytes],
    start: int,
    end: int | None,
    separator: bytes = b"\n",
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Block]:
    """Yields the rows that start at or after ``start`` and before ``end`` (``None``: all that follow), in blocks.

    ``read`` continues from byte ``max(0, start - len(separator))``: a row starts at ``start`` if a separator ends
    there. A block is about ``block_bytes``, or as long as its longest row. Reads little past ``end``.
    """
    position = max(0, start - len(separator))
    data = b""
    if position != start or start:
        data, position = _skip_row(read, position, separator, block_bytes)
    while True:
        if end is not None and position >= end:
            return
        data, position, cut = _fill(read, data, position, end, separator, block_bytes)
        if cut == 0:
            return
        yield Block(data[:cut] if cut < len(data) else data, position)
        data, position = data[cut:], position + cut


def _skip_row(read: Callable[[int], bytes], position: int, separator: bytes, block_bytes: int) -> tuple[bytes, int]:
    """Drops everything up to and with the first separator; returns what was read beyond it, and its offset."""
    data = b""
    while True:
        more = read(min(block_bytes, _PAST_END_BYTES) if not data else block_bytes)
        data += more
        found = data.find(separator)
        if found >= 0:
            return data[found + len(separator) :], position + found + len(separator)
        if not more:
            return b"", position + len(data)
        kept = min(len(separator) - 1, len(data))
        position += len(data) - kept
        data = data[len(data) - kept :]


def _fill(
    read: Callable[[int], bytes], data: bytes, position: int, end: int | None, separator: bytes, block_bytes: int
) -> tuple[bytes, int, int]:
    """Reads until ``data`` holds whole rows; returns it, its offset, and where to cut it: 0 if nothing is left."""
    width = len(separator)
    searched = 0  # no separator begins before this
    while True:
        left = None if end is None else end - position - len(data)
        if left is not None and left <= 0:
            # The last row of the range ends with the first separator that ends at or after the range's end.
            found = data.find(separator, max(searched, len(data) + left - width, 0))
            want = max(_PAST_END_BYTES, len(data))
        elif len(data) >= block_bytes:
            found = data.rfind(separator, searched)
            want = len(data)  # one row longer than a block: doubling keeps the copying linear
        else:
            found = -1
            want = block_bytes - len(data)
        if found >= 0:
            return data, position, found + width
        _check_row(len(data))
        if len(data) >= block_bytes:
            searched = len(data) - width + 1
        more = read(want if left is None or left <= 0 else min(want, left))
        if not more:
            return data, position, len(data)
        data += more


def quoted_row_blocks(
    read: Callable[[int], bytes], last_end: Callable[[bytes], int], block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Yields the rows of a stream whose quoted cells may hold line ends.

    ``last_end`` returns the position behind the last line feed that ends a row, or 0.
    """
    data, position, want = b"", 0, block_bytes
    while more := read(want):
        data += more
        cut = last_end(data)
        if cut:
            yield Block(data[:cut], position)
            data, position = data[cut:], position + cut
        _check_row(len(data))
        want = max(block_bytes, len(data))
    if data:
        yield Block(data, position)
