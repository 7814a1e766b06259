"""Reading a table by ranges of a key, as it was at one moment.

The moment is a snapshot of PostgreSQL, as text: which transactions had ended. It is compared with the transaction that
wrote a row (``xmin``), so that no transaction has to stay open from the plan of a read to its last task. That leaves
out what was added since. What was deleted or changed since can't be had back, but it is noticed: each range knows how
many rows it had then, and the sum of a hash of their keys and transactions.

Where the comparison is not exact, it errs loudly: the rows counted at the moment are all that were visible, and
a range that gives others does not match. So it is with savepoints that were open at the moment, and with rows that
are older than four billion transactions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from psycopg import sql

from penstock.errors import BadDataError
from penstock_postgres.client._arrow import read_type
from penstock_postgres.client._connection import Connection, errors
from penstock_postgres.client._table import Column, Table

__all__ = ["KeyRange", "count_ranges", "read_range", "rows_to_batch"]

Key = int | str
#: All transactions of which a statement sees rows are older. A subquery, so that it is asked for once in a statement.
_NOW = "(select pg_snapshot_xmax(pg_current_snapshot())::text::int8)"
#: xmin has 32 bits of 64: it is the newest such transaction that a statement can see.
_WRITTEN_BY = f"({_NOW} - (({_NOW} - xmin::text::int8) & 4294967295))"
#: All transactions below ``settled`` had ended at the moment of the snapshot.
_VISIBLE = sql.SQL(
    f"({_WRITTEN_BY} < {{settled}}::int8 or pg_visible_in_snapshot({_WRITTEN_BY}::text::xid8, "
    "{snapshot}::pg_snapshot))"
)
_HASH = sql.SQL("hashtextextended({key}::text || ':' || xmin::text, 0)")


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
    """Cuts the keys above ``after``, up to ``last``, into ranges.

    Returns the snapshot with them: that of this moment if none is given. Reads the keys of all these rows once, in
    the database.
    """
    ranges = []
    with errors(f"table {table}"), connection.transaction():
        connection.execute("set transaction isolation level repeatable read read only")  # one moment for both
        row = connection.execute("select pg_current_snapshot()::text").fetchone()
        assert row is not None
        query = sql.SQL(
            "select max(key), count(*), sum(hash) from (select {key} as key, {hash} as hash, "
            "(row_number() over (order by {key}) - 1) / {size} as number "
            "from {table} where {rows}) as rows group by number order by number"
        ).format(
            key=sql.Identifier(key.name),
            hash=_hash_of(key),
            size=sql.Literal(rows_per_range),
            table=table.path,
            rows=_rows(key, snapshot, after, last),
        )
        for end, rows, checksum in connection.execute(query):
            ranges.append(KeyRange(after, end, rows, int(checksum)))
            after = end
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
        query = sql.SQL("select {fields} from {table} where {rows} order by {key} limit {limit}").format(
            fields=sql.SQL(", ").join([sql.Identifier(key.name), _hash_of(key), *map(_field, columns)]),
            key=sql.Identifier(key.name),
            table=table.path,
            rows=_rows(key, snapshot, after, last),
            limit=sql.Literal(limit),
        )
        return connection.execute(query, binary=True).fetchall()


def rows_to_batch(rows: Sequence[tuple[Any, ...]], columns: Sequence[Column], table: Table) -> pa.RecordBatch:
    """The columns of what :func:`read_range` returned. PostgreSQL sends rows, and psycopg parses them in C."""
    values = list(zip(*rows, strict=True))[2:]
    types = [read_type(column)[0] for column in columns]
    try:
        arrays = [pa.array(cells, type_) for cells, type_ in zip(values, types, strict=True)]
    except (pa.ArrowException, ValueError) as error:
        raise BadDataError(f"table {table}: a row can't be read: {error}") from error
    return pa.record_batch(arrays, names=[column.name for column in columns])


def _hash_of(key: Column) -> sql.Composed:
    return _HASH.format(key=sql.Identifier(key.name))


def _rows(key: Column, snapshot: str | None, after: Key | None, last: Key | None) -> sql.Composed:
    """The condition. Values stand in the text: with parameters, no name could have a percent sign."""
    return sql.SQL(" and ").join(_conditions(sql.Identifier(key.name), snapshot, after, last))


def _conditions(
    key: sql.Identifier, snapshot: str | None, after: Key | None, last: Key | None
) -> Iterator[sql.Composable]:
    yield sql.SQL("true")
    if snapshot is not None:
        settled = int(snapshot.split(":")[0])
        yield _VISIBLE.format(settled=sql.Literal(settled), snapshot=sql.Literal(snapshot))
    if after is not None:
        yield sql.SQL("{} > {}").format(key, sql.Literal(after))
    if last is not None:
        yield sql.SQL("{} <= {}").format(key, sql.Literal(last))


def _field(column: Column) -> sql.Composed:
    return sql.SQL("{}::text" if read_type(column)[1] else "{}").format(sql.Identifier(column.name))
