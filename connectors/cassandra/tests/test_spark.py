"""Through Spark: batch and stream, both ways, filters that the server applies, a restart of the server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import penstock
from penstock_cassandra.dev import cassandra_server

pytestmark = pytest.mark.spark


def reader(spark, cassandra, **options):
    return spark.read.format("penstock.cassandra").options(**{**cassandra.options, **options})


def test_a_table_is_written_and_read(spark, cassandra):
    table = cassandra.table("id bigint primary key, name text, tags set<text>, at timestamp, price decimal")
    rows = spark.range(20_000).selectExpr(
        "id",
        "concat('n', id) as name",
        "array('a', cast(id as string)) as tags",
        "timestamp_millis(id * 1000) as at",
        "cast(id / 4 as decimal(38, 18)) as price",
    )
    rows.write.format("penstock.cassandra").options(**cassandra.options, table=table).mode("append").save()
    found = reader(spark, cassandra, table=table, splits="4").load()
    assert found.schema["tags"].dataType.simpleString() == "array<string>"
    wanted = rows.selectExpr("id", "name", "at", "price", "sort_array(tags) as tags")
    ours = found.selectExpr("id", "name", "at", "price", "sort_array(tags) as tags")
    assert ours.count() == 20_000
    assert ours.exceptAll(wanted).count() == 0 and wanted.exceptAll(ours).count() == 0


def test_filters_go_to_the_server(spark, cassandra):
    table = cassandra.table("shop int, number int, note text, primary key (shop, number)")
    spark.range(1000).selectExpr("cast(id % 10 as int) shop", "cast(id as int) number", "'x' note").write.format(
        "penstock.cassandra"
    ).options(**cassandra.options, table=table).mode("append").save()
    found = reader(spark, cassandra, table=table, splits="6").load()
    one = found.where("shop = 3 and number >= 900 and note = 'x'")
    assert sorted(row.number for row in one.collect()) == list(range(903, 1000, 10))
    # The whole partition key: a look at one partition, not a scan in six tasks.
    assert one.rdd.getNumPartitions() == 1
    plan = one._jdf.queryExecution().executedPlan().toString()
    assert "note" in plan.split("Filter")[1] and "shop" not in plan.split("Filter")[1].split("\n")[0]
    some = found.where("number < 5 and note = 'x'")
    assert sorted(row.number for row in some.collect()) == list(range(5))


def test_a_stream_reads_a_table_in_steps_and_ends(spark, cassandra, tmp_path):
    source = cassandra.table("id bigint primary key, v text")
    target = cassandra.table("id bigint primary key, v text")
    rows = spark.range(3000).selectExpr("id", "concat('v', id) v")
    rows.write.format("penstock.cassandra").options(**cassandra.options, table=source).mode("append").save()

    def run(**trigger):
        stream = spark.readStream.format("penstock.cassandra").options(
            **cassandra.options, table=source, splits="12", maxSplitsPerTrigger="5"
        )
        query = (
            stream.load()
            .writeStream.format("penstock.cassandra")
            .options(**cassandra.options, table=target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(**trigger)
            .start()
        )
        assert query.awaitTermination(120)
        return [progress["numInputRows"] for progress in query.recentProgress]

    steps = run(availableNow=True)
    assert sum(steps) == 3000 and len([count for count in steps if count]) == 3
    assert sorted(cassandra.rows(target, "id, v")) == [(i, f"v{i}") for i in range(3000)]
    # It has been read: nothing is read again.
    assert sum(run(availableNow=True)) == 0


@pytest.mark.exhaustive(
    "a server that starts three times; test_a_broker_restarts_in_the_middle_of_writes_and_commits is the witness"
)
@pytest.mark.budget(40)  # it starts three times
def test_the_server_is_killed_in_between(spark, at_address, tmp_path):
    """The tasks of a write, then of a read, are in the middle of it when the server goes away and comes back."""
    with cassandra_server(tmp_path / "server", quick_start=True, heap_mb=384) as server:
        cassandra = at_address(server.address)
        table = cassandra.table("id bigint primary key, v text")
        options = {
            **cassandra.options,
            "table": table,
            "maxRowsPerSecond": "6000",
            "requestTimeout": "5s",
            "retryTimeout": "120s",
        }
        mark = tmp_path / "read"

        def strike():
            for begun in (lambda: cassandra.rows(table, "id"), mark.exists):
                deadline = time.monotonic() + 120
                while not begun():
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
                server.kill()
                server.start()

        def marking(rows):
            for row in rows:
                mark.touch()  # the first rows are on their way
                yield row.id

        with ThreadPoolExecutor(1) as pool:
            striking = pool.submit(strike)
            rows = spark.range(0, 24_000, 1, 2).selectExpr("id", "concat('v', id) v")
            rows.write.format("penstock.cassandra").options(**options).mode("append").save()
            found = spark.read.format("penstock.cassandra").options(**options, pageRows="500", splits="4").load()
            ids = found.rdd.mapPartitions(marking).collect()
            striking.result(120)
        assert sorted(ids) == list(range(24_000))
        counts = penstock.register(spark).accumulators["penstock.cassandra"].value
        assert counts["retries"] > 0
