"""Cuts the table into ranges once; from then on it only hands them out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from penstock.errors import DataLostError
from penstock.source import BatchEnumerator, ReadLimits
from penstock_postgres._options import SourceOptions
from penstock_postgres.client import KeyRange, Table, count_ranges, lent
from penstock_postgres.source._split import Position, PostgresSplit

__all__ = ["PostgresSplitEnumerator"]


class PostgresSplitEnumerator(BatchEnumerator[PostgresSplit, Position]):
    """The first batch waits until the keys were counted, in the database."""

    def __init__(self, options: SourceOptions, table: Table, key: str, checkpoint: Position | None) -> None:
        self._options, self._table, self._key = options, table, table.column(key)
        self._position = checkpoint
        self._ranges: deque[KeyRange] | None = None

    def start(self) -> None:
        """The table is looked at when the first split is asked for."""

    def _known(self) -> tuple[Position, deque[KeyRange]]:
        if self._ranges is None or self._position is None:
            self._position, self._ranges = self._look()
        return self._position, self._ranges

    def _look(self) -> tuple[Position, deque[KeyRange]]:
        with lent(self._options.server) as connection:
            at = self._position
            size = min(self._options.rows_per_split, self._options.max_rows or self._options.rows_per_split)
            if at is None:
                snapshot, ranges = count_ranges(connection, self._table, self._key, size)
            elif at.rows:
                exact = self._options.fail_on_data_loss
                snapshot, ranges = count_ranges(
                    connection, self._table, self._key, size, snapshot=at.snapshot, after=at.after, last=at.end
                )
                left = (sum(one.rows for one in ranges), sum(one.checksum for one in ranges))
                if exact and left != (at.rows, at.checksum):
                    raise DataLostError(
                        f"table {self._table}: rows above {at.after!r} were changed or deleted before they were read: "
                        "read it again from the beginning, or set failOnDataLoss to false"
                    )
            else:
                snapshot, ranges = at.snapshot, []
        if at is None:
            rows, checksum = sum(one.rows for one in ranges), sum(one.checksum for one in ranges)
            at = Position(snapshot, None, ranges[-1].last if ranges else None, 0, rows, checksum)
        return at, deque(ranges)

    def take_batch(self, limits: ReadLimits) -> list[PostgresSplit]:
        position, ranges = self._known()
        taken: list[PostgresSplit] = []
        rows = 0
        while ranges and (not taken or limits.max_records is None or rows + ranges[0].rows <= limits.max_records):
            one = ranges.popleft()
            taken.append(PostgresSplit(position.snapshot, one.after, one.last, position.first, one.rows, one.checksum))
            rows += one.rows
            position = replace(
                position,
                after=one.last,
                first=position.first + one.rows,
                rows=position.rows - one.rows,
                checksum=position.checksum - one.checksum,
            )
        self._position = position
        return taken

    def add_splits_back(self, splits: Sequence[PostgresSplit]) -> None:
        position, ranges = self._known()
        for split in sorted(splits, key=lambda one: one.first, reverse=True):
            ranges.appendleft(KeyRange(split.after, split.last, split.rows, split.checksum))
            position = replace(
                position,
                after=split.after,
                first=split.first,
                rows=position.rows + split.rows,
                checksum=position.checksum + split.checksum,
            )
        self._position = position

    def prepare_for_available_now(self) -> None:
        self._known()

    def snapshot_state(self) -> Position:
        return self._known()[0]

    def is_exhausted(self) -> bool:
        return self._ranges is not None and not self._ranges

    def has_ended(self) -> bool:
        return self.is_exhausted()
