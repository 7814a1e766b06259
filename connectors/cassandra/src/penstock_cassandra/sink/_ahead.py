"""Write-ahead: rows wait in the checkpoint until their batch is decided; what was sent is noted in Cassandra."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.sink import CheckpointCommitter, Segment, Sender, SinkContext, WriteAheadSink, WriterContext
from penstock_cassandra.client import Client, shared_client
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._dead_letters import DeadLetters
from penstock_cassandra.sink._plain import OrderedRows
from penstock_cassandra.sink._plan import write_plan
from penstock_cassandra.sink._writing import bad_rows, row_values, where, without
from penstock_cassandra.source._cql import quoted

__all__ = ["SentTable", "WriteAheadCassandraSink"]

_TABLE = "penstock_sent"


@dataclass(frozen=True)
class WriteAheadCassandraSink(WriteAheadSink):
    """Holds options and the rows' schema."""

    options: SinkOptions
    schema: pa.Schema

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the contract."""
        write_plan(shared_client(self.options.connection), self.options, self.schema).check(schema, self.options)

    def start(self, context: SinkContext) -> WriteAheadCassandraSink:
        """Makes the table of what was sent, if it is not there."""
        super().start(context)
        SentTable(self._client(), self.options.checkpoint_keyspace, context.query_id).create()
        return self

    def _client(self) -> Client:
        if not self.options.checkpoint_keyspace:
            raise BadConfigurationError(
                "delivery=write-ahead keeps a table of what was sent: name its keyspace with the option "
                "'checkpointKeyspace'"
            )
        return shared_client(self.options.connection)

    def screen(self, batch: pa.RecordBatch, context: WriterContext) -> pa.RecordBatch:
        """See the contract: null keys, values that do not fit, rows that are too large."""
        plan = write_plan(shared_client(self.options.connection), self.options, self.schema)
        reasons = bad_rows(batch, plan, self.options)
        if reasons and self.options.dead_letters is None:
            row, reason = next(iter(sorted(reasons.items())))
            raise BadDataError(f"{where(plan, batch, row)}: {reason}")
        if reasons:
            assert self.options.dead_letters is not None
            letters = DeadLetters(*self.options.dead_letters, f"{context.batch_id}-{uuid.uuid4().hex}")
            for row, reason in sorted(reasons.items()):
                letters.put(row_values(batch, row), reason)
            letters.flush()
            context.metrics.add("bad_rows", len(reasons))
        return without(batch, reasons)

    def create_sender(self, context: SinkContext) -> Sender:
        """See the contract."""
        return _CassandraSender(self.options, context)

    def create_checkpoint_committer(self, context: SinkContext) -> CheckpointCommitter:
        """See the contract: in Cassandra."""
        return SentTable(self._client(), self.options.checkpoint_keyspace, context.query_id)


class _CassandraSender(Sender):
    def __init__(self, options: SinkOptions, context: SinkContext) -> None:
        self._options = options
        self._context = context

    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        rows = OrderedRows(self._options, self._context.schema, self._context.metrics, segment.id)
        for batch in batches:
            rows.write(batch)
        rows.flush()


class SentTable(CheckpointCommitter):
    """Table ``penstock_sent``: a row for each segment that was sent. All of a query are one partition.

    Old ones are removed, by one range tombstone, as soon as nobody will ask for them again.
    """

    def __init__(self, client: Client, keyspace: str, query_id: str) -> None:
        self._client = client
        self._keyspace = keyspace
        self._query_id = query_id
        self._name = f"{quoted(keyspace)}.{quoted(_TABLE)}"

    def create(self) -> None:
        """Makes the table unless it is there."""
        known = self._client.keyspace(self._keyspace)
        if known is None:
            raise BadConfigurationError(f"the cluster has no keyspace '{self._keyspace}' (option 'checkpointKeyspace')")
        if _TABLE not in known.tables:
            self._client.rows(
                f"CREATE TABLE IF NOT EXISTS {self._name} "
                "(query text, batch_id bigint, segment text, PRIMARY KEY (query, batch_id, segment))"
            )

    def is_recorded(self, segment: Segment) -> bool:
        """See the contract."""
        cql = f"SELECT segment FROM {self._name} WHERE query = ? AND batch_id = ? AND segment = ?"
        return bool(self._client.rows(cql, (self._query_id, segment.batch_id, segment.id)))

    def record(self, segment: Segment) -> None:
        """See the contract."""
        cql = f"INSERT INTO {self._name} (query, batch_id, segment) VALUES (?, ?, ?)"
        self._client.rows(cql, (self._query_id, segment.batch_id, segment.id))

    def forget(self, before_batch: int) -> None:
        """See the contract."""
        cql = f"DELETE FROM {self._name} WHERE query = ? AND batch_id < ?"
        self._client.rows(cql, (self._query_id, before_batch))
