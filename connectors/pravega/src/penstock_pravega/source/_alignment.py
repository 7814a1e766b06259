"""Where a micro-batch ends, so that no segment runs ahead of the slowest in event time.

The rule is Apache Flink's watermark alignment, as in :mod:`penstock.source.log`. A log's records can be sampled at any
position. A segment can only be read from an event's start, so the rule is applied to what was read ahead.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from penstock.source.event_time import EventTimeSettings, IdleTracker, describe_alignment
from penstock_pravega.client import short_name
from penstock_pravega.source._read_ahead import EventEnds
from penstock_pravega.source._watermarks import NEVER

__all__ = ["SegmentKey", "SegmentAlignment"]

#: Stream and segment id.
SegmentKey = tuple[str, int]


class SegmentAlignment:
    """Chooses the ends of micro-batches. Coordinator thread only. Memory: two numbers for each segment of the cuts.

    A segment whose end has not moved for the idle timeout is not waited for until it moves again.
    """

    def __init__(self, settings: EventTimeSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._drift = settings.max_drift_ms
        self._disorder = settings.strategy.out_of_orderness_ms
        self._idle = IdleTracker[SegmentKey](settings.idle_timeout_ms, clock)
        self._frontiers: dict[SegmentKey, int] = {}
        self._reached: dict[SegmentKey, int] = {}
        self._described: dict[str, Any] = {}

    def choose(
        self, waiting: Mapping[SegmentKey, EventEnds], ends: Mapping[SegmentKey, int], *, more_may_come: bool
    ) -> dict[SegmentKey, int]:
        """The ends of the next micro-batch, each the end of an event; empty if nothing may be read now.

        ``waiting`` is what was read ahead of segments that have something to read, ``ends`` where every segment of the
        cuts ends now. ``more_may_come``: whether a segment that is read to its end may still be the slowest.
        """
        self._track(ends)
        silent = [key for key in ends if key not in waiting] if more_may_come else []
        idle = self._idle.idle(silent)
        silent = [key for key in silent if key not in idle]
        # A segment without an event so far may still bring the earliest time of all.
        unknown = any(self._frontiers[key] == NEVER for key in silent)
        chosen = {} if unknown else self._chosen(waiting, silent, ends)
        for key, events in chosen.items():
            found = waiting[key]
            self._frontiers[key] = max(self._frontiers[key], int(found.watermarks[events - 1]))
            self._reached[key] = max(self._reached.get(key, NEVER), int(found.times[events - 1]))
        timed = {key: ms for key, ms in self._reached.items() if ms != NEVER}
        self._described = describe_alignment(timed, waiting.keys() - chosen.keys(), idle, _name)
        return {key: int(waiting[key].offsets[events - 1]) for key, events in chosen.items()}

    def _chosen(
        self, waiting: Mapping[SegmentKey, EventEnds], silent: Collection[SegmentKey], ends: Mapping[SegmentKey, int]
    ) -> dict[SegmentKey, int]:
        """Returns how many of the events that were read ahead may be read, by segment."""
        ahead = {key: int(found.watermarks[-1]) for key, found in waiting.items()}
        known = {key: self._frontiers[key] for key in (*waiting, *silent)}
        known |= {key: watermark for key, watermark in ahead.items() if watermark != NEVER}
        known = {key: watermark for key, watermark in known.items() if watermark != NEVER}
        untimed = {key: len(found.offsets) for key, found in waiting.items() if key not in known}
        if any(waiting[key].offsets[-1] < ends[key] for key in untimed):
            return untimed  # the events after them may have an early time
        cap = self._cap(waiting, known) if known else 0
        events = {key: int(np.searchsorted(waiting[key].times, cap)) for key in waiting if key in known}
        return {key: count for key, count in {**untimed, **events}.items() if count}

    def _cap(self, waiting: Mapping[SegmentKey, EventEnds], known: Mapping[SegmentKey, int]) -> int:
        """Returns the time before which events may be read. The slowest may be read as far as was read ahead."""
        lowest = min(known.values())
        reached = [int(waiting[key].times[-1]) + 1 for key in waiting if known.get(key) == lowest]
        return max([lowest + self._disorder + self._drift, *reached])

    def _track(self, ends: Mapping[SegmentKey, int]) -> None:
        new, gone = self._idle.track(ends)
        for key in new:
            # A scaling: successors start at the watermark that their predecessors reached.
            before = [self._frontiers.get(old, NEVER) for old in gone if old[0] == key[0]]
            self._frontiers.setdefault(key, min(before, default=NEVER))
        for key in gone:
            self._frontiers.pop(key, None)
            self._reached.pop(key, None)

    def describe(self) -> dict[str, Any]:
        """Returns the latest times read, the segments held back and the idle ones, as of the last choice."""
        return self._described


def _name(key: SegmentKey) -> str:
    return f"{key[0]}/{short_name(key[1])}"
