"""Finds event times and watermarks on the driver while it reads ahead: in the events, or in what writers noted."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.errors import FatalError
from penstock.metrics import Metrics
from penstock.serialization.formats import RecordDecoder
from penstock.source import BadRecordPolicy, ReaderContext
from penstock.source.event_time import BoundedOutOfOrderness, EventTimeSettings, Monotonic
from penstock_pravega.client import (
    HEADER,
    RangeReader,
    StreamClient,
    UnknownStreamError,
    Watermark,
    epoch_of,
    event_offsets,
    parse_watermark,
    watermark_stream,
)
from penstock_pravega.source._emitter import PravegaRecordEmitter, event_schema
from penstock_pravega.source._reader import EventBlock
from penstock_pravega.source._split import SegmentRange

__all__ = ["NEVER", "EventTimer", "RecordTimer", "StreamWatermarks", "Times", "WatermarkTimer"]

#: The time of an event without one, and the watermark after such events.
NEVER = int(np.iinfo(np.int64).min)
#: Events in one call of a user's own strategy.
_STRATEGY_ROWS = 64
#: Watermarks of a stream that are kept; beyond, every second one is dropped. One comes about every ten seconds.
_MOST_WATERMARKS = 50_000

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Times:
    """For each event its time and the watermark after it, in ms since the epoch, or NEVER if unknown."""

    times: npt.NDArray[np.int64]
    watermarks: npt.NDArray[np.int64]


class EventTimer(ABC):
    """Finds the times of the events of one segment, block by block. Single thread."""

    @abstractmethod
    def times_of(self, block: EventBlock, split: SegmentRange) -> Times:
        """Returns a time and a watermark for each event. Raises what the user's own assigner and strategy raise."""


class RecordTimer(EventTimer):
    """Takes times from the decoded events. Memory: one block.

    An event that can't be decoded has no time; the task that reads it reports it.
    """

    def __init__(self, settings: EventTimeSettings, decoder: RecordDecoder | None) -> None:
        self._settings = settings
        context = ReaderContext(event_schema(pa.binary() if decoder is None else decoder.type), Metrics())
        self._emitter = PravegaRecordEmitter(context, decoder, BadRecordPolicy("null", ("null",), context.metrics))

    def times_of(self, block: EventBlock, split: SegmentRange) -> Times:
        """Decodes the events and asks the user's assigner and strategy."""
        (records,) = self._emitter.emit_record(block, split)
        timestamps = self._settings.assigner.timestamps(records)
        times = np.asarray(timestamps.fill_null(NEVER), np.int64)
        strategy = self._settings.strategy
        if isinstance(strategy, Monotonic | BoundedOutOfOrderness):
            watermarks = np.where(times == NEVER, NEVER, times - strategy.out_of_orderness_ms)
            return Times(times, watermarks)
        watermarks = np.full(len(times), NEVER)
        for start in range(0, len(times), _STRATEGY_ROWS):
            count = min(_STRATEGY_ROWS, len(times) - start)
            watermark = strategy.watermark(records.slice(start, count), timestamps.slice(start, count))
            watermarks[start + count - 1] = NEVER if watermark is None else watermark
        return Times(times, watermarks)


@dataclass
class _KnownWatermarks:
    """What is known of one stream: its watermarks in order, and how far the watermark stream was read, by segment."""

    watermarks: list[Watermark] = field(default_factory=list)
    read: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Steps:
    """The watermarks of one segment: after ``offsets`` nothing is earlier than ``lowers``, up to it nothing is later
    than ``uppers``. ``before`` is the highest lower bound from before the segment existed.
    """

    offsets: Numbers
    lowers: Numbers
    uppers: Numbers
    before: int


class StreamWatermarks:
    """Reads Pravega's watermarks of streams. Thread-safe. Memory: 50,000 watermarks a stream."""

    def __init__(self, client: StreamClient) -> None:
        self._client = client
        self._streams: dict[str, _KnownWatermarks] = {}
        self._lock = threading.Lock()

    def steps(self, stream: str, segment: int) -> _Steps:
        """Returns the watermarks of a segment as of now.

        Raises RetriableError if Pravega does not answer, FatalError for a watermark of an unknown form.
        """
        with self._lock:
            known = self._streams.setdefault(stream, _KnownWatermarks())
            self._read_on(stream, known)
            return _steps(known.watermarks, segment)

    def _read_on(self, stream: str, known: _KnownWatermarks) -> None:
        source, stores = watermark_stream(stream), self._client.stores
        try:
            segments = stores.controller.current_segments(*source.split("/", 1))
        except UnknownStreamError:
            return  # no writer has noted a time yet
        for segment, info in self._client.infos(source, segments).items():
            if info is None:
                continue
            start = max(known.read.get(segment, 0), info.start)
            reader, data = RangeReader(stores, source, segment, start, info.end), bytearray()
            while (piece := reader.read()) is not None:
                data += piece
            try:
                offsets = event_offsets(data).tolist()
                known.watermarks += [
                    parse_watermark(bytes(data[begin + HEADER : end])) for begin, end in pairwise(offsets)
                ]
            except ValueError as error:
                raise FatalError(
                    f"what writers have noted about {stream} can't be read: {error}. Use a field of the events "
                    "(watermark.timestamps)"
                ) from None
            known.read[segment] = start + offsets[-1]
        while len(known.watermarks) > _MOST_WATERMARKS:
            known.watermarks = known.watermarks[1::2]  # the newest stays; bounds get wider, and stay true


def _steps(watermarks: list[Watermark], segment: int) -> _Steps:
    own: list[Watermark] = []
    earlier: list[Watermark] = []
    later: list[Watermark] = []
    for watermark in watermarks:
        if segment in watermark.cut:
            own.append(watermark)
        elif max(map(epoch_of, watermark.cut), default=0) > epoch_of(segment):
            later.append(watermark)
        else:
            earlier.append(watermark)
    offsets, lowers = [watermark.cut[segment] for watermark in own], [watermark.lower for watermark in own]
    uppers = [watermark.upper for watermark in own]
    if later:  # by then the segment was over
        offsets.append(np.iinfo(np.int64).max)
        lowers.append(later[0].lower)
        uppers.append(later[0].upper)
    before = max((watermark.lower for watermark in earlier), default=NEVER)
    return _Steps(np.array(offsets, np.int64), np.array(lowers, np.int64), np.array(uppers, np.int64), before)


class WatermarkTimer(EventTimer):
    """Takes times from the watermarks that exist when it is made. Behind the last watermark, that one holds."""

    def __init__(self, source: StreamWatermarks) -> None:
        self._source = source
        self._steps: dict[tuple[str, int], _Steps] = {}

    def times_of(self, block: EventBlock, split: SegmentRange) -> Times:
        """Looks each event's end up among the watermarks. Raises RetriableError if Pravega does not answer."""
        key = (split.stream, split.segment)
        if key not in self._steps:
            self._steps[key] = self._source.steps(*key)
        steps, ends = self._steps[key], block.start + block.offsets[1:]
        uppers = np.append(steps.uppers, steps.uppers[-1:] if len(steps.uppers) else steps.before)
        lowers = np.append(steps.before, steps.lowers)
        return Times(
            uppers[np.searchsorted(steps.offsets, ends, side="left")],
            lowers[np.searchsorted(steps.offsets, ends, side="right")],
        )
