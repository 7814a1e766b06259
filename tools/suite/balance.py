"""Which process runs what: units of work by measured duration, to whichever process is free.

A unit is a file, since its tests share fixtures; a file that takes long is taken apart into its test functions. A
process keeps to its directory as long as there is work in it, because a server is shared by a directory's tests; then
it takes the directory nobody has begun with the most work left, and where there is none it helps the other process.
Within a directory the longest unit comes first, so that what is left at the end is short.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

from suite.durations import Durations, function_of

__all__ = ["BalancedScheduling", "Units"]

#: A file that takes longer is divided into its test functions.
LONGEST_UNIT_S = 40.0


class Units:
    """The units of a collection: of which directory each is, and how long it is expected to take."""

    def __init__(self, nodeids: Sequence[str], durations: Durations) -> None:
        functions: dict[str, dict[str, None]] = {}
        for nodeid in nodeids:
            functions.setdefault(nodeid.partition("::")[0], {})[function_of(nodeid)] = None
        self._unit: dict[str, str] = {}
        self._seconds: dict[str, float] = {}
        for path, names in functions.items():
            whole = durations.of(names) <= LONGEST_UNIT_S
            for name in names:
                unit = self._unit[name] = path if whole else name
                self._seconds[unit] = self._seconds.get(unit, 0.0) + durations.of([name])

    def of(self, nodeid: str) -> str:
        """The unit of a test."""
        return self._unit[function_of(nodeid)]

    def seconds(self, units: Iterable[str]) -> float:
        """How long they are expected to take together."""
        return sum(self._seconds[unit] for unit in units)

    def next(self, waiting: Sequence[str], current: str | None, begun: Iterable[str]) -> str:
        """The unit for a free process that was last at work in directory ``current``; ``begun`` are all processes'."""
        left: dict[str, list[str]] = {}
        for unit in waiting:
            left.setdefault(directory_of(unit), []).append(unit)
        if current in left:
            directory = current
        else:
            untouched = [name for name in left if name not in set(begun)]
            directory = max(untouched or left, key=lambda name: self.seconds(left[name]))
        return max(left[directory], key=lambda unit: self._seconds[unit])


def directory_of(unit: str) -> str:
    """The directory of a unit's file."""
    return unit.partition("::")[0].rpartition("/")[0]


class BalancedScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """xdist's scheduler by scope, with units as scopes, handed out as :meth:`Units.next` says."""

    def __init__(self, config: pytest.Config, log: Any, durations: Durations) -> None:
        super().__init__(config, log)
        self._durations = durations
        self._units: Units | None = None
        self._directory: dict[Any, str] = {}

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
        unit = self._units.next(list(self.workqueue), self._directory.get(node), self._directory.values())
        self._directory[node] = directory_of(unit)
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
