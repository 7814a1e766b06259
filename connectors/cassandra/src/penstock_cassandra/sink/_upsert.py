"""Effectively exactly once: rows under their key, stamped for each batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from penstock.retry import retrying
from penstock.sink import IdempotentSink, Upserter, WriterContext
from penstock_cassandra.client import shared_client
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._plan import WritePlan, target_of, write_plan
from penstock_cassandra.sink._writing import RowWriter

__all__ = ["UpsertCassandraSink"]


@dataclass(frozen=True)
class UpsertCassandraSink(IdempotentSink):
    """Holds options and the rows' schema."""

    options: SinkOptions
    schema: pa.Schema
    #: Requests are tried again one by one (option retryFor).
    retry_for_s: ClassVar[float] = 0.0  # type: ignore[misc]

    def _plan(self) -> WritePlan:
        return write_plan(shared_client(self.options.connection), self.options, self.schema)

    def _plan_with_retries(self) -> WritePlan:
        return retrying(self._plan, self.options.retry_for_s)

    @property
    def key_columns(self) -> Sequence[str]:
        """Those of the rows that go to the table's primary key."""
        return self._plan_with_retries().key

    @property
    def target(self) -> str:
        """See the contract."""
        return target_of(self.options)

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the contract. Keys may be of any type that the server takes as one."""
        self._plan().check(schema, self.options)

    def create_upserter(self, context: WriterContext) -> Upserter:
        """See the contract."""
        return _Upserter(self.options, context)


class _Upserter(Upserter):
    def __init__(self, options: SinkOptions, context: WriterContext) -> None:
        name = f"{context.batch_id}-{context.writer_index}-{context.attempt_id}"
        self._writer = RowWriter(options, context.schema, context.metrics, name)

    def screen(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._writer.screen(batch)

    def comparable_keys(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Sequence[pa.Array]:
        return self._writer.comparable_keys(batch)

    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        self._writer.write(batch, timestamp_us)

    def flush(self) -> None:
        self._writer.drain()
