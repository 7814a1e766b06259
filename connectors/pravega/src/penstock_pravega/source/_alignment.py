"""Where a micro-batch ends, so that no segment runs ahead of the slowest in event time.

The rule of :mod:`penstock.source.log._alignment`, which is that of Apache Flink, over what was read ahead of each
segment: one can't be looked into anywhere, since only an event tells where the next one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from penstock.source.event_time import EventTimeSettings, iso_time
from penstock_pravega.protocol import short_name
from penstock_pravega.source._event_times import NEVER
from penstock_pravega.source._scout import Marks

__all__ = ["Place", "SegmentAlignment"]

#: Stream and segment id.
Place = tuple[str, int]


class SegmentAlignment:
    """Chooses ends. Coordinator thread. Memory: two numbers for each segment of the cuts.

    A segment whose end has not moved for the idle timeout is waited for no more until it moves again.
    """

    def __init__(self, settings: EventTimeSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._drift = settings.max_drift_ms
        self._disorder = settings.strategy.out_of_orderness_ms
        self._idle_timeout = settings.idle_timeout_ms / 1000
        self._clock = clock
        self._ends: dict[Place, tuple[int, float]] = {}
        self._frontiers: dict[Place, int] = {}
        self._reached: dict[Place, int] = {}
        self._described: dict[str, Any] = {}

    def choose(
        self, waiting: Mapping[Place, Marks], ends: Mapping[Place, int], *, more_may_come: bool
    ) -> dict[Place, int]:
        """The ends of the next micro-batch, each one of the marks; empty if nothing may be read now.

        ``waiting`` is what was read ahead of segments that have something to read, ``ends`` where every segment of the
        cuts ends now. ``more_may_come``: whether a segment that is read to its end may still be the slowest.
        """
        self._look_at(ends)
        silent = [place for place in ends if place not in waiting] if more_may_come else []
        now = self._clock()
        idle = [place for place in silent if now - self._ends[place][1] >= self._idle_timeout]
        silent = [place for place in silent if place not in idle]
        # Nobody knows yet what a segment will bring that has brought nothing.
        unknown = any(self._frontiers[place] == NEVER for place in silent)
        chosen = {} if unknown else self._chosen(waiting, silent, ends)
        for place, events in chosen.items():
            marks = waiting[place]
            self._frontiers[place] = max(self._frontiers[place], int(marks.watermarks[events - 1]))
            self._reached[place] = max(self._reached.get(place, NEVER), int(marks.times[events - 1]))
        self._described = {
            "frontiers": {_name(place): iso_time(ms) for place, ms in sorted(self._reached.items()) if ms != NEVER},
            "held": [_name(place) for place in sorted(waiting) if place not in chosen],
            "idle": [_name(place) for place in sorted(idle)],
        }
        return {place: int(waiting[place].offsets[events - 1]) for place, events in chosen.items()}

    def _chosen(
        self, waiting: Mapping[Place, Marks], silent: Collection[Place], ends: Mapping[Place, int]
    ) -> dict[Place, int]:
        """How many of the marks of each segment."""
        ahead = {place: int(marks.watermarks[-1]) for place, marks in waiting.items()}
        told = {place: self._frontiers[place] for place in (*waiting, *silent)}
        told |= {place: watermark for place, watermark in ahead.items() if watermark != NEVER}
        told = {place: watermark for place, watermark in told.items() if watermark != NEVER}
        untold = {place: len(marks.offsets) for place, marks in waiting.items() if place not in told}
        if any(waiting[place].offsets[-1] < ends[place] for place in untold):
            return untold  # what is behind may tell a time that is early
        cap = self._cap(waiting, told) if told else 0
        events = {place: int(np.searchsorted(waiting[place].times, cap)) for place in waiting if place in told}
        return {place: count for place, count in {**untold, **events}.items() if count}

    def _cap(self, waiting: Mapping[Place, Marks], told: Mapping[Place, int]) -> int:
        """The time before which is read. The slowest may always be read as far as was looked."""
        lowest = min(told.values())
        seen = [int(waiting[place].times[-1]) + 1 for place in waiting if told.get(place) == lowest]
        return max([lowest + self._disorder + self._drift, *seen])

    def _look_at(self, ends: Mapping[Place, int]) -> None:
        now = self._clock()
        gone = [place for place in self._ends if place not in ends]
        for place, end in ends.items():
            if place not in self._ends:
                # What replaces segments goes on where they ended.
                before = [self._frontiers.get(old, NEVER) for old in gone if old[0] == place[0]]
                self._frontiers.setdefault(place, min(before, default=NEVER))
            if place not in self._ends or self._ends[place][0] != end:
                self._ends[place] = (end, now)
        for place in gone:
            del self._ends[place]
            self._frontiers.pop(place, None)
            self._reached.pop(place, None)

    def describe(self) -> dict[str, Any]:
        """As of the last choice, see :meth:`penstock.source.SplitEnumerator.describe_event_time`."""
        return self._described


def _name(place: Place) -> str:
    return f"{place[0]}/{short_name(place[1])}"
