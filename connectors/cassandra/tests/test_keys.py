"""Keys of nested types, and values that are one key to the server: read, written, deleted, put aside."""

from __future__ import annotations

import datetime
import uuid

import pyarrow as pa
import pytest

from penstock.errors import BadDataError
from penstock.testing import SinkQuery, SourceQuery
from penstock_cassandra import CassandraConnector
from penstock_cassandra._tables import table_of
from penstock_cassandra.types import arrow_type, cql_type_of
from suite.letters import refused_rows, sink_with_letters, to_folder

ADDRESS = "(street text, tags frozen<set<text>>, at frozen<tuple<double, int>>)"
#: CQL type -> three keys as they are read back, and the first of them as it may also be written.
KEYS = {
    "frozen<list<int>>": ([[2, 1], [1, 2], []], [2, 1]),
    "frozen<set<text>>": ([["a", "b"], ["c"], []], ["b", "a", "b"]),
    "frozen<map<text, int>>": ([[("a", 1), ("b", 2)], [("a", 2)], []], [("b", 2), ("a", 1)]),
    "frozen<map<int, frozen<set<int>>>>": ([[(1, [1, 2])], [(1, [3])], [(2, [])]], [(1, [2, 1])]),
    "tuple<int, text>": ([{"0": 1, "1": "x"}, {"0": 2, "1": ""}, {"0": 3, "1": None}], {"0": 1, "1": "x"}),
    "frozen<home>": (
        [
            {"street": "s", "tags": ["a", "b"], "at": {"0": 0.5, "1": 1}},
            {"street": "", "tags": [], "at": None},
            {"street": None, "tags": None, "at": {"0": None, "1": 1}},
        ],
        {"street": "s", "tags": ["b", "a"], "at": {"0": 0.5, "1": 1}},
    ),
}
PLACES = {
    "partition": "key {}, v text, primary key (key)",
    "part of the partition": "id int, key {}, v text, primary key ((id, key))",
    "clustering": "id int, key {}, v text, primary key (id, key)",
    "clustering, descending": "id int, key {}, v text, primary key (id, key)",
}


@pytest.fixture
def new_table(cassandra):
    def make(kind, place="partition"):
        cassandra.cql(f"create type if not exists {cassandra.keyspace}.home {ADDRESS}")
        descending = "with clustering order by (key desc)" if place.endswith("descending") else ""
        table = cassandra.table(PLACES[place].format(kind), descending)
        statement = cassandra.client.prepare(f"select key from {cassandra.keyspace}.{table}")
        return table, arrow_type(cql_type_of(statement.columns[0][3]))

    return make


def write(cassandra, table, columns, folder, **options):
    """One batch; ``columns`` are arrays by name."""
    given = {**cassandra.options, "table": table, **options}
    if "id" in table_of(cassandra.client, cassandra.keyspace, table).columns:
        columns = {"id": pa.array([1] * len(columns["v"]), pa.int32()), **columns}
    rows = pa.record_batch(list(columns.values()), list(columns))
    sink = sink_with_letters(CassandraConnector(), rows.schema, given)
    SinkQuery(sink, rows.schema, folder / uuid.uuid4().hex).run(0, [[rows]])


def read(cassandra, table):
    """The values of each key, by its text."""
    parsed = CassandraConnector.source_options.parse({**cassandra.options, "table": table, "splits": "2"}, owner="s")
    source = CassandraConnector().create_source(parsed)
    query = SourceQuery(source, source.fixed_schema())
    try:
        rows = query.read_all_now()
    finally:
        query.stop()
    found = {str(row["key"]): row["v"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", KEYS)
def test_nested_keys(cassandra, new_table, tmp_path, kind, place):
    keys, again = KEYS[kind]
    table, arrow = new_table(kind, place)
    # The first key comes twice, written in two ways: the last row stays.
    write(cassandra, table, {"key": pa.array([*keys, again], arrow), "v": ["z", "1", "2", "a"]}, tmp_path)
    assert read(cassandra, table) == {str(keys[0]): "a", str(keys[1]): "1", str(keys[2]): "2"}
    gone = {"key": pa.array([again, keys[1]], arrow), "v": ["x", "new"], "gone": [True, False]}
    write(cassandra, table, gone, tmp_path, deleteColumn="gone")
    assert read(cassandra, table) == {str(keys[1]): "new", str(keys[2]): "2"}
    rows = {"key": pa.array([again, keys[1], keys[0]], arrow), "v": ["z", "more", "b"]}
    write(cassandra, table, rows, tmp_path, delivery="at-least-once")
    assert read(cassandra, table) == {str(keys[0]): "b", str(keys[1]): "more", str(keys[2]): "2"}


BAD = {
    "frozen<set<text>>": (["a", None], "can't hold null"),
    "frozen<map<text, int>>": ([("a", None)], "can't hold null"),
    "frozen<map<int, frozen<set<int>>>>": ([(1, [None])], "can't hold null"),
    "frozen<home>": ({"street": "s", "tags": ["a", None], "at": None}, "can't hold null"),
    "tuple<int, text>": (None, "column 'key' of the key is null"),
}


@pytest.mark.parametrize("kind", BAD)
def test_nested_keys_that_can_not_be_written(cassandra, new_table, tmp_path, kind):
    (good, *_), _ = KEYS[kind]
    bad, reason = BAD[kind]
    table, arrow = new_table(kind, "clustering")
    columns = {"key": pa.array([good, bad, None], arrow), "v": ["good", "bad", "null"]}
    with pytest.raises(BadDataError, match="key"):
        write(cassandra, table, columns, tmp_path)
    letters = tmp_path / "letters"
    write(cassandra, table, columns, tmp_path, **to_folder(letters))
    assert read(cassandra, table) == {str(good): "good"}
    reasons = {row["v"]: reason for row, reason in refused_rows(letters)}
    assert set(reasons) == {"bad", "null"} and reason in reasons["bad"]
    assert reasons["null"] == "column 'key' of the key is null"
    without_null = {name: values[:2] for name, values in columns.items()}
    with pytest.raises(BadDataError, match=rf"the row with key \(id=1, key=.*{reason}" if bad else "is null"):
        write(cassandra, table, without_null, tmp_path)


SPELLINGS = {
    "timestamp": [datetime.datetime(2026, 1, 1, microsecond=n, tzinfo=datetime.timezone.utc) for n in (5, 900)],
    "uuid": ["F81D4FAE-7DEC-41D0-A765-00A0C91E6BF6", "f81d4fae-7dec-41d0-a765-00a0c91e6bf6"],
    "inet": ["2001:db8:0::1", "2001:db8::1"],
}


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("kind", SPELLINGS)
def test_values_that_are_one_key_to_the_server(cassandra, new_table, tmp_path, kind, delivery):
    """Of equal timestamps the server would keep the greater value."""
    table, arrow = new_table(kind)
    columns = {"key": pa.array(SPELLINGS[kind], arrow), "v": ["z", "a"]}
    write(cassandra, table, columns, tmp_path, delivery=delivery)
    assert list(read(cassandra, table).values()) == ["a"]
