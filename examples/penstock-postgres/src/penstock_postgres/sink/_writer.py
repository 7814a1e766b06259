"""Rows go into a transaction, which is then prepared: it outlives the task, and no reader sees it."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from penstock.sink import CommittingSinkWriter, PreparedCommit, WriterContext
from penstock_postgres.client import CopyIn, Server, Table, TwoPhaseTable, acquire, discard, errors, release

__all__ = ["PostgresTransactionalWriter"]


class PostgresTransactionalWriter(CommittingSinkWriter[str, None]):
    """One connection, one transaction, one COPY, all begun by the first row.

    If the process ends, the server sees its connection close, and rolls back what is not prepared.
    """

    def __init__(self, server: Server, table: Table, context: WriterContext) -> None:
        self._table = table
        self._context = context
        self._transactions = TwoPhaseTable(table, context.query_id)
        self._connection = acquire(server)
        self._copy = CopyIn(self._connection, table.path, [table.column(name) for name in context.schema.names])
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Memory is bounded by the batch and some MiB."""
        if batch.num_rows and not self._rows:
            with errors(f"table {self._table}"):
                self._connection.execute("begin")
        self._copy.write(batch)
        self._rows += batch.num_rows

    def prepare_commit(self) -> PreparedCommit[str, None]:
        if not self._rows:
            return PreparedCommit()
        self._copy.finish()
        gid = self._transactions.gid(self._context.base, self._context.attempt_id)
        self._transactions.prepare(self._connection, gid)
        self._context.metrics.add("rows_written", self._rows)
        return PreparedCommit([gid])

    def abort(self) -> None:
        self._copy.abort()
        with suppress(Exception):
            discard(self._connection)

    def close(self) -> None:
        self._copy.abort()
        release(self._connection)
