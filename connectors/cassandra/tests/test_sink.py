"""Writing without Spark: keys and zombies, nulls, deletes, times, conditions, rows that can't be written."""

from __future__ import annotations

import json
import logging
import socket

import pyarrow as pa
import pytest

from penstock._commit import metrics_of, write_all
from penstock.errors import BadConfigurationError, BadDataError
from penstock.metrics import Metrics
from penstock.sink import CommittingSinkWriter, SinkContext, Upserter, WriterContext
from penstock.testing import SinkQuery
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import shared_client
from penstock_cassandra.native import tokens_of
from penstock_cassandra.sink._rows import Grouping
from suite.letters import LETTER_TABLE, letters_in, refused_rows, sink_with_letters, to_folder

STAMP = 1_700_000_000_000_000


def sink_of(cassandra, schema, **options):
    connector = CassandraConnector()
    given = {**cassandra.options, **{name.replace("_", "."): str(value) for name, value in options.items()}}
    sink = connector.create_sink(connector.sink_options.parse(given, owner="sink penstock.cassandra"), schema)
    sink.validate_schema(schema)
    return sink.start(SinkContext("q", schema)) if options.get("delivery") != "write-ahead" else sink


def write(cassandra, rows, *, stamp=STAMP, schema=None, **options):
    """One task's rows; the metrics."""
    table = pa.Table.from_pylist(rows, schema=schema)
    sink = sink_of(cassandra, table.schema, **options)
    context = WriterContext("q", table.schema, Metrics(), write_timestamp_us=stamp, attempt_id="attempt")
    writer = sink.create_writer(context)
    write_all(writer, table.to_batches())
    if isinstance(writer, CommittingSinkWriter):
        writer.prepare_commit()
    writer.close()
    return context.metrics.snapshot()


@pytest.fixture
def table(cassandra):
    return cassandra.table("k int, c text, v text, primary key (k, c)")


def seen(cassandra, table, columns="k, c, v"):
    return sorted(cassandra.rows(table, columns), key=str)


def test_requests_of_several_packets_do_not_wait_for_acknowledgements(cassandra):
    """Nagle's algorithm and a server that acknowledges late took 40 ms for each."""
    opened = shared_client(cassandra.settings).session.cluster.get_connection_holders()
    connections = [one for holder in opened for one in holder.get_connections()]
    assert connections
    assert all(one._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in connections)


def test_a_zombie_never_overwrites_a_later_batch(cassandra, table):
    schema = pa.schema([("k", pa.int64()), ("c", pa.string()), ("v", pa.string())])
    sink = sink_of(cassandra, schema, table=table)

    def writer(stamp):
        return sink.create_writer(WriterContext("q", schema, Metrics(), write_timestamp_us=stamp, attempt_id="a"))

    def rows(v, *ks):
        return pa.RecordBatch.from_pylist([{"k": k, "c": "c", "v": v} for k in ks], schema)

    zombie = writer(STAMP)
    zombie.write(rows("old", 1))
    later = writer(STAMP + 10_000)
    later.write(rows("new", 1, 2))
    later.prepare_commit()
    zombie.write(rows("old", 1, 2))
    zombie.prepare_commit()
    assert seen(cassandra, table) == [(1, "c", "new"), (2, "c", "new")]


def test_the_last_row_of_a_key_stays(cassandra, table):
    rows = [{"k": i % 3, "c": "c", "v": str(i)} for i in range(3000)]
    write(cassandra, rows, table=table)
    assert seen(cassandra, table) == [(k, "c", str(2997 + k)) for k in range(3)]


@pytest.mark.parametrize("grouping", ["replica", "partition", "none"])
def test_many_rows_in_any_grouping(cassandra, table, grouping):
    rows = [{"k": i % 97, "c": str(i), "v": "v" * (i % 500)} for i in range(2000)]
    size = {} if grouping == "none" else {"batchBytes": "2kb"}
    write(cassandra, rows, table=table, batchGrouping=grouping, maxInFlight=4, **size)
    assert seen(cassandra, table) == sorted(((r["k"], r["c"], r["v"]) for r in rows), key=str)


def test_nulls_delete_or_leave(cassandra, table):
    write(cassandra, [{"k": k, "c": "c", "v": "old"} for k in (1, 2)], table=table)
    schema = pa.schema([("k", pa.int32()), ("c", pa.string()), ("v", pa.string())])
    write(cassandra, [{"k": 1, "c": "c", "v": None}], schema=schema, table=table, stamp=STAMP + 10)
    write(cassandra, [{"k": 2, "c": "c", "v": None}], schema=schema, table=table, stamp=STAMP + 10, nulls="unset")
    assert seen(cassandra, table) == [(1, "c", None), (2, "c", "old")]


def test_rows_are_deleted_by_a_column(cassandra, table):
    write(cassandra, [{"k": k, "c": "c", "v": "old"} for k in range(10)], table=table)
    rows = [{"k": k, "c": "c", "v": "new", "gone": None if k == 0 else k % 2 == 1} for k in range(10)]
    write(cassandra, rows, table=table, stamp=STAMP + 10, deleteColumn="gone")
    assert seen(cassandra, table) == [(k, "c", "new") for k in range(0, 10, 2)]


def changes(*rows):
    """Rows of table ``(k, c, v)``: operation, k, value, position, names of columns that lack a value."""
    names = ("op", "k", "v", "at", "no")
    return [{"c": "c", **dict(zip(names, row, strict=False))} for row in rows]


def test_changes_are_ordered_by_their_position(cassandra, table):
    """Whatever order, task and batch they come in; a row that is deleted and made again is there."""
    options = {"table": table, "operationColumn": "op", "orderColumn": "at"}
    later = changes(("c", 1, "again", 30), ("d", 1, None, 20), ("u", 2, "new", 20), ("d", 3, None, 20))
    earlier = changes(("c", 1, "first", 10), ("u", 2, "old", 10), ("u", 3, "old", 10), ("c", 2, "oldest", 5))
    write(cassandra, later, **options)
    write(cassandra, earlier, stamp=STAMP + 10, **options)
    assert seen(cassandra, table) == [(1, "c", "again"), (2, "c", "new")]


def test_changes_without_a_position_come_in_their_order(cassandra, table):
    rows = [("c", 1, "a"), ("d", 1, None), ("c", 1, "b"), ("c", 2, "a"), ("d", 2, None)]
    write(cassandra, changes(*rows), table=table, operationColumn="op")
    assert seen(cassandra, table) == [(1, "c", "b")]


def test_a_value_that_the_database_did_not_send_stays(cassandra, table):
    """Also where the one before it comes in the same batch of rows."""
    schema = pa.schema(
        {
            "c": pa.string(),
            "op": pa.string(),
            "k": pa.int32(),
            "v": pa.string(),
            "at": pa.int64(),
            "no": pa.list_(pa.string()),
        }
    )
    options = {"table": table, "operationColumn": "op", "orderColumn": "at", "unavailableColumn": "no"}
    rows = changes(("c", 1, "large", 10, []), ("u", 1, None, 20, ["after.v"]), ("u", 2, None, 20, None))
    write(cassandra, rows, schema=schema, **options)
    assert seen(cassandra, table) == [(1, "c", "large"), (2, "c", None)]
    write(cassandra, changes(("u", 1, None, 30, ["v"])), schema=schema, stamp=STAMP + 10, **options)
    assert seen(cassandra, table) == [(1, "c", "large"), (2, "c", None)]
    with pytest.raises(BadDataError, match="names 'k', which is of the key"):
        write(cassandra, changes(("u", 1, None, 30, ["after.k"])), schema=schema, **options)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (("t", 1, "a", 10), "column 'op': 't' says that the table was truncated"),
        (("u", 1, "a", None), "order column 'at' is null"),
    ],
)
def test_changes_that_can_not_be_written(cassandra, table, tmp_path, row, reason):
    options = {"table": table, "operationColumn": "op", "orderColumn": "at"}
    rows = changes(("c", 0, "a", 10), row)
    with pytest.raises(BadDataError, match=f"the row with key.*{reason}"):
        write(cassandra, rows, **options)
    letters = tmp_path / "letters"
    assert run_with_letters(cassandra, rows, tmp_path, **options, **to_folder(letters))["bad_rows"] == 1
    assert seen(cassandra, table) == [(0, "c", "a")]
    ((_, why),) = refused_rows(letters)
    assert reason in why


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"operationColumn": "op", "deleteColumn": "gone"}, "can't be used with"),
        ({"orderColumn": "at", "timestampColumn": "at"}, "can't be used with"),
        ({"unavailableColumn": "no"}, "takes effect only with 'orderColumn' or 'timestampColumn'"),
        ({"operationColumn": "po"}, "option 'operationColumn': the rows have no column 'po'; did you mean 'op'"),
        ({"keyColumns": "k"}, "has no option 'keyColumns'"),
    ],
)
def test_options_of_changes_that_do_not_go_together(cassandra, table, options, message):
    with pytest.raises(BadConfigurationError, match=message):
        write(cassandra, changes(("c", 1, "a", 10)), table=table, **options)


def test_times_to_live_and_timestamps_from_columns(cassandra, table):
    rows = [
        {"k": 1, "c": "c", "v": "a", "seconds": 1000, "at": 5_000},
        {"k": 2, "c": "c", "v": "b", "seconds": None, "at": None},
    ]
    write(cassandra, rows, table=table, ttlColumn="seconds", timestampColumn="at")
    (first, second) = sorted(cassandra.rows(table, "k, ttl(v), writetime(v)"))
    assert 900 < first[1] <= 1000 and first[2] == 5_000
    assert second == (2, None, STAMP)
    write(cassandra, [{"k": 3, "c": "c", "v": "x"}], table=table, ttl=500, timestamp=77)
    ((ttl, at),) = cassandra.cql(f"select ttl(v), writetime(v) from {cassandra.keyspace}.{table} where k = 3")
    assert 400 < ttl <= 500 and at == 77


def test_it_says_what_is_cut_off(cassandra, caplog):
    table = cassandra.table("k int primary key, at timestamp, day timestamp")
    schema = pa.schema([("k", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("day", pa.timestamp("ms", "UTC"))])
    connector = CassandraConnector()
    given = {**cassandra.options, "table": table}
    with caplog.at_level(logging.WARNING, "penstock.options"):
        connector.create_sink(connector.sink_options.parse(given, owner="sink"), schema).validate_schema(schema)
    (said,) = [record.message for record in caplog.records if record.name.startswith("penstock.options")]
    assert "column 'at'" in said and "milliseconds" in said


def test_only_rows_that_are_not_there(cassandra, table):
    write(cassandra, [{"k": 1, "c": "c", "v": "first"}], table=table)
    rows = [{"k": k, "c": "c", "v": "second"} for k in (1, 2, 3)]
    metrics = write(cassandra, rows, table=table, ifNotExists="true")
    assert metrics["rows_not_applied"] == 1
    assert seen(cassandra, table) == [(1, "c", "first"), (2, "c", "second"), (3, "c", "second")]


def test_by_position_to_an_insert(cassandra, table):
    statement = f"insert into {cassandra.keyspace}.{table} (v, k, c) values (?, ?, ?) using ttl 100"
    write(cassandra, [{"x": "v", "y": 1, "z": "c"}], statement=statement)
    assert seen(cassandra, table) == [(1, "c", "v")]
    for bad, reason in (
        (f"update {cassandra.keyspace}.{table} set v = ? where k = ? and c = ?", "no INSERT"),
        (f"insert into {cassandra.keyspace}.{table} (v, k, c) values (?, ?, 'c')", "2 places for values"),
        (f"insert into {cassandra.keyspace}.nowhere (v, k, c) values (?, ?, ?)", "nowhere"),
    ):
        with pytest.raises(BadConfigurationError, match=reason):
            write(cassandra, [{"x": "v", "y": 1, "z": "c"}], statement=bad)


def test_counters_are_refused_with_the_reason(cassandra):
    counters = cassandra.table("k int primary key, hits counter")
    with pytest.raises(BadConfigurationError, match="can't be repeated without counting twice"):
        write(cassandra, [{"k": 1, "hits": 1}], table=counters)
    statement = f"update {cassandra.keyspace}.{counters} set hits = hits + ? where k = ?"
    with pytest.raises(BadConfigurationError, match="has counters"):
        write(cassandra, [{"n": 1, "k": 1}], statement=statement, delivery="write-ahead", checkpointKeyspace="x")
    rows = [{"n": n, "k": 1} for n in range(1, 101)]
    write(cassandra, rows, statement=statement, delivery="at-least-once")
    assert cassandra.rows(counters) == [(1, 5050)]


def test_rows_of_a_key_keep_their_order_at_least_once(cassandra, table):
    statement = f"update {cassandra.keyspace}.{table} set v = ? where k = ? and c = ?"
    rows = [{"v": str(i), "k": i % 2, "c": "c"} for i in range(10)]
    write(cassandra, rows, statement=statement, delivery="at-least-once")
    assert seen(cassandra, table) == [(0, "c", "8"), (1, "c", "9")]


def test_a_null_key_is_named(cassandra, table):
    with pytest.raises(BadDataError, match="key column 'c' is null"):
        write(cassandra, [{"k": 1, "c": None, "v": "x"}, {"k": 1, "c": "c", "v": "y"}], table=table)


BAD = {3, 5, 7, 9}


def rows_of_which_four_are_bad():
    rows = [{"k": k, "c": str(k), "v": "v"} for k in range(100)]
    rows[3]["c"] = None
    rows[5]["k"] = 2**40
    rows[7]["c"] = "x" * 70_000  # the server's limit for keys is 65,535 bytes
    rows[9]["v"] = "y" * 2_000_000
    return rows


def check_reasons(rows, refused):
    assert sorted(rows.index(row) for row, _ in refused) == sorted(BAD)
    reasons = {rows.index(row): reason for row, reason in refused}
    assert "column 'c'" in reasons[3] and "null" in reasons[3] and "column 'k' can't be written as int" in reasons[5]
    assert "65535" in reasons[7] and "maxRowBytes" in reasons[9]


def run_with_letters(cassandra, rows, folder, **options):
    table = pa.Table.from_pylist(rows)
    sink = sink_with_letters(CassandraConnector(), table.schema, {**cassandra.options, **options})
    query = SinkQuery(sink, table.schema, folder / "checkpoint")
    results = query.tasks(0, [table.to_batches()])
    query.commit(0, results)
    return metrics_of(results)


@pytest.mark.parametrize("delivery", ["exactly-once", "write-ahead"])
def test_bad_rows_become_dead_letters_and_nothing_is_lost(cassandra, table, tmp_path, delivery):
    rows = rows_of_which_four_are_bad()
    if delivery == "write-ahead":  # what only the server finds comes after the decision
        rows[7]["c"] = None
    letters = tmp_path / "letters"
    more = {"table": table, "maxRowBytes": "1mb", "delivery": delivery}
    metrics = run_with_letters(cassandra, rows, tmp_path, **more, **to_folder(letters))
    assert seen(cassandra, table) == sorted(((k, str(k), "v") for k in range(100) if k not in BAD), key=str)
    assert (metrics["bad_rows"], metrics["dead_letters"], metrics["rows_written"]) == (4, 4, 96)
    refused = refused_rows(letters)
    if delivery == "exactly-once":
        check_reasons(rows, refused)
    assert len(refused) == 4
    one = letters_in(letters)[0]
    assert (one["stage"], one["connector"], one["source"]) == ("sink", "cassandra", f"{cassandra.keyspace}.{table}")


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_bad_rows_become_rows_of_another_table(cassandra, table, tmp_path, delivery):
    rows, letters = rows_of_which_four_are_bad(), cassandra.table(LETTER_TABLE)
    more = {"deadLetters.format": "cassandra", "deadLetters.table": letters, "delivery": delivery}
    for attempt in range(2):  # a replay replaces them
        run_with_letters(cassandra, rows, tmp_path / str(attempt), table=table, maxRowBytes="1mb", **more)
    assert seen(cassandra, table) == sorted(((k, str(k), "v") for k in range(100) if k not in BAD), key=str)
    found = cassandra.rows(letters, "value, error, stage, source, id")
    check_reasons(rows, [(json.loads(value), error) for value, error, *_ in found])
    assert {(stage, source) for _, _, stage, source, _ in found} == {("sink", f"{cassandra.keyspace}.{table}")}


def test_a_row_that_the_server_refuses_is_named(cassandra, table):
    rows = [{"k": k, "c": "c" if k != 7 else "x" * 70_000, "v": "v"} for k in range(20)]
    with pytest.raises(BadDataError, match=r"the row with key \(k=7, c='xxx.*65535"):
        write(cassandra, rows, table=table)


def test_columns_and_options_that_do_not_fit(cassandra, table):
    rows = [{"k": 1, "c": "c", "vv": "x"}]
    with pytest.raises(BadConfigurationError, match="has no column 'vv'; did you mean"):
        write(cassandra, rows, table=table)
    with pytest.raises(BadConfigurationError, match="no column 'c', which is of the key"):
        write(cassandra, [{"k": 1}], table=table)
    with pytest.raises(BadConfigurationError, match="has no table 'nowhere'"):
        write(cassandra, rows, table="nowhere")
    for options, reason in (
        ({}, "needs the option 'table' or 'statement'"),
        ({"table": table, "statement": "insert"}, "'table' can't be used with 'statement'"),
        ({"table": table, "ttl": 1, "ttlColumn": "vv"}, "'ttlColumn' can't be used with 'ttl'"),
        ({"table": table, "ifNotExists": "true", "timestamp": 1}, "can't be used with ifNotExists=true"),
        ({"table": table, "password": "p"}, "needs the option 'user'"),
    ):
        with pytest.raises(BadConfigurationError, match=reason):
            write(cassandra, rows, **options)


def test_tokens_are_those_of_the_server(cassandra):
    table = cassandra.table("k text primary key")
    keys = ["", *("k" * n + "é" * (n % 3) for n in range(1, 60))][1:]
    write(cassandra, [{"k": key} for key in keys], table=table)
    theirs = dict(cassandra.rows(table, "k, token(k)"))
    ours = tokens_of(pa.array([key.encode() for key in keys], pa.binary())).tolist()
    assert ours == [theirs[key] for key in keys]


def test_rows_are_grouped_by_who_holds_them():
    keys = pa.array([str(n).encode() for n in range(1000)], pa.binary())
    tokens = tokens_of(keys)
    groups = Grouping("replica", [-(2**62), 0, 2**62], [0, 1, 0]).of(keys, 1000)
    # Between the first end and the second: the second set; elsewhere, also above the last end, the first.
    assert groups.tolist() == [1 if -(2**62) < token <= 0 else 0 for token in tokens.tolist()]


def test_an_upserter_screens_nothing_by_default():
    batch = pa.record_batch([[1]], ["a"])
    assert Upserter.drop_invalid(object(), batch) is batch


@pytest.mark.parametrize(
    ("options", "target"),
    [
        ({"keyspace": "k", "table": "T"}, "k.T"),
        ({"statement": "insert into K.t (a) values (?)"}, "k.t"),
        ({"statement": 'UPDATE "K""s" . "T" SET v = ? WHERE from = ?'}, 'K"s.T'),
        ({"statement": "DELETE v FROM k.t WHERE a = ?"}, "k.t"),
        ({"statement": "begin batch"}, ""),
    ],
)
@pytest.mark.parametrize("delivery", ["exactly-once", "write-ahead"])
def test_a_sink_names_its_table(options, target, delivery):
    connector = CassandraConnector()
    given = connector.sink_options.parse({**options, "host": "h", "delivery": delivery}, owner="sink")
    assert connector.create_sink(given, pa.schema([])).target == target
