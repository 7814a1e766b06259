"""Appending, with two drivers at once: what is noted beside the rows, and what is forgotten of it."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pyarrow as pa
import pytest
from penstock_sqlite import SqliteConnector
from penstock_sqlite._append import AppendSink, SqliteCheckpointCommitter, SqliteSender

from penstock.errors import FatalError
from penstock.sink import Segment
from penstock.testing import SinkQuery

SCHEMA = pa.schema([("id", pa.int64())])


def segment(base, number=0):
    return Segment(7, 0, "a" * 32, number, 10, 100, base)


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "rows.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("create table rows (id integer)")
    return path


@pytest.fixture
def notes(path):
    """``notes(query)``: as one process has them, with a connection of its own."""
    made = []

    def of(query="q"):
        made.append(SqliteCheckpointCommitter(path, query))
        return made[-1]

    yield of
    for one in made:
        one.close()


def recorded(notes, segments):
    return [one for one in segments if notes.is_recorded(one)]


def test_what_is_recorded_is_found_by_every_process(notes):
    mine, another, other_query = notes(), notes(), notes("another")
    for _ in range(2):
        mine.record(segment(3))
        assert recorded(another, [segment(3), segment(3, 1), segment(4)]) == [segment(3)]
    assert recorded(other_query, [segment(3)]) == []


def test_forgetting_leaves_what_is_kept_and_what_is_of_later_bases(notes):
    mine, other_query = notes(), notes("another")
    everything = [segment(9), segment(99), segment(100), segment(1000)]
    for one in everything:
        mine.record(one)
        other_query.record(one)
    mine.forget(100, {segment(99).id})
    assert recorded(mine, everything) == everything[1:]
    mine.forget(100, [])
    assert recorded(mine, everything) == everything[2:]
    assert recorded(other_query, everything) == everything


def test_what_the_first_edition_has_recorded_is_found_and_forgotten(path, notes):
    old = segment(-1)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "create table penstock_sent (query text, segment text, batch integer, unique (query, segment))"
        )
        database.execute("insert into penstock_sent values ('q', ?, 7)", [old.id])
    mine = notes()
    mine.record(segment(3))
    assert recorded(mine, [old, segment(3)]) == [old, segment(3)]
    mine.forget(3, [])
    assert recorded(mine, [old, segment(3)]) == [segment(3)]


class Query:
    def __init__(self, path, folder):
        self._sink = AppendSink(path, "rows")
        self._path, self._folder = path, folder

    def driver(self):
        """A process; another one on the same checkpoint, if there is one already."""
        return SinkQuery(self._sink, SCHEMA, self._folder, "q")

    def ask(self, cql):
        with closing(sqlite3.connect(self._path)) as database:
            return [one for (one,) in database.execute(cql)]

    def rows(self):
        return sorted(self.ask("select id from rows"))


@pytest.fixture
def query(path, tmp_path, monkeypatch):
    monkeypatch.setattr(AppendSink, "segment_bytes", 80)
    return Query(path, tmp_path / "ck")


BATCH = pa.record_batch([list(range(100))], schema=SCHEMA)


@pytest.mark.parametrize("forgets", [True, False])
@pytest.mark.parametrize("behind", [True, False])
def test_two_drivers_send_each_row_once(query, monkeypatch, behind, forgets):
    """The second takes over while the first is sending its second segment: even what it notes may be forgotten."""
    first, calls, send = query.driver(), [], SqliteSender.send

    def displaced(self, batches, segment):
        calls.append(segment)
        if behind:
            send(self, batches, segment)
        if len(calls) == 2:
            monkeypatch.setattr(SqliteSender, "send", send)
            if not forgets:
                monkeypatch.setattr(SqliteCheckpointCommitter, "forget", lambda *given: None)
            query.driver().finish()
        if not behind:
            send(self, batches, segment)

    monkeypatch.setattr(SqliteSender, "send", displaced)
    with pytest.raises(FatalError, match="another run"):
        first.commit(0, first.tasks(0, [[BATCH]]))
    assert query.rows() == list(range(100))
    monkeypatch.undo()
    query.driver().finish()
    assert query.rows() == list(range(100)) and query.ask("select segment from penstock_sent") == []


def test_sinks_name_their_table(path):
    for options in ({"mode": "append"}, {"key": "id"}):
        connector = SqliteConnector()
        given = connector.sink_options.parse({"path": path, "table": "rows", **options}, owner="sink")
        assert connector.create_sink(given, SCHEMA).target == f"{path}: rows"
