"""Prepared transactions are committed, on the driver, once their batch is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.retry import retrying
from penstock.sink import Committer, Found, Kept
from penstock.testing._samples.database._options import SinkOptions
from penstock.testing._samples.database.client import Database
from penstock.testing._samples.database.sink._committable import base_of, query_of

__all__ = ["BankCommitter"]

#: Above every base there is.
_ALL = 1 << 62
ResultT = TypeVar("ResultT")


class BankCommitter(Committer[str, None]):
    """Commits and rolls back once: whichever process comes second finds nothing.

    The engine does not repeat these calls, so each repeats what failed and may pass.
    """

    def __init__(self, options: SinkOptions, query_id: str) -> None:
        self._options = options
        self._query_id = query_id
        self._database: Database | None = None

    def _call(self, call: Callable[[Database], ResultT]) -> ResultT:
        return retrying(lambda: call(self._open()), self._options.retry_timeout_s)

    def _open(self) -> Database:
        if self._database is None:
            self._database = Database(self._options.path, self._options.request_timeout_s)
        return self._database

    def look(self, committables: Sequence[str]) -> list[Found]:
        return self._call(lambda database: _look(database, committables))

    def publish(self, committables: Sequence[str]) -> list[Found]:
        return self._call(lambda database: [_publish(database, name) for name in committables])

    def seal(self, committables: Sequence[str]) -> None:
        self._call(lambda database: [database.roll_back(name) for name in committables])

    def discard(self, committables: Sequence[str], states: Sequence[None]) -> None:
        self.seal(committables)

    def clear(self, kept: Kept[str, None]) -> int:
        named = frozenset(kept.committables)
        return self._call(lambda database: self._clear(database, kept.base, named))

    def _clear(self, database: Database, base: int, kept: frozenset[str]) -> int:
        own = [name for name in database.prepared() if query_of(name) == self._query_id]
        garbage = [name for name in own if base_of(name) < base and name not in kept]
        return sum(map(database.roll_back, garbage)) + database.forget_commits(self._query_id, base, kept)

    def leave(self) -> None:
        self._call(lambda database: database.forget_commits(self._query_id, _ALL, ()))

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
