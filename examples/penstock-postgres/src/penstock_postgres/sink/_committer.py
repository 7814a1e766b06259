"""Prepared transactions are committed, on the driver, once their batch is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock.retry import retrying
from penstock.sink import Committer, Found, Kept
from penstock_postgres._options import SinkOptions
from penstock_postgres.client import Connection, TwoPhaseTable, acquire, describe, release

__all__ = ["PostgresCommitter"]

ResultT = TypeVar("ResultT")


class PostgresCommitter(Committer[str, None]):
    """COMMIT PREPARED and ROLLBACK PREPARED take effect once: whichever process comes second finds nothing.

    Each call opens a connection if there is none, and repeats what failed and may pass: all of it may be repeated.
    """

    def __init__(self, options: SinkOptions, query_id: str) -> None:
        self._options = options
        self._query_id = query_id
        self._connection: Connection | None = None
        self._transactions: TwoPhaseTable | None = None

    def _call(self, call: Callable[[TwoPhaseTable, Connection], ResultT]) -> ResultT:
        return retrying(lambda: call(*self._open()), self._options.retry_timeout_s)

    def _open(self) -> tuple[TwoPhaseTable, Connection]:
        if self._connection is not None and self._connection.closed:
            self.close()
        if self._connection is None or self._transactions is None:
            self._connection = acquire(self._options.server)
            self._transactions = TwoPhaseTable(describe(self._connection, self._options.table), self._query_id)
        return self._transactions, self._connection

    def look(self, committables: Sequence[str]) -> list[Found]:
        return self._call(lambda transactions, connection: _look(transactions, connection, committables))

    def publish(self, committables: Sequence[str]) -> list[Found]:
        return [
            Found.COMMITTED
            if self._call(lambda transactions, connection, gid=gid: transactions.commit(connection, gid))
            else Found.LOST
            for gid in committables
        ]

    def seal(self, committables: Sequence[str]) -> None:
        for gid in committables:
            self._call(lambda transactions, connection, gid=gid: transactions.roll_back(connection, gid))

    def discard(self, committables: Sequence[str], states: Sequence[None]) -> None:
        self.seal(committables)

    def clear(self, kept: Kept[str, None]) -> int:
        named = frozenset(kept.committables)
        return self._call(lambda transactions, connection: transactions.clear(connection, kept.base, named))

    def leave(self) -> None:
        self._call(lambda transactions, connection: transactions.forget_all(connection))

    def close(self) -> None:
        if self._connection is not None:
            release(self._connection)
        self._connection = self._transactions = None


def _look(transactions: TwoPhaseTable, connection: Connection, gids: Sequence[str]) -> list[Found]:
    """Asks for what is prepared first: what is committed between the two answers is in the second."""
    prepared = set(transactions.prepared(connection))
    committed = transactions.committed(connection, gids)
    return [Found.COMMITTED if gid in committed else Found.OPEN if gid in prepared else Found.LOST for gid in gids]
