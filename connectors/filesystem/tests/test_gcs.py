"""Files on Google Cloud Storage, read and written: the kit, crashes at every step, and Spark."""

from __future__ import annotations

import contextlib
import io
import json
import random
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite
from penstock_filesystem import FileSystemConnector
from suite.bad_network import BadNetwork
from suite.over_network import sink_query as query_of

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
GOLDEN = Path(__file__).parent / "golden"
AS_ON_A_DISK = pytest.mark.exhaustive("the kit on another storage; test_sink_gcs.py has that storage")


@pytest.fixture
def network(gcs_server):
    """Between the connector and the server."""
    with BadNetwork(gcs_server.endpoint.split("/")[2]) as network:
        yield network


@pytest.fixture
def options(gcs_server, network):
    """As users give them, through the network."""
    return {**gcs_server.options(), "gcs.endpoint": f"http://{network.address}"}


@contextlib.contextmanager
def away(network):
    """No connection to the server holds, and none is made."""
    target, network.target = network.target, "127.0.0.1:1"
    network.reset()
    try:
        yield
    finally:
        network.target = target


def files_of(storage, folder, *, hidden=False):
    return [path for path in storage.list_tree(folder) if ("/." in path.removeprefix(folder)) == hidden]


@AS_ON_A_DISK
@pytest.mark.timeout(1000)
class TestSink(SinkSuite):
    connector = FileSystemConnector
    many, most_memory_bytes = 200_000, 160 << 20

    @pytest.fixture
    def new_target(self, gcs_server, network, options):
        storage = gcs_server.storage()

        def new():
            bucket = gcs_server.new_bucket()
            folder = f"{bucket}/out"

            def tables():
                return [pq.read_table(io.BytesIO(storage.read(path)), partitioning=None) for path in files()]

            def files(*, hidden=False):
                return files_of(storage, folder, hidden=hidden)

            return SinkTarget(
                {"path": f"{gcs_server.url(bucket)}/out", "format": "parquet", **options},
                read=lambda: [row for table in tables() for row in table.to_pylist()],
                hidden=lambda: files(hidden=True),
                lose=lambda: storage.delete(files(hidden=True)),
                unreachable=lambda: away(network),
                read_table=lambda schema: pa.concat_tables([table.select(schema.names) for table in tables()]),
                take=lambda: storage.delete(files()),
            )

        return new


@AS_ON_A_DISK
class TestSource(SourceSuite):
    connector = FileSystemConnector
    golden = GOLDEN
    limit = ("maxFilesPerTrigger", "4", 4)

    @pytest.fixture
    def origin(self, gcs_server, network, options):
        storage, bucket = gcs_server.storage(), gcs_server.new_bucket()

        def put_table(table):
            data = io.BytesIO()
            pq.write_table(table, data)
            storage.put(f"{bucket}/in/{uuid.uuid4().hex}.parquet", data.getvalue())

        storage.put(f"{bucket}/in/_there", b"")
        where = {"path": f"{gcs_server.url(bucket)}/in", "format": "parquet", "discoveryInterval": "20ms"}
        return SourceOrigin(
            {**where, **options},
            lambda ids: put_table(pa.table({"id": pa.array(ids, pa.int64())})),
            put_table,
            unreachable=lambda: away(network),
        )


def batch(ids):
    return pa.record_batch([list(ids), [f"{i:040d}" for i in ids]], schema=SCHEMA)


BATCHES = [[[batch(range(n * 100 + w * 50, n * 100 + w * 50 + 50))] for w in range(2)] for n in range(3)]


@pytest.fixture
def new_query(gcs_server):
    """Makes a query whose files and checkpoint are in a bucket."""

    def new(bucket):
        options = {
            **{"path": f"{gcs_server.url(bucket)}/out", "format": "json", **gcs_server.options()},
            **{"bucketAssigner": "basePath", "maxPartSize": "3kb"},
        }
        return query_of(FileSystemConnector(), options, SCHEMA, f"{bucket}/checkpoint", gcs_server.storage())

    return new


def check(storage, bucket):
    lines = [line for path in files_of(storage, f"{bucket}/out") for line in storage.read(path).splitlines()]
    assert Counter(json.loads(line)["id"] for line in lines) == Counter(range(300))
    assert files_of(storage, f"{bucket}/out", hidden=True) == []


def crash_at(step, new_query, server):
    """Returns whether there is such a step."""
    bucket = server.new_bucket()
    query = new_query(bucket)
    with query.crashing_at(step) as fuse:
        query.run_all(BATCHES)
    query.restart()
    query.run_all(BATCHES)
    check(server.storage(), bucket)
    return len(fuse.steps) > step


@pytest.mark.budget(60)
@pytest.mark.parametrize(
    "stride", [20, pytest.param(1, marks=pytest.mark.exhaustive("all steps; each run of the others takes some"))]
)
def test_a_crash_at_many_steps(gcs_server, new_query, stride):
    """Of batches that publish, carry a part on, and finish one."""
    step = random.randrange(stride)
    print(f"from step {step} on")
    while crash_at(step, new_query, gcs_server):
        step += stride
    assert step > 60


def test_a_driver_that_was_replaced_is_refused(gcs_server, new_query):
    bucket = gcs_server.new_bucket()
    sleeper = new_query(bucket)
    sleeper.run(0, BATCHES[0])
    results = sleeper.tasks(1, BATCHES[1])
    replace(sleeper, done={0}).run_all(BATCHES)
    with pytest.raises(PenstockError, match="another run has carried this checkpoint on"):
        sleeper.commit(1, results)
    check(gcs_server.storage(), bucket)


@pytest.mark.spark
@pytest.mark.exhaustive("a Spark job over another store; test_azure.py has one")
def test_reading_and_writing_in_spark(gcs_server, spark, tmp_path):
    """A stream twice, and a batch; Spark's part of the checkpoint is on the local disk."""
    bucket = gcs_server.new_bucket()
    url, storage, options = gcs_server.url(bucket), gcs_server.storage(), gcs_server.options()
    for first in (0, 500):
        data = io.BytesIO()
        ids = list(range(first, first + 500))
        pq.write_table(pa.table({"id": ids, "day": [f"day {i % 3}" for i in ids]}), data)
        storage.put(f"{bucket}/in/{first}.parquet", data.getvalue())
        stream = spark.readStream.format("penstock.filesystem").options(path=f"{url}/in", format="parquet", **options)
        writer = stream.schema("id long, day string").load().writeStream.format("penstock.filesystem")
        writer = writer.options(path=f"{url}/out", format="parquet", partitionColumns="day", **options)
        writer = writer.options(delivery="exactly-once", checkpointLocation=str(tmp_path / "ck"))
        writer.trigger(availableNow=True).start().awaitTermination()
    ours = spark.read.format("penstock.filesystem").options(path=f"{url}/out", format="parquet", **options).load()
    expected = Counter((i, f"day {i % 3}") for i in range(1000))
    assert Counter((row.id, row.day) for row in ours.collect()) == expected
    assert files_of(storage, f"{bucket}/out", hidden=True) == []
