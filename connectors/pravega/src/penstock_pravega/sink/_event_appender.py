"""Events to the segments that their routing keys belong to."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, Retries, RetryPolicy
from penstock_pravega.client import (
    HEADER,
    KeyRange,
    SegmentAppender,
    SegmentRouter,
    SegmentSealed,
    SegmentStores,
    frame_events,
    join_values,
)

__all__ = ["EventAppender"]

#: Bytes of a block, unless one event is larger.
_BLOCK = 2 << 20

Pending = deque[tuple[int, pa.Array, "pa.Array | None"]]


class EventAppender:
    """Appends to all segments of a stream, or of one transaction. Task, single thread.

    A segment that is sealed meanwhile, because the stream was scaled, is followed by those that replaced it, with what
    it had not acknowledged first: order within a key holds. Memory: 8 MiB for each segment, twice while following.
    Not ``framed``, values are appended as they are. What fails is tried again as ``retry`` says, counted in
    ``metrics``. With ``find_ranges``, :meth:`acknowledged` counts events.
    """

    def __init__(
        self,
        stores: SegmentStores,
        stream: str,
        ranges: Mapping[int, KeyRange],
        name_of: Callable[[int], str],
        find_ranges: Callable[[], Mapping[int, KeyRange]] | None = None,
        *,
        framed: bool = True,
        retry: RetryPolicy = NO_RETRIES,
        metrics: Metrics | None = None,
    ) -> None:
        self._retry = retry
        self._metrics = metrics
        self._stores = stores
        self._stream = stream
        self._name_of = name_of
        self._find_ranges = find_ranges
        self._to_bytes = frame_events if framed else join_values
        self._router = SegmentRouter(ranges)
        self._appenders: dict[int, SegmentAppender] = {}
        self._pending: dict[int, Pending] = {}
        self._acknowledged = 0

    def append(self, events: pa.Array, keys: pa.Array | None) -> None:
        """Sends events (large_binary) with their keys. Returns before they are acknowledged."""
        router = self._router
        for segment, rows in router.route(keys, len(events)):
            chosen = events if rows is None else events.take(rows)
            chosen_keys = keys if keys is None or rows is None else keys.take(rows)
            if self._router is router:
                self._append_to(segment, chosen, chosen_keys)
            else:
                # The stream was scaled meanwhile. What the next events of these keys go to must get these first.
                self.append(chosen, chosen_keys)

    def _append_to(self, segment: int, events: pa.Array, keys: pa.Array | None) -> None:
        blocks = list(_blocks(events))
        for at, (start, length) in enumerate(blocks):
            block, block_keys = events.slice(start, length), None if keys is None else keys.slice(start, length)
            appender, data = self._appender(segment), self._to_bytes(block)
            if not len(data):
                self._acknowledged += length
                continue
            if self._find_ranges is not None:
                self._pending[segment].append((appender.events + length, block, block_keys))
            try:
                appender.append(data, length)
                self._drop_acknowledged(segment)
            except SegmentSealed:
                if self._find_ranges is None:
                    raise
                self._follow()
                # What was not sent yet comes after what was not acknowledged.
                for left_start, left_length in blocks[at + 1 :]:
                    left_keys = None if keys is None else keys.slice(left_start, left_length)
                    self.append(events.slice(left_start, left_length), left_keys)
                return

    def _appender(self, segment: int) -> SegmentAppender:
        if segment not in self._appenders:
            name = self._name_of(segment)
            retries = Retries(self._retry, "appending", self._metrics)
            self._appenders[segment] = SegmentAppender(self._stores, self._stream, segment, name, retries)
            self._pending[segment] = deque()
        return self._appenders[segment]

    def _drop_acknowledged(self, segment: int) -> None:
        pending, under_way = self._pending[segment], self._appenders[segment].unacknowledged()
        while pending and (not under_way or pending[0][0] < under_way[0].last):
            self._acknowledged += len(pending.popleft()[1])

    def acknowledged(self) -> int:
        """Returns how many events segment stores have acknowledged, also after an error."""
        for segment in self._appenders:
            self._drop_acknowledged(segment)
        return self._acknowledged

    def _follow(self) -> None:
        """The stream was scaled: what replaced segments gets what they did not take, before anything else."""
        assert self._find_ranges is not None
        ranges = self._retry.call(self._find_ranges, "appending", self._metrics)
        if not ranges:
            raise BadConfigurationError(f"stream {self._stream} is sealed: nothing can be written to it any more")
        self._router = SegmentRouter(ranges)
        left: list[tuple[int, pa.Array, pa.Array | None]] = []
        for segment in [one for one in self._appenders if one not in ranges]:
            with contextlib.suppress(SegmentSealed):
                self._appenders[segment].flush()
            self._drop_acknowledged(segment)
            left += self._pending.pop(segment)
            self._appenders.pop(segment).close()
        for _, events, keys in left:
            self.append(events, keys)

    def flush(self) -> None:
        """Returns when every event is acknowledged by a segment store, durable."""
        while True:
            try:
                for appender in self._appenders.values():
                    appender.flush()
            except SegmentSealed:
                if self._find_ranges is None:
                    raise
                self._follow()
            else:
                break
        self.acknowledged()

    def bytes_by_segment(self) -> dict[int, int]:
        """Returns how much each segment was sent."""
        return {segment: appender.bytes for segment, appender in self._appenders.items()}

    def close(self) -> None:
        """Ends the connections."""
        for appender in self._appenders.values():
            appender.close()


def _blocks(events: pa.Array) -> Iterator[tuple[int, int]]:
    """Runs of events, first and how many, that together fill a block."""
    ends = np.cumsum(pc.binary_length(events).to_numpy(zero_copy_only=False) + HEADER)
    start = sent = 0
    while start < len(ends):
        stop = max(start + 1, int(np.searchsorted(ends, sent + _BLOCK, side="right")))
        yield start, stop - start
        start, sent = stop, int(ends[stop - 1])
