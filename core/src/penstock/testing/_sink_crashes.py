"""The cases of a sink that end processes: at every step, at every line, in any order."""

from __future__ import annotations

import functools
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ClassVar

from penstock.connector import Capability
from penstock.errors import RetriableError
from penstock.sink import IdempotentSink, TwoPhaseCommitSink, WriteAheadSink
from penstock.testing._capabilities import proves
from penstock.testing._lines import Moment, moments
from penstock.testing._processes import Killed, processes
from penstock.testing._sink_base import SinkBase
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._sink_processes import QueryJob, run_attempt, run_query
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import NOTE, not_tried
from penstock.testing.simulation import RealTarget, Scheduler, SinkUnderTest, run_schedule

__all__ = ["SinkCrashCases"]

#: How often a reader takes away what is visible after a kill.
_READERS_TAKE = 0.8


class SinkCrashCases(SinkBase):
    """Processes that end. ``kill_seconds``: for how long they are killed at lines; ``schedules``: how many the
    simulator runs.
    """

    schedules: ClassVar[int] = 20
    kill_seconds: ClassVar[float] = 15.0

    @proves(Capability.STREAM_WRITE)
    def test_a_crash_at_every_step(self, new_target: Callable[[], SinkTarget], tmp_path: Path) -> None:
        """Purpose: a process is killed at any point: memory runs out, a pod is evicted, a machine goes down.

        Steps: three batches are run once to count the steps (before and after each write, prepare, decision, commit,
        note, clean-up). Then for each step again: the driver with its tasks ends there; another one carries on.
        Pass: after every one of them each row can be read once; at least once, for a sink that promises only this.
        If it fails: the message names the step. Lost: something was thrown away that was decided, or not found again.
        Duplicated: a commit was repeated that had been done, or rows were visible before they were committed.
        """
        batches = self._batches()

        def fresh(at: int | str) -> tuple[SinkTarget, SinkQuery]:
            target = new_target()
            return target, self._query(target, tmp_path / f"checkpoint-{at}")

        target, query = fresh("dry")
        query.run_all(batches)
        self._check(target, self._ids())
        steps = query.fuse.steps
        for at in self._crash_points(steps):
            step = steps[at]
            target, query = fresh(at)
            with query.crashing_at(at):
                query.run_all(batches)
            query.restart()
            query.run_all(batches)
            self._check(target, self._ids(), f"after a crash {step} ({at})", promised=True)

    @proves(Capability.STREAM_WRITE)
    def test_killed_at_every_line(
        self, new_target: Callable[[], SinkTarget], tmp_path: Path, record_property: Callable[[str, object], None]
    ) -> None:
        """Purpose: the promise, where a step of the protocol is many of yours: a file that is written and renamed, a
        row and the record of its sending.

        Steps: three batches are run in a process of their own, which is killed (SIGKILL) just before a line of your
        package is reached, the first, the second or the last time; mostly, readers then take away what is visible
        (``SinkTarget.take``); another process carries on. For each such line, in random order, for ``kill_seconds``;
        the verdict says at how many lines if they were not all.
        Pass: after every one of them each row was read once; at least once, for a sink that promises only this.
        If it fails: the message names the line. What must happen together needs one call that does both: a rename, a
        transaction. What can't be one call must be looked up before it is done again.
        """
        job = self._job(new_target(), tmp_path / "every-line")
        reached = processes().run(run_query, job, None)
        points = moments(reached)
        random.shuffle(points)
        until = time.monotonic() + self.kill_seconds
        if not points:
            not_tried("kills at your lines", "line of the connector's package was reached")
        for number, moment in enumerate(points):
            if number and time.monotonic() > until:
                record_property(NOTE, _share(points[:number], points))
                break
            target = new_target()
            job = self._job(target, tmp_path / f"every-line-{number}")
            taken: Counter[int] = Counter()
            try:
                processes().run(run_query, job, moment)
            except Killed:
                if random.random() < _READERS_TAKE:
                    taken = self._taken(target, job)
                _carry_on(job)
            reader = f", {taken.total()} rows were taken away by readers" if taken else ""
            self._check(target, self._ids(), f"after a kill in {moment}{reader}", promised=True, taken=taken)

    def _taken(self, target: SinkTarget, job: QueryJob) -> Counter[int]:
        """Returns the rows that a reader takes away."""
        if target.take is None or isinstance(job.sink, IdempotentSink):
            return Counter()
        rows = self._seen(target)
        target.take()
        return rows

    @proves(Capability.STREAM_WRITE)
    def test_tasks_in_processes_of_their_own(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: each worker of Spark is a process, in which counters, caches and random numbers start again.

        Steps: three batches, each task in a new process, those of a batch at the same time.
        Pass: every row can be read once, and the driver that cleans up leaves nothing hidden of those processes.
        If it fails: names are unique by context.attempt_id and context.query_id, not by a counter, a time, the process
        id or random numbers of a seed that processes share. They mean the same everywhere: hash() of a text does not,
        nor does a relative path or a temporary folder.
        """
        for batch_id, shares in enumerate(self._batches()):
            plan = query.plan(batch_id)
            running = [
                processes().start(run_attempt, query.sent, plan, query.task(batch_id, writer), share)
                for writer, share in enumerate(shares)
            ]
            query.commit(batch_id, [one.result() for one in running])
        query.finish()
        self._check(target, self._ids(), "with each task in a process of its own")
        query.restart()
        query.finish()
        left = list(target.hidden()) if target.hidden is not None else []
        assert not left, f"the driver has not found {left} of tasks in other processes"

    @proves(Capability.EXACTLY_ONCE)
    def test_schedules_by_chance(self, new_target: Callable[[], SinkTarget]) -> None:
        """Purpose: what no example shows: processes that are killed, sleep, are late and run twice, in any order.

        Steps: the simulator of the commit protocol (:mod:`penstock.testing.simulation`) runs ``schedules`` of them,
        each with a target of its own. Each call of the contract is a step: anything may happen before and after it.
        Pass: no row is visible twice, or before its batch is decided; in the end every row can be read once, and
        nothing is hidden any more.
        If it fails: the message tells who did what, in order. A call of the committer may be repeated, come late, and
        come from two processes: publish and seal must find its outcome by the thing itself.
        """
        for _ in range(self.schedules):
            target, seed = new_target(), random.randrange(1 << 40)
            sink = self._create_for(self._parse(target.options), self.schema)
            assert isinstance(sink, TwoPhaseCommitSink)
            tested = SinkUnderTest(
                sink,
                self.schema,
                self.batch,
                read=functools.partial(self._numbers, target),
                hidden=target.hidden,
                hides=not isinstance(sink, (IdempotentSink, WriteAheadSink)),
            )
            made: list[RealTarget] = []

            def make(scheduler: Scheduler, tested: SinkUnderTest = tested, made: list[RealTarget] = made) -> RealTarget:
                made.append(RealTarget(scheduler, tested))
                return made[-1]

            failure = run_schedule(seed, make)
            made[0].close()
            assert failure is None, str(failure)

    def _numbers(self, target: SinkTarget) -> list[int]:
        return list(self._seen(target).elements())


def _carry_on(job: QueryJob) -> None:
    """Runs what is left in a new process; in another one if something passing kept it from that."""
    for left in (2, 1, 0):
        try:
            processes().run(run_query, job, None)
            return
        except (RetriableError, OSError):
            if not left:
                raise


def _share(tried: Sequence[Moment], points: Sequence[Moment]) -> str:
    reached, every = ({(one.file, one.line) for one in some} for some in (tried, points))
    return f"killed at {len(reached)} of {len(every)} lines of yours in 'kill_seconds'"
