"""One query in a simulated world: an engine as Spark is, and everything that happens around it.

The engine writes ``offsets/<N>`` before a batch is planned and ``commits/<N>`` after its commit, both into the store of
the checkpoint. Planning and committing have memories of their own, as the processes of a session have. Tasks are
processes; when their driver dies they may continue as zombies.
"""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from penstock._commit import (
    Batch,
    Chain,
    DisplacedError,
    EngineLog,
    GaveWayError,
    RunMemory,
    TaskResult,
    TwoPhaseCommit,
    run_task,
)
from penstock.checkpoint import BatchInFunction, SparkLog
from penstock.errors import BadConfigurationError, FatalError, RetriableError
from penstock.retry import RetryPolicy
from penstock.sink import CheckpointLocation, SinkContext, WriterContext
from penstock.system import system
from penstock.system import use as use_system
from penstock.testing.simulation._choices import Choices
from penstock.testing.simulation._pieces import PieceTarget
from penstock.testing.simulation._scheduler import Event, Faults, Process, Scheduler, SimulatedSystem, Stuck
from penstock.testing.simulation._storage import SimulatedStorage
from penstock.testing.simulation._target import KeptLinks, SimulatedTarget, Violation, check_patience, use

__all__ = ["Plan", "World"]

_CHECKPOINT = "/ck"
_DECISIONS = f"{_CHECKPOINT}/penstock/decisions/"
_CLOCK_JUMP_US = 600_000_000


@dataclass
class Plan:
    """What may happen in a world, and how often."""

    rows: int = 6
    writers: int = 2
    rows_per_writer: int = 1
    second_drivers: int = 1
    rolls: int = 2
    finishes: int = 1
    takeovers: int = 1
    #: How often the power fails: every process is gone, and what was written last without waiting for the disk.
    power_failures: int = 0
    #: How many runs end in order before all rows are read, as ``availableNow`` runs do.
    ends: int = 1
    #: How often the newest of Spark's own logs are deleted while the query is down.
    rewinds: int = 0
    #: What may happen to the target system.
    target_events: int = 1
    #: By how much the clock of a driver's machine may be behind (s).
    slow_clocks_s: int = 30
    #: How often the clock of a machine is set while its process runs: by ten minutes, forwards or back.
    clock_jumps: int = 0
    #: Whether batches differ in size, replays share their rows out otherwise, and tasks get twins.
    is_varied: bool = True
    faults: Faults = field(default_factory=Faults)
    #: For how long what fails is tried again in the same process (s).
    retry_s: float = 0.0
    #: Whether a batch function writes, whose session may start the query again.
    in_batch: bool = False
    #: How often a query is started after faults have stopped, before it must have come to its end.
    patience: int = 6


class World:
    """Runs one schedule to its end. Raises Violation."""

    def __init__(
        self, choices: Choices, plan: Plan, make_target: Callable[[Scheduler], SimulatedTarget] = PieceTarget
    ) -> None:
        self.plan = plan
        self._retry = RetryPolicy(plan.retry_s)
        self.scheduler = Scheduler(choices, plan.faults)
        self.storage = SimulatedStorage(self.scheduler)
        self.target = make_target(self.scheduler)
        self.target.links = KeptLinks(self.storage.inner.files, _DECISIONS)
        self.query_id = self.target.query_id
        self.sink = self.target.create_sink().start(self._context())
        self.drivers: list[Process] = []
        self.helpers: list[Process] = []
        self.tasks: list[Process] = []
        self.errors: list[str] = []
        self.starts = 0
        self.is_finished = False
        self._left = Counter(
            second=plan.second_drivers,
            roll=plan.rolls,
            finish=plan.finishes,
            take_over=plan.takeovers,
            rewind=plan.rewinds,
            end=plan.ends,
            power=plan.power_failures,
            target=plan.target_events,
            clock=plan.clock_jumps,
        )
        self._must_restore = False
        self.scheduler.events = self._events()
        self.scheduler.after_step = self._check

    # The schedule.

    def run(self) -> None:
        """The whole of it: with faults, then without."""
        use(self.target)
        use_system(SimulatedSystem(self.scheduler))
        try:
            self._start_driver()
            self.scheduler.run(lambda: self.is_finished or self.starts > 12)
            self.scheduler.stop_faults()
            self._left.clear()
            self._recover()
            self._check_end()
        except Stuck as error:
            raise Violation(str(error)) from None
        finally:
            self.scheduler.close()
            use_system(None)

    def _recover(self) -> None:
        """Faults have stopped. The query comes to its end by itself, and ``finish --take-over`` leaves nothing."""
        for _ in range(self.plan.patience):
            self.scheduler.run(lambda: not self.scheduler.processes and not self.scheduler.in_flight)
            if self.is_finished:
                break
            self._start_driver()
        else:
            raise Violation(f"the query does not recover: {self.errors[-3:]}")
        # Zombies may have left something since: the next process finds it.
        self._spawn_helper("finish --take-over", self._take_over)
        self.scheduler.run(lambda: not self.scheduler.processes and not self.scheduler.in_flight)

    # What happens around.

    def _events(self) -> list[Event]:
        def may(what: str, condition: Callable[[], bool] = lambda: True) -> Callable[[], bool]:
            return lambda: self._left[what] > 0 and condition()

        def once(what: str, do: Callable[[], object]) -> Callable[[], None]:
            def happen() -> None:
                self._left[what] -= 1
                do()

            return happen

        has_begun = lambda: f"{_CHECKPOINT}/metadata" in self.storage.inner.files  # noqa: E731
        return [
            Event(
                "the query is started",
                lambda: not self.is_finished and not any(one.alive for one in self.drivers),
                self._start_driver,
                is_fault=False,
            ),
            Event(
                "the query is started a second time",
                may("second", lambda: any(one.alive for one in self.drivers)),
                once("second", self._start_driver),
            ),
            Event(
                "the listener hears that the query is idle",
                may("roll", has_begun),
                once("roll", lambda: self._spawn_helper("listener", lambda: self._roll(finish=False))),
            ),
            Event(
                "penstock finish is called",
                may("finish", has_begun),
                once("finish", lambda: self._spawn_helper("finish", lambda: self._roll(finish=True))),
            ),
            Event(
                "penstock finish --take-over is called",
                may("take_over", has_begun),
                once("take_over", lambda: self._spawn_helper("finish --take-over", self._take_over)),
            ),
            Event("the power fails", may("power", has_begun), once("power", self._lose_power)),
            Event(
                "a person deletes the newest of Spark's logs",
                may("rewind", lambda: not self.scheduler.processes and bool(self._spark_numbers("commits"))),
                once("rewind", self._rewind),
            ),
            Event(
                "the clock of a machine is set",
                may("clock", lambda: bool(self.scheduler.processes)),
                once("clock", self._set_clock),
            ),
            *(
                replace(one, may_happen=may("target", one.may_happen), happen=once("target", one.happen))
                for one in self.target.events()
            ),
        ]

    def _spark_numbers(self, directory: str) -> list[int]:
        return [int(name) for name in self.storage.inner.list_names(f"{_CHECKPOINT}/{directory}")]

    def _lose_power(self) -> None:
        self.scheduler.lose_power()
        if self.storage.volatile is not None:
            self.storage.inner.delete([self.storage.volatile])

    def _set_clock(self) -> None:
        roots = list(dict.fromkeys(process.root for process in self.scheduler.processes))
        process = roots[self.scheduler.choices.pick(len(roots), 1 / len(roots))]
        process.skew_us += (_CLOCK_JUMP_US, -_CLOCK_JUMP_US)[self.scheduler.choices.pick(2, 0.5)]

    def _rewind(self) -> None:
        newest = max(self._spark_numbers("offsets"))
        self.storage.inner.delete(f"{_CHECKPOINT}/{directory}/{newest}" for directory in ("offsets", "commits"))

    def _restore(self) -> None:
        """Does what the error asks for: ``penstock restore-offsets``."""
        chain = Chain(self.storage.inner, f"{_CHECKPOINT}/penstock/decisions")
        batch = chain.head().link.batch
        offsets = {link.batch: link.offsets for link in chain.links() if link.offsets}
        SparkLog(self.storage.inner, _CHECKPOINT).restore(Batch(batch, offsets[batch]))
        self._must_restore = False

    def _spawn_helper(self, name: str, work: Callable[[], object]) -> None:
        self.helpers.append(
            self.scheduler.spawn(f"{name} {len(self.helpers)}", work, on_end=lambda process: self._note_end(process))
        )

    def _protocol(self, memory: RunMemory | None = None, chain: Chain | None = None) -> TwoPhaseCommit:
        return TwoPhaseCommit(
            self.sink,
            self._context(),
            chain or self._chain(),
            memory,
            session=self._session(),
            in_batch=self.plan.in_batch,
        )

    def _session(self) -> str:
        """Returns that of the process which runs: drivers have one each; helpers, and queries without one, none."""
        name = self.scheduler.current.name
        return name if self.plan.in_batch and name.startswith("driver") else ""

    def _context(self) -> SinkContext:
        location = CheckpointLocation(self.storage.retrying(self._retry), _CHECKPOINT)
        return SinkContext(self.query_id, self.target.schema, checkpoint=location, retry=self._retry)

    def _chain(self) -> Chain:
        return Chain(self.storage, f"{_CHECKPOINT}/penstock/decisions")

    def _roll(self, *, finish: bool) -> None:
        try:
            while self._protocol().roll(finish=finish) is not None and finish:
                continue
        except GaveWayError:
            return

    def _take_over(self) -> None:
        self._protocol().take_over()

    # The engine.

    def _start_driver(self) -> None:
        if self._must_restore:
            self._restore()
        self.starts += 1
        name = f"driver {self.starts}"
        process = self.scheduler.spawn(name, lambda: self._drive(name), on_end=self._note_end)
        self.drivers.append(process)

    def _drive(self, name: str) -> None:
        # Processes of a session that plan; they take turns.
        planning = [(RunMemory(), self._chain()) for _ in range(2 if self.plan.in_batch else 1)]
        try:
            self._drive_once(name, planning)
        except (RetriableError, OSError):
            if not self.plan.in_batch or not self._vary(0.5):
                raise
            self.scheduler.current.cut_off_s = 0.0
            self._drive_once(name, planning)

    def _drive_once(self, name: str, planning: Sequence[Any]) -> None:
        committing = (RunMemory(), self._chain())
        engine_run = system().new_id() if self.plan.in_batch else ""
        self.scheduler.current.skew_us = -self._vary(0.7) * self.plan.slow_clocks_s * 1_000_000
        done = self._engine("reads commits/", lambda: self._spark_numbers("commits"))
        self._engine("writes metadata", lambda: self.storage.inner.put(f"{_CHECKPOINT}/metadata", b"{}"))
        number = max(done, default=-1) + 1
        link = None
        while (bounds := self._bounds_of(number)) is not None:
            self.scheduler.tell(bounds)
            if not self.plan.in_batch:
                link = self._run_batch(name, number, bounds, planning[0], committing)
            elif bounds[0] < bounds[1]:  # a function may leave a batch out
                self._write_in_function(name, number, bounds, planning, committing, engine_run)
            self._engine(f"notes batch {number}", partial(self._put, "commits", number, b"v1"))
            number += 1
            if self._left["end"] and self.scheduler.pick(2, 0.7):
                self._left["end"] -= 1
                if link is not None:
                    self._protocol(*committing).close(link)
                return
        if self.plan.in_batch:
            pass  # nothing is carried
        elif link is not None:
            self._protocol(*committing).close(link)
        elif self._chain().head().link.states:
            self._take_over()
        self.is_finished = True

    def _bounds_of(self, number: int) -> tuple[int, int] | None:
        stored = self.storage.inner.files.get(f"{_CHECKPOINT}/offsets/{number}")
        if stored is not None:
            start, end = json.loads(stored.splitlines()[2])
            return start, end
        before = self.storage.inner.files.get(f"{_CHECKPOINT}/offsets/{number - 1}")
        start = 0 if before is None else json.loads(before.splitlines()[2])[1]
        left = self.plan.rows - start
        if not left:
            return None
        end = start + min(left, self.plan.writers * self.plan.rows_per_writer + self._vary(0.7))
        if self.plan.in_batch and self._vary(0.8):
            end = start
        offsets = f'v1\n{{"batchTimestampMs":{self.scheduler.clock_us // 1000}}}\n{json.dumps([start, end])}'.encode()
        self._engine(f"writes offsets/{number} {start}–{end}", lambda: self._put("offsets", number, offsets))
        return start, end

    def _write_in_function(
        self, name: str, number: int, bounds: tuple[int, int], planning: Sequence[Any], committing: Any, engine_run: str
    ) -> None:
        """Runs a batch function that writes. It may catch the error of a write that failed, and write again."""
        for failures in itertools.count():
            planner = planning[self._vary(0.7)]
            try:
                self._run_batch(name, number, bounds, planner, committing, f"{engine_run}.{failures}")
            except (RetriableError, OSError):
                if not self._vary(0.7):
                    raise
                self.scheduler.current.cut_off_s = 0.0
            else:
                break
        if hidden := self.target.missing(range(*bounds)):
            raise Violation(f"rows {hidden} of batch {number} are hidden when its write returns")

    def _run_batch(
        self, name: str, number: int, bounds: tuple[int, int], planning: Any, committing: Any, engine_run: str = ""
    ) -> Any:
        engine: EngineLog = _SparkLog(self.storage)
        if self.plan.in_batch:
            engine = BatchInFunction(SparkLog(self.storage, _CHECKPOINT), number, engine_run)
        plan = self._protocol(*planning).plan(engine)
        shift = self._vary(0.7)  # a replay may give its rows to other writers
        shares = [
            [row for row in range(*bounds) if (self.target.key_of(row) + shift) % self.plan.writers == writer]
            for writer in range(self.plan.writers)
        ]
        results: list[TaskResult | None] = [None] * self.plan.writers
        sent = pickle.dumps((self.sink, plan))
        attempts = [self._start_task(name, number, writer, sent, shares, results) for writer in range(len(shares))]
        if self._vary(0.9):  # speculation: a twin, whose result counts only if it comes first
            attempts.append(self._start_task(f"{name} twin", number, 0, sent, shares, results))
        self.scheduler.wait_until(lambda: None not in results or not any(one.alive for one in attempts))
        protocol = self._protocol(*committing)
        if None in results:
            protocol.abort(number, results)
            raise RetriableError(f"batch {number}: its tasks failed")
        try:
            return protocol.commit(number, [result for result in results if result is not None])
        except Exception:
            protocol.abort(number, results)
            raise

    def _start_task(
        self, name: str, number: int, writer: int, sent: bytes, shares: list[list[int]], results: list[Any]
    ) -> Process:
        def work() -> None:
            sink, plan = pickle.loads(sent)
            context = WriterContext(
                self.query_id,
                self.target.schema,
                batch_id=number,
                writer_index=writer,
                attempt_id=system().new_id(),
                retry=self._retry,
            )
            result = run_task(sink, plan, context, [self.target.batch(shares[writer])])
            if results[writer] is None:
                results[writer] = pickle.loads(pickle.dumps(result))

        task = self.scheduler.spawn(f"{name} task {number}.{writer}", work)
        self.tasks.append(task)
        return task

    def _vary(self, likely: float) -> int:
        return self.scheduler.pick(2, likely) if self.plan.is_varied else 0

    def _engine(self, label: str, effect: Callable[[], Any]) -> Any:
        return self.scheduler.call(f"Spark {label}", effect, may_fail=False, may_be_late=False, of="store")

    def _put(self, directory: str, number: int, data: bytes) -> None:
        if not self.storage.inner.create(f"{_CHECKPOINT}/{directory}/{number}", data):
            raise RetriableError(f"{directory}/{number} is there: multiple streaming jobs detected")

    def _note_end(self, process: Process) -> None:
        error = process.error
        if error is None:
            return
        self.errors.append(f"{process.name}: {type(error).__name__}: {error}")
        if isinstance(error, DisplacedError) and len({link.run for link in self.target.links()}) == 1:
            raise Violation(f"{process.name} says that another run has gone on, and there is none") from error
        if isinstance(error, (DisplacedError, RetriableError, OSError)):
            return
        if isinstance(error, BadConfigurationError) and "is not the batch that" in str(error) and self.starts > 1:
            return  # the query has gone on in another process
        if isinstance(error, FatalError) and "penstock restore-offsets" in str(error) and self.plan.rewinds:
            self._must_restore = True
            return
        raise Violation(f"{process.name} ends with {type(error).__name__}: {error}") from error

    def state(self) -> int:
        """Returns all that decides how the schedule can continue, as a hash that is the same in one Python process."""
        mine = (
            self.starts,
            self.is_finished,
            self._must_restore,
            self.storage.volatile,
            tuple(sorted(self._left.items())),
        )
        files = frozenset(self.storage.inner.files.items())
        return hash((self.scheduler.state(), mine, files, self.target.state()))

    # The oracles.

    def _check(self) -> None:
        self.target.check(self.scheduler.counts, self.starts + self.plan.takeovers + 1)
        check_patience(self.scheduler, self.plan.retry_s)

    def _check_end(self) -> None:
        self.target.check_end(range(self.plan.rows))
        if staged := [path for path in self.storage.inner.files if "/staged/" in path]:
            raise Violation(f"{staged} stays forever")
        head = Chain(self.storage.inner, f"{_CHECKPOINT}/penstock/decisions").head()
        if head.pending is not None or head.link.states:
            raise Violation(f"link {head.link.number} is left open")


class _SparkLog:
    def __init__(self, storage: SimulatedStorage) -> None:
        self._storage = storage

    def planned(self, expected: int | None) -> Batch:
        found = None if expected is None else self.find(expected)
        if found is None:
            found = self.find(max(int(name) for name in self._storage.list_names(f"{_CHECKPOINT}/offsets")))
        assert found is not None
        return found

    def find(self, number: int) -> Batch | None:
        try:
            return Batch(number, self._storage.read(f"{_CHECKPOINT}/offsets/{number}"))
        except FileNotFoundError:
            return None
