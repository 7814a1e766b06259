"""Append: rows are staged until their batch is decided, then added and noted in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.sink import CheckpointCommitter, Segment, Sender, SinkContext, WriteAheadSink
from penstock_sqlite._database import check_columns, connect, errors, quoted

_SENT = (
    "create table if not exists penstock_sent (query text, segment text, batch integer, primary key (query, segment))"
)


@dataclass(frozen=True)
class AppendSink(WriteAheadSink):
    path: str
    table: str
    #: SQLite has one writer at a time.
    parallel_senders: int = 1

    def validate_schema(self, schema: pa.Schema) -> None:
        check_columns(self.path, self.table, schema)

    def create_sender(self, context: SinkContext) -> Sender:
        return SqliteSender(self, context)

    def create_checkpoint_committer(self, context: SinkContext) -> CheckpointCommitter:
        return SqliteCheckpointCommitter(self.path, context.query_id)


class SqliteSender(Sender):
    def __init__(self, sink: AppendSink, context: SinkContext) -> None:
        self._database = connect(sink.path)
        self._database.execute(_SENT)
        self._query_id = context.query_id
        names = ", ".join(map(quoted, context.schema.names))
        places = ", ".join("?" for _ in context.schema.names)
        self._statement = f"insert into {quoted(sink.table)} ({names}) values ({places})"

    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        with errors(), self._database:
            note = (self._query_id, segment.id, segment.batch_id)
            self._database.execute("insert into penstock_sent values (?, ?, ?)", note)
            for batch in batches:
                columns = [column.to_pylist() for column in batch.columns]
                self._database.executemany(self._statement, zip(*columns, strict=True))

    def close(self) -> None:
        self._database.close()


class SqliteCheckpointCommitter(CheckpointCommitter):
    def __init__(self, path: str, query_id: str) -> None:
        self._database = connect(path)
        self._database.execute(_SENT)
        self._query_id = query_id

    def is_recorded(self, segment: Segment) -> bool:
        found = "select 1 from penstock_sent where query = ? and segment = ?"
        return self._database.execute(found, (self._query_id, segment.id)).fetchone() is not None

    def record(self, segment: Segment) -> None:
        with self._database:
            note = (self._query_id, segment.id, segment.batch_id)
            self._database.execute("insert or ignore into penstock_sent values (?, ?, ?)", note)

    def forget(self, before_batch: int) -> None:
        with self._database:
            old = (self._query_id, before_batch)
            self._database.execute("delete from penstock_sent where query = ? and batch < ?", old)

    def close(self) -> None:
        self._database.close()
