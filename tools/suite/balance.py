"""Which process runs what: units of work by measured duration, to whichever process is free.

A unit is a file, since its tests share fixtures; a file that takes long is taken apart into its test functions. A
process keeps to its file as long as there is work in it, because fixtures of a module are made again when pytest comes
back to it; and to its directory, because a server is shared by a directory's tests. Then it takes the file or the
directory with the most work left that no process is in, and where there is none it helps another process. Within a file
the longest unit comes first, so that what is left at the end is short.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from suite.durations import Durations

__all__ = ["BalancedScheduling", "Units"]

#: A file that takes longer is divided into its test functions.
LONGEST_UNIT_S = 30.0


class Units:
    """The units of a collection: of which directory each is, and how long it is expected to take."""

    def __init__(self, nodeids: Sequence[str], durations: Durations) -> None:
        self._unit: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        files: dict[str, list[str]] = {}
        for nodeid in nodeids:
            files.setdefault(nodeid.partition("::")[0], []).append(nodeid)
        for path, tests in files.items():
            whole = durations.of(tests) <= LONGEST_UNIT_S
            for test in tests:
                unit = self._unit[test] = path if whole else test.partition("[")[0]
                self._seconds[unit] = self._seconds.get(unit, 0.0) + durations.of([test])

    def of(self, nodeid: str) -> str:
        """The unit of a test."""
        return self._unit[nodeid]

    @property
    def total_s(self) -> float:
        """How long all of them are expected to take, one after the other."""
        return sum(self._seconds.values())

    def next(self, waiting: Sequence[str], current: str | None, occupied: Iterable[str]) -> str:
        """The unit for a free process whose last one was ``current``; others have been given ``occupied``."""
        others = list(occupied)
        for place_of in (directory_of, file_of):
            places: dict[str, list[str]] = {}
            for unit in waiting:
                places.setdefault(place_of(unit), []).append(unit)
            place = place_of(current) if current else None
            if place not in places:
                free = places.keys() - {place_of(unit) for unit in others}
                place = max(sorted(free or places), key=lambda name: sum(self._seconds[unit] for unit in places[name]))
            waiting = places[place]
        return max(waiting, key=lambda unit: self._seconds[unit])


def file_of(unit: str) -> str:
    """The file of a unit, which may be all of it."""
    return unit.partition("::")[0]


def directory_of(unit: str) -> str:
    """The directory of a unit's file."""
    return file_of(unit).rpartition("/")[0]


class BalancedScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's scheduler by scope, with units as scopes, handed out as :meth:`Units.next` says."""

    def __init__(self, config: pytest.Config, log: Any, durations: Durations) -> None:
        super().__init__(config, log)
        self._durations = durations
        self._units: Units | None = None
        self._last: dict[Any, str] = {}

    def _split_scope(self, nodeid: str) -> str:
        if self._units is None:
            self._units = Units(self.collection or [], self._durations)
        return self._units.of(nodeid)

    def _reschedule(self, node: Any) -> None:
        # A process needs the next test before it runs one, and no more: what it holds no other can take.
        if node.shutting_down or not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
            super()._reschedule(node)

    def _assign_work_unit(self, node: Any) -> None:
        assert self._units is not None
        unit = self._units.next(list(self.workqueue), self._last.get(node), self._last.values())
        self._last[node] = unit
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
