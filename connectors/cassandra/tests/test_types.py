"""Every CQL type, written and read back, and compared with what the driver makes of it."""

from __future__ import annotations

import datetime
import decimal
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from cassandra.util import Date, Duration, Time

from penstock.errors import BadConfigurationError, BadDataError
from penstock.native import NativeLibrary
from penstock_cassandra import CassandraConnector
from penstock_cassandra.native import _cells
from penstock_cassandra.types import arrow_type, cql_type_of
from suite.sources import SourceHarness, read_splits

UTC = datetime.timezone.utc
ONE = "00010203-0405-11e7-8809-0a0b0c0d0e0f"

#: The ends of what the column of a ``decimal`` holds.
WIDEST = [decimal.Decimal(f"{sign}{'9' * 20}.{'9' * 18}") for sign in ("", "-")]

#: CQL type -> (values as they are written and read back, the same as the driver reads them; None: equal).
SIMPLE = {
    "ascii": (["", "a", "tab\t"], None),
    "bigint": ([-(2**63), 0, 2**63 - 1], None),
    "blob": ([b"", b"\x00\xff"], None),
    "boolean": ([True, False], None),
    "date": ([datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)], Date),
    "decimal": ([decimal.Decimal("1.5"), decimal.Decimal("-99999999999999999999.000000000000000001"), *WIDEST], None),
    "double": ([0.1, -1e308, 5e-324, float("inf")], None),
    "float": ([0.5, -1.25], None),
    "inet": (["127.0.0.1", "2001:db8::1"], None),
    "int": ([-(2**31), 2**31 - 1], None),
    "smallint": ([-(2**15), 2**15 - 1], None),
    "text": (["", "grüße 東京", "x" * 70_000], None),
    "time": ([0, 86_399_999_999_999], Time),
    "timestamp": (
        [datetime.datetime(1, 1, 1, tzinfo=UTC), datetime.datetime(1969, 12, 31, 23, 59, 59, 999000, UTC)],
        lambda value: value.replace(tzinfo=None),
    ),
    "timeuuid": ([ONE], uuid.UUID),
    "tinyint": ([-128, 127], None),
    "uuid": ([str(uuid.UUID(int=0)), "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"], uuid.UUID),
    "varint": ([decimal.Decimal(n) for n in (0, -1, 127, 128, -128, -129, 10**37, -(2**70))], int),
    "duration": (
        [
            {"months": m, "days": d, "nanoseconds": n}
            for m, d, n in ((0, 0, 0), (1, 2, 3), (-1, -2, -(2**62)), (2**31 - 1, 2**31 - 1, 2**63 - 1))
        ],
        lambda value: Duration(value["months"], value["days"], value["nanoseconds"]),
    ),
}
NESTED = {
    "list<int>": [[1, 2], [], [3]],
    "set<text>": [["a", "b"], ["grüße"]],
    "map<text, bigint>": [[("a", 1), ("b", -2)], [("", 0)]],
    "frozen<list<frozen<map<text, frozen<set<int>>>>>>": [[[("a", [1, 2])], [("b", [3])]], [[]]],
    "tuple<int, text, boolean>": [{"0": 1, "1": None, "2": True}, {"0": None, "1": "x", "2": False}],
    "frozen<address>": [
        {"street": "s", "tags": ["a"], "at": {"0": 1.5, "1": ONE}},
        {"street": None, "tags": None, "at": None},
    ],
    "list<frozen<address>>": [[{"street": "s", "tags": [], "at": None}]],
    "vector<float, 3>": [[1.0, 2.0, 3.5]],
}


def written_and_read(cassandra, table, batch, **options):
    write(cassandra, table, batch, **options)
    return read(cassandra, table)


def write(cassandra, table, batch, **options):
    from penstock.metrics import Metrics
    from penstock.sink import WriterContext

    connector = CassandraConnector()
    given = {**cassandra.options, "table": table, **options}
    sink = connector.create_sink(connector.sink_options.parse(given, owner="sink"), batch.schema)
    sink.validate_schema(batch.schema)
    context = WriterContext("q", batch.schema, Metrics(), write_timestamp_us=1_700_000_000_000_000, attempt_id="a")
    writer = sink.create_writer(context)
    writer.write(batch)
    writer.prepare_commit()
    writer.close()
    return context.metrics.snapshot()


def read(cassandra, table, schema=None, **options):
    given = {**cassandra.options, **({"table": table} if table else {}), "splits": "2", **options}
    harness = SourceHarness(CassandraConnector(), given)
    return pa.Table.from_batches(read_splits(harness.source, harness.list_splits(), schema), schema or harness.schema())


@pytest.fixture(params=["native", "python"], scope="module")
def walker(request):
    """Both ways to find cells."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(_cells, "_LIBRARY", NativeLibrary(Path("nowhere"), {}))
        yield request.param


def test_the_native_part_is_there():
    assert _cells.native_problem() == ""


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_types(cassandra, walker, name):
    values, seen_by_driver = SIMPLE[name]
    table = cassandra.table(f"id int primary key, v {name}")
    batch = pa.record_batch(
        [pa.array(range(len(values) + 1), pa.int32()), pa.array([*values, None], arrow(cassandra, table))], ["id", "v"]
    )
    found = written_and_read(cassandra, table, batch).sort_by("id")
    assert found.column("v").to_pylist() == [*values, None]
    theirs = dict(cassandra.rows(table, "id, v"))
    wanted = [seen_by_driver(value) if seen_by_driver else value for value in values]
    assert [theirs[number] for number in range(len(values))] == wanted and theirs[len(values)] is None


def arrow(cassandra, table):
    statement = cassandra.client.prepare(f"select v from {cassandra.keyspace}.{table}")
    return arrow_type(cql_type_of(statement.columns[0][3]))


@pytest.mark.parametrize("name", NESTED)
def test_nested_types(cassandra, walker, name):
    cassandra.cql(
        f"create type if not exists {cassandra.keyspace}.address "
        "(street text, tags frozen<set<text>>, at frozen<tuple<double, timeuuid>>)"
    )
    table = cassandra.table(f"id int primary key, v {name}")
    values = NESTED[name]
    batch = pa.record_batch(
        [pa.array(range(len(values) + 1), pa.int32()), pa.array([*values, None], arrow(cassandra, table))], ["id", "v"]
    )
    # A slice, as Spark may hand them over: what is before it must not be written.
    twice = pa.Table.from_batches([batch, batch]).combine_chunks().to_batches()[0].slice(len(values) + 1)
    found = written_and_read(cassandra, table, twice).sort_by("id")
    # An empty collection that is not frozen is null for Cassandra.
    frozen = name.startswith("frozen") or name.startswith("tuple") or name.startswith("vector")
    wanted = [value if value or frozen else None for value in values]
    assert found.column("v").to_pylist() == [*wanted, None]
    assert len(cassandra.rows(table)) == len(values) + 1


def test_counters_are_read(cassandra):
    table = cassandra.table("id int primary key, hits counter")
    for _ in range(3):
        cassandra.cql(f"update {cassandra.keyspace}.{table} set hits = hits + 2 where id = 1")
    assert read(cassandra, table).to_pylist() == [{"id": 1, "hits": 6}]


def test_whole_numbers_of_any_size_are_text(cassandra):
    table = cassandra.table("id int primary key, v varint, d decimal")
    huge = 7**200
    cassandra.cql(f"insert into {cassandra.keyspace}.{table} (id, v, d) values (1, {huge}, 1e-50)")
    with pytest.raises(BadDataError, match=r"column '[vd]'.*give a schema"):
        read(cassandra, table)
    schema = pa.schema([("v", pa.string()), ("d", pa.string())])
    (row,) = read(cassandra, table, schema).to_pylist()
    assert row["v"] == str(huge) and decimal.Decimal(row["d"]) == decimal.Decimal("1e-50")
    other = cassandra.table("id int primary key, v varint, d decimal")
    batch = pa.record_batch([pa.array([1], pa.int32()), [str(huge)], ["1E-50"]], ["id", "v", "d"])
    assert written_and_read_as(cassandra, other, batch, schema) == [row]


def written_and_read_as(cassandra, table, batch, schema):
    write(cassandra, table, batch)
    return read(cassandra, table, schema).to_pylist()


def test_ttl_and_write_time_are_columns_on_request(cassandra):
    table = cassandra.table("id int primary key, a text, b text")
    insert = (
        f"insert into {cassandra.keyspace}.{table} (id, a, b) values (1, 'x', 'y') using timestamp 123456 and ttl 1000"
    )
    cassandra.cql(insert)
    found = read(cassandra, table, ttlColumns="a, b", writetimeColumns="a")
    assert found.schema.names == ["id", "a", "b", "a_ttl", "b_ttl", "a_writetime"]
    (row,) = found.to_pylist()
    assert row["a_writetime"] == 123456 and 900 < row["a_ttl"] <= 1000
    some = pa.schema([("a_writetime", pa.int64()), ("id", pa.int32())])
    assert read(cassandra, table, some, writetimeColumns="a").to_pylist() == [{"a_writetime": 123456, "id": 1}]


def test_types_that_do_not_fit_are_named(cassandra):
    table = cassandra.table("id int primary key, v int, u uuid")
    with pytest.raises(BadConfigurationError, match=r"column 'v' of CQL type int can't be read as string"):
        read(cassandra, table, pa.schema([("v", pa.string())]))
    with pytest.raises(BadConfigurationError, match="gives no column 'w'"):
        read(cassandra, table, pa.schema([("w", pa.string())]))
    with pytest.raises(BadConfigurationError, match=r"column 'v' of CQL type int can't be written from bool"):
        write(cassandra, table, pa.record_batch([pa.array([1], pa.int32()), [True]], ["id", "v"]))
    batch = pa.record_batch([pa.array([1, 2, 3], pa.int32()), pa.array([1, 2**40, 3])], ["id", "v"])
    with pytest.raises(BadDataError, match=r"the row with key \(id=2\).*column 'v' can't be written as int"):
        write(cassandra, table, batch)
    batch = pa.record_batch([pa.array([1, 2], pa.int32()), [ONE, "no uuid"]], ["id", "u"])
    with pytest.raises(BadDataError, match=r"id=2.*column 'u'.*'no uuid' is not a uuid"):
        write(cassandra, table, batch)
