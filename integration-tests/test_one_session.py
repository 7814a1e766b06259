"""What a user sees in one session: batch and stream, options, errors, plugins that do not fit."""

from __future__ import annotations

import warnings
from importlib.metadata import EntryPoint

import pytest

import penstock
from harness import checkpoint
from harness.oracle import rows_of, visible_files
from harness.waiting import wait_until
from penstock._plugins import InstalledConnector, installed_connectors
from penstock.spark import _registration


@pytest.fixture(scope="module")
def registration(spark):
    return penstock.register(spark)


pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("registration")]


def read(spark, format_, path, **options):
    reader = spark.read.format("penstock.filesystem").option("format", format_)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def test_a_broken_plugin_is_reported_and_does_not_stop_the_others(spark, monkeypatch):
    broken = EntryPoint("broken", "no_such_module:X", "penstock.connectors")
    old = EntryPoint("old", "never_imported:X", "penstock.connectors")
    listed = [
        InstalledConnector("broken", "penstock-broken", "1", "", "", broken),
        *installed_connectors(),
        InstalledConnector("old", "penstock-old", "1", "<0.1", "it needs penstock<0.1", old),
    ]
    monkeypatch.setattr(_registration, "installed_connectors", lambda: listed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        done = penstock.register(spark)
    usable = ["penstock.cassandra", "penstock.filesystem", "penstock.kafka", "penstock.pravega"]
    assert done.formats == usable and set(done.problems) == {"broken", "old"}
    said = " ".join(str(warning.message) for warning in caught)
    assert "'broken' (penstock-broken 1) fails on import" in said and "it needs penstock<0.1" in said


@pytest.mark.parametrize("format_", ["parquet", "csv", "json", "avro"])
def test_batch_there_and_back(spark, tmp_path, format_):
    rows = spark.range(0, 5000, 1, 3).selectExpr("id", "cast(id % 7 as string) as note", "id / 3 as part")
    target = rows.write.format("penstock.filesystem").mode("append")
    target = target.option("format", format_).option("bucketAssigner", "basePath")
    target.save(str(tmp_path / "out"))
    assert [p.name for p in tmp_path.glob("out/.penstock")] == [], "nothing lingers"
    reader = spark.read.format("penstock.filesystem").option("format", format_).schema(rows.schema)
    back = reader.load(f"{tmp_path}/out")
    assert back.exceptAll(rows).count() == 0 and back.count() == 5000
    target.save(str(tmp_path / "out"))
    assert reader.load(f"{tmp_path}/out").count() == 10000


def test_inferred_schema(spark, tmp_path):
    (tmp_path / "a.csv").write_text("id,at\n1,2024-01-01\n2,2024-01-02\n")
    assert read(spark, "csv", tmp_path, header=True, inferSchema=True).dtypes == [("id", "bigint"), ("at", "date")]
    assert read(spark, "text", tmp_path).dtypes == [("value", "string")]


def test_metrics_reach_the_driver(spark, tmp_path, registration):
    (tmp_path / "a.csv").write_text("1\n2\nthree\n")
    before = dict(registration.metrics()["penstock.filesystem"])
    spark.read.format("penstock.filesystem").option("format", "csv").schema("id long").load(str(tmp_path)).collect()
    after = registration.metrics()["penstock.filesystem"]
    assert after["rows_read"] - before.get("rows_read", 0) == 3
    assert after["bad_rows"] - before.get("bad_rows", 0) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formt": "csv"}, "has no option 'formt'; did you mean 'format'?"),
        ({"format": "csv", "maxFilesPerTrigger": "few"}, "'few' is not a whole number"),
        ({"format": "cvs"}, "did you mean 'csv'?"),
    ],
)
def test_mistakes_in_options_are_named(spark, tmp_path, options, message):
    reader = spark.read.format("penstock.filesystem").schema("id long")
    for name, value in options.items():
        reader = reader.option(name, value)
    with pytest.raises(Exception, match="option") as caught:
        reader.load(str(tmp_path)).collect()
    assert message in str(caught.value)


def test_secrets_do_not_show_in_errors(spark, tmp_path):
    reader = spark.read.format("penstock.filesystem").option("s3.secret", "hunter2").option("formt", "x")
    with pytest.raises(Exception, match="formt") as caught:
        reader.load(str(tmp_path))
    assert "hunter2" not in str(caught.value)


def test_a_stream_needs_a_schema(spark, tmp_path):
    (tmp_path / "a.csv").write_text("1\n")
    stream = spark.readStream.format("penstock.filesystem").option("format", "csv").load(str(tmp_path))
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / ".ck"))
    with pytest.raises(Exception, match="a stream needs a schema of its own"):
        query.trigger(availableNow=True).start().awaitTermination()


def test_overwriting_and_complete_results_are_refused(spark, tmp_path):
    with pytest.raises(Exception, match=r"can't overwrite: use .mode\('append'\)"):
        spark.range(3).write.format("penstock.filesystem").mode("overwrite").save(str(tmp_path / "out"))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("a\n")
    counts = spark.readStream.format("penstock.filesystem").option("format", "text").load(f"{tmp_path}/in")
    writer = counts.groupBy("value").count().writeStream.outputMode("complete").format("penstock.filesystem")
    writer = writer.option("path", f"{tmp_path}/out").option("checkpointLocation", f"{tmp_path}/ck")
    with pytest.raises(Exception, match=r"use .outputMode\('append'\)"):
        writer.trigger(availableNow=True).start().awaitTermination()


def test_rows_of_another_source_are_published_soon_after_the_end(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n2\n")
    stream = spark.readStream.schema("id long").csv(f"{tmp_path}/in")
    writer = stream.writeStream.format("penstock.filesystem").option("path", f"{tmp_path}/out")
    writer.option("checkpointLocation", f"{tmp_path}/ck").trigger(availableNow=True).start().awaitTermination()
    wait_until(lambda: rows_of(tmp_path / "out") == {1: 1, 2: 1})


def test_many_small_batches_make_few_files(spark, tmp_path):
    """Ten micro-batches of two tasks each: one file."""
    (tmp_path / "in").mkdir()
    for i in range(10):
        (tmp_path / "in" / f"{i:02d}.csv").write_text(f"{2 * i}\n{2 * i + 1}\n")
    stream = spark.readStream.format("penstock.filesystem").option("format", "csv").schema("id long")
    stream = stream.option("maxFilesPerTrigger", 1).load(f"{tmp_path}/in").repartition(2)
    writer = stream.writeStream.format("penstock.filesystem").option("path", f"{tmp_path}/out")
    writer = writer.option("checkpointLocation", f"{tmp_path}/ck").option("bucketAssigner", "basePath")
    writer.trigger(availableNow=True).start().awaitTermination()
    assert checkpoint.committed(tmp_path / "ck") == 10
    assert len(visible_files(tmp_path / "out", "parquet")) == 1
    assert rows_of(tmp_path / "out") == dict.fromkeys(range(20), 1)
