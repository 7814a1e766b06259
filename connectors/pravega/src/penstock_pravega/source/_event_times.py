"""The event times of events, told on the driver while it reads ahead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.metrics import Metrics
from penstock.serialization.formats import RecordDecoder
from penstock.source import ReaderContext
from penstock.source.event_time import BoundedOutOfOrderness, EventTimeSettings, Monotonic
from penstock_pravega.source._emitter import PravegaRecordEmitter, event_schema
from penstock_pravega.source._reader import EventBlock
from penstock_pravega.source._split import SegmentRange

__all__ = ["NEVER", "EventTimer", "RecordTimer", "Times"]

#: The time of an event that has none, and the watermark behind events that don't tell.
NEVER = int(np.iinfo(np.int64).min)
#: Events that a strategy which is not about the latest time alone is asked about at a time.
_ASKED_AT_ONCE = 64


@dataclass(frozen=True)
class Times:
    """For each event its time, and the watermark behind it as far as it tells; ms since the epoch, or NEVER."""

    times: npt.NDArray[np.int64]
    watermarks: npt.NDArray[np.int64]


class EventTimer(ABC):
    """Tells the times of blocks of one segment. One thread."""

    @abstractmethod
    def tell(self, block: EventBlock, split: SegmentRange) -> Times:
        """One time and one watermark for each event. Raises what the user's own assigner and strategy raise."""


class RecordTimer(EventTimer):
    """By the events themselves, decoded. Memory is one block.

    What can't be decoded has no time; the task that reads it says so.
    """

    def __init__(self, settings: EventTimeSettings, decoder: RecordDecoder | None) -> None:
        self._settings = settings
        context = ReaderContext(event_schema(pa.binary() if decoder is None else decoder.type), Metrics())
        self._emitter = PravegaRecordEmitter(context, decoder, fail_on_bad=False)

    def tell(self, block: EventBlock, split: SegmentRange) -> Times:
        (records,) = self._emitter.emit_record(block, split)
        timestamps = self._settings.assigner.timestamps(records)
        times = np.asarray(timestamps.fill_null(NEVER), np.int64)
        strategy = self._settings.strategy
        if isinstance(strategy, Monotonic | BoundedOutOfOrderness):
            watermarks = np.where(times == NEVER, NEVER, times - strategy.out_of_orderness_ms)
            return Times(times, watermarks)
        watermarks = np.full(len(times), NEVER)
        for start in range(0, len(times), _ASKED_AT_ONCE):
            asked = min(_ASKED_AT_ONCE, len(times) - start)
            told = strategy.watermark(records.slice(start, asked), timestamps.slice(start, asked))
            watermarks[start + asked - 1] = NEVER if told is None else told
        return Times(times, watermarks)
