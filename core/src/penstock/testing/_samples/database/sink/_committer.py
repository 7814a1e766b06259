"""Prepared transactions are committed, on the driver, once their batch is decided."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sink import Committer, Found, Kept
from penstock.testing._samples.database._options import SinkOptions
from penstock.testing._samples.database.client import Database
from penstock.testing._samples.database.sink._committable import base_of, query_of

__all__ = ["BankCommitter"]

#: Above every base there is.
_ALL = 1 << 62


class BankCommitter(Committer[str, None]):
    """Commits and rolls back once: whichever process comes second finds nothing. The engine repeats what fails."""

    def __init__(self, options: SinkOptions, query_id: str) -> None:
        self._options = options
        self._query_id = query_id
        self._database: Database | None = None

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database(self._options.path, self._options.request_timeout_s)
        return self._database

    def look(self, committables: Sequence[str]) -> list[Found]:
        return _look(self._open(), committables)

    def publish(self, committables: Sequence[str]) -> list[Found]:
        return [_publish(self._open(), name) for name in committables]

    def seal(self, committables: Sequence[str]) -> None:
        for name in committables:
            self._open().roll_back(name)

    def discard(self, committables: Sequence[str], states: Sequence[None]) -> None:
        self.seal(committables)

    def clear(self, kept: Kept[str, None]) -> int:
        database, named = self._open(), frozenset(kept.committables)
        own = [name for name in database.prepared() if query_of(name) == self._query_id]
        garbage = [name for name in own if base_of(name) < kept.base and name not in named]
        return sum(map(database.roll_back, garbage)) + database.forget_commits(self._query_id, kept.base, named)

    def leave(self) -> None:
        self._open().forget_commits(self._query_id, _ALL, ())

    def close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None


def _publish(database: Database, name: str) -> Found:
    return Found.COMMITTED if database.commit_prepared(name) else Found.LOST


def _look(database: Database, names: Sequence[str]) -> list[Found]:
    """Asks for what is prepared first: what is committed between the two answers is in the second."""
    prepared = set(database.prepared())
    committed = database.committed(names)
    return [Found.COMMITTED if name in committed else Found.OPEN if name in prepared else Found.LOST for name in names]
