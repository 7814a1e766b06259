"""A sink under random schedules on the system that it writes to: each call of the contract is one step.

What the sink does inside a call happens at once, in real time. So its own threads, retries and timeouts are not part
of the schedule, and a process is killed between two calls, not inside one.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    SinkContext,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.system import system
from penstock.system import use as use_system
from penstock.testing._faults import FaultySink, FaultyWriter, Steps, wrapped
from penstock.testing.simulation._scheduler import Scheduler
from penstock.testing.simulation._target import SimulatedTarget, Violation, target

__all__ = ["RealTarget", "SinkUnderTest"]

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class SinkUnderTest:
    """An author's sink and its target, which is empty.

    ``batch`` makes rows with given numbers, ``read`` tells the numbers of all rows that readers see, ``hidden`` names
    what is there and not visible (``None``: unknown). ``hides``: rows are not visible before they are committed.
    """

    sink: TwoPhaseCommitSink[Any, Any]
    schema: pa.Schema
    batch: Callable[[Sequence[int]], pa.RecordBatch]
    read: Callable[[], Sequence[int]]
    hidden: Callable[[], Sequence[str]] | None = None
    hides: bool = True


class RealTarget(SimulatedTarget):
    """The system that ``tested`` writes to. It is closed by :meth:`close`, when its schedule has ended."""

    def __init__(self, scheduler: Scheduler, tested: SinkUnderTest) -> None:
        super().__init__(scheduler)
        scheduler.clock_us = time.time_ns() // 1000
        self.query_id = uuid.uuid4().hex  # others write to the same system
        self._tested = tested
        #: Writers of processes that were killed, which therefore are not closed.
        self.opened: list[CommittingSinkWriter[Any, Any]] = []

    def create_sink(self) -> TwoPhaseCommitSink[Any, Any]:
        return wrapped(_SteppedSink, self._tested.sink, _ScheduledSteps())

    @property
    def schema(self) -> pa.Schema:
        return self._tested.schema

    def batch(self, rows: Sequence[int]) -> pa.RecordBatch:
        return self._tested.batch(rows)

    def shown(self) -> list[tuple[str, int]]:
        """Returns what came with what is not known."""
        return [("", row) for row in self._tested.read()]

    def left(self) -> list[str]:
        return [] if self._tested.hidden is None else list(self._tested.hidden())

    def check(self, faults: Counter[str], owners: int) -> None:
        """After calls that may have made rows visible."""
        if self._seen == self.changes:
            return
        self._seen = self.changes
        rows = Counter(row for _, row in self.shown())
        if twice := sorted(row for row, count in rows.items() if count > 1):
            raise Violation(f"rows {twice} are visible twice")
        if self._tested.hides and (early := sorted(set(rows) - self._decided_rows())):
            raise Violation(f"rows {early} are visible and not decided")

    def _decided_rows(self) -> set[int]:
        bounds = [json.loads(link.offsets.splitlines()[2]) for link in self.links() if link.offsets]
        return {row for start, end in bounds for row in range(start, end)}

    def ask(self, label: str, effect: Callable[[], ResultT], *, may_fail: bool) -> ResultT:
        """Makes one call of the contract, in real time."""

        def really() -> ResultT:
            simulated = system()
            use_system(None)
            try:
                return effect()
            finally:
                use_system(simulated)
                self.changes += label.startswith(("publish", "prepare"))

        return self.scheduler.call(label, really, may_fail=may_fail, of="target" if may_fail else "")

    def close(self) -> None:
        """Closes what the processes that were killed had open."""
        for writer in self.opened:
            with contextlib.suppress(Exception):
                writer.close()
        self.opened.clear()


class _ScheduledSteps(Steps):
    def step(self, what: str) -> None:
        """A call is one step."""

    def do(self, what: str, call: Callable[[], ResultT]) -> ResultT:
        # A writer's call can't be done by anybody later: it is never late.
        answer: ResultT = target().ask(what, call, may_fail=False)
        return answer


class _SteppedSink(FaultySink):
    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[Any, Any]:
        return _SteppedWriter(self._inner.create_writer(context), self._fuse)

    def create_committer(self, context: SinkContext) -> Committer[Any, Any]:
        return _SteppedCommitter(lambda: self._inner.create_committer(context))


class _SteppedWriter(FaultyWriter):
    def __init__(self, inner: CommittingSinkWriter[Any, Any], fuse: Steps) -> None:
        super().__init__(inner, fuse)
        target().opened.append(inner)

    def close(self) -> None:
        if not self._crashed:
            target().opened.remove(self._inner)
        super().close()


class _SteppedCommitter(Committer[Any, Any]):
    """Each committable is published by a call of its own. A call that lands late has a committer of its own."""

    def __init__(self, make: Callable[[], Committer[Any, Any]]) -> None:
        self._make = make
        self._inner: Committer[Any, Any] | None = make()
        self.first_decides = self._inner.first_decides

    def _do(self, what: str, call: Callable[[Committer[Any, Any]], ResultT]) -> ResultT:
        def effect() -> ResultT:
            if self._inner is not None:
                return call(self._inner)
            with contextlib.closing(self._make()) as another:
                return call(another)

        answer: ResultT = target().ask(what, effect, may_fail=True)
        return answer

    def look(self, committables: Sequence[Any]) -> list[Found]:
        return self._do("look", lambda inner: inner.look(committables))

    def publish(self, committables: Sequence[Any]) -> list[Found]:
        found: list[Found] = []
        for number, part in enumerate([[one] for one in committables] or [[]], 1):
            label = f"publish {number} of {len(committables)}"
            found += self._do(label, functools.partial(_publish, part))
        return found

    def seal(self, committables: Sequence[Any]) -> None:
        self._do("seal", lambda inner: inner.seal(committables))

    def discard(self, committables: Sequence[Any], states: Sequence[Any]) -> None:
        self._do("discard", lambda inner: inner.discard(committables, states))

    def are_there(self, states: Sequence[Any]) -> list[bool]:
        return self._do("look for carried state", lambda inner: inner.are_there(states))

    def clear(self, kept: Kept[Any, Any]) -> int:
        return self._do(f"clear below {kept.base}", lambda inner: inner.clear(kept))

    def close(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            inner.close()


def _publish(part: Sequence[Any], committer: Committer[Any, Any]) -> list[Found]:
    return committer.publish(part)
