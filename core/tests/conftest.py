"""A small two-phase sink on real files, for tests of the protocol itself, and a log in memory for the log template."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from penstock._commit import Batch, BatchPlan, Chain, RunMemory, TaskResult, TwoPhaseCommit, run_task
from penstock.errors import RetriableError
from penstock.serialization import JsonSerializer
from penstock.sink import (
    Committer,
    CommittingSinkWriter,
    Found,
    Kept,
    PreparedCommit,
    SinkContext,
    StateReplacement,
    StateRoller,
    SupportsStateRolling,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.source.log import LogClient, LogOptions, LogPartition, LogSource, LogSplit, LogState
from penstock.source.log._discovery import Discovery, discover
from penstock.source.log._enumerator import LogEnumerator
from penstock.spark._coordinator import Coordinator
from penstock.storage import LocalStorage, Storage
from penstock.testing._disks import without_waiting_for_disks

SCHEMA = pa.schema([("id", pa.int64())])


class Crash(BaseException):
    """Stands for a process that ends on the spot: nothing below catches it."""


class Fuse:
    """Blows at the ``at``-th step; counts the steps if ``at`` is None."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.steps: list[str] = []

    def step(self, what: str) -> None:
        self.steps.append(what)
        if self.at is not None and len(self.steps) == self.at + 1:
            raise Crash(what)


@dataclass(frozen=True)
class LedgerSink(TwoPhaseCommitSink, SupportsStateRolling):
    """Rows with an even writer index are published batch by batch; the others are carried until five are together."""

    root: str
    fuse: Fuse

    @property
    def committable_serializer(self) -> JsonSerializer:
        return JsonSerializer(1, lambda value: value, lambda _, value: value)

    state_serializer = committable_serializer

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter:
        return LedgerWriter(self, context)

    def create_committer(self, context: SinkContext) -> Committer:
        return LedgerCommitter(self)

    def create_roller(self, context: WriterContext) -> StateRoller:
        return LedgerRoller(self, context)


class LedgerWriter(CommittingSinkWriter):
    def __init__(self, sink: LedgerSink, context: WriterContext) -> None:
        self.sink, self.context, self.ids = sink, context, []
        self.name = f"{context.base}-{context.attempt_id}"

    def write(self, batch: pa.RecordBatch) -> None:
        self.ids += batch.column(0).to_pylist()

    def prepare_commit(self) -> PreparedCommit:
        if not self.ids:
            return PreparedCommit()
        hide(self.sink, self.name, self.ids)
        if self.context.writer_index % 2 == 0:
            return PreparedCommit(committables=[{"name": self.name, "consumed": []}], sequences_used=1)
        return PreparedCommit(states=[{"name": self.name, "rows": len(self.ids)}])

    def abort(self) -> None:
        pass


class LedgerRoller(StateRoller):
    def __init__(self, sink: LedgerSink, context: WriterContext) -> None:
        self.sink, self.context = sink, context

    def roll(self, states: Sequence[Any], *, finish: bool) -> list[StateReplacement]:
        if not finish and sum(state["rows"] for state in states) < 5:
            return []
        name = f"{self.context.base}-{self.context.attempt_id}-rolled"
        ids = [i for state in states for i in reveal(f"{self.sink.root}/.hidden/{state['name']}")]
        hide(self.sink, name, ids)
        committable = {"name": name, "consumed": [state["name"] for state in states]}
        return [StateReplacement(list(range(len(states))), committables=[committable], sequences_used=1)]

    def abort(self) -> None:
        pass


class LedgerCommitter(Committer):
    def __init__(self, sink: LedgerSink) -> None:
        self.sink = sink

    def look(self, committables: Sequence[Any]) -> list[Found]:
        return [self._look(committable["name"]) for committable in committables]

    def _look(self, name: str) -> Found:
        if os.path.exists(f"{self.sink.root}/.hidden/{name}"):
            return Found.OPEN
        return Found.COMMITTED if os.path.exists(f"{self.sink.root}/{name}") else Found.LOST

    def publish(self, committables: Sequence[Any]) -> list[Found]:
        return [self._publish(committable["name"]) for committable in committables]

    def _publish(self, name: str) -> Found:
        self.sink.fuse.step("before publish")
        try:
            os.rename(f"{self.sink.root}/.hidden/{name}", f"{self.sink.root}/{name}")
        except FileNotFoundError:
            return self._look(name)
        self.sink.fuse.step("after publish")
        return Found.COMMITTED

    def seal(self, committables: Sequence[Any]) -> None:
        self.discard(committables, [])

    def discard(self, committables: Sequence[Any], states: Sequence[Any]) -> None:
        for left in (*committables, *states):
            self.sink.fuse.step("discard")
            Path(f"{self.sink.root}/.hidden/{left['name']}").unlink(missing_ok=True)

    def are_there(self, states: Sequence[Any]) -> list[bool]:
        return [os.path.exists(f"{self.sink.root}/.hidden/{state['name']}") for state in states]

    def clear(self, kept: Kept) -> int:
        named = {left["name"] for left in (*kept.committables, *kept.states)}
        names = os.listdir(f"{self.sink.root}/.hidden") if os.path.isdir(f"{self.sink.root}/.hidden") else []
        dead = [name for name in names if name not in named and int(name.split("-")[0]) < kept.base]
        for name in dead:
            self.sink.fuse.step("clear")
            os.unlink(f"{self.sink.root}/.hidden/{name}")
        return len(dead)


def hide(sink: LedgerSink, name: str, ids: Iterable[int]) -> None:
    os.makedirs(f"{sink.root}/.hidden", exist_ok=True)
    Path(f"{sink.root}/.hidden/{name}").write_text("".join(f"{i}\n" for i in ids))


def reveal(path: str) -> list[int]:
    return [int(line) for line in Path(path).read_text().splitlines()]


class FusedStorage(LocalStorage):
    """Local files with a fuse before and after every write."""

    def __init__(self, fuse: Fuse) -> None:
        self.fuse = fuse

    def create(self, path: str, data: bytes) -> bool:
        self.fuse.step(f"before create {os.path.basename(path)}")
        written = super().create(path, data)
        self.fuse.step(f"after create {os.path.basename(path)}")
        return written

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.fuse.step(f"before put {os.path.basename(path)}")
        super().put(path, data, durable=durable)
        self.fuse.step(f"after put {os.path.basename(path)}")


class Query:
    """A driver with its tasks, without Spark: plans, runs attempts, commits; can be 'restarted' on the same files.

    ``engine`` holds what Spark has planned: the offsets of each batch. It outlives a restart if it is handed on.
    """

    def __init__(self, root: Path, fuse: Fuse | None = None, engine: dict[int, bytes] | None = None) -> None:
        self.root, self.fuse = root, fuse or Fuse()
        self.engine = engine if engine is not None else {}
        self.sink = LedgerSink(str(root / "out"), self.fuse)
        self.storage: Storage = FusedStorage(self.fuse)
        self.chain = Chain(self.storage, str(root / "ck"))
        self.memory = RunMemory()
        os.makedirs(root / "out", exist_ok=True)

    @property
    def protocol(self) -> TwoPhaseCommit:
        chain = Chain(self.storage, self.chain.directory)
        return TwoPhaseCommit(self.sink, SinkContext("q", SCHEMA), chain, self.memory)

    def planned(self, expected: int | None) -> Batch:
        return Batch(max(self.engine), self.engine[max(self.engine)])

    def find(self, number: int) -> Batch | None:
        return Batch(number, self.engine[number]) if number in self.engine else None

    def plan(self, batch_id: int) -> BatchPlan:
        self.engine = {number: offsets for number, offsets in self.engine.items() if number < batch_id} | {
            batch_id: self.engine.get(batch_id, b"v1 %d" % batch_id)
        }
        return self.protocol.plan(self)

    def attempt(self, plan: BatchPlan, batch_id: int, writer: int, ids: Sequence[int]) -> TaskResult:
        context = WriterContext("q", SCHEMA, batch_id=batch_id, writer_index=writer, attempt_id=os.urandom(16).hex())
        return run_task(self.sink, plan, context, iter([pa.record_batch([pa.array(ids, pa.int64())], schema=SCHEMA)]))

    def tasks(self, batch_id: int, shares: Sequence[Sequence[int]]) -> list[TaskResult]:
        plan = self.plan(batch_id)
        return [self.attempt(plan, batch_id, writer, ids) for writer, ids in enumerate(shares)]

    def run(self, batch_id: int, shares: Sequence[Sequence[int]]) -> None:
        self.protocol.commit(batch_id, self.tasks(batch_id, shares))

    def visible(self) -> list[int]:
        paths = [path for path in (self.root / "out").iterdir() if path.is_file()]
        return sorted(i for path in paths for i in reveal(str(path)))

    def hidden(self) -> list[str]:
        folder = self.root / "out" / ".hidden"
        return sorted(os.listdir(folder)) if folder.exists() else []


@pytest.fixture(scope="session", autouse=True)
def disks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        without_waiting_for_disks(patch)
        yield


@pytest.fixture
def no_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets this process see no installed connector."""
    for name in ("_installed_in", "_installed"):
        monkeypatch.setattr(f"penstock._plugins.{name}", lambda *places: ())


@pytest.fixture
def new_query(tmp_path: Path) -> Callable[..., Query]:
    return lambda *args, **kwargs: Query(tmp_path, *args, **kwargs)


@pytest.fixture
def fuse_type() -> type[Fuse]:
    return Fuse


@pytest.fixture
def crash_type() -> type[Crash]:
    return Crash


class MemoryLog(LogClient):
    """A log in memory with everything that can happen to one. A record's time in seconds is its offset."""

    def __init__(self) -> None:
        self.streams: dict[str, tuple[str, list[list[int]]]] = {}  # incarnation, [first offset, end] by partition
        self.made: dict[str, int] = {}
        self.groups: dict[str, dict[LogPartition, int]] = {}
        self.commits: list[dict[LogPartition, int]] = []
        self.unreadable_from: dict[LogPartition, int] = {}
        self.named: list[str] = []
        self.selected: set[LogPartition] | None = None
        self.broken: Exception | None = None
        self.broken_commit: Exception | None = None
        self.fail_next = self.asked_latest = 0
        self.may_commit = threading.Event()
        self.may_commit.set()
        self.on_latest: Callable[[], None] = lambda: None
        self.context = Coordinator()

    # What happens to it.

    def make(self, stream: str, *records: int) -> None:
        self.made[stream] = self.made.get(stream, 0) + 1
        self.streams[stream] = (f"{stream}/{self.made[stream]}", [[0, count] for count in records])

    def delete(self, stream: str) -> None:
        del self.streams[stream]

    def grow(self, stream: str, partitions: int, records: int = 0) -> None:
        bounds = self.streams[stream][1]
        bounds += [[0, records] for _ in range(partitions - len(bounds))]

    def append(self, partition: LogPartition, records: int) -> None:
        self._bounds(partition)[1] += records

    def drop(self, partition: LogPartition, before: int) -> None:
        self._bounds(partition)[0] = before

    def truncate(self, partition: LogPartition, end: int) -> None:
        self._bounds(partition)[1] = end

    def _bounds(self, partition: LogPartition) -> list[int]:
        return self.streams[partition.stream][1][partition.partition]

    # What the template asks it.

    def list_partitions(self) -> dict[str, tuple[str, int]]:
        if self.broken is not None:
            raise self.broken
        return {stream: (incarnation, len(bounds)) for stream, (incarnation, bounds) in self.streams.items()}

    def selects(self, partition: LogPartition) -> bool:
        return self.selected is None or partition in self.selected

    def absent(self, found: Iterable[LogPartition]) -> list[str]:
        return sorted(set(self.named) - {partition.stream for partition in found})

    def _there(self, partitions: Iterable[LogPartition]) -> dict[LogPartition, list[int]]:
        return {p: self._bounds(p) for p in partitions if p.stream in self.streams}

    def earliest(self, partitions: Iterable[LogPartition]) -> dict[LogPartition, int]:
        return {p: first for p, (first, _) in self._there(partitions).items()}

    def latest(self, partitions: Iterable[LogPartition]) -> dict[LogPartition, int]:
        self.asked_latest += 1
        if self.fail_next:
            self.fail_next -= 1
            raise RetriableError("not now")
        ends = {p: min(end, self.unreadable_from.get(p, end)) for p, (_, end) in self._there(partitions).items()}
        self.on_latest()
        return ends

    def end(self, partitions: Iterable[LogPartition]) -> dict[LogPartition, int]:
        return {p: end for p, (_, end) in self._there(partitions).items()}

    def at_timestamp(self, times_ms: dict[LogPartition, int]) -> dict[LogPartition, int | None]:
        found = {p: (max(first, times_ms[p] // 1000), end) for p, (first, end) in self._there(times_ms).items()}
        return {p: at if at < end else None for p, (at, end) in found.items()}

    def committed(self, group: str, partitions: Iterable[LogPartition]) -> dict[LogPartition, int | None]:
        return {p: self.groups.get(group, {}).get(p) for p in partitions}

    def commit(self, group: str, positions: dict[LogPartition, int]) -> None:
        assert self.may_commit.wait(60)
        if self.broken_commit is not None:
            raise self.broken_commit
        self.groups.setdefault(group, {}).update(positions)
        self.commits.append(dict(self.groups[group]))

    def close(self) -> None:
        pass

    # Template parts on it.

    def source(self, **options: Any) -> LogSource:
        log = self

        class MemorySource(LogSource):
            log_options = LogOptions(**{"retry_interval_ms": 0, **options})
            create_reader = create_emitter = None

            def create_client(self) -> LogClient:
                return log

        return MemorySource()

    def batch(self, **options: Any) -> list[LogSplit]:
        return list(self.source(**options).list_splits(self.context))

    def enumerate(self, state: LogState | None = None, *, discover: bool = True, **options: Any) -> LogEnumerator:
        """An enumerator that looks for partitions only when told to (:meth:`discover`), and once now."""
        enumerator = self.source(**{"retries": 0, **options}).create_enumerator(self.context, state)
        if discover:
            self.discover(enumerator)
        return enumerator

    def look(self) -> Discovery:
        return discover(self)

    def discover(self, enumerator: LogEnumerator) -> None:
        try:
            found, error = self.look(), None
        except RetriableError as failure:
            found, error = None, failure
        enumerator._on_discovery(found, error)


@pytest.fixture
def new_log() -> type[MemoryLog]:
    return MemoryLog


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The enumerator's clock, standing still until a test moves it."""
    clock = SimpleNamespace(now=1000.0)
    fake = SimpleNamespace(monotonic=lambda: clock.now, sleep=lambda seconds: None)
    monkeypatch.setattr("penstock.source.log._enumerator.time", fake)
    return clock
