"""Reading a table by ranges of a key, as it was at one moment.

The moment is a snapshot of PostgreSQL, as text: which transactions had ended. It is compared with the transaction that
wrote a row (``xmin``), so that no transaction has to stay open from the plan of a read to its last task. That leaves
out what was added since. What was deleted or changed since can't be had back, but it is noticed: each range knows how
many rows it had then, and the sum of a hash of their keys and transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from penstock_postgres.client._arrow import read_type
from penstock_postgres.client._connection import Connection, errors
from penstock_postgres.client._table import Column, Table

__all__ = ["KeyRange", "count_ranges", "read_range"]

Key = int | str
#: All transactions of which a statement sees rows are older. A subquery, so that it is asked for once in a statement.
_NOW = "(select pg_snapshot_xmax(pg_current_snapshot())::text::int8)"
#: xmin has 32 bits of 64: it is the newest such transaction that a statement can see.
_WRITTEN_BY = f"({_NOW} - (({_NOW} - xmin::text::int8) & 4294967295))"
_VISIBLE = f"""({_WRITTEN_BY} < %(settled)s::int8
  or pg_visible_in_snapshot({_WRITTEN_BY}::text::xid8, %(snapshot)s::pg_snapshot))"""
_HASH = "hashtextextended({key}::text || ':' || xmin::text, 0)"


@dataclass(frozen=True)
class KeyRange:
    """The rows with a key above ``after`` (``None``: from the lowest on) up to ``last``, and what they were."""

    after: Key | None
    last: Key
    rows: int
    checksum: int


def count_ranges(
    connection: Connection,
    table: Table,
    key: Column,
    rows_per_range: int,
    *,
    snapshot: str | None = None,
    after: Key | None = None,
    last: Key | None = None,
) -> tuple[str, list[KeyRange]]:
    """Cuts the keys above ``after``, up to ``last``, into ranges. Returns the snapshot, which is now if none is given.

    Reads the keys of all these rows once, in the database.
    """
    with errors(f"table {table}"):
        # One statement for the rows and their moment.
        connection.execute("begin isolation level repeatable read read only")
        try:
            row = connection.execute("select pg_current_snapshot()::text").fetchone()
            assert row is not None
            values = {**_values(snapshot or row[0], after, last), "size": rows_per_range}
            conditions = [sql.SQL(_VISIBLE)] if snapshot is not None else []
            query = sql.SQL(
                "select max(key), count(*), sum(hash) from (select {key} as key, {hash} as hash, "
                "(row_number() over (order by {key}) - 1) / %(size)s as number "
                "from {table} where {conditions}) as rows group by number order by number"
            ).format(
                key=sql.Identifier(key.name),
                hash=sql.SQL(_HASH).format(key=sql.Identifier(key.name)),
                table=table.path,
                conditions=sql.SQL(" and ").join([*conditions, *_between(key, after, last)]),
            )
            ranges = []
            for end, rows, checksum in connection.execute(query, values):
                ranges.append(KeyRange(after, end, rows, int(checksum)))
                after = end
        finally:
            connection.execute("rollback")
    return snapshot or row[0], ranges


def read_range(
    connection: Connection,
    table: Table,
    key: Column,
    columns: Sequence[Column],
    snapshot: str | None,
    after: Key | None,
    last: Key,
    limit: int,
) -> list[tuple[Any, ...]]:
    """The next rows of a range, at most ``limit``: key, hash, and the columns. As they are now, without a snapshot."""
    with errors(f"table {table}"):
        conditions = [sql.SQL(_VISIBLE)] if snapshot is not None else []
        query = sql.SQL(
            "select {key}, {hash}, {columns} from {table} where {conditions} order by 1 limit {limit}"
        ).format(
            key=sql.Identifier(key.name),
            hash=sql.SQL(_HASH).format(key=sql.Identifier(key.name)),
            columns=sql.SQL(", ").join(_selected(columns)),
            table=table.path,
            conditions=sql.SQL(" and ").join([*conditions, *_between(key, after, last)]),
            limit=limit,
        )
        return connection.execute(query, _values(snapshot, after, last), binary=True).fetchall()


def _values(snapshot: str | None, after: Key | None, last: Key | None) -> dict[str, Any]:
    """``settled``: all transactions before it had ended at the moment of the snapshot."""
    settled = None if snapshot is None else int(snapshot.split(":")[0])
    return {"snapshot": snapshot, "settled": settled, "after": after, "last": last}


def _between(key: Column, after: Key | None, last: Key | None) -> Iterator[sql.Composable]:
    kind = sql.SQL("text" if isinstance(after if after is not None else last, str) else "int8")
    yield sql.SQL("true")
    if after is not None:
        yield sql.SQL("{} > %(after)s::{}").format(sql.Identifier(key.name), kind)
    if last is not None:
        yield sql.SQL("{} <= %(last)s::{}").format(sql.Identifier(key.name), kind)


def _selected(columns: Sequence[Column]) -> Iterator[sql.Composable]:
    for column in columns:
        yield sql.SQL("{}::text" if read_type(column)[1] else "{}").format(sql.Identifier(column.name))
