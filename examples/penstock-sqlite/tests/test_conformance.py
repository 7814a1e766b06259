"""What the connector promises, proven with Penstock's conformance kit."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid

import pytest
from penstock_sqlite import SqliteConnector, _database

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, SparkSourceSuite


class SqliteSinkSuite(SinkSuite):
    connector = SqliteConnector
    options = (("mode", "append"),)
    table = "create table rows (id integer, text text)"

    @pytest.fixture
    def new_target(self, tmp_path, monkeypatch):
        # A database that stays locked is given up soon.
        monkeypatch.setattr(_database, "WAIT_S", 0.2)

        def make():
            path = str(tmp_path / f"{uuid.uuid4()}.db")
            database = sqlite3.connect(path)
            database.execute(self.table)

            def read():
                return [{"id": i, "text": text} for i, text in database.execute("select id, text from rows")]

            def notes():
                if not database.execute("select 1 from sqlite_master where name = 'penstock_sent'").fetchone():
                    return []
                return [segment for (segment,) in database.execute("select segment from penstock_sent")]

            @contextlib.contextmanager
            def locked():
                other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
                with contextlib.closing(other):
                    other.execute("begin exclusive")
                    yield
                    other.execute("rollback")

            options = {"path": path, "table": "rows", **dict(self.options)}
            return SinkTarget(options, read, hidden=notes, unreachable=locked)

        return make


class TestAppend(SqliteSinkSuite):
    pass


class TestAppendOnSpark(SparkSinkSuite):
    connector, options, table = SqliteConnector, SqliteSinkSuite.options, SqliteSinkSuite.table
    new_target = SqliteSinkSuite.new_target


class TestUpsert(SqliteSinkSuite):
    options = (("key", "id"),)
    table = "create table rows (id integer primary key, text text)"


class TestSource(SourceSuite):
    connector = SqliteConnector
    limit = ("splitsPerTrigger", "2", 6)

    @pytest.fixture
    def origin(self, tmp_path):
        path = str(tmp_path / "origin.db")
        database = sqlite3.connect(path)
        database.execute("create table rows (id integer)")

        def put(ids):
            with database:
                database.executemany("insert into rows values (?)", [(i,) for i in ids])

        options = {"path": path, "table": "rows", "rowsPerSplit": "3"}
        return SourceOrigin(options, put, in_bulk={"rowsPerSplit": "100000"})


class TestSourceOnSpark(SparkSourceSuite):
    connector, origin = SqliteConnector, TestSource.origin
