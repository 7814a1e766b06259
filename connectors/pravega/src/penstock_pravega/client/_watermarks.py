"""Pravega's watermarks: what its writers have noted about time.

The controller puts the notes of all of a stream's writers together, about every ten seconds, and appends an event to
the stream ``_MARK…`` next to it: the earliest and the latest time that a writer has noted last, and a stream cut.
Layout as Pravega's ``Watermark`` is stored (``VersionedSerializer``, version 0).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Watermark", "watermark_stream", "parse_watermark"]

_HEAD = struct.Struct(">BBB")  # format, version, number of revisions
_REVISION = struct.Struct(">Bi")  # its number and length
_BOUNDS = struct.Struct(">qq")
_SEGMENT = struct.Struct(">q")  # its key range is after
_OFFSET = struct.Struct(">q")


@dataclass(frozen=True)
class Watermark:
    """Behind ``cut`` (segment id → offset) nothing is earlier than ``lower``; some writer was at ``upper`` by then.

    Times are what the writers say; Penstock notes ms since the epoch.
    """

    lower: int
    upper: int
    cut: dict[int, int]


def watermark_stream(stream: str) -> str:
    """Returns the stream that holds the watermarks of ``scope/stream``."""
    scope, _, name = stream.partition("/")
    return f"{scope}/_MARK{name}"


def parse_watermark(data: bytes) -> Watermark:
    """Parses an event of a watermark stream. Raises ValueError for anything else."""
    try:
        at, _ = _versioned(data, 0)
        lower, upper = _BOUNDS.unpack_from(data, at)
        count, at = _compact_int(data, at + _BOUNDS.size)
        return Watermark(lower, upper, dict(_positions(data, at, count)))
    except (struct.error, IndexError) as error:
        raise ValueError(f"{len(data)} bytes are no watermark: {error}") from None


def _positions(data: bytes, at: int, count: int) -> Iterator[tuple[int, int]]:
    for _ in range(count):
        begin, at = _versioned(data, at)
        (segment,) = _SEGMENT.unpack_from(data, begin)
        (offset,) = _OFFSET.unpack_from(data, at)
        yield segment, offset
        at += _OFFSET.size


def _versioned(data: bytes, at: int) -> tuple[int, int]:
    """Returns where the first revision's fields of an object begin, and where the object ends."""
    form, version, revisions = _HEAD.unpack_from(data, at)
    if form != 0 or version != 0 or revisions < 1:
        raise ValueError(f"no mark that is known: format {form}, version {version}, {revisions} revisions")
    end = at + _HEAD.size
    for _ in range(revisions):
        _, length = _REVISION.unpack_from(data, end)
        if length < 0:
            raise ValueError(f"no mark that is known: a revision of {length} bytes")
        end += _REVISION.size + length
    return at + _HEAD.size + _REVISION.size, end


def _compact_int(data: bytes, at: int) -> tuple[int, int]:
    """Returns a number of one, two or four bytes, by its highest bits; and where it ends."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    size = 4 if first & 0x40 else 2
    if len(data) < at + size:
        raise IndexError("it is cut off")
    return int.from_bytes(data[at : at + size], "big") & (1 << (8 * size - 2)) - 1, at + size
