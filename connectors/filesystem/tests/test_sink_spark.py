"""Spark reads back what the sink published: every format, with Spark's own readers."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark import inheritable_thread_target

import penstock

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("s", pa.string()),
        ("d", pa.float64()),
        ("b", pa.bool_()),
        ("t", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("c", pa.decimal128(12, 3)),
    ]
)
DDL = "id long, s string, d double, b boolean, t timestamp, day date, c decimal(12,3)"
TEXTS = ['q"x\\y', "a,b;c\t'é€😀", "\\", '\\"', "a\\,", '"', " lead ", "#c", "-", None, "x\\", '""', "\x01 {}"]


def rows():
    doubles = [1.5, float("inf"), 1e20, None, 0.1, -0.0, 100.0]
    return [
        {
            "id": number,
            "s": text,
            "d": doubles[number % 7],
            "b": None if number == 3 else number % 2 == 0,
            "t": datetime(2026, 1, 2, 3, 4, 5, 123456 + number, timezone.utc),
            "day": None if number == 2 else date(1900 + number, 2, 28),
            "c": Decimal("-1.250") * number,
        }
        for number, text in enumerate(TEXTS)
    ]


def published(sink_query, path, batches, schema, **options):
    """Runs the rows through two batches, so that the part Spark reads is a merged one."""
    query = sink_query(path, schema, bucketAssigner="basePath", **options)
    for batch in batches:
        query.run([pa.RecordBatch.from_pylist(batch, schema=schema)])
    query.finish()
    query.clean_up()


@pytest.mark.parametrize(
    ("file_format", "options"),
    [
        ("parquet", {}),
        ("orc", {}),
        ("orc", {"compression": "zlib"}),
        ("csv", {"header": "true"}),
        ("csv", {"sep": ";", "escape": '"', "nullValue": "NA", "compression": "gzip"}),
        ("json", {}),
        ("avro", {}),
        ("avro", {"compression": "none"}),
    ],
)
def test_rows_come_back(spark, sink_query, tmp_path, file_format, options):
    published(sink_query, tmp_path, [rows()[:5], rows()[5:]], SCHEMA, format=file_format, **options)
    reader = spark.read.schema(DDL).options(**{k: v for k, v in options.items() if k != "compression"})
    found = [row.asDict() for row in reader.format(file_format).load(str(tmp_path)).orderBy("id").collect()]
    for row in found:
        row["t"] = row["t"].astimezone(timezone.utc)
    assert found == rows()


def test_hive_partitions_are_discovered(spark, sink_query, tmp_path):
    schema = pa.schema([("p", pa.string()), ("id", pa.int64())])
    query = sink_query(tmp_path, schema, partitionColumns="p")
    values = ["a b/c:é=%", None, "x~*?#[]{}^'\"\\ü."]
    query.run([pa.RecordBatch.from_pydict({"p": values, "id": [1, 2, 3]}, schema=schema)])
    query.finish()
    found = spark.read.parquet(str(tmp_path)).select("id", "p").orderBy("id").collect()
    assert [tuple(row) for row in found] == list(enumerate(values, start=1))


def test_hourly_buckets_need_recursive_file_lookup(spark, sink_query, tmp_path):
    schema = pa.schema([("id", pa.int64())])
    query = sink_query(tmp_path, schema)
    query.run([pa.RecordBatch.from_pydict({"id": [1, 2]})], [pa.RecordBatch.from_pydict({"id": [3]})])
    query.commit(query.decide(rolled=query.roll(finish=True)))
    query.write([pa.RecordBatch.from_pydict({"id": [4]})])
    assert spark.read.option("recursiveFileLookup", True).parquet(str(tmp_path)).count() == 3
    assert spark.read.parquet(f"{tmp_path}/*").count() == 3
    assert spark.read.schema("id long").parquet(str(tmp_path)).count() == 0, "the option's documentation is out of date"


def test_sequence_files_are_read_by_hadoop(spark, sink_query, tmp_path):
    schema = pa.schema([("key", pa.int64()), ("value", pa.string())])
    pairs = [{"key": number, "value": "é" * number} for number in range(500)]
    published(sink_query, tmp_path, [pairs[:200], pairs[200:]], schema, format="sequencefile")
    context = spark.sparkContext
    found = context.sequenceFile(f"{tmp_path}/*.seq", minSplits=4).collect()
    assert sorted(found) == [(pair["key"], pair["value"]) for pair in pairs]


def test_sequence_file_of_int_and_binary(spark, sink_query, tmp_path):
    schema = pa.schema([("key", pa.int32()), ("value", pa.binary())])
    pairs = [{"key": number, "value": bytes(range(number))} for number in range(200)]
    published(sink_query, tmp_path, [pairs], schema, format="sequencefile")
    found = spark.sparkContext.sequenceFile(f"{tmp_path}/*.seq").collect()
    assert sorted((key, bytes(value)) for key, value in found) == [(p["key"], p["value"]) for p in pairs]


def test_threads_of_a_batch_function_write(spark, tmp_path):
    """Spark finds no format in Python in a new thread. The run is known there, so a second write is refused."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("1\n2\n")
    said = []

    def write(df, batch_id):
        def to(name, is_refused=False):
            writer = penstock.batch_writer(df, batch_id, checkpoint=f"{tmp_path}/ck", name=name)
            writer.format("penstock.filesystem").options(format="json", bucketAssigner="basePath")
            try:
                writer.save(f"{tmp_path}/out/{name}")
            except Exception as error:
                if not is_refused:
                    raise
                said.append(str(error))

        to("plain")
        thread = threading.Thread(target=to, args=("thread",))
        thread.start()
        thread.join()
        with ThreadPoolExecutor() as pool:
            list(pool.map(inheritable_thread_target(to), ("first", "second")))
            list(pool.map(inheritable_thread_target(to), ["first"], [True]))

    stream = spark.readStream.format("penstock.filesystem").schema("id long")
    query = stream.options(path=f"{tmp_path}/in", format="csv").load().writeStream.foreachBatch(write)
    query.option("checkpointLocation", f"{tmp_path}/ck").trigger(availableNow=True).start().awaitTermination()
    for name in ("plain", "thread", "first", "second"):
        found = [row.id for row in spark.read.schema("id long").json(f"{tmp_path}/out/{name}").collect()]
        assert sorted(found) == [1, 2], name
    assert len(said) == 1 and "batch 0 has been written to this sink already" in said[0]
