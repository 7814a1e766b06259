"""Events in a segment: int32 0, int32 length, data. From bytes to Arrow and back."""

from __future__ import annotations

import struct

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = [
    "HEADER",
    "LARGEST_EVENT",
    "BrokenEvents",
    "event_offsets",
    "frame_events",
    "frames_size",
    "join_values",
    "to_array",
]

#: Bytes before the data of an event.
HEADER = 8
#: What Pravega's own clients allow; the server would take more, and they could not read it.
LARGEST_EVENT = 8 << 20
#: More than any client writes; a task keeps an event in memory until it has all of it.
_LARGEST_READ = 1 << 30

Buffer = bytes | bytearray | memoryview


class BrokenEvents(ValueError):
    """Bytes that can't be the start of an event."""


def event_offsets(data: Buffer) -> npt.NDArray[np.int64]:
    """Returns where each whole event of ``data`` begins, and after them the end of the last one.

    ``data`` begins with an event; an event that is cut off at its end is left out. Raises BrokenEvents.
    """
    size = len(data)
    if size < HEADER:
        return np.zeros(1, np.int64)
    first = _first_frame(data)
    whole = size // first
    if whole > 1 and _all_alike(data, first, whole):
        # The rest may be cut off, or begin a run of another size.
        rest = whole * first
        head = np.arange(0, rest + 1, first, dtype=np.int64)
        return head if size - rest < HEADER else np.concatenate([head[:-1], _walk(data, rest)])
    return _walk(data, 0)


def _first_frame(data: Buffer) -> int:
    kind, length = struct.unpack_from(">ii", data, 0)
    _check(kind, length, 0)
    return int(length) + HEADER


def _check(kind: int, length: int, at: int) -> None:
    if kind or not 0 <= length <= _LARGEST_READ:
        raise BrokenEvents(f"no event at {at}: type {kind}, length {length}")


def _all_alike(data: Buffer, frame: int, count: int) -> bool:
    heads = np.lib.stride_tricks.as_strided(np.frombuffer(data, np.uint8), (count, HEADER), (frame, 1))
    return bool((heads == np.frombuffer(data, np.uint8, HEADER)).all())


def _walk(data: Buffer, start: int) -> npt.NDArray[np.int64]:
    # Event by event: where one ends is written nowhere but in its own head. Four million a second.
    found: list[int] = []
    unpack, at, last = struct.Struct(">ii").unpack_from, start, len(data) - HEADER
    add = found.append
    while at <= last:
        kind, length = unpack(data, at)
        _check(kind, length, at)
        following = at + HEADER + length
        if following > last + HEADER:
            break
        add(at)
        at = following
    add(at)
    return np.asarray(found, np.int64)


def to_array(data: Buffer, offsets: npt.NDArray[np.int64]) -> pa.Array:
    """Returns the events as a binary array. ``data`` has less than 2 GiB.

    Slices over the same buffer, head, data, head, …, of which every second is taken: one copy of the data, in C.
    """
    count = len(offsets) - 1
    bounds = np.empty(2 * count + 1, np.int32)
    bounds[::2] = offsets
    bounds[1::2] = offsets[:-1] + HEADER
    both = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)])
    return both.take(pa.array(np.arange(1, 2 * count, 2)))


def frames_size(events: pa.Array) -> int:
    """Returns how many bytes :func:`frame_events` makes of a large_binary array without nulls."""
    total = pc.sum(pc.binary_length(events)).as_py()
    return int(total or 0) + HEADER * len(events)


def join_values(values: pa.Array) -> memoryview:
    """Returns a large_binary array without nulls as bytes, one value after the other, without frames."""
    if not len(values):
        return memoryview(b"")
    _, ends, data = values.buffers()
    start, end = np.frombuffer(ends, np.int64)[[values.offset, values.offset + len(values)]]
    return memoryview(data)[start:end] if start < end else memoryview(b"")


def frame_events(events: pa.Array) -> memoryview:
    """Returns a large_binary array without nulls as the bytes of a segment."""
    if not len(events):
        return memoryview(b"")
    heads = np.zeros((len(events), 2), ">i4")
    heads[:, 1] = pc.binary_length(events).to_numpy(zero_copy_only=False)
    bounds = np.arange(0, HEADER * len(events) + 1, HEADER, dtype=np.int64)
    head_array = pa.Array.from_buffers(
        pa.large_binary(), len(events), [None, pa.py_buffer(bounds), pa.py_buffer(heads.tobytes())]
    )
    framed = pc.binary_join_element_wise(head_array, events, pa.scalar(b"", pa.large_binary()))
    _, ends, data = framed.buffers()
    start, end = np.frombuffer(ends, np.int64)[[framed.offset, framed.offset + len(framed)]]
    return memoryview(data)[start:end]
