"""Update or insert by key."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

import pyarrow as pa

from penstock.sink import IdempotentSink, SinkContext, Upserter, WriterContext
from penstock_sqlite._database import check_columns, connect, errors, quoted, table_schema

STAMP = "penstock_written_us"


@dataclass(frozen=True)
class UpsertSink(IdempotentSink):
    path: str
    table: str
    key: tuple[str, ...]

    @property
    def target(self) -> str:
        return f"{self.path}: {self.table}"

    @property
    def key_columns(self) -> tuple[str, ...]:
        return self.key

    def validate_schema(self, schema: pa.Schema) -> None:
        super().validate_schema(schema)
        check_columns(self.path, self.table, schema)

    def start(self, context: SinkContext) -> UpsertSink:
        """Adds the column of the timestamps, if it is missing."""
        if STAMP not in table_schema(self.path, self.table).names:
            opened = connect(self.path)
            try:
                opened.execute(f"alter table {quoted(self.table)} add column {STAMP} integer not null default 0")
            except sqlite3.OperationalError as error:
                if "duplicate column" not in str(error):  # another query was quicker
                    raise
            finally:
                opened.close()
        return self

    def create_upserter(self, context: WriterContext) -> Upserter:
        return SqliteUpserter(self, context.schema.names)


class SqliteUpserter(Upserter):
    def __init__(self, sink: UpsertSink, columns: list[str]) -> None:
        self._database = connect(sink.path)
        names = ", ".join(map(quoted, [*columns, STAMP]))
        places = ", ".join("?" for _ in [*columns, STAMP])
        changes = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in [*columns, STAMP])
        self._statement = (
            f"insert into {quoted(sink.table)} ({names}) values ({places}) "
            f"on conflict ({', '.join(map(quoted, sink.key))}) do update set {changes} "
            f"where excluded.{STAMP} >= {quoted(sink.table)}.{STAMP}"
        )

    @errors()
    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        columns = [column.to_pylist() for column in batch.columns]
        with self._database:
            self._database.executemany(self._statement, zip(*columns, [timestamp_us] * batch.num_rows, strict=True))

    def close(self) -> None:
        self._database.close()
