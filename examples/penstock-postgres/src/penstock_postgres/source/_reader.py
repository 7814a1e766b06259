"""Reads a range, some MiB at a time. Each fetch is a statement of its own, so that no transaction stays open."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import DataLostError
from penstock.source import RecordsBySplits, SplitReader
from penstock_postgres._options import SourceOptions
from penstock_postgres.client import Table, lent, read_range, rows_to_batch
from penstock_postgres.source._split import PostgresSplit

__all__ = ["PostgresSplitReader"]

#: An element is about so large: what a fetch asks for follows the size of the rows before.
_FETCH_BYTES = 4 << 20
_FIRST_ROWS, _MOST_ROWS = 100, 20_000


class PostgresSplitReader(SplitReader[pa.RecordBatch, PostgresSplit]):
    """An element is an Arrow batch. At the end of a range, rows and checksum are compared with the plan's."""

    def __init__(self, options: SourceOptions, table: Table, key: str, schema: pa.Schema) -> None:
        self._options, self._table, self._key = options, table, table.column(key)
        self._columns = [table.column(name) for name in schema.names]
        self._splits: list[PostgresSplit] = []
        self._limit = _FIRST_ROWS
        self._begin()

    def _begin(self) -> None:
        self._after: int | str | None = None
        self._rows = self._checksum = 0

    def handle_splits_changes(self, splits: Sequence[PostgresSplit]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[pa.RecordBatch]:
        split = self._splits[0]
        rows = self._ask(split)
        if rows:
            batch = rows_to_batch(rows, self._columns, self._table)
            self._limit = max(1, min(_MOST_ROWS, len(rows) * _FETCH_BYTES // max(1, batch.nbytes)))
            self._after = rows[-1][0]
            self._rows += len(rows)
            self._checksum += sum(row[1] for row in rows)
            return RecordsBySplits([(split.split_id, batch)])
        if self._options.fail_on_data_loss and (self._rows, self._checksum) != (split.rows, split.checksum):
            raise DataLostError(
                f"table {self._table}: of {split.rows} rows up to {split.last!r}, some were changed or deleted since "
                "the read was planned: read again, or set failOnDataLoss to false to read them as they are"
            )
        self._splits.pop(0)
        self._begin()
        return RecordsBySplits(finished_splits=[split.split_id])

    def _ask(self, split: PostgresSplit) -> list:
        after = self._after if self._after is not None else split.after
        snapshot = split.snapshot if self._options.fail_on_data_loss else None
        with lent(self._options.server) as connection:
            return read_range(
                connection, self._table, self._key, self._columns, snapshot, after, split.last, self._limit
            )

    def wake_up(self) -> None:
        """A fetch is short."""

    def close(self) -> None:
        """Holds nothing between two fetches."""
