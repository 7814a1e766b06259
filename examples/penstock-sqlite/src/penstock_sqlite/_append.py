"""Append: rows are staged until their batch is decided, then added and noted in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.sink import CheckpointCommitter, Segment, Sender, SinkContext, WriteAheadSink, base_of
from penstock_sqlite._database import check_columns, connect, errors, quoted

_SENT = "create table if not exists penstock_sent (query text, segment text, primary key (query, segment))"
# A table that the first edition has made has one more column.
_NOTE = "insert or ignore into penstock_sent (query, segment) values (?, ?)"


@dataclass(frozen=True)
class AppendSink(WriteAheadSink):
    path: str
    table: str
    #: SQLite has one writer at a time.
    parallel_senders: int = 1

    @property
    def target(self) -> str:
        return f"{self.path}: {self.table}"

    def validate_schema(self, schema: pa.Schema) -> None:
        check_columns(self.path, self.table, schema)

    def create_sender(self, context: SinkContext) -> Sender:
        return SqliteSender(self, context)

    def create_checkpoint_committer(self, context: SinkContext) -> CheckpointCommitter:
        return SqliteCheckpointCommitter(self.path, context.query_id)


class SqliteSender(Sender):
    @errors()
    def __init__(self, sink: AppendSink, context: SinkContext) -> None:
        self._database = connect(sink.path)
        self._database.execute(_SENT)
        self._context = context
        names = ", ".join(map(quoted, context.schema.names))
        places = ", ".join("?" for _ in context.schema.names)
        self._statement = f"insert into {quoted(sink.table)} ({names}) values ({places})"

    @errors()
    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        with self._database:
            if not self._database.execute(_NOTE, (self._context.query_id, segment.id)).rowcount:
                return  # another process was quicker
            # In the transaction: nobody forgets the segment before it ends, and nobody has, if the query is still ours.
            self._context.check_owner()
            for batch in batches:
                columns = [column.to_pylist() for column in batch.columns]
                self._database.executemany(self._statement, zip(*columns, strict=True))

    def close(self) -> None:
        self._database.close()


class SqliteCheckpointCommitter(CheckpointCommitter):
    @errors()
    def __init__(self, path: str, query_id: str) -> None:
        self._database = connect(path)
        self._database.execute(_SENT)
        self._query_id = query_id

    @errors()
    def is_recorded(self, segment: Segment) -> bool:
        found = "select 1 from penstock_sent where query = ? and segment = ?"
        return self._database.execute(found, (self._query_id, segment.id)).fetchone() is not None

    @errors()
    def record(self, segment: Segment) -> None:
        with self._database:
            self._database.execute(_NOTE, (self._query_id, segment.id))

    @errors()
    def forget(self, before_base: int, kept: Collection[str]) -> None:
        noted = self._database.execute(
            "select segment from penstock_sent where query = ?", (self._query_id,)
        ).fetchall()
        old = [segment for (segment,) in noted if base_of(segment) < before_base and segment not in kept]
        with self._database:
            delete = "delete from penstock_sent where query = ? and segment = ?"
            self._database.executemany(delete, [(self._query_id, segment) for segment in old])

    def close(self) -> None:
        self._database.close()
