"""Look-ups by key: the function that Spark's mapInArrow is given."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock_cassandra import Lookup


@pytest.fixture(scope="module")
def users(cassandra):
    table = cassandra.table("id int, visit int, name text, tags set<text>, primary key (id, visit)")
    insert = f"insert into {cassandra.keyspace}.{table} (id, visit, name, tags) values (?, ?, ?, ?)"
    for number in range(100):
        for visit in range(number % 3):
            cassandra.cql(insert, number, visit, f"n{number}", {f"t{visit}"})
    return {**cassandra.options, "table": table}


KEYS = pa.record_batch({"who": pa.array([1, 2, 3, None, 2, 1000], pa.int64())})


def test_each_key_brings_its_rows(users):
    found = Lookup(users, {"who": "id"}, ["visit", "name"]).look_up(KEYS).to_pylist()
    one, two = [{"visit": 0, "name": "n1"}], [{"visit": 0, "name": "n2"}, {"visit": 1, "name": "n2"}]
    assert found == [one, two, [], [], two, []]


@pytest.mark.parametrize("in_flight", [1, 7, 200])
def test_many_keys(users, in_flight):
    ids = [n % 120 for n in range(2000)]
    found = Lookup(users, ["id"], ["name"], max_in_flight=in_flight).look_up(pa.record_batch({"id": ids})).to_pylist()
    assert found == [[{"name": f"n{n}"}] * (n % 3 if n < 100 else 0) for n in ids]


def test_no_keys(users):
    assert Lookup(users, ["id"], ["name"]).look_up(pa.record_batch({"id": pa.array([], pa.int32())})).to_pylist() == []


def test_the_whole_partition_key_is_needed(users):
    with pytest.raises(BadConfigurationError, match="whole partition key"):
        Lookup(users, ["visit"], ["name"]).look_up(KEYS)


@pytest.mark.spark
def test_rows_of_spark_are_enriched(spark, users):
    rows = spark.range(300).selectExpr("id % 110 as `who.ever`", "id as n")
    wanted = [(n % 110, n, f"n{n % 110}", [f"t{v}"]) for n in range(300) if n % 110 < 100 for v in range(n % 110 % 3)]
    lookup = Lookup(users, {"who.ever": "id"}, ["name", "tags"], inner=True)
    assert sorted(tuple(row) for row in lookup.enrich(rows).collect()) == sorted(wanted)
    outer = Lookup(users, {"who.ever": "id"}, ["name", "tags"]).enrich(rows)
    assert outer.columns == ["who.ever", "n", "name", "tags"]
    found = {row.n for row in outer.where("name is not null").collect()}
    assert found == {n for _, n, *_ in wanted} and outer.where("name is null").count() == 300 - len(found)


@pytest.mark.spark
def test_a_stream_is_enriched(spark, users, tmp_path):
    ids = spark.range(100).selectExpr("cast(id as int) as id")
    ids.write.parquet(str(tmp_path / "in"))
    rows = spark.readStream.schema("id int").parquet(str(tmp_path / "in"))
    query = (
        Lookup(users, ["id"], ["name"], inner=True)
        .enrich(rows)
        .writeStream.format("memory")
        .queryName("enriched")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert spark.table("enriched").count() == sum(n % 3 for n in range(100))


@pytest.mark.spark
def test_what_does_not_fit_is_told(spark, users):
    rows = spark.range(3).selectExpr("id", "id as name")
    for lookup, words in {
        Lookup(users, ["id"], ["name"]): "a column 'name' already",
        Lookup(users, {"ids": "id"}, ["tags"]): "no column 'ids'.*id",
    }.items():
        with pytest.raises(BadConfigurationError, match=words):
            lookup.enrich(rows)
