"""The sinks, one for each delivery. They hold options and the rows' schema; each names its writer or sender."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.sink import IdempotentSink, Sender, Sink, SinkContext, SinkWriter, Upserter, WriteAheadSink, WriterContext
from penstock_cassandra.client import acquire_client, shared_client
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._committer import CassandraCheckpointCommitter
from penstock_cassandra.sink._plan import WritePlan, target_of, write_plan
from penstock_cassandra.sink._row_writer import bad_rows, describe_row
from penstock_cassandra.sink._writer import CassandraAtLeastOnceWriter, CassandraSender, CassandraUpserter

__all__ = ["CassandraAtLeastOnceSink", "CassandraUpsertSink", "CassandraWriteAheadSink", "create_sink", "kind_of"]


@dataclass(frozen=True)
class CassandraUpsertSink(IdempotentSink):
    """Upserts rows under their key, stamped for each batch: effectively exactly once."""

    options: SinkOptions
    schema: pa.Schema

    def _plan(self) -> WritePlan:
        return write_plan(shared_client(self.options.connection), self.options, self.schema)

    @property
    def key_columns(self) -> Sequence[str]:
        """Those of the rows that go to the table's primary key."""
        return self._plan().key

    @property
    def order_column(self) -> str:
        """That of write timestamps, if the rows have one."""
        return self.options.timestamp_column

    @property
    def target(self) -> str:
        return target_of(self.options)

    def validate_schema(self, schema: pa.Schema) -> None:
        """Keys may be of any type that the server takes as one."""
        self._plan().check(schema, self.options)

    def create_upserter(self, context: WriterContext) -> Upserter:
        return CassandraUpserter(self.options, context)


@dataclass(frozen=True)
class CassandraWriteAheadSink(WriteAheadSink):
    """Sends rows once their batch is decided, and notes in Cassandra what it has sent."""

    options: SinkOptions
    schema: pa.Schema

    @property
    def target(self) -> str:
        return target_of(self.options)

    def validate_schema(self, schema: pa.Schema) -> None:
        write_plan(shared_client(self.options.connection), self.options, self.schema).check(schema, self.options)

    def start(self, context: SinkContext) -> CassandraWriteAheadSink:
        """Makes the table of what was sent, if it is not there."""
        super().start(context)
        with contextlib.closing(self.create_checkpoint_committer(context)) as committer:
            committer.create()
        return self

    def create_checkpoint_committer(self, context: SinkContext) -> CassandraCheckpointCommitter:
        """Notes what was sent in Cassandra itself."""
        if not self.options.checkpoint_keyspace:
            raise BadConfigurationError(
                "delivery=write-ahead keeps a table of what was sent: name its keyspace with the option "
                "'checkpointKeyspace'"
            )
        client, options = acquire_client(self.options.connection), self.options
        return CassandraCheckpointCommitter(client, options.checkpoint_keyspace, context.query_id, context.retry)

    def drop_invalid(self, batch: pa.RecordBatch, context: WriterContext) -> pa.RecordBatch:
        """Refuses rows with null keys, with values that do not fit, and rows that are too large."""
        plan = context.retry.call(
            lambda: write_plan(shared_client(self.options.connection), self.options, self.schema), "staging rows"
        )
        reasons = bad_rows(batch, plan, self.options)
        if reasons and context.refused is None:
            row, reason = next(iter(sorted(reasons.items())))
            raise BadDataError(f"{describe_row(plan, batch, row)}: {reason}")
        return context.refuse(batch, reasons, plan.letter_fields)

    def create_sender(self, context: SinkContext) -> Sender:
        return CassandraSender(self.options, context)


@dataclass(frozen=True)
class CassandraAtLeastOnceSink(Sink):
    """Writes rows at once: a batch that is run again is written again."""

    options: SinkOptions
    schema: pa.Schema

    def validate_schema(self, schema: pa.Schema) -> None:
        write_plan(shared_client(self.options.connection), self.options, self.schema).check(schema, self.options)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return CassandraAtLeastOnceWriter(self.options, context)


_KINDS: dict[str, type[Any]] = {
    "exactly-once": CassandraUpsertSink,
    "write-ahead": CassandraWriteAheadSink,
    "at-least-once": CassandraAtLeastOnceSink,
}


def kind_of(options: SinkOptions) -> type[Sink]:
    """Returns the class of the sink that :func:`create_sink` makes."""
    kind: type[Sink] = _KINDS[options.delivery]
    return kind


def create_sink(options: SinkOptions, schema: pa.Schema) -> Sink:
    """Makes the sink of ``options.delivery`` for rows of ``schema``. Driver; does not connect."""
    sink: Sink = _KINDS[options.delivery](options, schema)
    return sink
