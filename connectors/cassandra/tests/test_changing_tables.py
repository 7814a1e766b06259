"""Tables that are altered, dropped, created again or truncated while they are read or written."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, DataLostError
from penstock.metrics import Metrics
from penstock.sink import CommittingSinkWriter, SinkContext, WriterContext
from penstock.source import ReaderContext
from penstock_cassandra import CassandraConnector, Lookup
from penstock_cassandra.source import TableState
from suite.letters import LETTER_TABLE, sink_with_letters, to_folder
from suite.sources import SourceHarness

COLUMNS = "k int primary key, v int, note text"
ROWS = 500


@pytest.fixture
def table(cassandra):
    name = cassandra.table(COLUMNS)
    cassandra.insert(name, "k, v, note", [(k, k, f"old {k}") for k in range(ROWS)])
    return name


@pytest.fixture
def again(cassandra, table):
    """``again(columns, rows)``: drops the table, and creates another one of its name."""

    def make(columns=COLUMNS, rows=(), names="k, v, note"):
        cassandra.cql(f"drop table {cassandra.keyspace}.{table}")
        cassandra.cql(f"create table {cassandra.keyspace}.{table} ({columns})")
        if rows:
            cassandra.insert(table, names, rows)

    return make


@pytest.fixture
def source_of(cassandra):
    """``source_of(table=…, …)``: a :class:`SourceHarness`."""
    return lambda **options: SourceHarness(CassandraConnector(), {**cassandra.options, **options})


# --- reading ----------------------------------------------------------------------------------------------------------


class Task:
    """One task that reads, page by page."""

    def __init__(self, harness):
        context = ReaderContext(harness.schema(), Metrics())
        self.reader, self.emitter = harness.source.create_reader(context), harness.source.create_emitter(context)
        splits = harness.list_splits()
        self.left, self.rows = len(splits), []
        self.reader.handle_splits_changes(splits)

    def read_some(self):
        while not self.rows:
            self._fetch()

    def read_all(self):
        while self.left:
            self._fetch()
        return self.rows

    def _fetch(self):
        fetched = self.reader.fetch()
        self.left -= len(fetched.finished_splits)
        for _, element in fetched.records:
            for batch in self.emitter.emit_record(element, None):
                self.rows += batch.to_pylist()


@pytest.fixture
def scan(source_of, table):
    """A task that has read the first page of a scan."""
    tasks = []

    def begin(**options):
        tasks.append(Task(source_of(pageRows="50", splits="3", **(options or {"table": table}))))
        tasks[-1].read_some()
        return tasks[-1]

    yield begin
    for task in tasks:
        task.reader.close()


def test_a_column_that_comes_in_a_scan_changes_nothing(cassandra, table, scan):
    task = scan()
    cassandra.cql(f"alter table {cassandra.keyspace}.{table} add more text")
    assert sorted(row["k"] for row in task.read_all()) == list(range(ROWS))


def test_a_column_that_goes_in_a_scan_is_named(cassandra, table, scan):
    task = scan()
    cassandra.cql(f"alter table {cassandra.keyspace}.{table} drop note")
    with pytest.raises(BadConfigurationError, match="note"):
        task.read_all()


def test_a_table_that_is_dropped_in_a_scan_is_named(cassandra, table, scan):
    task = scan()
    cassandra.cql(f"drop table {cassandra.keyspace}.{table}")
    with pytest.raises(BadConfigurationError, match=table):
        task.read_all()


@pytest.mark.parametrize("kind", ["table", "where", "query"])
def test_the_rest_of_a_scan_is_not_read_from_another_table(table, scan, again, kind):
    options = {"query": f"select k from {table}"} if kind == "query" else {"table": table}
    task = scan(**options, **({"where": "v >= 0"} if kind == "where" else {}))
    again(rows=[(k, k, f"new {k}") for k in range(ROWS)])
    with pytest.raises(DataLostError, match=f"{table} was dropped and created again"):
        task.read_all()


@pytest.mark.parametrize("columns", ["k int primary key, v text, note text", "k bigint primary key, v int, note int"])
def test_values_of_another_type_are_not_read_as_the_first_one(scan, again, columns):
    task = scan()
    again(columns)
    with pytest.raises((DataLostError, BadConfigurationError), match=r"created again|can't be read as"):
        task.read_all()


def test_a_truncated_table_ends_a_scan_early_and_without_an_error(cassandra, table, scan):
    task = scan()
    cassandra.cql(f"truncate {cassandra.keyspace}.{table}")
    rows = task.read_all()
    assert all(row["note"] == f"old {row['k']}" for row in rows)
    assert len(rows) < ROWS


def test_a_stream_does_not_continue_with_another_table(table, source_of, again):
    harness = source_of(table=table, splits="4")
    with harness.enumerator() as enumerator:
        split, state = enumerator.handle_split_request(), enumerator.snapshot_state()
    assert state.table_id
    assert state.table_id == split.table_id
    again(rows=[(1, 1, "new")])
    harness = source_of(table=table, splits="4")
    with (
        harness.enumerator(state) as enumerator,
        pytest.raises(DataLostError, match=r"created again.*new checkpoint location"),
    ):
        enumerator.handle_split_request()
    with pytest.raises(DataLostError, match="created again"):  # a batch that is read again
        harness.read([split])


def test_states_without_an_id_continue(table, source_of):
    harness = source_of(table=table, splits="2")
    with harness.enumerator(TableState(1, 2, 100, "Murmur3Partitioner")) as enumerator:
        assert harness.read([enumerator.handle_split_request()])


def test_tables_without_an_id_are_read(source_of):
    """Those of the server itself; it can read one partition of them, not ranges."""
    assert source_of(keyspace="system_views", table="settings", where="name = 'cluster_name'").rows()


@pytest.mark.parametrize(("kind", "value"), [("int", 7), ("text", "seven")])
def test_a_table_is_planned_as_it_is_now(table, source_of, again, kind, value):
    """Statements are kept, by their text."""
    assert len(source_of(table=table).rows()) == ROWS
    again(f"k int primary key, v {kind}, note text", [(1, value, "new")])
    schema = pa.schema([("k", pa.int32()), ("v", pa.int32() if kind == "int" else pa.string())])
    assert source_of(table=table).rows(schema) == [{"k": 1, "v": value}]


def test_a_lookup_finds_what_the_table_holds_now(cassandra, table, again):
    lookup = Lookup({**cassandra.options, "table": table}, ["k"], ["v"])
    keys = pa.record_batch({"k": pa.array([1], pa.int32())})
    assert lookup.look_up(keys).to_pylist() == [[{"v": 1}]]
    again("k int primary key, v text", [(1, "seven")], "k, v")
    assert lookup.look_up(keys).to_pylist() == [[{"v": "seven"}]]


# --- writing ----------------------------------------------------------------------------------------------------------

DELIVERIES = ["exactly-once", "at-least-once"]
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int32())])


def numbered(first, last):
    numbers = pa.array(range(first, last), pa.int32())
    return pa.record_batch([numbers, numbers], schema=SCHEMA)


def writer_of(cassandra, schema, **options):
    sink = sink_with_letters(CassandraConnector(), schema, {**cassandra.options, **options})
    sink.validate_schema(schema)
    context = WriterContext("q", schema, Metrics(), write_timestamp_us=1_700_000_000_000_000, attempt_id="a")
    return sink.start(SinkContext("q", schema)).create_writer(context)


def end(writer):
    writer.prepare_commit() if isinstance(writer, CommittingSinkWriter) else writer.flush()


def write(cassandra, batch, **options):
    writer = writer_of(cassandra, batch.schema, **options)
    try:
        writer.write(batch)
        end(writer)
    finally:
        writer.close()


@pytest.fixture
def writer(cassandra, table):
    """``writer(delivery=…)``: a task that has written some rows."""
    writers = []

    def begin(**options):
        writers.append(writer_of(cassandra, SCHEMA, table=table, **options))
        writers[-1].write(numbered(1000, 1100))
        return writers[-1]

    yield begin
    for one in writers:
        one.close()


def finish(writer):
    for first in range(2000, 3000, 100):
        writer.write(numbered(first, first + 100))
    end(writer)


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_column_that_comes_while_rows_are_written(cassandra, table, writer, delivery):
    task = writer(delivery=delivery)
    cassandra.cql(f"alter table {cassandra.keyspace}.{table} add more text")
    finish(task)
    assert len(cassandra.rows(table)) == ROWS + 1100


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("letters", [False, True], ids=["fail", "letters"])
@pytest.mark.parametrize("change", ["alter table {} drop v", "drop table {}"], ids=["column", "table"])
def test_no_row_is_to_blame_for_a_table_that_was_changed(cassandra, table, writer, delivery, letters, change, tmp_path):
    other = {"deadLetters.format": "cassandra", "deadLetters.table": "letters"}
    folder = to_folder(tmp_path / "letters") if delivery == "exactly-once" else other
    if letters and folder is other:
        cassandra.cql(f"create table if not exists {cassandra.keyspace}.letters ({LETTER_TABLE})")
    task = writer(delivery=delivery, **(folder if letters else {}))
    cassandra.cql(change.format(f"{cassandra.keyspace}.{table}"))
    with pytest.raises(BadConfigurationError, match=f"table {cassandra.keyspace}.{table} was changed"):
        finish(task)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    if letters and folder is other:
        assert cassandra.rows("letters", "id") == []


@pytest.mark.parametrize("delivery", DELIVERIES)
def test_a_table_that_is_created_again_while_rows_are_written(writer, again, delivery):
    task = writer(delivery=delivery)
    again()
    with pytest.raises(DataLostError, match=r"created again.*are gone"):
        finish(task)


def test_rows_are_written_as_the_table_is_now(cassandra, table, again):
    """Numbers of four bytes would be texts of four characters."""
    one = numbered(1, 2)
    write(cassandra, one, table=table)
    again("k int primary key, v text")
    with pytest.raises(BadConfigurationError, match="column 'v'"):
        write(cassandra, one, table=table)
    write(cassandra, pa.record_batch({"k": one["k"], "v": ["seven"]}), table=table)
    assert cassandra.rows(table, "k, v") == [(1, "seven")]


def test_a_row_is_to_blame_if_the_table_is_as_it_was(cassandra):
    name = cassandra.table("k text primary key")
    with pytest.raises(BadDataError, match="the row with key"):
        write(cassandra, pa.record_batch({"k": ["x" * 70_000]}), table=name)
