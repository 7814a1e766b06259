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


BATCH = pa.record_batch({"who": pa.array([1, 2, 3, None, 2, 1000], pa.int64()), "x": list("abcdef")})


def test_each_key_brings_its_rows(users):
    rows = pa.Table.from_batches(Lookup(users, {"who": "id"}, ["visit", "name"])(iter([BATCH]))).to_pylist()
    found = [(row["x"], row["visit"], row["name"]) for row in rows]
    two = [(0, "n2"), (1, "n2")]
    assert found == [
        ("a", 0, "n1"),
        *(("b", *pair) for pair in two),
        ("c", None, None),
        ("d", None, None),
        *(("e", *pair) for pair in two),
        ("f", None, None),
    ]


def test_inner_leaves_out_what_was_not_found(users):
    rows = pa.Table.from_batches(Lookup(users, {"who": "id"}, ["tags"], inner=True)(iter([BATCH]))).to_pylist()
    assert [(row["x"], row["tags"]) for row in rows] == [
        *[("a", ["t0"]), ("b", ["t0"]), ("b", ["t1"])],
        *[("e", ["t0"]), ("e", ["t1"])],
    ]


@pytest.mark.parametrize("in_flight", [1, 7, 200])
def test_many_keys(users, in_flight):
    batch = pa.record_batch({"id": pa.array([n % 120 for n in range(2000)], pa.int32())})
    (found,) = Lookup(users, ["id"], ["name"], inner=True, max_in_flight=in_flight)(iter([batch]))
    assert all(row["name"] == f"n{row['id']}" for row in found.to_pylist())
    assert found.num_rows == sum(n % 120 % 3 for n in range(2000) if n % 120 < 100)


def test_the_whole_partition_key_is_needed(users):
    with pytest.raises(BadConfigurationError, match="whole partition key"):
        list(Lookup(users, ["visit"], ["name"])(iter([BATCH])))
