"""Upserts: the latest row of a key stays, whoever writes when."""

from __future__ import annotations

import pyarrow as pa
import pytest
from penstock_postgres import PostgresConnector

from penstock.errors import BadConfigurationError
from penstock.sink import SinkContext, WriterContext


def sink_of(postgres, table, schema, key):
    given = {**postgres.options(table), "delivery": "upsert", "key": key}
    sink = PostgresConnector().create_sink(PostgresConnector.sink_options.parse(given, owner="sink"), schema)
    sink.validate_schema(schema)
    return sink.start(SinkContext("q", schema))


def batch_of(**columns):
    return pa.record_batch(list(columns.values()), list(columns))


def test_an_older_row_replaces_nothing(postgres):
    table = postgres.table('"Key" text, part int, value text, seen text, unique (part, "Key")')
    postgres.run(f"insert into {table} values ('a', 1, 'before', 'kept')")
    batch = batch_of(value=["one", "two"], Key=["a", "b"], part=pa.array([1, 1], pa.int32()))
    sink = sink_of(postgres, table, batch.schema, "Key, part")
    upserter = sink.create_upserter(WriterContext("q", batch.schema))
    upserter.upsert(batch, 20)
    late = batch_of(value=["late", "three"], Key=["a", "c"], part=pa.array([1, 1], pa.int32()))
    upserter.upsert(late, 10)
    upserter.upsert(batch.slice(0, 1), 20)
    upserter.close()
    rows = postgres.run(f'select "Key", value, seen, penstock_written_us from {table} order by 1')
    assert rows == [("a", "one", "kept", 20), ("b", "two", None, 20), ("c", "three", None, 10)]


def test_of_keys_that_the_database_takes_for_one_the_last_stays(postgres):
    table = postgres.table("key char(5) primary key, value int")
    batch = batch_of(key=["a", "a ", "b"], value=pa.array([1, 2, 3], pa.int32()))
    upserter = sink_of(postgres, table, batch.schema, "key").create_upserter(WriterContext("q", batch.schema))
    upserter.upsert(batch, 1)
    upserter.close()
    assert postgres.run(f"select trim(key), value from {table} order by 1") == [("a", 2), ("b", 3)]


def test_only_a_key(postgres):
    table = postgres.table("key int primary key")
    batch = batch_of(key=pa.array([1, 2], pa.int32()))
    upserter = sink_of(postgres, table, batch.schema, "key").create_upserter(WriterContext("q", batch.schema))
    for stamp in (1, 3, 2):
        upserter.upsert(batch, stamp)
    upserter.close()
    assert postgres.run(f"select * from {table} order by 1") == [(1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("columns", "key", "message"),
    [
        ("id bigint, text text", "id", "no unique key"),
        ("id bigint, text text, primary key (id, text)", "id", "no unique key"),
        ("id bigint primary key, text text", "other", "other"),
    ],
)
def test_a_key_that_is_not_unique_is_refused(postgres, columns, key, message):
    table = postgres.table(columns)
    with pytest.raises(BadConfigurationError, match=message):
        sink_of(postgres, table, pa.schema([("id", pa.int64()), ("text", pa.string())]), key)


def test_the_key_is_for_upserts_and_upserts_need_it():
    for given in ({"key": "id"}, {"delivery": "upsert"}):
        with pytest.raises(BadConfigurationError, match="key"):
            PostgresConnector.sink_options.parse({"database": "d", "table": "t", **given}, owner="sink")
