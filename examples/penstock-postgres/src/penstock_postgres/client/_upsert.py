"""INSERT … ON CONFLICT, from a temporary table that COPY has filled."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from psycopg import sql

from penstock_postgres.client._connection import Connection, create_if_missing, errors
from penstock_postgres.client._copy import CopyIn
from penstock_postgres.client._table import Table

__all__ = ["STAMP", "UpsertInto", "add_stamp"]

#: The column that says when a row was written, in microseconds since 1970.
STAMP = "penstock_written_us"
_ROWS = sql.Identifier("penstock_rows")
_CREATE = sql.SQL("create temporary table {rows} on commit delete rows as select {columns} from {table} with no data")
_UPSERT = sql.SQL(
    "insert into {table} as old ({columns}, {stamp}) "
    "select distinct on ({keys}) {columns}, {written}::int8 from {rows} order by {keys}, {rows}.ctid desc "
    "on conflict ({keys}) do update set {changes} where excluded.{stamp} >= old.{stamp}"
)


def add_stamp(connection: Connection, table: Table) -> None:
    """Adds the column of the stamps, if it is missing. That rewrites no row, but waits until nobody uses the table."""
    if STAMP not in [column.name for column in table.columns]:
        with errors(f"table {table}"):
            added = sql.SQL("alter table {} add column if not exists {} bigint not null default 0")
            create_if_missing(connection, added.format(table.path, sql.Identifier(STAMP)))


class UpsertInto:
    """Upserts on one connection, by way of a temporary table that is made by the first and lasts until :meth:`close`.

    Of keys that only PostgreSQL takes for the same, by the column's collation, say, the last row counts. Keys are
    written in their order, so that two tasks do not wait for each other. Single thread.
    """

    def __init__(self, connection: Connection, table: Table, key: tuple[str, ...], columns: Sequence[str]) -> None:
        self._connection, self._what = connection, f"table {table}"
        self._columns = [table.column(name) for name in columns]
        changed = [sql.Identifier(name) for name in (*columns, STAMP) if name not in key]
        changes = [sql.SQL("{0} = excluded.{0}").format(name) for name in changed]
        self._words = {
            "table": table.path,
            "rows": _ROWS,
            "columns": sql.SQL(", ").join(map(sql.Identifier, columns)),
            "keys": sql.SQL(", ").join(map(sql.Identifier, key)),
            "changes": sql.SQL(", ").join(changes),
            "stamp": sql.Identifier(STAMP),
        }
        self._is_made = False

    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        """Inserts or replaces the row of each key, unless the row that is there has a later stamp. One transaction."""
        with errors(self._what), self._connection.transaction():
            if not self._is_made:
                self._connection.execute(_CREATE.format(**self._words))
            copy = CopyIn(self._connection, _ROWS, self._columns)
            try:
                copy.write(batch)
                copy.finish()
            finally:
                copy.abort()
            self._connection.execute(_UPSERT.format(**self._words, written=sql.Literal(timestamp_us)))
        self._is_made = True

    def close(self) -> None:
        """Leaves the connection as it was."""
        if self._is_made:
            with errors(self._what):
                self._connection.execute(sql.SQL("drop table {}").format(_ROWS))
