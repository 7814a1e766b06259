"""Where events end: found by reading ahead, for micro-batches with a limit. Positions in a segment know no events."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock_pravega.protocol import RangeReader, event_offsets
from penstock_pravega.source._stream_client import StreamClient

__all__ = ["Marks", "Share", "scout"]

#: More marks than this are thinned out: a limit is then met less exactly, never exceeded.
_MOST_MARKS = 100_000


@dataclass(frozen=True)
class Share:
    """What one segment may contribute: at most so many bytes and events, but at least one event."""

    stream: str
    segment: int
    start: int
    limit: int
    max_bytes: int | None
    max_rows: int | None


@dataclass(frozen=True)
class Marks:
    """Ends of events behind ``start``, in order: their offsets, and how many events lie before each."""

    start: int
    offsets: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]

    def end_of(self, share: Share) -> int | None:
        """Where ``share`` ends; ``None`` if the marks do not tell."""
        if share.start != self.start or not len(self.offsets):
            return None
        at = len(self.offsets)
        if share.max_bytes is not None:
            at = min(at, int(np.searchsorted(self.offsets, share.start + share.max_bytes, side="right")))
        if share.max_rows is not None:
            at = min(at, int(np.searchsorted(self.counts, share.max_rows, side="right")))
        if at == len(self.offsets) and int(self.offsets[-1]) != share.limit:
            return None
        return int(self.offsets[max(at, 1) - 1])


def scout(client: StreamClient, share: Share) -> Marks:
    """Reads until ``share`` is used up, or at its limit. Memory: a mark for each event, thinned out.

    Runs in a background thread mostly, ahead of the micro-batch that wants to know.
    """
    reader = RangeReader(client.stores, share.stream, share.segment, share.start, share.limit)
    offsets: list[npt.NDArray[np.int64]] = []
    data, base, count = bytearray(), share.start, 0
    with closing(reader):  # mostly before its end
        while (piece := reader.read()) is not None:
            data += piece
            found = event_offsets(data)
            offsets.append(base + found[1:])
            count += len(found) - 1
            base += int(found[-1])
            del data[: int(found[-1])]
            over_bytes = share.max_bytes is not None and base - share.start > share.max_bytes
            over_rows = share.max_rows is not None and count > share.max_rows
            if count and (over_bytes or over_rows):
                break
    marks = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)
    counts = np.arange(1, len(marks) + 1, dtype=np.int64)
    step = -(-len(marks) // _MOST_MARKS) or 1
    if step > 1:
        keep = np.unique(np.concatenate([[0], np.arange(step - 1, len(marks), step), [len(marks) - 1]]))
        marks, counts = marks[keep], counts[keep]
    return Marks(share.start, marks, counts)
