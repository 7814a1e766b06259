"""Files on HDFS, read and written, with checkpoints there too: the kit, crashes at every step, and Spark."""

from __future__ import annotations

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

from penstock import register
from penstock.errors import PenstockError
from penstock.storage import open_storage
from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite
from penstock_filesystem import FileSystemConnector
from suite.bad_network import BadNetwork
from suite.object_store import away, files_of
from suite.over_network import sink_query as query_of

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])
GOLDEN = Path(__file__).parent / "golden"
AS_ON_A_DISK = pytest.mark.exhaustive("the kit on another storage; test_storage_hdfs.py has that storage")


@pytest.fixture
def network(hdfs):
    """Between the connector and the name node."""
    with BadNetwork(hdfs.name_node.address) as network:
        yield network


def rows_of(storage, folder):
    """Of JSON files."""
    return [json.loads(line) for path in files_of(storage, folder) for line in io.BytesIO(storage.read(path))]


@AS_ON_A_DISK
@pytest.mark.timeout(1000)
class TestSink(SinkSuite):
    connector = FileSystemConnector
    many, most_memory_bytes = 200_000, 160 << 20
    case_seconds = 900  # half a second for most files that are closed

    @pytest.fixture
    def new_target(self, hdfs, network):
        storage = hdfs.storage

        def new():
            folder = hdfs.new_folder()
            storage.fs.create_dir(folder, recursive=False)

            def tables():
                return [pq.read_table(path, filesystem=storage.fs, partitioning=None) for path in files()]

            def files(*, hidden=False):
                return files_of(storage, folder, hidden=hidden)

            return SinkTarget(
                {"path": f"hdfs://{network.address}{folder}", "format": "parquet"},
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
    def origin(self, hdfs, network):
        storage, folder = hdfs.storage, hdfs.new_folder()
        storage.fs.create_dir(folder, recursive=False)

        def put_table(table):
            path = f"{folder}/{uuid.uuid4().hex}.parquet"
            with storage.open_new(f"{folder}/.{uuid.uuid4().hex}") as file:
                pq.write_table(table, file)
            storage.move(next(iter(files_of(storage, folder, hidden=True))), path)

        return SourceOrigin(
            {"path": f"hdfs://{network.address}{folder}", "format": "parquet", "discoveryInterval": "20ms"},
            lambda ids: put_table(pa.table({"id": pa.array(ids, pa.int64())})),
            put_table,
            unreachable=lambda: away(network),
        )


def batch(ids):
    return pa.record_batch([list(ids), [f"{i:040d}" for i in ids]], schema=SCHEMA)


BATCHES = [[[batch(range(n * 100 + w * 50, n * 100 + w * 50 + 50))] for w in range(2)] for n in range(3)]


@pytest.fixture
def new_query(hdfs):
    """Makes a query whose files and checkpoint are in a folder of HDFS."""

    def new(folder):
        options = {
            **{"path": f"{hdfs.url}{folder}/out", "format": "json"},
            **{"bucketAssigner": "basePath", "maxPartSize": "3kb"},
        }
        return query_of(FileSystemConnector(), options, SCHEMA, f"{folder}/checkpoint", hdfs.storage)

    return new


def check(storage, folder):
    assert Counter(row["id"] for row in rows_of(storage, f"{folder}/out")) == Counter(range(300))
    assert files_of(storage, f"{folder}/out", hidden=True) == []


def crash_at(step, new_query, storage, folder):
    """Returns whether there is such a step."""
    query = new_query(folder)
    with query.crashing_at(step) as fuse:
        query.run_all(BATCHES)
    query.restart()
    query.run_all(BATCHES)
    check(storage, folder)
    return len(fuse.steps) > step


@pytest.mark.exhaustive("minutes; test_a_driver_that_was_replaced_is_refused is the witness")
@pytest.mark.timeout(1200)
def test_a_crash_at_every_tenth_step(hdfs, new_query):
    """Of batches that publish, carry a part on, and finish one. Each run takes others; the local disk has them all."""
    step = random.randrange(10)
    print(f"from step {step} on")
    while crash_at(step, new_query, hdfs.storage, hdfs.new_folder()):
        step += 10
    assert step > 60


@pytest.mark.budget(15)  # the client waits for half a second whenever a data node reports a block after it asks
def test_a_driver_that_was_replaced_is_refused(hdfs, new_query):
    folder = hdfs.new_folder()
    sleeper = new_query(folder)
    sleeper.run(0, BATCHES[0])
    results = sleeper.tasks(1, BATCHES[1])
    replace(sleeper, done={0}).run_all(BATCHES)
    with pytest.raises(PenstockError, match="another run has carried this checkpoint on"):
        sleeper.commit(1, results)
    check(hdfs.storage, folder)


@pytest.mark.spark
@pytest.mark.exhaustive("half a minute; the same without Spark is above")
def test_spark_reads_and_writes_there_with_its_checkpoint(hdfs, spark):
    """Spark's own reader sees the rows, and it writes its part of the checkpoint itself."""
    folder = f"{hdfs.url}{hdfs.new_folder()}"
    options = {"format": "parquet", "partitionColumns": "day"}
    for first in (0, 500):
        rows = spark.range(first, first + 500).selectExpr("id", "concat('day ', id % 3) AS day")
        rows.write.mode("append").parquet(f"{folder}/in")
        stream = spark.readStream.format("penstock.filesystem").options(path=f"{folder}/in", format="parquet")
        query = (
            stream.schema("id long, day string")
            .load()
            .writeStream.format("penstock.filesystem")
            .options(path=f"{folder}/out", delivery="exactly-once", checkpointLocation=f"{folder}/ck", **options)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    expected = Counter((i, f"day {i % 3}") for i in range(1000))
    assert Counter((row.id, row.day) for row in spark.read.parquet(f"{folder}/out").collect()) == expected
    ours = spark.read.format("penstock.filesystem").options(path=f"{folder}/out", format="parquet").load()
    assert Counter((row.id, row.day) for row in ours.collect()) == expected
    storage, path = open_storage(f"{folder}/ck/penstock/decisions")
    assert storage.list_names(path)


@pytest.fixture
def on_hdfs(hdfs, spark):
    """Has Spark's paths without a scheme on HDFS."""
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    before = settings.get("fs.defaultFS")
    settings.set("fs.defaultFS", hdfs.url)
    register(spark)
    yield hdfs.storage
    settings.set("fs.defaultFS", before)
    register(spark)


@pytest.mark.spark
@pytest.mark.exhaustive("half a minute; test_locations.py has what the paths become")
@pytest.mark.parametrize("below", ["", "/"])
def test_paths_without_a_scheme_are_where_spark_has_them(on_hdfs, spark, below, tmp_path, monkeypatch):
    """Relative ones too, and that of the checkpoint."""
    monkeypatch.chdir(tmp_path)
    folder = f"{below}t-{uuid.uuid4().hex[:12]}"
    spark.range(100).write.json(f"{folder}/in")
    options = {"format": "json", "checkpointLocation": f"{folder}/ck"}
    stream = spark.readStream.format("penstock.filesystem").options(path=f"{folder}/in", **options)
    writer = stream.schema("id long").load().writeStream.format("penstock.filesystem").options(**options)
    writer = writer.option("bucketAssigner", "basePath")
    writer.trigger(availableNow=True).start(f"{folder}/out").awaitTermination()
    assert sorted(row.id for row in spark.read.schema("id long").json(f"{folder}/out").collect()) == list(range(100))
    paths = [f"{folder}/in", f"{folder}/out"]
    ours = spark.read.format("penstock.filesystem").option("format", "json").schema("id long").load(paths)
    assert ours.count() == 200
    assert not any(tmp_path.iterdir()), "nothing is on the local disk"
