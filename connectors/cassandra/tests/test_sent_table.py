"""Write-ahead: what is noted in Cassandra of segments that were sent, and what is forgotten again."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest
from cassandra import ConsistencyLevel

from penstock.errors import FatalError, RetriableError
from penstock.retry import RetryPolicy
from penstock.sink import Segment
from penstock.testing import SinkQuery
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client
from penstock_cassandra.sink import CassandraWriteAheadSink
from penstock_cassandra.sink import _committer as committer
from penstock_cassandra.sink._committer import CassandraCheckpointCommitter
from penstock_cassandra.sink._writer import CassandraSender

FIRST_EDITION = "(query text, batch_id bigint, segment text, primary key (query, batch_id, segment))"


def segment(base, batch=0, number=0, attempt="a" * 32):
    return Segment(batch, 0, attempt, number, 10, 100, base)


@pytest.fixture
def notes(cassandra):
    """``notes(query)``: of a query, by default of the test's own; as a process has them that uses ``client``."""
    own = uuid.uuid4().hex

    def of(query=own, client=None):
        made = CassandraCheckpointCommitter(client or cassandra.client, cassandra.keyspace, query, RetryPolicy(1.0))
        made.create()
        return made

    return of


def recorded(notes, segments):
    return [one for one in segments if notes.is_recorded(one)]


def test_what_is_recorded_is_found_by_every_process_and_of_no_other_query(cassandra, notes):
    mine, one = notes(), segment(base=3)
    with Client(cassandra.settings) as client:
        another = notes(client=client)
        assert not another.is_recorded(one)
        mine.record(one)
        assert another.is_recorded(one)
        assert recorded(another, [segment(4), segment(3, batch=1), segment(3, number=1), segment(-1)]) == []
    assert not notes("another").is_recorded(one)


def test_a_record_written_twice_changes_nothing(notes):
    mine, one = notes(), segment(base=3)
    for _ in range(2):
        mine.record(one)
        assert mine.is_recorded(one)
    mine.forget(4, [])
    assert not mine.is_recorded(one)


def test_forgetting_leaves_what_is_kept_and_what_is_of_later_bases(notes):
    mine, another = notes(), notes("another")
    # As text 100 is lower than 9.
    old, kept, later = segment(base=9), segment(base=99), [segment(base=100), segment(base=1000)]
    for one in (old, kept, *later):
        mine.record(one)
        another.record(one)
    mine.forget(100, {kept.id})
    assert recorded(mine, [old, kept, *later]) == [kept, *later]
    mine.forget(100, [])
    assert recorded(mine, [old, kept, *later]) == later
    assert recorded(another, [old, kept, *later]) == [old, kept, *later]


def test_a_call_that_lands_late_removes_nothing_that_is_asked_for(notes):
    """A run that was displaced forgets what it knew to be old, while its successor has gone on."""
    mine, successor, later = notes(), notes(), segment(base=7)
    successor.record(later)
    mine.forget(5, [])
    mine.record(segment(base=2))
    assert successor.is_recorded(later)
    successor.forget(8, {later.id})
    assert recorded(successor, [segment(base=2), later]) == [later]


@pytest.fixture
def first_edition(cassandra):
    """Its table, in the keyspace that the others use: they must do with and without it."""
    name = f"{cassandra.keyspace}.{committer._TABLE_OF_FIRST_EDITION}"
    cassandra.cql(f"create table if not exists {name} {FIRST_EDITION}")
    yield lambda query, one: cassandra.cql(
        f"insert into {name} (query, batch_id, segment) values (?, ?, ?)", query, one.batch_id, one.id
    )
    cassandra.cql(f"drop table {name}")


def test_what_the_first_edition_has_recorded_is_found_and_forgotten(notes, first_edition):
    old = [segment(base=-1, batch=7, number=number) for number in range(3)]
    assert old[0].id == f"7-0-{'a' * 32}-0"
    mine = notes("upgraded")
    for query in ("upgraded", "another"):
        for one in old[:2]:
            first_edition(query, one)
    assert recorded(mine, old) == old[:2]
    mine.record(old[2])  # it was decided by the first edition, and is sent by this one
    mine.forget(8, {old[1].id})
    assert old[1] in recorded(mine, old)
    mine.forget(8, {segment(base=7).id})
    assert recorded(mine, old) == []
    assert recorded(notes("another"), old) == old[:2]


def test_the_first_editions_table_may_be_dropped_at_any_time(cassandra, notes):
    """The committer remembers that the table was there, until a statement fails."""
    mine, old = notes(), segment(base=-1, batch=7)
    for ask in (lambda: mine.is_recorded(old), lambda: mine.forget(8, [])):
        mine._has_first_edition = True  # as it was known
        assert not ask()
        assert mine._has_first_edition is False


def test_a_failure_that_is_about_something_else_is_told(cassandra, notes, first_edition, monkeypatch):
    mine = notes()
    rows = mine._rows

    def failing(cql, *values):
        if mine._name_of_first_edition in cql:
            raise FatalError("no permission")
        return rows(cql, *values)

    monkeypatch.setattr(mine, "_rows", failing)
    with pytest.raises(FatalError, match="no permission"):
        mine.forget(8, [])


@pytest.mark.parametrize(
    ("given", "used"),
    [("ANY", "LOCAL_QUORUM"), ("TWO", "LOCAL_QUORUM"), ("EACH_QUORUM", "EACH_QUORUM"), ("ALL", "ALL")],
)
def test_notes_are_kept_at_a_quorum_whatever_rows_are(cassandra, notes, monkeypatch, given, used):
    with Client(replace(cassandra.settings, consistency=given)) as client:
        mine, one = notes(client=client), segment(base=1)
        levels, execute = [], client.session.execute
        monkeypatch.setattr(
            client.session,
            "execute",
            lambda query, **rest: levels.append(query.consistency_level) or execute(query, **rest),
        )
        mine.record(one)
        assert mine.is_recorded(one)
        mine.forget(2, [])
    assert levels == [ConsistencyLevel.name_to_value[used]] * 3


def test_a_note_that_fails_for_a_passing_reason_is_written_again(notes, monkeypatch):
    mine, one, failures = notes(), segment(base=1), [RetriableError("busy")]
    rows = mine._rows

    def failing(*given):
        if failures:
            raise failures.pop()
        return rows(*given)

    monkeypatch.setattr(mine, "_rows", failing)
    mine.record(one)
    assert mine.is_recorded(one) and not failures


SCHEMA = pa.schema([("ids", pa.list_(pa.int64())), ("k", pa.int32())])


class Lists:
    """Each row is added to a list, so that one that is sent again shows."""

    def __init__(self, cassandra, folder):
        self.cassandra, self.folder = cassandra, folder
        self.table = cassandra.table("k int primary key, ids list<bigint>")
        self.query_id = uuid.uuid4().hex

    def driver(self):
        """A process; another one on the same checkpoint, if there is one already."""
        statement = f"UPDATE {self.cassandra.keyspace}.{self.table} SET ids = ids + ? WHERE k = ?"
        given = {**self.cassandra.options, "statement": statement, "delivery": "write-ahead"}
        connector = CassandraConnector()
        sink = connector.create_sink(connector.sink_options.parse(given, owner="sink penstock.cassandra"), SCHEMA)
        assert sink.target == f"{self.cassandra.keyspace}.{self.table}"
        return SinkQuery(sink, SCHEMA, self.folder, self.query_id)

    def batch(self, first, count):
        ids = range(first, first + count)
        return pa.record_batch([[[n] for n in ids], [n % 5 for n in ids]], schema=SCHEMA)

    def got(self):
        return Counter(n for (ids,) in self.cassandra.rows(self.table, "ids") for n in ids)

    def noted(self):
        name = f"{self.cassandra.keyspace}.{committer._TABLE}"
        return self.cassandra.cql(f"select base, segment from {name} where query = ?", self.query_id)


@pytest.fixture
def lists(cassandra, tmp_path, monkeypatch):
    monkeypatch.setattr(CassandraWriteAheadSink, "segment_bytes", 200)
    return Lists(cassandra, tmp_path / "ck")


@pytest.mark.parametrize(
    ("owner", "method", "twice"),
    [
        pytest.param(CassandraCheckpointCommitter, "record", 0, id="between two segments"),
        pytest.param(CassandraSender, "send", 1, id="behind a segment that is not noted"),
    ],
)
def test_a_run_that_was_displaced_sends_no_more_than_the_segment_under_way(lists, monkeypatch, owner, method, twice):
    first, calls, inner = lists.driver(), [], getattr(owner, method)

    def displacing(self, *given):
        inner(self, *given)
        calls.append(given[-1])
        if len(calls) == 2:
            lists.driver().finish()

    monkeypatch.setattr(owner, method, displacing)
    with pytest.raises(FatalError, match="another run"):
        first.commit(0, first.tasks(0, [[lists.batch(0, 100)]]))
    got, again = lists.got(), calls[1]
    assert sorted(got) == list(range(100)) and len(calls) > 5
    assert got.total() - 100 == twice * again.rows
    assert [segment for _, segment in lists.noted()] == ([again.id] if twice else [])
    lists.driver().finish()
    assert lists.noted() == [] and lists.got() == got


def test_notes_do_not_pile_up(lists):
    query = lists.driver()
    for batch_id in range(12):
        query.run(batch_id, [[lists.batch(batch_id * 10, 10)]])
    assert len({base for base, _ in lists.noted()}) == 2, "of the last batch that was cleared behind, and since"
    query.finish()
    assert lists.noted() == [] and lists.got() == Counter(range(120))
