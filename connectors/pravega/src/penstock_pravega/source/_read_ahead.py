"""Reads ahead to find where events end and which times they have: a position in a segment tells neither.

Needed for micro-batches with a limit, and for those that align segments in event time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock_pravega.client import RangeReader, StreamClient, event_offsets
from penstock_pravega.source._reader import EventBlock
from penstock_pravega.source._split import SegmentRange
from penstock_pravega.source._watermarks import NEVER, EventTimer

__all__ = ["EventEnds", "Share", "read_ahead"]

#: More ends than this are thinned out: a limit is then met less exactly, never exceeded.
_MOST_ENDS = 100_000

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """What one segment may contribute: at most this number of bytes and events, but at least one event."""

    stream: str
    segment: int
    start: int
    limit: int
    max_bytes: int | None
    max_rows: int | None


@dataclass(frozen=True)
class EventEnds:
    """Ends of events after ``start``, in order: their offsets, the number of events up to each, and the latest time
    and watermark of those (ms; NEVER if times were not asked for).
    """

    start: int
    offsets: Numbers
    counts: Numbers
    times: Numbers
    watermarks: Numbers

    def until(self, share: Share) -> EventEnds | None:
        """Returns the ends within ``share``; ``None`` if these begin elsewhere or reach less than half as far."""
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
        """Returns whether a batch up to the last end is at least half of ``share``: then nothing is read ahead again
        for it.
        """
        bytes_, rows = int(self.offsets[-1]) - self.start, int(self.counts[-1])
        enough_bytes = share.max_bytes is not None and 2 * bytes_ >= share.max_bytes
        return enough_bytes or (share.max_rows is not None and 2 * rows >= share.max_rows)

    def after(self, position: int) -> EventEnds | None:
        """Returns the ends after ``position``; ``None`` if it is not one of them, or the last one."""
        if position == self.start:
            return self
        at = int(np.searchsorted(self.offsets, position))
        if at >= len(self.offsets) - 1 or self.offsets[at] != position:
            return None
        return self._part(position, slice(at + 1, None), before=int(self.counts[at]))

    def _part(self, start: int, which: slice, before: int = 0) -> EventEnds:
        counts = self.counts[which] - before
        return EventEnds(start, self.offsets[which], counts, self.times[which], self.watermarks[which])


def read_ahead(client: StreamClient, share: Share, make_timer: Callable[[], EventTimer] | None = None) -> EventEnds:
    """Reads until ``share`` is used up or its limit is reached. Memory: one end for each event, thinned out.

    Runs in a background thread as a rule, for the micro-batch to come.
    """
    timer = make_timer() if make_timer is not None else None
    range_ = SegmentRange(share.stream, share.segment, share.start, share.limit)
    reader = RangeReader(client.stores, share.stream, share.segment, share.start, share.limit)
    offsets: list[Numbers] = []
    times: list[Numbers] = []
    watermarks: list[Numbers] = []
    data, base, count = bytearray(), share.start, 0
    with closing(reader):  # most shares are used up before the reader's end
        while (piece := reader.read()) is not None:
            data += piece
            bounds = event_offsets(data)
            offsets.append(base + bounds[1:])
            if timer is not None and len(bounds) > 1:
                timed = timer.times_of(EventBlock(base, data, bounds), range_)
                times.append(timed.times)
                watermarks.append(timed.watermarks)
            count += len(bounds) - 1
            base += int(bounds[-1])
            data = data[int(bounds[-1]) :]  # a copy: Arrow arrays may still use the old memory
            over_bytes = share.max_bytes is not None and base - share.start > share.max_bytes
            over_rows = share.max_rows is not None and count > share.max_rows
            if count and (over_bytes or over_rows):
                break
    ends = np.concatenate(offsets) if offsets else np.zeros(0, np.int64)
    keep = _kept(len(ends))
    if timer is None:
        never = np.broadcast_to(np.int64(NEVER), keep.shape)
        return EventEnds(share.start, ends[keep], keep + 1, never, never)
    return EventEnds(share.start, ends[keep], keep + 1, _latest(times)[keep], _latest(watermarks)[keep])


def _kept(ends: int) -> Numbers:
    """Returns which of so many ends are kept: always the first and the last."""
    step = -(-ends // _MOST_ENDS) or 1
    if step == 1:
        return np.arange(ends, dtype=np.int64)
    kept: Numbers = np.unique(np.concatenate([[0], np.arange(step - 1, ends, step), [ends - 1]])).astype(np.int64)
    return kept


def _latest(parts: list[Numbers]) -> Numbers:
    """Returns the running maximum."""
    return np.asarray(np.maximum.accumulate(np.concatenate(parts)) if parts else [], np.int64)
