"""What SQL and Spark's writers do with our formats: the lines of docs/sql.md, each of which is run here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StringType, StructType

import penstock
from harness.sql import LINES, prepare, problem_of
from penstock.errors import BadConfigurationError
from penstock.spark._data_source import data_source_of

PAGE = Path(__file__).parents[1] / "docs" / "sql.md"
CASSANDRA = "`complete`, to a table of Cassandra"
#: Sinks that add rows to what is there, with options that suffice to refuse a mode.
ADDING = {
    "filesystem": {"path": "/nowhere"},
    "kafka": {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"},
    "pravega": {"controller": "127.0.0.1:1", "scope": "s", "stream": "t"},
}


def test_the_page_has_these_lines():
    rows = re.findall(r"^\| (.+?) \| (works|refused) \|", PAGE.read_text(), re.MULTILINE)
    wanted = {line: "refused" if one.error else "works" for line, one in LINES.items()} | {CASSANDRA: "works"}
    assert dict(rows) == wanted and len(rows) == len(wanted)


@pytest.mark.spark
@pytest.mark.parametrize("line", LINES)
def test_a_line(spark, tmp_path, line):
    prepare(tmp_path)
    assert problem_of(LINES[line], spark, tmp_path) == ""


@pytest.mark.parametrize("connector", ADDING)
def test_a_sink_that_adds_rows_refuses_complete_results(connector):
    source = data_source_of(connector, parallelism=1, accumulator=None)(ADDING[connector])
    with pytest.raises(BadConfigurationError, match=f"penstock.{connector} can't take complete results: use"):
        source.streamWriter(StructType().add("value", StringType()).add("n", LongType()), overwrite=True)


@pytest.mark.spark
@pytest.mark.parametrize("connector", [*ADDING, "cassandra"])
def test_update_is_refused_before_anything_is_read(spark, tmp_path, connector):
    writer = spark.readStream.format("rate").load().writeStream.format(f"penstock.{connector}").outputMode("update")
    with pytest.raises(BadConfigurationError, match=rf"sink penstock.{connector}: .* Write in foreachBatch"):
        writer.option("checkpointLocation", str(tmp_path)).start()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_complete_results_in_a_table_of_cassandra(spark, cassandra, tmp_path):
    table = cassandra.table("note text primary key, n bigint")
    (tmp_path / "in").mkdir()
    for number, texts in enumerate((["a", "b", "a"], ["a", "c"])):
        (tmp_path / f"in/{number}.txt").write_text("\n".join(texts))
        lines = spark.readStream.format("penstock.filesystem").schema("value string").option("format", "text")
        lines.load(str(tmp_path / "in")).createOrReplaceTempView("penstock_v")
        counts = spark.sql("SELECT value AS note, count(*) AS n FROM penstock_v GROUP BY value")
        writer = counts.writeStream.format("penstock.cassandra").options(**cassandra.options, table=table)
        writer = writer.outputMode("complete").option("checkpointLocation", str(tmp_path / "ck"))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert sorted(cassandra.rows(table, "note, n")) == [("a", 3), ("b", 1), ("c", 1)]


@pytest.mark.spark
def test_a_filter_in_sql_reaches_the_source(spark, tmp_path):
    for number in (1, 2):
        (tmp_path / f"n={number}").mkdir()
        (tmp_path / f"n={number}/a.csv").write_text("1\n2\n3\n")
    options = f"OPTIONS (path '{tmp_path}', format 'csv')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW penstock_v (id BIGINT, n INT) USING penstock.filesystem {options}")
    registration = penstock.register(spark)

    def read():
        return registration.metrics().get("penstock.filesystem", {}).get("rows_read", 0)

    before = read()
    assert spark.sql("SELECT count(*) FROM penstock_v WHERE n = 1").first()[0] == 3
    assert read() - before == 3
    (plan,) = spark.sql("EXPLAIN SELECT * FROM penstock_v WHERE n = 1").first()
    assert "Filter" in plan and "pushed" not in plan.lower()


@pytest.mark.spark
def test_a_topic_in_sql(spark, kafka):
    topic, brokers = kafka.create_topic(partitions=2), f"`kafka.bootstrap.servers` '{kafka.address}'"
    sink = f"USING penstock.kafka OPTIONS ({brokers}, topic '{topic}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW penstock_v (key STRING, value STRING) {sink}")
    spark.sql("INSERT INTO penstock_v VALUES ('k', 'a'), ('k', 'b')")
    source = f"USING penstock.kafka OPTIONS ({brokers}, subscribe '{topic}')"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW penstock_v {source}")
    found = spark.sql("SELECT string(key), string(value), topic FROM penstock_v ORDER BY value").collect()
    assert [tuple(row) for row in found] == [("k", "a", topic), ("k", "b", topic)]
