"""A real S3 server, and a small engine that takes a file sink through the protocol and can be crashed anywhere."""

from __future__ import annotations

import copy
import os
import pickle
import re
import sys
import uuid
import zlib
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from penstock.metrics import Metrics
from penstock.sink import Found, Kept, SinkContext, WriterContext
from penstock.testing._disks import without_waiting_for_disks
from penstock_filesystem.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions
from penstock_filesystem.sink import create_sink
from penstock_filesystem.source import FileSystemSource
from suite.sources import read_splits

MINUTE = 60_000_000_000


@pytest.fixture(autouse=True)
def _no_waiting_for_disks(monkeypatch):
    without_waiting_for_disks(monkeypatch)


@pytest.fixture
def s3_path(s3_server):
    """A prefix in a bucket of the test's own, as (url, bucket, client)."""
    bucket = f"b{uuid.uuid4().hex[:12]}"
    s3_server.client.create_bucket(Bucket=bucket)
    return f"s3://{bucket}/out", bucket, s3_server.client


class SinkQuery:
    """Batches through a file sink: tasks roll and write, the results are decided, stored, read back and committed.

    ``states`` holds the stored form of what the last decision carries on. Decisions survive ``restart``.
    """

    def __init__(self, path, schema, query_id="q1", tasks=2, **options):
        self.schema, self.query_id, self.tasks = schema, query_id, tasks
        self.now = 1_700_000_000_000_000_000
        texts = {"path": str(path), **{name.replace("_", "."): str(text) for name, text in options.items()}}
        self.sink = create_sink(SinkOptions.from_values(SINK_OPTIONS.parse(texts, owner="sink")), schema)
        self.sink.validate_schema(schema)
        self.metrics = Metrics()
        self.batch, self.sequence = 0, 0
        self.states, self.decided = [], []

    def task_sink(self):
        sink = pickle.loads(pickle.dumps(self.sink))
        sink.clock = lambda: self.now
        return sink

    def context(self, task=0, **changes):
        fields = {"base": self.batch, "batch_id": self.batch, "writer_index": task, "attempt_id": uuid.uuid4().hex}
        fields |= {"sequence": self.sequence, "metrics": self.metrics, **changes}
        return WriterContext(self.query_id, self.schema, **fields)

    def write(self, rows, task=0):
        """One attempt of one task; what it prepared."""
        writer = self.task_sink().create_writer(self.context(task))
        for batch in rows:
            writer.write(batch)
        prepared = writer.prepare_commit()
        writer.close()
        return prepared

    def roll(self, finish=False, task=None):
        """What the roller of one task (or of the driver) makes of the states it owns."""
        sink = self.task_sink()
        states = [self.sink.state_serializer.unpack(stored) for stored in self.states]
        mine = [
            (stored, state)
            for stored, state in zip(self.states, states, strict=True)
            if task is None or zlib.crc32(sink.owner_key(state).encode()) % self.tasks == task
        ]
        used = sum(p.sequences_used for p in self.decided)
        roller = sink.create_roller(self.context(task or 0, sequence=self.sequence + used))
        rolled = roller.roll([state for _, state in mine], finish=finish)
        roller.close()
        return [([mine[index][0] for index in one.consumed], one) for one in rolled]

    def decide(self, prepared=(), rolled=()):
        """The decision: committables to publish (stored form), and the new states."""
        pack = self.sink.committable_serializer.pack
        consumed = [id(stored) for stores, _ in rolled for stored in stores]
        self.states = [stored for stored in self.states if id(stored) not in consumed]
        everything = [*prepared, *(one for _, one in rolled)]
        self.states += [self.sink.state_serializer.pack(state) for one in everything for state in one.states]
        self.sequence += max((one.sequences_used for one in prepared), default=0)
        self.sequence += sum(one.sequences_used for _, one in rolled)
        self.batch += 1
        return [pack(committable) for one in everything for committable in one.committables]

    def committer(self):
        return self.sink.create_committer(SinkContext(self.query_id, self.schema, self.metrics))

    def commit(self, stored, committer=None):
        """Looks, then publishes: what became of each, ``published`` by this call, ``already`` before it, or ``lost``.

        Publishes what is open even if something is lost, which the protocol would not do.
        """
        committer = committer or self.committer()
        parts = [self.sink.committable_serializer.unpack(one) for one in stored]
        found = committer.look(parts)
        open_ = [part for part, state in zip(parts, found, strict=True) if state is Found.OPEN]
        published = dict(zip([part.final for part in open_], committer.publish(open_), strict=True))
        words = {Found.COMMITTED: "already", Found.LOST: "lost"}
        return [
            "published" if published.get(part.final) is Found.COMMITTED else words[published.get(part.final, state)]
            for part, state in zip(parts, found, strict=True)
        ]

    def live(self):
        return [self.sink.state_serializer.unpack(stored) for stored in self.states]

    def clean_up(self):
        return self.committer().clear(Kept(base=self.batch, generation=0, states=self.live()))

    def run(self, *rows_by_task):
        """A whole batch without accident; the outcomes of its commit."""
        rolled = [one for task in range(self.tasks) for one in self.roll(task=task)]
        prepared = [self.write(rows, task) for task, rows in enumerate(rows_by_task)]
        return self.commit(self.decide(prepared, rolled))

    def finish(self):
        return self.commit(self.decide(rolled=self.roll(finish=True)))

    def snapshot(self):
        """What a restart would find in the decision log."""
        return copy.copy(self.states), self.batch, self.sequence

    def restart(self, snapshot):
        self.states, self.batch, self.sequence = copy.copy(snapshot[0]), snapshot[1], snapshot[2]


@pytest.fixture
def sink_query():
    """Builds a :class:`SinkQuery`."""
    return SinkQuery


@pytest.fixture
def numbers():
    """Builds a batch of one column ``id`` with the given numbers, padded to about ``width`` bytes a row by ``note``."""
    return lambda ids, width=0: pa.RecordBatch.from_pydict(
        {"id": pa.array(list(ids), pa.int64()), "note": pa.array([f"{i:0{width}d}" for i in ids], pa.string())}
    )


@pytest.fixture
def visible():
    """Finished files below a local directory, as any lister that skips hidden names sees them."""

    def listed(path):
        found = []
        for directory, names, files in os.walk(path):
            names[:] = [name for name in names if not name.startswith(".")]
            found += [os.path.join(directory, name) for name in files if not name.startswith((".", "_"))]
        return sorted(found)

    return listed


class SourceHarness:
    """Builds file sources and plays the engine for them: an enumerator context, batches by limit, reading splits."""

    def __init__(self):
        self.metrics = Metrics()
        self.contexts = []

    def source(self, path, **options):
        texts = {re.sub("^(s3|azure|gcs)_", r"\1.", name): str(value) for name, value in options.items()}
        return FileSystemSource(
            SourceOptions.from_values(SOURCE_OPTIONS.parse({"path": str(path), **texts}, owner="source"))
        )

    def context(self):
        context = SourceContext(self.metrics)
        self.contexts.append(context)
        return context

    def splits(self, source):
        return list(source.list_splits(self.context()))

    def read_splits(self, source, splits, schema):
        """A table of the rows of ``splits``, read by a copy of the source as a task would get it."""
        return pa.Table.from_batches(read_splits(source, splits, schema, self.metrics), schema)

    def read(self, source, schema=None):
        return self.read_splits(source, self.splits(source), schema or source.fixed_schema())

    def rows(self, path, schema, **options):
        """Rows of everything below ``path`` as tuples; ``schema`` as a list of (name, type)."""
        table = self.read(self.source(path, **options), pa.schema(schema))
        return [tuple(row.values()) for row in table.to_pylist()]

    def batch(self, enumerator, limits):
        """What the engine's adapter takes for one micro-batch."""
        splits, groups, size = [], set(), 0
        while limits.max_bytes is None or size < limits.max_bytes:
            if limits.max_groups is not None and len(groups) >= limits.max_groups:
                break
            split = enumerator.handle_split_request()
            if split is None:
                break
            splits.append(split)
            groups.add(split.group)
            size += split.size_bytes
        return splits


class SourceContext:
    """An enumerator context: calls run in a thread when a test says ``run_calls``, or while it waits for handlers."""

    def __init__(self, metrics):
        self.metrics = metrics
        self.calls = []
        self.intervals = []

    def call_async(self, call, handler, *, interval_ms=None):
        self.calls.append((call, handler))
        self.intervals.append(interval_ms)

    def run_calls(self):
        for call, handler in self.calls:
            with ThreadPoolExecutor(1) as pool:
                future = pool.submit(call)
                error = future.exception()
            handler(None if error else future.result(), error)

    def await_handlers(self, until, timeout_ms):
        if not until():
            self.run_calls()
        return until()


@pytest.fixture
def calls_made():
    """``calls_made(work)``: how many functions it calls, in Python and C, in this thread: the same anywhere."""

    def count(work):
        calls = 0

        def seen(frame, event, argument):
            nonlocal calls
            calls += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(seen)
        try:
            work()
        finally:
            sys.setprofile(before)
        return calls

    return count


@pytest.fixture
def source_harness():
    """A :class:`SourceHarness`."""
    return SourceHarness()
