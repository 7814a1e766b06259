"""The file connector on an object store: the kit, crashes at every step, and Spark. Alike for each store."""

from __future__ import annotations

import contextlib
import io
import json
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.storage import Storage
from penstock.testing import SinkQuery, SinkSuite, SinkTarget, SourceOrigin, SourceSuite
from penstock_filesystem import FileSystemConnector
from suite.bad_network import BadNetwork
from suite.over_network import sink_query

__all__ = [
    "ObjectStore",
    "SinkOnStore",
    "SourceOnStore",
    "away",
    "check_replaced_driver",
    "check_spark",
    "crash_at_steps",
    "files_of",
]

_SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


@dataclass(frozen=True)
class ObjectStore:
    """A server. ``address`` is its host and port, ``url`` that of a bucket as users write it.

    ``storage`` fails at once. ``through`` returns the options of a connector that reaches the server at another
    address. ``uploads`` lists what was begun in a bucket and is no object yet, ``abort`` ends all of it.
    """

    address: str
    options: Mapping[str, str]
    storage: Storage
    new_bucket: Callable[[], str]
    url: Callable[[str], str]
    through: Callable[[str], Mapping[str, str]]
    uploads: Callable[[str], list[str]] = lambda bucket: []
    abort: Callable[[str], None] = lambda bucket: None


def files_of(storage: Storage, folder: str, *, hidden: bool = False) -> list[str]:
    """Returns the objects below a folder, those that readers see or the others."""
    return [path for path in storage.list_tree(folder) if ("/." in path.removeprefix(folder)) == hidden]


class _OverNetwork:
    """Fixtures of a suite whose connector reaches the store through a network that can fail."""

    @pytest.fixture
    def network(self, store: ObjectStore) -> Iterator[BadNetwork]:
        with BadNetwork(store.address) as network:
            yield network
            # A listing that is cut off is asked for again for seconds, and Arrow makes no other client meanwhile.
            for thread in threading.enumerate():
                if thread.name == "penstock-coordinator":
                    thread.join(10)

    @pytest.fixture
    def options(self, store: ObjectStore, network: BadNetwork) -> dict[str, str]:
        return {**store.options, **store.through(network.address)}


@contextlib.contextmanager
def away(network: BadNetwork) -> Iterator[None]:
    """No connection to the server holds, and none is made."""
    target, network.target = network.target, "127.0.0.1:1"
    network.reset()
    try:
        yield
    finally:
        network.target = target


class SinkOnStore(_OverNetwork, SinkSuite):
    """The kit's cases of a sink. The fixture ``store`` is to be given."""

    connector = FileSystemConnector
    many, most_memory_bytes = 200_000, 160 << 20

    @pytest.fixture
    def new_target(
        self, store: ObjectStore, network: BadNetwork, options: Mapping[str, str]
    ) -> Callable[[], SinkTarget]:
        """Makes targets, each in a bucket of its own."""
        storage = store.storage

        def new() -> SinkTarget:
            bucket = store.new_bucket()
            folder = f"{bucket}/out"

            def tables() -> list[pa.Table]:
                return [pq.read_table(io.BytesIO(storage.read(path)), partitioning=None) for path in files()]

            def files(*, hidden: bool = False) -> list[str]:
                return files_of(storage, folder, hidden=hidden)

            def lose() -> None:
                storage.delete(files(hidden=True))
                store.abort(bucket)

            return SinkTarget(
                {"path": f"{store.url(bucket)}/out", "format": "parquet", **options},
                read=lambda: [row for table in tables() for row in table.to_pylist()],
                hidden=lambda: files(hidden=True) + store.uploads(bucket),
                lose=lose,
                unreachable=lambda: away(network),
                read_table=lambda schema: pa.concat_tables([table.select(schema.names) for table in tables()]),
                take=lambda: storage.delete(files()),
            )

        return new


class SourceOnStore(_OverNetwork, SourceSuite):
    """The kit's cases of a source. The fixture ``store`` and the folder ``golden`` are to be given."""

    connector = FileSystemConnector
    limit = ("maxFilesPerTrigger", "4", 4)

    @pytest.fixture
    def origin(self, store: ObjectStore, network: BadNetwork, options: Mapping[str, str]) -> SourceOrigin:
        """Puts each batch of rows into an object of its own."""
        bucket = store.new_bucket()

        def put_table(table: pa.Table) -> None:
            data = io.BytesIO()
            pq.write_table(table, data)
            store.storage.put(f"{bucket}/in/{uuid.uuid4().hex}.parquet", data.getvalue())

        store.storage.put(f"{bucket}/in/_there", b"")
        where = {"path": f"{store.url(bucket)}/in", "format": "parquet", "discoveryInterval": "20ms"}
        return SourceOrigin(
            {**where, **options},
            lambda ids: put_table(pa.table({"id": pa.array(ids, pa.int64())})),
            put_table,
            unreachable=lambda: away(network),
        )


# --- crashes ----------------------------------------------------------------------------------------------------------


def _batch(ids: Sequence[int]) -> pa.RecordBatch:
    return pa.record_batch([list(ids), [f"{i:040d}" for i in ids]], schema=_SCHEMA)


_BATCHES = [[[_batch(range(n * 100 + w * 50, n * 100 + w * 50 + 50))] for w in range(2)] for n in range(3)]


def _query(store: ObjectStore, bucket: str) -> SinkQuery:
    """Makes a query whose files and checkpoint are in a bucket."""
    options = {
        **{"path": f"{store.url(bucket)}/out", "format": "json", **store.options},
        **{"bucketAssigner": "basePath", "maxPartSize": "3kb"},
    }
    return sink_query(FileSystemConnector(), options, _SCHEMA, f"{bucket}/checkpoint", store.storage)


def _check(store: ObjectStore, bucket: str) -> None:
    files = files_of(store.storage, f"{bucket}/out")
    lines = [line for path in files for line in store.storage.read(path).splitlines()]
    assert Counter(json.loads(line)["id"] for line in lines) == Counter(range(300))
    assert files_of(store.storage, f"{bucket}/out", hidden=True) + store.uploads(bucket) == []


def crash_at_steps(store: ObjectStore, stride: int) -> None:
    """Runs batches that publish, carry a part on, and finish one. A process ends at one of the first ``stride`` steps,
    in the next run ``stride`` steps later, and so on. Raises AssertionError for a row that is lost or doubled, if
    anything is left, and if there are not many steps.
    """
    step = random.randrange(stride)
    print(f"from step {step} on")
    while _crash_at(store, step):
        step += stride
    assert step > 60


def _crash_at(store: ObjectStore, step: int) -> bool:
    bucket = store.new_bucket()
    query = _query(store, bucket)
    with query.crashing_at(step) as fuse:
        query.run_all(_BATCHES)
    query.restart()
    query.run_all(_BATCHES)
    _check(store, bucket)
    return len(fuse.steps) > step


def check_replaced_driver(store: ObjectStore) -> None:
    """Raises AssertionError if a driver that slept while another one took over may still commit."""
    bucket = store.new_bucket()
    sleeper = _query(store, bucket)
    sleeper.run(0, _BATCHES[0])
    results = sleeper.tasks(1, _BATCHES[1])
    replace(sleeper, done={0}).run_all(_BATCHES)
    with pytest.raises(PenstockError, match="another run has carried this checkpoint on"):
        sleeper.commit(1, results)
    _check(store, bucket)


# --- Spark ------------------------------------------------------------------------------------------------------------


def check_spark(store: ObjectStore, spark: Any, checkpoint: str) -> None:
    """Raises AssertionError unless a stream, twice, and a batch read and write what is there. Spark's part of the
    checkpoint is on the local disk.
    """
    bucket = store.new_bucket()
    url, options = store.url(bucket), store.options
    for first in (0, 500):
        data = io.BytesIO()
        ids = list(range(first, first + 500))
        pq.write_table(pa.table({"id": ids, "day": [f"day {i % 3}" for i in ids]}), data)
        store.storage.put(f"{bucket}/in/{first}.parquet", data.getvalue())
        stream = spark.readStream.format("penstock.filesystem").options(path=f"{url}/in", format="parquet", **options)
        writer = stream.schema("id long, day string").load().writeStream.format("penstock.filesystem")
        writer = writer.options(path=f"{url}/out", format="parquet", partitionColumns="day", **options)
        writer = writer.options(delivery="exactly-once", checkpointLocation=checkpoint)
        writer.trigger(availableNow=True).start().awaitTermination()
    ours = spark.read.format("penstock.filesystem").options(path=f"{url}/out", format="parquet", **options).load()
    expected = Counter((i, f"day {i % 3}") for i in range(1000))
    assert Counter((row.id, row.day) for row in ours.collect()) == expected
    assert files_of(store.storage, f"{bucket}/out", hidden=True) == []
