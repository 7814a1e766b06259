"""The idempotent template on a real database: replays, zombies, retries, and a crash at every step."""

from __future__ import annotations

import itertools
import os
import pickle
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from penstock import system
from penstock._commit import Batch, Chain, RunMemory, TwoPhaseCommit, run_task
from penstock.errors import BadConfigurationError, BadDataError, FatalError, RetriableError, RetriesExhaustedError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock.sink import TIMESTAMPS_PER_RUN, CheckpointLocation, IdempotentSink, SinkContext, Upserter, WriterContext
from penstock.storage import LocalStorage

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
FIVE_SECONDS = RetryPolicy(5)


@dataclass(frozen=True)
class NotesSink(IdempotentSink):
    """Notes in SQLite, where the greatest timestamp wins. Each of ``faults`` is raised by one call."""

    path: str
    keys: tuple[str, ...] = ("id",)
    faults: list[BaseException] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)

    @property
    def key_columns(self):
        return self.keys

    def create_upserter(self, context):
        return NotesUpserter(self)


class NotesUpserter(Upserter):
    def __init__(self, sink):
        self.sink = sink
        self.database = sqlite3.connect(sink.path)
        self.database.execute("create table if not exists notes (id integer primary key, note text, stamp integer)")

    def upsert(self, batch, timestamp_us):
        if self.sink.faults:
            raise self.sink.faults.pop(0)
        self.sink.calls.append((batch.num_rows, timestamp_us))
        rows = [(row["id"], row["note"], timestamp_us) for row in batch.to_pylist()]
        with self.database:
            self.database.executemany(
                "insert into notes values (?, ?, ?) on conflict (id) do update set note = excluded.note, "
                "stamp = excluded.stamp where excluded.stamp > stamp",
                rows,
            )

    def close(self):
        self.database.close()


class Query:
    """A driver with its tasks; a new one on the same folder is a restart."""

    def __init__(self, folder: Path, storage=None, retry=FIVE_SECONDS, **sink):
        folder.mkdir(exist_ok=True)
        self.folder, self.sink = folder, NotesSink(str(folder / "notes.db"), **sink)
        location = CheckpointLocation(storage or LocalStorage(), str(folder / "ck"))
        context = SinkContext("q", SCHEMA, checkpoint=location)
        chain = Chain(location.storage, f"{location.path}/penstock/decisions")
        self.protocol, self.number = TwoPhaseCommit(self.sink, context, chain, RunMemory()), 0
        self.metrics, self.retry = Metrics(), retry

    def attempt(self, plan, batch_id, *batches, writer=0):
        context = WriterContext("q", SCHEMA, self.metrics, batch_id=batch_id, writer_index=writer, retry=self.retry)
        return run_task(self.sink, plan, context, iter(map(rows, batches)))

    def planned(self, expected):
        return Batch(self.number, b"%d" % self.number)

    def find(self, number):
        return Batch(number, b"%d" % number)

    def plan(self, batch_id):
        self.number = batch_id
        return self.protocol.plan(self)

    def run(self, batch_id, *batches):
        self.protocol.commit(batch_id, [self.attempt(self.plan(batch_id), batch_id, *batches)])

    def notes(self):
        with sqlite3.connect(self.folder / "notes.db") as database:
            return dict(database.execute("select id, note from notes"))


def rows(notes):
    ids, texts = zip(*notes, strict=True) if notes else ((), ())
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array(texts, pa.string())], schema=SCHEMA)


def test_the_last_row_of_a_key_stays(tmp_path):
    query = Query(tmp_path)
    query.run(0, [(1, "a"), (2, "b"), (1, "c")], [], [(2, "d"), (3, "e")])
    assert query.notes() == {1: "c", 2: "d", 3: "e"}
    assert [count for count, _ in query.sink.calls] == [2, 2], "a key comes once in a call"
    query.run(1, [(3, "f")])
    assert query.notes() == {1: "c", 2: "d", 3: "f"}
    stamps = [stamp for _, stamp in query.sink.calls]
    assert stamps == sorted(set(stamps)) and stamps[2] - stamps[0] >= TIMESTAMPS_PER_RUN


def test_an_upserter_says_which_keys_are_one(tmp_path, monkeypatch):
    """As a system whose keys are cut off, or of a type that can't be compared as it is."""

    def tens(upserter, batch, keys):
        return [pa.array([number // 10 for number in batch.column(key).to_pylist()]) for key in keys]

    monkeypatch.setattr(NotesUpserter, "comparable_keys", tens)
    query = Query(tmp_path)
    query.run(0, [(11, "a"), (21, "b"), (12, "c"), (30, "d")])
    assert query.notes() == {12: "c", 21: "b", 30: "d"}


def test_a_zombie_never_overwrites_a_later_batch(tmp_path):
    """Attempts of a driver that was given up write on, whenever they like: of the same batch and of the one before."""
    old = Query(tmp_path)
    plan_of_the_dead = old.plan(0)
    query = Query(tmp_path)
    plan = query.plan(0)
    result = query.attempt(plan, 0, [(1, "batch 0"), (2, "batch 0")])
    old.attempt(plan_of_the_dead, 0, [(1, "zombie")])
    query.protocol.commit(0, [result])
    assert query.notes() == {1: "batch 0", 2: "batch 0"}
    query.run(1, [(1, "batch 1")])
    old.attempt(plan_of_the_dead, 0, [(1, "zombie")], [(1, "zombie, later")])
    query.attempt(plan, 0, [(1, "late attempt")])
    assert query.notes() == {1: "batch 1", 2: "batch 0"}
    with pytest.raises(FatalError, match="another run"):
        old.protocol.commit(0, [old.attempt(plan_of_the_dead, 0, [(1, "zombie")])])
    assert query.notes() == {1: "batch 1", 2: "batch 0"}


def test_a_run_that_was_planned_after_the_decision_writes_nothing(tmp_path):
    query = Query(tmp_path)
    query.run(0, [(1, "a")])
    replay = Query(tmp_path)
    assert replay.attempt(replay.plan(0), 0, [(1, "again")]).planned.is_decided
    assert replay.sink.calls == [] and query.notes() == {1: "a"}


@pytest.fixture
def clock():
    class Clock(system.System):
        now = 0

        def now_us(self):
            return self.now

    clock = Clock()
    system.use(clock)
    yield clock
    system.use(None)


def test_timestamps_grow_over_restarts_and_clocks_that_go_back(tmp_path, clock):
    stamps = []
    for clock.now in (20_000_000, 10_000_000, 10_000_500, 90_000_000, 0):
        stamps.append(Query(tmp_path).plan(0).planned.write_timestamp_us)
    gaps = [later - earlier for earlier, later in itertools.pairwise(stamps)]
    assert stamps[0] == 20_000_000 and min(gaps) >= TIMESTAMPS_PER_RUN and stamps[3] == 90_000_000


def test_timestamps_grow_from_batch_to_batch_without_a_link_of_their_own(tmp_path, clock):
    query, clock.now = Query(tmp_path), 5_000_000
    for batch_id in range(4):
        clock.now += 1_000
        query.run(batch_id, [(1, str(batch_id))])
    stamps = [stamp for _, stamp in query.sink.calls]
    assert min(later - earlier for earlier, later in itertools.pairwise(stamps)) >= TIMESTAMPS_PER_RUN
    chain = query.protocol._chain
    assert [link.kind.value for link in chain.links()] == ["claim", "batch", "batch", "batch", "batch"]
    clock.now += 60_000_000  # longer than is reserved ahead
    query.run(4, [(1, "4")])
    assert [link.kind.value for link in chain.links()][-2:] == ["claim", "batch"] and query.notes() == {1: "4"}


def test_a_task_with_very_many_batches_stays_below_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("penstock.sink._idempotent.TIMESTAMPS_PER_RUN", 3)
    query = Query(tmp_path)
    query.run(0, *[[(i, "a")] for i in range(5)])
    stamps = [stamp for _, stamp in query.sink.calls]
    assert [stamp - stamps[0] for stamp in stamps] == [0, 1, 2, 2, 2]


def test_failures_that_may_pass_are_tried_again_with_the_same_timestamp(tmp_path):
    query = Query(tmp_path, faults=[RetriableError("busy"), ConnectionResetError("gone")])
    result = query.attempt(query.plan(0), 0, [(1, "a")])
    query.protocol.commit(0, [result])
    assert query.notes() == {1: "a"} and len(query.sink.calls) == 1
    assert result.metrics["retries"] == 2 and result.metrics["rows_written"] == 1


def test_failures_that_do_not_pass_fail_the_task(tmp_path):
    query = Query(tmp_path, retry=RetryPolicy(0.02), faults=[RetriableError("busy")] * 100)
    with pytest.raises(RetriesExhaustedError, match=r"writing rows: busy; tried \d+ times"):
        query.run(0, [(1, "a")])
    query = Query(tmp_path, faults=[BadDataError("row 1 is too large")])
    with pytest.raises(BadDataError, match="too large"):
        query.run(0, [(1, "a")])
    query.run(0, [(1, "a")])
    assert query.notes() == {1: "a"}


def test_keys_are_checked(tmp_path):
    query = Query(tmp_path)
    with pytest.raises(BadDataError, match=r"'id' is null in row 1 .*'note': 'b'"):
        query.run(0, [(1, "a"), (None, "b")])
    with pytest.raises(BadConfigurationError, match="no key column 'key', only: id, note"):
        NotesSink("", keys=("key",)).validate_schema(SCHEMA)
    with pytest.raises(BadConfigurationError, match="'tags' is of type array"):
        NotesSink("", keys=("tags",)).validate_schema(pa.schema([("tags", pa.list_(pa.string()))]))
    NotesSink("").validate_schema(SCHEMA)


@pytest.mark.parametrize("keys", [("id",), ("note", "id")])
def test_keys_of_several_columns(tmp_path, keys):
    query = Query(tmp_path, keys=keys)
    query.run(0, [(1, "a"), (1, "b"), (1, "a")])
    assert query.sink.calls[0][0] == (1 if keys == ("id",) else 2)


def test_the_sink_is_configuration_only():
    sink = NotesSink("x")
    assert pickle.loads(pickle.dumps(sink)) == sink


def test_a_crash_at_every_step_leaves_the_last_row_of_each_key(tmp_path, fuse_type, crash_type):
    batches = [[[(1, "a"), (2, "a")]], [[(2, "b")], [(3, "b")]], [[(1, "c")]], [[(4, "d")], [(4, "e")]]]
    expected = {1: "c", 2: "b", 3: "b", 4: "e"}

    class Storage(LocalStorage):
        fuse = fuse_type()

        def create(self, path, data):
            self.fuse.step(f"before {os.path.basename(path)}")
            written = super().create(path, data)
            self.fuse.step(f"after {os.path.basename(path)}")
            return written

        def put(self, path, data, *, durable=True):
            self.fuse.step(f"before {os.path.basename(path)}")
            super().put(path, data, durable=durable)
            self.fuse.step(f"after {os.path.basename(path)}")

    def run_all(folder, storage, first=0):
        done = first
        try:
            for batch_id in range(first, len(batches)):
                Query(folder, storage).run(batch_id, *batches[batch_id])
                done = batch_id + 1  # the engine's own note
        except crash_type:
            return done
        return done

    dry = Storage()
    run_all(tmp_path / "dry", dry)
    steps = list(dry.fuse.steps)
    assert len(steps) > 12
    for at, what in enumerate(steps):
        folder, storage = tmp_path / f"crash{at}", Storage()
        storage.fuse = fuse_type(at)
        done = run_all(folder, storage)
        assert run_all(folder, LocalStorage(), done) == len(batches)
        assert Query(folder).notes() == expected, f"after a crash {what}"
