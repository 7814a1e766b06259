"""The source: a table, or a query of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.printable import get_logger
from penstock.serialization import SimpleVersionedSerializer
from penstock.source import (
    ColumnFilter,
    EnumeratorContext,
    ReaderContext,
    ReadLimits,
    Source,
    SupportsExplain,
    SupportsFilterPushDown,
)
from penstock_cassandra._tables import table_of
from penstock_cassandra.client import Client, shared_client
from penstock_cassandra.options import SourceOptions
from penstock_cassandra.source._emitter import CassandraRecordEmitter
from penstock_cassandra.source._enumerator import CassandraSplitEnumerator
from penstock_cassandra.source._estimates import describe_scan, estimated_bytes, split_count
from penstock_cassandra.source._filters import conditions_for, servable
from penstock_cassandra.source._plan import ReadPlan, plan_of
from penstock_cassandra.source._reader import CassandraSplitReader
from penstock_cassandra.source._ring import partitioner_of
from penstock_cassandra.source._split import SPLIT_SERIALIZER, STATE_SERIALIZER, TableState, TokenSplit

__all__ = ["CassandraSource"]

_log = get_logger("penstock.cassandra")


@dataclass(frozen=True)
class CassandraSource(Source[TokenSplit, TableState], SupportsFilterPushDown, SupportsExplain):
    """Holds options only. ``conditions`` are what an engine pushed down, in CQL."""

    options: SourceOptions
    conditions: tuple[str, ...] = ()

    @property
    def split_serializer(self) -> SimpleVersionedSerializer[TokenSplit]:
        return SPLIT_SERIALIZER

    @property
    def enumerator_serializer(self) -> SimpleVersionedSerializer[TableState]:
        return STATE_SERIALIZER

    def plan(self, client: Client, columns: Sequence[str] | None = None) -> ReadPlan:
        """Returns what to request from the server."""
        named = None if self.options.query else columns
        return plan_of(client, self.options, named, self.conditions)

    def _client(self) -> Client:
        """On the driver. Nothing has been planned yet that could be repeated: errors come at once."""
        return shared_client(self.options.connection)

    def fixed_schema(self) -> pa.Schema:
        """Returns the table's, or the query's, as the server has it now."""
        return self.plan(self._client()).schema()

    def validate_schema(self, schema: pa.Schema) -> None:
        self.plan(self._client()).check(schema)

    def push_filters(self, filters: Sequence[ColumnFilter]) -> tuple[CassandraSource, Sequence[ColumnFilter]]:
        """A query is left as it is."""
        if self.options.query:
            return self, ()
        conditions, served = conditions_for(
            table_of(self._client(), self.options.keyspace, self.options.table), filters
        )
        if conditions:
            _log.info("penstock.cassandra: the server applies %s", " AND ".join(conditions))
        return replace(self, conditions=(*self.conditions, *conditions)), served

    def explain(self) -> Sequence[str]:
        """Returns the statement, whether it is a scan and in how many splits, and which filters the server applies."""
        client = self._client()
        plan = self.plan(client)
        if not plan.by_token:
            return [f"one partition of {plan.select.keyspace}.{plan.select.table}: {plan.statement.cql}"]
        where = (plan.select.keyspace, plan.select.table)
        estimate = estimated_bytes(client, *where, partitioner_of(client.metadata.partitioner))
        lines = [describe_scan(plan, estimate, split_count(self.options, estimate))]
        return lines if self.options.query else [*lines, servable(table_of(client, *where))]

    def read_limits(self) -> ReadLimits:
        return ReadLimits(max_groups=self.options.max_splits_per_trigger)

    def target_task_bytes(self, parallelism: int, total_bytes: int) -> int:
        """Splits were made as large as a task's share should be: only small ones are put together."""
        return min(self.options.max_split_bytes, super().target_task_bytes(parallelism, total_bytes))

    def create_enumerator(self, context: EnumeratorContext, checkpoint: TableState | None) -> CassandraSplitEnumerator:
        return CassandraSplitEnumerator(self.options, self.plan, context, checkpoint)

    def create_reader(self, context: ReaderContext) -> CassandraSplitReader:
        return CassandraSplitReader(self.options, self.plan, context)

    def create_emitter(self, context: ReaderContext) -> CassandraRecordEmitter:
        return CassandraRecordEmitter(context)
