"""What a simulated query writes to: a model of the target system, with the sink, and what must hold of both."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from penstock._commit import Link
from penstock.sink import TwoPhaseCommitSink
from penstock.testing.simulation._scheduler import TIMEOUT_S, Event, Scheduler

__all__ = ["KeptLinks", "SimulatedTarget", "Violation", "check_patience", "target"]

#: What a process may do in one outage before it ends: how often ``retryTimeout`` may pass, as it fails and then cleans
#: up, and how many calls it may make besides.
_MOST_TIMEOUTS, _MOST_CALLS = 3, 10

_SCHEMA = pa.schema([("id", pa.int64())])


class Violation(AssertionError):
    """A row was lost, or duplicated, or seen too early; or a query does not recover; or something stays forever."""


class KeptLinks:
    """Every link among ``files`` whose path has ``decisions`` in it, oldest first.

    Oracles ask for them at almost every step: each is parsed once.
    """

    def __init__(self, files: Mapping[str, bytes], decisions: str) -> None:
        self._files = files
        self._decisions = decisions
        self._parsed: dict[bytes, Link] = {}

    def __call__(self) -> list[Link]:
        links = []
        for path, data in self._files.items():
            name = path.rpartition("/")[2]
            if self._decisions in path and name.endswith(".json") and name[:-5].isdigit():
                if data not in self._parsed:
                    self._parsed[data] = Link.from_bytes(data, done=False, where=path)
                links.append(self._parsed[data])
        return sorted(links, key=lambda link: link.number)


def check_patience(scheduler: Scheduler, retry_s: float) -> None:
    """Raises Violation if a process continues for much longer than ``retryTimeout`` while a system is out."""
    for process in scheduler.processes:
        if process.cut_off_s > _MOST_TIMEOUTS * retry_s + _MOST_CALLS * TIMEOUT_S:
            raise Violation(f"{process.name} does not end: it was cut off for {process.cut_off_s:.0f} s")


class SimulatedTarget(ABC):
    """A model of one target system. Its rows are numbers.

    The sink's parts find it by :func:`target`, and do whatever another process could see as a
    :meth:`Scheduler.call`. ``changes`` counts what readers could notice.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.changes = 0
        self.query_id = "query"
        #: The links of the decision log, read without a call: set by the world.
        self.links: Callable[[], Sequence[Link]] = lambda: ()
        self._seen = 0
        self._decided: set[str] = set()

    @abstractmethod
    def create_sink(self) -> TwoPhaseCommitSink[Any, Any]:
        """Returns the sink under test."""

    @abstractmethod
    def shown(self) -> list[tuple[str, int]]:
        """Returns every row that a reader could have read until now, and the name of the committable of each."""

    @abstractmethod
    def left(self) -> list[str]:
        """Returns what is there and is no row that readers see. Nothing, once a query has ended."""

    @property
    def schema(self) -> pa.Schema:
        """Of the rows that the sink takes."""
        return _SCHEMA

    def batch(self, rows: Sequence[int]) -> pa.RecordBatch:
        """Rows with these numbers."""
        return pa.record_batch([pa.array(rows, pa.int64())], schema=_SCHEMA)

    def name_of(self, committable: Any) -> str:
        """Returns the name of a committable, as in :meth:`shown`."""
        return str(committable.name)

    def key_of(self, row: int) -> int:
        """By which rows are shared out among the writers of a batch."""
        return row

    def events(self) -> list[Event]:
        """Returns what may happen to the target system from outside."""
        return []

    def state(self) -> object:
        """Returns all that decides how the target answers from now on; hashable."""
        unchanging = ("scheduler", "links", "_seen", "_decided")
        return _frozen({name: value for name, value in vars(self).items() if name not in unchanging})

    def check(self, faults: Counter[str], owners: int) -> None:
        """After every step: no row is visible twice, or before it was decided.

        ``faults`` counts how calls have ended, ``owners`` how often the decision log may have changed hands. Raises
        Violation.
        """
        if self._seen == self.changes:
            return
        self._seen = self.changes
        rows = self.shown()
        twice = [row for row, count in Counter(row for _, row in rows).items() if count > 1]
        if twice:
            raise Violation(f"row {twice[0]} is visible twice, in {[name for name, row in rows if row == twice[0]]}")
        serializer = self.create_sink().committable_serializer
        for link in self.links():
            for output in link.outputs:
                self._decided |= {self.name_of(serializer.unpack(one)) for one in output.committables}
        early = {name for name, _ in rows} - self._decided
        if early:
            raise Violation(f"{sorted(early)} is visible and not decided")

    def missing(self, rows: range) -> list[int]:
        """Returns those of ``rows`` that no reader could have read until now."""
        found = {row for _, row in self.shown()}
        return [row for row in rows if row not in found]

    def check_end(self, rows: range) -> None:
        """Checks the target when a query that wrote ``rows`` has ended. Raises Violation."""
        if missing := self.missing(rows):
            raise Violation(f"rows {missing} are lost")
        if left := self.left():
            raise Violation(f"{left} stays forever")


def _frozen(value: Any) -> object:
    if isinstance(value, dict):
        return frozenset((_frozen(key), _frozen(one)) for key, one in value.items())
    if isinstance(value, (set, frozenset)):
        return frozenset(map(_frozen, value))
    if isinstance(value, (list, tuple)):
        return tuple(map(_frozen, value))
    return (type(value).__name__, _frozen(vars(value))) if hasattr(value, "__dict__") else value


_used: SimulatedTarget | None = None


def use(new: SimulatedTarget) -> None:
    """Makes it the one that sinks find, from now on."""
    global _used
    _used = new


def target() -> Any:
    """Returns the one of the world that runs: for a sink's parts, which are pickled without it."""
    assert _used is not None, "no world runs"
    return _used
