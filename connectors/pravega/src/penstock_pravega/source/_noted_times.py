"""Event times as Pravega's writers have noted them, without a look at events."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from penstock.errors import FatalError
from penstock_pravega.client import (
    HEADER,
    RangeReader,
    TimeMark,
    UnknownStreamError,
    epoch_of,
    event_offsets,
    mark_stream,
    parse_mark,
)
from penstock_pravega.source._event_times import NEVER, EventTimer, Times
from penstock_pravega.source._reader import EventBlock
from penstock_pravega.source._split import SegmentRange
from penstock_pravega.source._stream_client import StreamClient

__all__ = ["NotedTimer", "NotedTimes"]

#: Marks of a stream that are kept; beyond, every second one is dropped. One comes about every ten seconds.
_MOST_MARKS = 50_000

Numbers = npt.NDArray[np.int64]


@dataclass
class _Marks:
    """What is known of one stream: its marks in order, and how far the stream of marks was read, by segment."""

    marks: list[TimeMark] = field(default_factory=list)
    read: dict[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Steps:
    """The marks that are about one segment: behind ``offsets`` nothing is earlier than ``lowers``, up to it nothing
    later than ``uppers``. ``before`` is the lower bound of the last mark from before the segment was.
    """

    offsets: Numbers
    lowers: Numbers
    uppers: Numbers
    before: int


class NotedTimes:
    """The marks of the streams that are read. Several threads use it. Memory: 50,000 marks a stream."""

    def __init__(self, client: StreamClient) -> None:
        self._client = client
        self._streams: dict[str, _Marks] = {}
        self._lock = threading.Lock()

    def steps(self, stream: str, segment: int) -> _Steps:
        """As of now. Raises RetriableError if Pravega does not answer, FatalError for marks that are not known."""
        with self._lock:
            known = self._streams.setdefault(stream, _Marks())
            self._read_on(stream, known)
            return _steps(known.marks, segment)

    def _read_on(self, stream: str, known: _Marks) -> None:
        of_marks, stores = mark_stream(stream), self._client.stores
        try:
            segments = stores.controller.current_segments(*of_marks.split("/", 1))
        except UnknownStreamError:
            return  # nobody has noted anything yet
        for segment, info in self._client.infos(of_marks, segments).items():
            if info is None:
                continue
            start = max(known.read.get(segment, 0), info.start)
            reader, data = RangeReader(stores, of_marks, segment, start, info.end), bytearray()
            while (piece := reader.read()) is not None:
                data += piece
            offsets = event_offsets(data).tolist()
            try:
                known.marks += [parse_mark(bytes(data[begin + HEADER : end])) for begin, end in pairwise(offsets)]
            except ValueError as error:
                raise FatalError(
                    f"what writers have noted about {stream} can't be read: {error}. Go by a field of the events "
                    "(watermark.timestamps)"
                ) from None
            known.read[segment] = start + offsets[-1]
        while len(known.marks) > _MOST_MARKS:
            known.marks = known.marks[1::2]  # the newest stays; bounds get wider, and stay true


def _steps(marks: list[TimeMark], segment: int) -> _Steps:
    own: list[TimeMark] = []
    earlier: list[TimeMark] = []
    later: list[TimeMark] = []
    for mark in marks:
        if segment in mark.cut:
            own.append(mark)
        elif max(map(epoch_of, mark.cut), default=0) > epoch_of(segment):
            later.append(mark)
        else:
            earlier.append(mark)
    offsets, lowers = [mark.cut[segment] for mark in own], [mark.lower for mark in own]
    uppers = [mark.upper for mark in own]
    if later:  # by then the segment was over
        offsets.append(np.iinfo(np.int64).max)
        lowers.append(later[0].lower)
        uppers.append(later[0].upper)
    before = max((mark.lower for mark in earlier), default=NEVER)
    return _Steps(np.array(offsets, np.int64), np.array(lowers, np.int64), np.array(uppers, np.int64), before)


class NotedTimer(EventTimer):
    """Tells times by the marks that are there when it is made. Where no mark is set, yet, the last one holds."""

    def __init__(self, noted: NotedTimes) -> None:
        self._noted = noted
        self._steps: dict[tuple[str, int], _Steps] = {}

    def tell(self, block: EventBlock, split: SegmentRange) -> Times:
        """Raises RetriableError if Pravega does not answer."""
        place = (split.stream, split.segment)
        if place not in self._steps:
            self._steps[place] = self._noted.steps(*place)
        steps, ends = self._steps[place], block.start + block.offsets[1:]
        uppers = np.append(steps.uppers, steps.uppers[-1:] if len(steps.uppers) else steps.before)
        lowers = np.append(steps.before, steps.lowers)
        return Times(
            uppers[np.searchsorted(steps.offsets, ends, side="left")],
            lowers[np.searchsorted(steps.offsets, ends, side="right")],
        )
