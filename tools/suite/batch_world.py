"""``df.write`` in a simulated world: the real writer on a model of a store, killed and ended by others at any moment.

The driver, each attempt of a task, the commit and the abort are processes, as with Spark. When one is killed, those
that it has started may continue.
"""

from __future__ import annotations

import logging
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import penstock.checkpoint._batch_writes as batch_writes
import penstock.spark._write as write
from penstock._commit import DisplacedError, GaveWayError
from penstock.checkpoint._commands import _finish_writes
from penstock.errors import DataLostError, RetriableError
from penstock.retry import RetryPolicy
from penstock.spark._write import BatchWriter
from penstock.system import system
from penstock.system import use as use_system
from penstock.testing.simulation import Event, Failure, Plan, Process, Report, Scheduler, Violation, plan_of
from penstock.testing.simulation._choices import Choices, SeededChoices
from penstock.testing.simulation._scheduler import SimulatedSystem, Stuck
from penstock.testing.simulation._search import shortest
from penstock.testing.simulation._target import KeptLinks, check_patience, use
from penstock_filesystem.options import SINK_OPTIONS
from suite.file_model import FileTarget

__all__ = ["BatchWorld", "MakeFileTarget", "check_writes", "run_write", "search_writes"]

#: A model of a store, whose calls a scheduler answers.
MakeFileTarget = Callable[[Scheduler], FileTarget]

#: What errors say after which nobody writes again without a look.
_UNKNOWN = ("The write is decided all the same", "Look at the target before you write it again")
#: For garbage, in the hidden directory of a write.
_LOOK = re.compile("list [0-9a-f]{32}/")
_LOST_WORKER = "the process of the commit ended"


class BatchWorld:
    """One write of ``plan.rows`` rows. Raises Violation."""

    def __init__(self, choices: Choices, plan: Plan, make_target: MakeFileTarget) -> None:
        self.plan = plan
        self.scheduler = Scheduler(choices, plan.faults)
        self.target = make_target(self.scheduler)
        self.target.links = KeptLinks(self.target.files, "/decisions/")
        # There is only one clean-up, after which a list that is behind would leave garbage.
        self.target.lists_may_be_behind = False
        self.retry = RetryPolicy(plan.retry_s)
        #: What the user was told: empty for a success. ``None`` if the driver has died.
        self.told: str | None = None
        self._left = Counter(finish=plan.finishes, take_over=plan.takeovers, power=plan.power_failures)
        self._helpers = 0
        self._is_recorded = self._has_stragglers = False
        self.scheduler.events = self._events()
        self.scheduler.after_step = self._check

    def run(self) -> None:
        """The whole schedule: with faults, then a person ends what is left."""
        use(self.target)
        use_system(SimulatedSystem(self.scheduler))
        try:
            with self._in_this_world():
                self.scheduler.spawn("driver", self._drive, on_end=self._note_end)
                self.scheduler.run(lambda: not self.scheduler.processes)
                self.scheduler.stop_faults()
                self._left.clear()
                self.scheduler.run(lambda: not self.scheduler.processes and not self.scheduler.in_flight)
                self._helper("finish --take-over", take_over=True)
                self.scheduler.run(lambda: not self.scheduler.processes and not self.scheduler.in_flight)
                self._check_end()
        except Stuck as error:
            raise Violation(str(error)) from None
        finally:
            self.scheduler.close()
            use_system(None)

    @contextmanager
    def _in_this_world(self) -> Iterator[None]:
        """What a command finds below the path, and names that count."""

        def load(storage: Any, path: str, options: Any) -> tuple[str, Any, Any, RetryPolicy]:
            storage.read(path)
            return "filesystem", self.target.create_sink(), self.target.schema, self.retry

        def find(path: str, options: Any, retry: Any) -> tuple[Any, str]:
            return self.target.storage(), self.target.root

        names = SimpleNamespace(uuid4=lambda: SimpleNamespace(hex=system().new_id()))
        with (
            mock.patch.object(batch_writes, "load_sink", load),
            mock.patch.object(batch_writes, "open_storage", find),
            mock.patch.object(write, "uuid", names),
        ):
            yield

    def _events(self) -> list[Event]:
        def event(name: str, what: str, do: Callable[[], object]) -> Event:
            def happen() -> None:
                self._left[what] -= 1
                do()

            return Event(name, lambda: self._left[what] > 0, happen)

        return [
            event("penstock finish is called", "finish", lambda: self._helper("finish", take_over=False)),
            event("finish --take-over is called", "take_over", lambda: self._helper("take over", take_over=True)),
            event("the power fails", "power", self.scheduler.lose_power),
        ]

    def _helper(self, name: str, *, take_over: bool) -> None:
        def end() -> None:
            with suppress(GaveWayError):
                _finish_writes(batch_writes.stored_writes("file:/out"), "/out", take_over=take_over)

        self._helpers += 1
        self.scheduler.spawn(f"{name} {self._helpers}", end, on_end=self._note_end)

    # Spark.

    def _drive(self) -> None:
        values = SINK_OPTIONS.parse(self.target.options, owner="sink")
        writer = BatchWriter(self.target.create_sink(), self.target.schema, "filesystem", values, None, self.retry)
        sent = pickle.dumps(writer)
        messages = self._run_tasks(sent)
        if None in messages:
            self._child("abort", lambda: pickle.loads(sent).abort(messages))
            self.told = "tasks failed"
            return
        error = self._child("commit", lambda: pickle.loads(sent).commit(messages))
        if error is not None:
            self._child("abort", lambda: pickle.loads(sent).abort(messages))
        self.told = "" if error is None else str(error)

    def _run_tasks(self, sent: bytes) -> list[Any]:
        writers = self.plan.writers
        shares = [[row for row in range(self.plan.rows) if row % writers == one] for one in range(writers)]
        messages: list[Any] = [None] * writers

        def start(name: str, one: int) -> Process:
            def work() -> None:
                message = pickle.loads(sent).write(iter([self.target.batch(shares[one])]))
                if messages[one] is None:
                    messages[one] = pickle.loads(pickle.dumps(message))

            return self.scheduler.spawn(f"driver {name} {one}", work, on_end=self._note_end)

        attempts = [start("task", one) for one in range(writers)]
        if self.scheduler.pick(2, 0.8):
            attempts.append(start("twin", 0))
        self._wait(messages, attempts)
        if None in messages:
            self._wait(messages, [start("task again", one) for one in range(writers) if messages[one] is None])
        return messages

    def _wait(self, messages: Sequence[Any], attempts: Sequence[Process]) -> None:
        self.scheduler.wait_until(lambda: None not in messages or not any(one.alive for one in attempts))

    def _child(self, name: str, work: Callable[[], object]) -> BaseException | None:
        """Runs a process, and returns how it failed."""
        process = self.scheduler.spawn(f"driver {name}", work, on_end=self._note_end)
        self.scheduler.wait_until(lambda: not process.alive)
        if process.error is None and process.name in self.scheduler.killed:
            return RetriableError(_LOST_WORKER)
        return process.error

    def _note_end(self, process: Process) -> None:
        error = process.error
        expected = RetriableError, OSError, GaveWayError, DisplacedError, DataLostError
        if error is not None and not isinstance(error, expected):
            raise Violation(f"{process.name} ends with {type(error).__name__}: {error}") from error

    # The oracles.

    def _check(self) -> None:
        is_there = any(path.endswith("/sink.json") for path in self.target.files)
        if self._is_recorded and not is_there:
            self._has_stragglers = self._others_go_on()
        self._is_recorded = is_there
        self.target.check(self.scheduler.counts, self.plan.takeovers + self.plan.finishes + 2)
        check_patience(self.scheduler, self.plan.retry_s)

    def _others_go_on(self) -> bool:
        """Returns whether others have done something since the process that has just removed the record of the write
        has looked for garbage, or may do something still.
        """
        finisher = self.scheduler.trace[-1][0].partition("/")[0]
        if self.scheduler.in_flight or any(
            one.root.name not in ("driver", finisher) for one in self.scheduler.processes
        ):
            return True
        for who, what, how in reversed(self.scheduler.trace):
            if who.partition("/")[0] != finisher or how.startswith("a late call lands"):
                return True
            if _LOOK.fullmatch(what):
                return False
        return True

    def _check_end(self) -> None:
        missing = self.target.missing(range(self.plan.rows))
        if missing and len(missing) < self.plan.rows:
            raise Violation(f"rows {missing} are missing, and others are visible: {self.told!r}")
        if missing and self.told == "":
            raise Violation("the write has succeeded, and nothing of it is visible")
        is_certain = self.told not in (None, "", _LOST_WORKER) and not any(one in str(self.told) for one in _UNKNOWN)
        if is_certain and not missing:
            raise Violation(f"the rows are visible, and the user was told to write them again: {self.told}")
        # What a process does once the record of the write is gone stays hidden, and nothing looks for it any more.
        if not self._has_stragglers and (left := self.target.left()):
            raise Violation(f"{left} stays forever")


def search_writes(seeds: Iterable[int], make_target: MakeFileTarget) -> Report:
    """Runs the writes of ``seeds``, until one fails. Logs are not kept quiet."""
    return _searched(seeds, make_target, set())


def check_writes(make_target: MakeFileTarget, schedules: int) -> None:
    """Runs writes under random schedules. Raises AssertionError with the first that fails, or if all end in one way."""
    told: set[str | None] = set()
    first = random.randrange(1 << 40)
    logging.disable(logging.CRITICAL)
    try:
        report = _searched(range(first, first + schedules), make_target, told)
    finally:
        logging.disable(logging.NOTSET)
    assert not report.failures, str(report.failures[0])
    assert told == {None, "", "failed"}, told


def _searched(seeds: Iterable[int], make_target: MakeFileTarget, told: set[str | None]) -> Report:
    """Adds to ``told`` what the users of the writes were told."""
    report = Report()
    for seed in seeds:
        failure = run_write(seed, make_target, SeededChoices(seed), report, told)
        if failure is not None:
            report.failures.append(shortest(failure, partial(run_write, seed, make_target)))
            break
    return report


def run_write(
    seed: int,
    make_target: MakeFileTarget,
    choices: Choices,
    report: Report | None = None,
    told: set[str | None] | None = None,
) -> Failure | None:
    """Runs one write to its end: what it violates, if it does. Adds to ``told`` what its user was told."""
    world = BatchWorld(choices, plan_of(seed), make_target)
    try:
        world.run()
    except Violation as violation:
        return Failure(seed, str(violation), choices.made, world.scheduler.trace)
    if report is not None:
        report.add(world.scheduler, world.target.links())
    if told is not None:
        told.add(world.told if world.told in (None, "") else "failed")
    return None
