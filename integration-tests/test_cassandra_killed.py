"""Streams into and out of Cassandra under SIGKILL of the whole driver, of executors, and with two drivers at once."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.oracle import check_files, check_once

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.exhaustive(
        "each step of each way to write and read, older rows that come late, executors; test_every_with_every.py has "
        "one kill of each kind, connectors/cassandra/tests/test_sink.py the late rows"
    ),
]

LOG, PROTOCOL = "penstock._commit._chain:Chain", "penstock._commit._two_phase:TwoPhaseCommit"
ROWS = "penstock_cassandra.sink._row_writer:RowWriter"
SENDER, SENT = (
    "penstock_cassandra.sink._writer:CassandraSender",
    "penstock_cassandra.sink._committer:CassandraCheckpointCommitter",
)
PAGES, FILES = (
    "penstock_cassandra.source._reader:CassandraSplitReader",
    "penstock_filesystem.sink._writer:FileSystemWriter",
)

#: Each row has its place, and ``newest`` is of all rows of one ``k``: it tells whether an older batch came through.
UPSERTS = "k int, id bigint, note text, newest bigint static, primary key (k, id)"
KEYS = 200
#: A batch (at most 200 rows) has a ``k`` once.
COLUMNS = f"cast(id % {KEYS} as int) as k;id;note;id as newest"


def check_upserts(cassandra, table, expected):
    rows = cassandra.rows(table, "k, id, note, newest")
    check_once((id for _, id, _, _ in rows), expected)
    assert all(k == id % KEYS and note == f"note {id}" for k, id, note, _ in rows)
    older = [(k, newest) for k, _, _, newest in rows if newest + KEYS in expected or newest % KEYS != k]
    assert not older, f"overwritten by an older batch: {older[:5]}"


#: In the order in which a batch goes through them. The number says at which call of the run.
UPSERT_POINTS = [
    f"{PROTOCOL}.plan:after:2",
    f"{ROWS}.write:after:1",
    f"{ROWS}.drain:after:2",
    f"{LOG}.create:after:3",
]


def test_driver_killed_while_it_writes_exactly_once(driver, cassandra, csv_files):
    """Each run gets new files, which replace ``newest`` of the rows before."""
    table, expected = cassandra.table(UPSERTS), range(0)
    job = {**cassandra.options, "table": table, "columns": COLUMNS}
    for point in UPSERT_POINTS:
        expected = csv_files(4, 50, first=len(expected))
        driver("copy_cassandra", fault=point, **job).wait_for_kill()
    driver("copy_cassandra", **job).wait_for_success()
    check_upserts(cassandra, table, expected)


def test_a_driver_that_was_thought_dead_overwrites_nothing(driver, cassandra, csv_files):
    """The first is stopped before a task writes, another one does its work and more, then the first resumes."""
    table, expected = cassandra.table(UPSERTS), csv_files(4, 50)
    job = {**cassandra.options, "table": table, "columns": COLUMNS}
    first = driver("copy_cassandra", fault=f"{ROWS}.write:before:1", action="stop", **job)
    first.wait_for_hits()
    expected = csv_files(4, 50, first=len(expected))
    driver("copy_cassandra", **job).wait_for_success()
    check_upserts(cassandra, table, expected)
    first.resume()
    # It comes to its decision, so its rows are written.
    first.wait_for_failure("another run has carried this checkpoint on")
    check_upserts(cassandra, table, expected)


#: The second is the only one that may repeat rows: they were sent, and that is not noted.
AHEAD_POINTS = [
    f"{LOG}.create:before:2",
    f"{SENDER}.send:after:2",
    f"{LOG}.create:after:2",
    f"{SENT}.record:after:1",
]


def test_driver_killed_while_it_writes_ahead(driver, cassandra, csv_files):
    """Every row is added to a list, so that one that is sent again shows. A batch is one file, and so one segment."""
    table, expected = cassandra.table("k int primary key, ids list<bigint>"), range(0)
    statement = f"update {cassandra.keyspace}.{table} set ids = ids + ? where k = ?"
    columns = f"array(id) as ids;cast(id % {KEYS} as int) as k"
    job = {**cassandra.options, "statement": statement, "delivery": "write-ahead", "columns": columns, "per_trigger": 1}
    for point in AHEAD_POINTS:
        expected = csv_files(2, 50, first=len(expected))
        driver("copy_cassandra", fault=point, **job).wait_for_kill()
    driver("copy_cassandra", **job).wait_for_success()
    rows = Counter(id for _, ids in cassandra.rows(table, "k, ids") for id in ids)
    assert sorted(rows) == list(expected)
    again = sorted(id for id, count in rows.items() if count > 1)
    assert again == list(range(50, 100)) and {rows[id] for id in again} == {2}, f"doubled: {again}"


#: Of the reader of pages in a task, the writer of files, and the decision.
READ_POINTS = [f"{PAGES}.fetch:after:4", f"{FILES}.prepare_commit:after:2", f"{LOG}.create:after:3"]


def test_driver_killed_while_it_reads(driver, cassandra, tmp_path):
    """A table in five steps."""
    table = cassandra.table("id bigint primary key")
    cassandra.insert(table, "id", [(number,) for number in range(1000)])
    job = {**cassandra.options, "from": table, "splits": 15, "per_trigger": 3, "bucketAssigner": "basePath"}
    for point in READ_POINTS:
        driver("copy_cassandra", fault=point, **job).wait_for_kill()
    driver("copy_cassandra", **job).wait_for_success()
    check_files(tmp_path / "out", range(1000))


def test_executor_killed_while_it_writes(driver, cassandra, csv_files, tmp_path, cluster):
    table, expected = cassandra.table(UPSERTS), csv_files(40, 100)
    run = driver("copy_cassandra", **cassandra.options, table=table, columns=COLUMNS, master=cluster.url)
    cluster.kill_executors(run, tmp_path / "ck")
    run.wait_for_success()
    check_upserts(cassandra, table, expected)
