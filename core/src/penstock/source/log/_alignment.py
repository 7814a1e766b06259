"""Where a micro-batch ends, so that no partition runs ahead of the slowest in event time.

The rule is that of watermark alignment in Apache Flink: nothing is read beyond the lowest watermark of all active
partitions plus the drift allowed. There a reader pauses; here the end of a batch must be known before it is read. So
the driver looks at a few records of each partition, as often as a search in sorted numbers does, and remembers what it
saw: positions and times of a partition grow together, except for what the watermark strategy allows.
"""

from __future__ import annotations

import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from penstock.source.event_time import IdleTracker, describe_alignment
from penstock.source.log._limits import take_share
from penstock.source.log._positions import LogPartition
from penstock.source.log._sampling import Sample

__all__ = ["Alignment"]

#: Records looked at to know the time at a position.
BLOCK_RECORDS = 16
#: How far back is looked for a record that tells: this many blocks at most.
MOST_BLOCKS = 1024
#: Looks for the end of one batch; every other one halves what is not known of a partition.
MOST_LOOKS = 64
#: Of the records allowed, the part that a batch should at least have.
ENOUGH = 0.85
#: Times remembered of a partition.
MOST_MARKS = 256

#: The time reached where no record has had one, and the earliest possible time.
_NEVER = float("-inf")
_FIRST = -sys.float_info.max
Positions = Mapping[LogPartition, int]


class Sampler(Protocol):
    """See :class:`penstock.source.log._sampling.RecordSampler`."""

    def sample(self, ranges: Mapping[LogPartition, tuple[int, int]]) -> dict[LogPartition, Sample]:
        """Reads, of each partition, the records from the first position (inclusive) to the second (exclusive)."""


class Alignment:
    """Chooses ends. Driver. Memory: ``MOST_MARKS`` times of each partition.

    ``drift_ms`` is how far ahead of the slowest active partition others may be read. A partition whose end has not
    moved for ``idle_timeout_ms`` is not active until it moves again; the clock starts with the process.
    """

    def __init__(
        self,
        sampler: Sampler,
        *,
        drift_ms: int,
        out_of_orderness_ms: int,
        idle_timeout_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sampler = sampler
        self._drift = drift_ms
        self._disorder = out_of_orderness_ms
        self._idle = IdleTracker[LogPartition](idle_timeout_ms, clock)
        self._marks: dict[LogPartition, _Marks] = {}
        self._frontiers: dict[LogPartition, tuple[int, int | None]] = {}
        self._described: dict[str, Any] = {}
        self._lock = threading.Lock()

    def choose(
        self, positions: Positions, ends: Positions, max_records: int | None, *, more_may_come: bool
    ) -> dict[LogPartition, int]:
        """The ends of the next batch, of at most ``max_records`` (but see :func:`take_share`), without empty ranges.

        Empty if nothing may be read now. ``more_may_come``: whether a partition that is read to its end may still be
        the slowest; otherwise it does not count.
        """
        with self._lock:
            chosen, held, idle = self._choose(positions, ends, max_records, more_may_come=more_may_come)
            reached = {p: self._marks[p].reached(chosen.get(p, positions[p])) for p in self._marks}
        self._described = describe_alignment({p: ms for p, ms in reached.items() if ms != _NEVER}, held, idle)
        return chosen

    def look_ahead(
        self, positions: Positions, ends: Positions, max_records: int | None, *, more_may_come: bool
    ) -> None:
        """Samples what :meth:`choose` would look at from ``positions`` on. Any thread: while a batch
        is read, the driver has time for the next.
        """
        with self._lock:
            self._choose(positions, ends, max_records, more_may_come=more_may_come)

    def _choose(
        self, positions: Positions, ends: Positions, max_records: int | None, *, more_may_come: bool
    ) -> tuple[dict[LogPartition, int], Collection[LogPartition], Collection[LogPartition]]:
        """The ends, the partitions that are held back, those that are idle."""
        self._track({p: end for p, end in ends.items() if p in positions}, positions)
        waiting = {p: ends[p] for p in positions if positions[p] < ends.get(p, 0)}
        silent = [p for p in positions if p in ends and p not in waiting] if more_may_come else []
        idle = self._idle.idle(silent)
        silent = [p for p in silent if p not in idle]
        if not waiting:
            return {}, (), idle
        self._know_frontiers({p: ends[p] for p in [*waiting, *silent]}, positions)
        if any(self._frontiers[p][1] is None for p in silent):
            return {}, waiting, idle  # what an empty partition will bring is still unknown
        told = {p: frontier for p in [*waiting, *silent] if (frontier := self._frontiers[p][1]) is not None}
        timed = {p: end for p, end in waiting.items() if p in told}
        chosen = self._search(positions, timed, lambda: self._cap(told, ends), max_records) if timed else {}
        untimed = {p: end for p, end in waiting.items() if p not in told}  # nothing is known to keep them back for
        return take_share(positions, {**chosen, **untimed}, max_records), timed.keys() - chosen.keys(), idle

    def describe(self) -> dict[str, Any]:
        """Returns numbers of the last choice for the query's progress. Never blocks.

        They are the latest time handed out of each partition (with what was chosen), and which are held back or idle.
        """
        return self._described

    # --- what is known ------------------------------------------------------------------------------------------------

    def _track(self, ends: Positions, positions: Positions) -> None:
        _, gone = self._idle.track(ends)
        for partition in gone:
            self._frontiers.pop(partition, None)
            self._marks.pop(partition, None)
        for partition, end in ends.items():
            self._marks.setdefault(partition, _Marks()).keep(positions[partition], end)

    def _know_frontiers(self, ends: Positions, positions: Positions) -> None:
        """The watermark of each partition, were it read to its end."""
        moved = {p: end for p, end in ends.items() if self._frontiers.get(p, (None, None))[0] != end}
        for partition, sample in self._look(moved, dict.fromkeys(moved, 0), lambda found: found.watermark).items():
            self._frontiers[partition] = (ends[partition], sample.watermark)
        # Where the next batch begins, unless it is known from the last one.
        begins = {p: positions[p] for p, end in ends.items() if positions[p] < end}
        unknown = {
            p: min(ends[p], start + BLOCK_RECORDS) for p, start in begins.items() if not self._marks[p].has(start)
        }
        self._look(unknown, begins)

    def _look(
        self, ends: Positions, floors: Positions, told: Callable[[Sample], int | None] = lambda found: found.time
    ) -> dict[LogPartition, Sample]:
        """Returns the records before each of ``ends``: a block, and more of them, back to the floor, while they don't
        tell.
        """
        known: dict[LogPartition, Sample] = {}
        blocks, left = 1, dict(ends)
        while left:
            begins = {p: max(floors[p], end - blocks * BLOCK_RECORDS) for p, end in left.items()}
            wanted = {p: (begins[p], end) for p, end in left.items() if begins[p] < end}
            known.update({p: Sample(None, None) for p in left} | (self._sampler.sample(wanted) if wanted else {}))
            blocks *= 8
            left = {p: end for p, end in left.items() if told(known[p]) is None and begins[p] > floors[p]}
            if blocks > MOST_BLOCKS:
                break
        for partition, sample in known.items():
            # Records without times change nothing: so far is reached what was before.
            end, marks = ends[partition], self._marks[partition]
            marks.add(end, marks.reached(end) if sample.time is None else sample.time)
        return known

    def _cap(self, watermarks: Mapping[LogPartition, int], ends: Positions) -> float:
        """Returns the time up to which to read. The slowest may always be read: the others wait for all that it has."""
        lowest = min(watermarks.values())
        seen = (self._marks[p].reached(ends[p]) for p, watermark in watermarks.items() if watermark == lowest)
        return max(lowest + self._disorder + self._drift, *(ms + 1 for ms in seen))

    # --- the search ---------------------------------------------------------------------------------------------------

    def _search(
        self, positions: Positions, waiting: Positions, limit: Callable[[], float], max_records: int | None
    ) -> dict[LogPartition, int]:
        """The furthest ends known with all times before ``limit()``, and as many records as are allowed.

        The limit grows if a sample shows that the slowest reaches further than its end suggested.
        """
        marks = {p: self._marks[p] for p in waiting}
        for look in range(MOST_LOOKS):
            cap = limit()
            until = self._latest_time(marks, positions, cap, max_records)
            gaps = {p: marks[p].gap(positions[p], end, until) for p, end in waiting.items()}
            taken = sum(low - positions[p] for p, (low, _) in gaps.items())
            # What stays unread in a gap may be as early as where the gap begins, and must not be late after this batch.
            open_gaps = {
                p: (low, high)
                for p, (low, high) in gaps.items()
                if high - low > 1 and marks[p].reached(low) < until - self._drift
            }
            missing = max_records - taken if max_records is not None and until < cap else None
            if missing is None or missing > taken * (1 / ENOUGH - 1):
                least = max(BLOCK_RECORDS, taken // 8 if missing is None else missing // (4 * len(gaps)))
                open_gaps.update({p: gap for p, gap in gaps.items() if gap[1] - gap[0] > least})
            if not open_gaps:
                break
            halving = look % 2 == 1
            at = {
                p: (low + high) // 2 if halving else marks[p].guess(low, high, until)
                for p, (low, high) in open_gaps.items()
            }
            self._look(at, {p: low for p, (low, _) in open_gaps.items()})
        while True:  # as a rule, nothing is open any more
            early = [marks[p].reached(low) + self._drift for p, (low, high) in gaps.items() if high - low > 1]
            if not early or max(_FIRST, min(early)) >= until:
                break
            until = max(_FIRST, min(early))
            gaps = {p: marks[p].gap(positions[p], end, until) for p, end in waiting.items()}
        chosen = {p: low for p, (low, _) in gaps.items() if low > positions[p]}
        return chosen or self._least(positions, waiting, limit, max_records)

    def _latest_time(
        self, marks: Mapping[LogPartition, _Marks], positions: Positions, cap: float, max_records: int | None
    ) -> float:
        """Returns the latest time, at most ``cap``, before which no more than ``max_records`` are known to be."""

        def records(until: float) -> int:
            return sum(m.before(until, positions[p]) - positions[p] for p, m in marks.items())

        if max_records is None or records(cap) <= max_records:
            return cap
        times = sorted({ms + 1 for m in marks.values() for ms in m.times})
        found = bisect_right(times, max_records, key=records)
        return max(_FIRST, min(cap, times[found - 1])) if found else _FIRST

    def _least(
        self, positions: Positions, waiting: Positions, limit: Callable[[], float], max_records: int | None
    ) -> dict[LogPartition, int]:
        """Returns a share of the slowest's next few records, where even those that are known are too many."""
        self._look({p: positions[p] + 1 for p in waiting}, positions)
        slowest = min(self._marks[p].reached(positions[p] + 1) for p in waiting)
        until = max(_FIRST, min(limit(), slowest + self._drift))
        ends = {p: self._marks[p].before(until, positions[p]) for p in waiting}
        return take_share(positions, ends, max_records)


class _Marks:
    """What is known of one partition: up to which position which latest time was seen. Both grow."""

    def __init__(self) -> None:
        self._positions: list[int] = []
        self._times: list[float] = []

    def keep(self, position: int, end: int) -> None:
        """Forgets what is before ``position`` (but what is nearest) and more than it may hold.

        If it knows of something after ``end``, this is another log of the same name: everything is forgotten.
        """
        first = max(0, bisect_right(self._positions, position) - 1)
        if self._positions and self._positions[-1] > end:
            first = len(self._positions)
        del self._positions[:first], self._times[:first]
        if len(self._positions) > MOST_MARKS:
            del self._positions[1:-1:2], self._times[1:-1:2]

    def add(self, position: int, ms: float) -> None:
        """The records that end at ``position`` reach ``ms``."""
        at = bisect_left(self._positions, position)
        if at == len(self._positions) or self._positions[at] != position:
            self._positions.insert(at, position)
            self._times.insert(at, ms)
        before = self._times[at - 1] if at else ms
        self._times[at] = max(self._times[at], before, ms)
        for later in range(at + 1, len(self._times)):  # none falls
            if self._times[later] >= self._times[at]:
                break
            self._times[later] = self._times[at]

    @property
    def times(self) -> list[float]:
        """All of them, in order."""
        return self._times

    def has(self, position: int) -> bool:
        """Returns whether anything is known of what is at or before ``position``."""
        return bool(self._positions) and self._positions[0] <= position

    def reached(self, position: int) -> float:
        """Returns the latest time known at or before ``position``; before all times if none is."""
        at = bisect_right(self._positions, position)
        return self._times[at - 1] if at else _NEVER

    def before(self, until: float, position: int) -> int:
        """Returns the furthest position, at least ``position``, that is known to be reached before ``until``."""
        found = bisect_left(self._times, until)
        return max(position, self._positions[found - 1]) if found else position

    def gap(self, position: int, end: int, until: float) -> tuple[int, int]:
        """Returns the range from :meth:`before` to the next position known to be too late (``end`` if none is)."""
        low = self.before(until, position)
        at = bisect_right(self._positions, low)
        return low, self._positions[at] if at < len(self._positions) else end

    def guess(self, low: int, high: int, until: float) -> int:
        """Returns where between two positions ``until`` is probably reached, if times grow evenly; well inside."""
        early, late = self.reached(low), self.reached(high)
        part = 0.5
        if _NEVER < early < late:
            part = min(0.95, max(0.05, (until - early) / (late - early)))
        return low + max(1, int((high - low) * part))
