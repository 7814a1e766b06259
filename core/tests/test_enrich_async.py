"""Calls through Spark: batch and stream, types, failures, a query that is stopped while a service is stuck."""

from __future__ import annotations

import asyncio
import datetime
import threading
import time

import pytest

import penstock
from penstock.errors import BadConfigurationError

pytestmark = pytest.mark.spark


async def squared(row):
    await asyncio.sleep(0.001)
    return {"square": row["n"] ** 2, "tags": ["a", str(row["n"])]}


@pytest.mark.parametrize("ordered", [True, False])
def test_a_batch(spark, ordered):
    rows = spark.range(0, 2000, 1, 3).selectExpr(
        "id as n",
        "timestamp_millis(id) as at",
        "named_struct('d', cast(id as decimal(9,2)), 'm', map(id, array(id))) as `deep.one`",
    )
    found = penstock.enrich_async(rows, squared, "square long, tags array<string>", on=["n"], ordered=ordered)
    assert found.columns == ["n", "at", "deep.one", "square", "tags"]
    collected = {row.n: row for row in found.collect()}
    assert sorted(collected) == list(range(2000))
    assert all(row.square == n * n and row.tags == ["a", str(n)] for n, row in collected.items())
    assert collected[7]["deep.one"].d == 7
    assert collected[1].at - collected[0].at == datetime.timedelta(milliseconds=1)
    assert found.rdd.getNumPartitions() == 3


def test_a_stream(spark, tmp_path):
    spark.range(50).selectExpr("id as n").write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("n long").parquet(str(tmp_path / "in"))
    query = (
        penstock.enrich_async(rows, squared, "square long, tags array<string>", cache_rows=10)
        .writeStream.format("memory")
        .queryName("squares")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert sorted(row.square for row in spark.table("squares").collect()) == [n * n for n in range(50)]


def test_failures(spark):
    def odd(row):
        if row["n"] == 3:
            raise ValueError("no threes")
        return {"square": row["n"] ** 2}

    rows = spark.range(5).selectExpr("id as n")
    with pytest.raises(Exception, match=r"FatalError: .*odd failed for the row with n='3': ValueError\('no threes'\)"):
        penstock.enrich_async(rows, odd, "square long").collect()
    found = penstock.enrich_async(rows, odd, "square long", failures="column", failure_column="why")
    assert {row.n: row.why for row in found.collect()} == {
        0: None,
        1: None,
        2: None,
        3: "ValueError: no threes",
        4: None,
    }


def test_a_query_that_is_stopped_ends_at_once(spark, tmp_path):
    mark = tmp_path / "begun"

    async def stuck(row):
        mark.touch()
        await asyncio.sleep(600)

    rows = penstock.enrich_async(spark.range(0, 100_000, 1, 2), stuck, "x long", timeout="1h")
    failed = []

    def run():
        spark.sparkContext.setJobGroup("stuck", "calls that never end", True)
        try:
            rows.count()
            rows.agg({"x": "sum"}).collect()
        except Exception as error:
            failed.append(error)

    running = threading.Thread(target=run)
    running.start()
    deadline = time.monotonic() + 120
    while not mark.exists():
        assert time.monotonic() < deadline and running.is_alive()
        time.sleep(0.1)
    spark.sparkContext.cancelAllJobs()
    running.join(60)  # calls take ten minutes
    assert not running.is_alive() and failed


def test_what_does_not_fit_is_told(spark):
    rows = spark.range(1).selectExpr("id as n")
    with pytest.raises(BadConfigurationError, match="no column 'squar'"):
        penstock.enrich_async(rows, squared, "square long", on=["squar"])
    with pytest.raises(BadConfigurationError, match="a column 'n' already"):
        penstock.enrich_async(rows, squared, "n long")
    with pytest.raises(BadConfigurationError, match="a column 'failure' already"):
        penstock.enrich_async(rows.selectExpr("n", "1 failure"), squared, "m long", failures="column")
    with pytest.raises(BadConfigurationError, match="a column 'N' already"):
        penstock.enrich_async(rows, squared, "N long")
    with pytest.raises(BadConfigurationError, match="two columns that are added are called 'm'"):
        penstock.enrich_async(rows, squared, "m long, M long")
    with pytest.raises(BadConfigurationError, match="'pause' takes effect only with attempts other than 1"):
        penstock.enrich_async(rows, squared, "m long", pause="1s")


def test_a_watermark_holds_for_the_result(spark):
    rows = spark.readStream.format("rate").load().withWatermark("timestamp", "10 seconds")
    found = penstock.enrich_async(rows, squared, "square long", on="value")
    assert found.schema["timestamp"].metadata == {"spark.watermarkDelayMs": 10_000}
