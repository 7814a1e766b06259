"""A bounded source: the rows that are there, in ranges of row ids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.serialization import JsonSerializer
from penstock.source import (
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    RecordEmitter,
    RecordsBySplits,
    Source,
    SplitEnumerator,
    SplitReader,
)
from penstock_sqlite._database import connect, errors, quoted, table_schema

_ROWS_PER_FETCH = 10_000


@dataclass(frozen=True)
class RowIds:
    """The rows whose id is ``first`` or more and below ``last``."""

    first: int
    last: int

    @property
    def split_id(self) -> str:
        return str(self.first)

    @property
    def size_bytes(self) -> int:
        return 100 * (self.last - self.first)  # a guess

    @property
    def group(self) -> str:
        return self.split_id


@dataclass(frozen=True)
class Position:
    """What is left: the row ids from ``next`` to below ``end``, which was fixed when the stream began."""

    next: int
    end: int


class SqliteEnumerator(SplitEnumerator[RowIds, Position]):
    """Asks for the highest row id once, in the life of a stream; from then on it only counts."""

    def __init__(self, source: SqliteSource, checkpoint: Position | None) -> None:
        self._source = source
        self._position = checkpoint

    def start(self) -> None:
        """The table is looked at when the first split is asked for."""

    def _known(self) -> Position:
        if self._position is None:
            opened = connect(self._source.path)
            try:
                bounds = f"select min(rowid), max(rowid) from {quoted(self._source.table)}"
                with errors():
                    first, last = opened.execute(bounds).fetchone()
            finally:
                opened.close()
            self._position = Position(0, 0) if first is None else Position(first, last + 1)
        return self._position

    def handle_split_request(self) -> RowIds | None:
        position = self._known()
        if position.next >= position.end:
            return None
        last = min(position.next + self._source.rows_per_split, position.end)
        self._position = Position(last, position.end)
        return RowIds(position.next, last)

    def add_splits_back(self, splits: Sequence[RowIds]) -> None:
        if splits:
            self._position = Position(min(split.first for split in splits), self._known().end)

    def snapshot_state(self) -> Position:
        return self._known()

    def is_exhausted(self) -> bool:
        return self._position is not None and self._position.next >= self._position.end

    def has_ended(self) -> bool:
        return self.is_exhausted()


class SqliteReader(SplitReader[pa.RecordBatch, RowIds]):
    """An element is an Arrow batch of at most 10,000 rows; a cursor stays open between two fetches."""

    def __init__(self, source: SqliteSource, schema: pa.Schema) -> None:
        self._schema = schema
        names = ", ".join(map(quoted, schema.names))
        self._query = f"select {names} from {quoted(source.table)} where rowid >= ? and rowid < ? order by rowid"
        self._path = source.path
        self._splits: list[RowIds] = []
        self._database: Any = None
        self._cursor: Any = None

    def handle_splits_changes(self, splits: Sequence[RowIds]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[pa.RecordBatch]:
        if self._database is None:
            # Made here: a connection belongs to the thread that made it.
            self._database = connect(self._path)
        split = self._splits[0]
        if self._cursor is None:
            self._cursor = self._database.execute(self._query, (split.first, split.last))
        rows = self._cursor.fetchmany(_ROWS_PER_FETCH)
        if not rows:
            self._cursor = None
            self._splits.pop(0)
            return RecordsBySplits(finished_splits=[split.split_id])
        columns = [
            pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), self._schema, strict=True)
        ]
        return RecordsBySplits([(split.split_id, pa.record_batch(columns, schema=self._schema))])

    def wake_up(self) -> None:
        """A fetch is short."""

    def close(self) -> None:
        if self._database is not None:
            self._database.close()


class SqliteEmitter(RecordEmitter[pa.RecordBatch, RowIds]):
    def emit_record(self, element: pa.RecordBatch, split_state: Any) -> Iterator[pa.RecordBatch]:
        yield element


@dataclass(frozen=True)
class SqliteSource(Source[RowIds, Position]):
    path: str
    table: str
    rows_per_split: int
    splits_per_trigger: int | None
    split_serializer = JsonSerializer(1, lambda s: [s.first, s.last], lambda version, fields: RowIds(*fields))
    enumerator_serializer = JsonSerializer(1, lambda p: [p.next, p.end], lambda version, fields: Position(*fields))

    def fixed_schema(self) -> pa.Schema:
        return table_schema(self.path, self.table)

    def read_limits(self) -> ReadLimits:
        return ReadLimits(max_groups=self.splits_per_trigger)

    def create_enumerator(self, context: EnumeratorContext, checkpoint: Position | None) -> SqliteEnumerator:
        return SqliteEnumerator(self, checkpoint)

    def create_reader(self, context: ReaderContext) -> SqliteReader:
        return SqliteReader(self, context.schema)

    def create_emitter(self, context: ReaderContext) -> SqliteEmitter:
        return SqliteEmitter()
