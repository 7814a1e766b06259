"""A connection, and prepared transactions: what another process may commit, and what outlives the one that made it.

SQLite is in the place of your database. It has no such transactions, so the table ``staged`` keeps their rows here. In
place of that table, yours has statements:

==================== ============================================ =========================
method               PostgreSQL                                   MySQL, Oracle and others
==================== ============================================ =========================
``insert``           ``BEGIN`` and ``INSERT`` or ``COPY``         ``XA START``, ``INSERT``
``prepare``          ``PREPARE TRANSACTION 'name'``               ``XA END``, ``XA PREPARE``
``commit_prepared``  ``COMMIT PREPARED 'name'``                   ``XA COMMIT``
``roll_back``        ``ROLLBACK PREPARED 'name'``                 ``XA ROLLBACK``
``prepared``         ``SELECT gid FROM pg_prepared_xacts``        ``XA RECOVER``
==================== ============================================ =========================

The table ``commits`` stays. A transaction that is gone was committed or rolled back, and no database says which: so
each adds its own name, before it is prepared, and the name is there exactly if it was committed.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Collection, Iterator, Sequence

from penstock.errors import RetriableError

__all__ = ["Database"]

_TABLES = """
create table if not exists rows (line text not null);
create table if not exists commits (name text primary key, query text not null, base integer not null);
create table if not exists staged (name text not null, line text not null);
create table if not exists waiting (name text primary key, query text not null, base integer not null);
"""


@contextlib.contextmanager
def _errors(path: str) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise RetriableError(f"database {path}: {error}") from error


class Database:
    """Single thread. Raises RetriableError for what may pass: a file that is locked, or away."""

    def __init__(self, path: str, timeout_s: float = 30.0) -> None:
        self._path = path
        with _errors(path):
            self._connection = sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=timeout_s)
            self._connection.execute("pragma synchronous = off")  # a killed process loses nothing by that

    @classmethod
    def create(cls, path: str) -> None:
        """Makes the tables, unless they are there."""
        with _errors(path), contextlib.closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.executescript(_TABLES)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with _errors(self._path), self._connection as connection:
            connection.execute("begin immediate")
            yield connection

    def insert(self, name: str, lines: Sequence[str]) -> None:
        """Adds rows to the transaction ``name``, which the first ones begin."""
        with self._transaction() as connection:
            connection.executemany("insert into staged values (?, ?)", [(name, line) for line in lines])

    def prepare(self, name: str, query: str, base: int) -> None:
        """Ends the first phase: from now on the transaction can be committed, by any process, and lasts."""
        with self._transaction() as connection:
            connection.execute("insert into waiting values (?, ?, ?)", (name, query, base))

    def commit_prepared(self, name: str) -> bool:
        """Makes the rows visible. Returns whether they are; they are not after a rollback."""
        with self._transaction() as connection:
            note = "insert into commits select name, query, base from waiting where name = ?"
            if not connection.execute(note, [name]).rowcount:
                return name in self.committed([name])
            connection.execute("insert into rows select line from staged where name = ?", [name])
            self._forget(connection, name)
            return True

    def roll_back(self, name: str) -> bool:
        """Makes sure that no process commits it any more. Returns whether it was there; what was committed stays."""
        with self._transaction() as connection:
            return self._forget(connection, name)

    @staticmethod
    def _forget(connection: sqlite3.Connection, name: str) -> bool:
        gone = [connection.execute(f"delete from {table} where name = ?", [name]) for table in ("waiting", "staged")]
        return any(one.rowcount for one in gone)

    def prepared(self) -> list[str]:
        """The names of all prepared transactions. Here also those that a task which was killed has begun."""
        with _errors(self._path):
            found = "select name from waiting union select name from staged"
            return [name for (name,) in self._connection.execute(found)]

    def committed(self, names: Collection[str]) -> set[str]:
        """Returns those of ``names`` that were committed and are not forgotten."""
        with _errors(self._path):
            found = "select 1 from commits where name = ?"
            return {name for name in names if self._connection.execute(found, [name]).fetchone()}

    def forget_commits(self, query: str, before_base: int, kept: Collection[str]) -> int:
        """Forgets those of a query with a lower base that are not in ``kept``. Returns how many."""
        with self._transaction() as connection:
            noted = "select name from commits where query = ? and base < ?"
            old = [one for (one,) in connection.execute(noted, (query, before_base)) if one not in kept]
            connection.executemany("delete from commits where name = ?", [(one,) for one in old])
            return len(old)

    def close(self) -> None:
        """Frees the connection."""
        self._connection.close()
