"""Where events end, and when they were: found by reading ahead. Positions in a segment know neither.

For micro-batches with a limit, and for those that keep segments together in event time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock_pravega.client import RangeReader, event_offsets
from penstock_pravega.source._event_times import NEVER, EventTimer
from penstock_pravega.source._reader import EventBlock
from penstock_pravega.source._split import SegmentRange
from penstock_pravega.source._stream_client import StreamClient

__all__ = ["Marks", "Share", "read_ahead"]

#: More marks than this are thinned out: a limit is then met less exactly, never exceeded.
_MOST_MARKS = 100_000

Numbers = npt.NDArray[np.int64]


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
    """Ends of events behind ``start``, in order: their offsets, how many events lie before each, and of all of those
    the latest time and the latest watermark (ms; NEVER if nobody asked for them).
    """

    start: int
    offsets: Numbers
    counts: Numbers
    times: Numbers
    watermarks: Numbers

    def until(self, share: Share) -> Marks | None:
        """Those that ``share`` may end at; ``None`` if the marks begin elsewhere, or reach less than half as far."""
        if share.start != self.start or not len(self.offsets):
            return None
        at = len(self.offsets)
        if share.max_bytes is not None:
            at = min(at, int(np.searchsorted(self.offsets, share.start + share.max_bytes, side="right")))
        if share.max_rows is not None:
            at = min(at, int(np.searchsorted(self.counts, share.max_rows, side="right")))
        if at == len(self.offsets) and int(self.offsets[-1]) != share.limit and not self._is_worth(share):
            return None
        return self._part(self.start, slice(0, max(at, 1)))

    def _is_worth(self, share: Share) -> bool:
        """Whether a batch up to the last one is large enough. Shares grow with what waits; it is not read again."""
        bytes_, rows = int(self.offsets[-1]) - self.start, int(self.counts[-1])
        enough_bytes = share.max_bytes is not None and 2 * bytes_ >= share.max_bytes
        return enough_bytes or (share.max_rows is not None and 2 * rows >= share.max_rows)

    def after(self, position: int) -> Marks | None:
        """Those behind ``position``; ``None`` if it is no mark, or the last one."""
        if position == self.start:
            return self
        at = int(np.searchsorted(self.offsets, position))
        if at >= len(self.offsets) - 1 or self.offsets[at] != position:
            return None
        return self._part(position, slice(at + 1, None), before=int(self.counts[at]))

    def _part(self, start: int, which: slice, before: int = 0) -> Marks:
        counts = self.counts[which] - before
        return Marks(start, self.offsets[which], counts, self.times[which], self.watermarks[which])


def read_ahead(client: StreamClient, share: Share, make_timer: Callable[[], EventTimer] | None = None) -> Marks:
    """Reads until ``share`` is used up, or at its limit. Memory: a mark for each event, thinned out.

    Runs in a background thread mostly, ahead of the micro-batch that wants to know.
    """
    timer = make_timer() if make_timer is not None else None
    range_ = SegmentRange(share.stream, share.segment, share.start, share.limit)
    reader = RangeReader(client.stores, share.stream, share.segment, share.start, share.limit)
    offsets: list[Numbers] = []
    times: list[Numbers] = []
    watermarks: list[Numbers] = []
    data, base, count = bytearray(), share.start, 0
    with closing(reader):  # mostly before its end
        while (piece := reader.read()) is not None:
            data += piece
            found = event_offsets(data)
            offsets.append(base + found[1:])
            if timer is not None and len(found) > 1:
                told = timer.tell(EventBlock(base, data, found), range_)
                times.append(told.times)
                watermarks.append(told.watermarks)
            count += len(found) - 1
            base += int(found[-1])
            data = data[int(found[-1]) :]  # anew: Arrow arrays may still be over the old one
            over_bytes = share.max_bytes is not None and base - share.start > share.max_bytes
            over_rows = share.max_rows is not None and count > share.max_rows
            if count and (over_bytes or over_rows):
                break
    ends = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)
    keep = _kept(len(ends))
    if timer is None:
        never = np.broadcast_to(np.int64(NEVER), keep.shape)
        return Marks(share.start, ends[keep], keep + 1, never, never)
    return Marks(share.start, ends[keep], keep + 1, _latest(times)[keep], _latest(watermarks)[keep])


def _kept(marks: int) -> Numbers:
    """The numbers of those that are kept: always the first and the last."""
    step = -(-marks // _MOST_MARKS) or 1
    if step == 1:
        return np.arange(marks, dtype=np.int64)
    kept: Numbers = np.unique(np.concatenate([[0], np.arange(step - 1, marks, step), [marks - 1]])).astype(np.int64)
    return kept


def _latest(parts: list[Numbers]) -> Numbers:
    """Up to each event, the latest of all."""
    return np.asarray(np.maximum.accumulate(np.concatenate(parts)) if parts else [], np.int64)
