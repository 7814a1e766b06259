"""Looking into a server by hand and in tests: streams, events, scaling, transactions."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count, pairwise

import pyarrow as pa

from penstock_pravega.client import (
    HEADER,
    Controller,
    ControllerSettings,
    RangeReader,
    SegmentAppender,
    SegmentRouter,
    SegmentStores,
    epoch_of,
    event_offsets,
    frame_events,
    segment_name,
    stream_name,
)

__all__ = ["PravegaToolbox", "ReadEvent"]

_numbers = count(1)


@dataclass(frozen=True)
class ReadEvent:
    """An event as it is in the stream."""

    segment: int
    offset: int
    value: bytes


class PravegaToolbox:
    """On the server at ``address`` (a controller's), in one scope, made if it is not there. One thread uses it."""

    def __init__(self, address: str, scope: str | None = None, settings: ControllerSettings | None = None) -> None:
        self.address = address
        self.scope = scope or f"toolbox-{uuid.uuid4().hex[:8]}"
        self.settings = settings or ControllerSettings(address)
        self.stores = SegmentStores(self.settings)
        try:
            self.controller.create_scope(self.scope)
        except BaseException:
            self.close()
            raise

    @property
    def controller(self) -> Controller:
        """The server's controller."""
        return self.stores.controller

    def create_stream(self, name: str | None = None, segments: int = 1) -> str:
        """Returns a new stream's name."""
        name = name or f"stream-{next(_numbers)}-{uuid.uuid4().hex[:6]}"
        self.controller.create_stream(self.scope, name, segments=segments)
        return name

    def write(self, stream: str, events: Iterable[bytes | tuple[str, bytes]]) -> None:
        """Writes events, with a routing key or without, in order; returns when all are durable."""
        pairs = [event if isinstance(event, tuple) else (None, event) for event in events]
        ranges = self.controller.current_segments(self.scope, stream)
        router, full = SegmentRouter(ranges), stream_name(self.scope, stream)
        keys = pa.array([key if key is not None else str(index) for index, (key, _) in enumerate(pairs)], pa.string())
        values = pa.array([value for _, value in pairs], pa.large_binary())
        for segment, rows in router.route(keys, len(pairs)):
            chosen = values if rows is None else values.take(rows)
            appender = SegmentAppender(self.stores, full, segment, segment_name(full, segment))
            appender.append(frame_events(chosen), len(chosen))
            appender.flush()
            appender.close()

    def tail(self, stream: str) -> dict[int, int]:
        """Returns the cut after everything that is there."""
        return self.stores.tail(stream_name(self.scope, stream))

    def head(self, stream: str) -> dict[int, int]:
        """Returns the cut before everything that is there."""
        return self.controller.head_cut(self.scope, stream)

    def read(
        self, stream: str, start: Mapping[int, int] | None = None, end: Mapping[int, int] | None = None
    ) -> list[ReadEvent]:
        """Everything between two cuts (head and tail without them), by epoch, segment and offset."""
        full = stream_name(self.scope, stream)
        start = start or self.head(stream)
        end = end or self.tail(stream)
        found = []
        for segment in self.controller.segments_between(self.scope, stream, start, end):
            first = start.get(segment, 0)
            last = end[segment] if segment in end else self.stores.info(full, segment).end
            found += self._events(full, segment, first, last)
        return found

    def _events(self, full: str, segment: int, first: int, last: int) -> list[ReadEvent]:
        reader, data = RangeReader(self.stores, full, segment, first, last), bytearray()
        while (piece := reader.read()) is not None:
            data += piece
        offsets = event_offsets(data).tolist()
        return [
            ReadEvent(segment, first + begin, bytes(data[begin + HEADER : end])) for begin, end in pairwise(offsets)
        ]

    def values(self, stream: str) -> list[bytes]:
        """Returns the data of every event."""
        return [event.value for event in self.read(stream)]

    def split_all(self, stream: str) -> None:
        """Replaces every segment by two."""
        current = self.controller.current_segments(self.scope, stream)
        ranges = [half for one in current.values() for half in _halves(one.low, one.high)]
        self.controller.scale(self.scope, stream, list(current), ranges)

    def merge_all(self, stream: str) -> None:
        """Replaces every two neighbours by one. (A stream keeps the number of segments that it was made with.)"""
        current = self.controller.current_segments(self.scope, stream)
        ranges = sorted((one.low, one.high) for one in current.values())
        merged = [(low, high) for (low, _), (_, high) in zip(ranges[::2], ranges[1::2], strict=True)]
        self.controller.scale(self.scope, stream, list(current), merged)

    def epoch(self, stream: str) -> int:
        """Returns the newest epoch."""
        return max(epoch_of(segment) for segment in self.controller.current_segments(self.scope, stream))

    def close(self) -> None:
        """Ends the connections."""
        self.stores.close()


def _halves(low: float, high: float) -> list[tuple[float, float]]:
    middle = (low + high) / 2
    return [(low, middle), (middle, high)]
