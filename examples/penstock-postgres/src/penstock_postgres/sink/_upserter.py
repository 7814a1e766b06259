"""Rows replace the rows of their keys."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa

from penstock.sink import Upserter
from penstock_postgres.client import Connection, Server, Table, UpsertInto, acquire, discard, release

__all__ = ["PostgresUpserter"]


class PostgresUpserter(Upserter):
    """A batch of rows is one transaction, which is committed on return. After a failure the connection is a new one."""

    def __init__(self, server: Server, table: Table, key: tuple[str, ...]) -> None:
        self._server, self._table, self._key = server, table, key
        self._connection: Connection | None = None
        self._into: UpsertInto | None = None

    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        if self._connection is None or self._into is None:
            self._connection = acquire(self._server)
            self._into = UpsertInto(self._connection, self._table, self._key, batch.schema.names)
        try:
            self._into.upsert(batch, timestamp_us)
        except BaseException:
            discard(self._connection)
            self._connection = self._into = None
            raise

    def close(self) -> None:
        if self._connection is not None and self._into is not None:
            with suppress(Exception):  # Everything is written; a broken connection is not kept.
                self._into.close()
            release(self._connection)
        self._connection = self._into = None
