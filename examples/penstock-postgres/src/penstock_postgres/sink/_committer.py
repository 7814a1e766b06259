"""Prepared transactions are committed, on the driver, once their batch is decided."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sink import Committer, Found, Kept
from penstock_postgres._options import SinkOptions
from penstock_postgres.client import Connection, TwoPhaseTable, acquire, describe, release

__all__ = ["PostgresCommitter"]


class PostgresCommitter(Committer[str, None]):
    """COMMIT PREPARED and ROLLBACK PREPARED take effect once: whichever process comes second finds nothing.

    Each call opens a connection if there is none. The engine repeats what failed and may pass.
    """

    def __init__(self, options: SinkOptions, query_id: str) -> None:
        self._options = options
        self._query_id = query_id
        self._connection: Connection | None = None
        self._transactions: TwoPhaseTable | None = None

    def _open(self) -> tuple[TwoPhaseTable, Connection]:
        if self._connection is not None and self._connection.closed:
            self.close()
        if self._connection is None or self._transactions is None:
            self._connection = acquire(self._options.server)
            self._transactions = TwoPhaseTable(describe(self._connection, self._options.table), self._query_id)
        return self._transactions, self._connection

    def look(self, committables: Sequence[str]) -> list[Found]:
        """Asks for what is prepared first: what is committed between the two answers is in the second."""
        transactions, connection = self._open()
        prepared = set(transactions.prepared(connection))
        committed = transactions.committed(connection, committables)
        return [
            Found.COMMITTED if gid in committed else Found.OPEN if gid in prepared else Found.LOST
            for gid in committables
        ]

    def publish(self, committables: Sequence[str]) -> list[Found]:
        transactions, connection = self._open()
        return [Found.COMMITTED if transactions.commit(connection, gid) else Found.LOST for gid in committables]

    def seal(self, committables: Sequence[str]) -> None:
        transactions, connection = self._open()
        for gid in committables:
            transactions.roll_back(connection, gid)

    def discard(self, committables: Sequence[str], states: Sequence[None]) -> None:
        self.seal(committables)

    def clear(self, kept: Kept[str, None]) -> int:
        transactions, connection = self._open()
        return transactions.clear(connection, kept.base, frozenset(kept.committables))

    def leave(self) -> None:
        transactions, connection = self._open()
        transactions.forget_all(connection)

    def close(self) -> None:
        if self._connection is not None:
            release(self._connection)
        self._connection = self._transactions = None
