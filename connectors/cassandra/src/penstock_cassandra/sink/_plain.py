"""At least once: a batch that is run again is written again."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa

from penstock.metrics import Metrics
from penstock.sink import Sink, SinkWriter, WriterContext
from penstock_cassandra.client import shared_client
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._plan import write_plan
from penstock_cassandra.sink._rounds import rounds
from penstock_cassandra.sink._writing import RowWriter

__all__ = ["OrderedRows", "PlainCassandraSink"]


@dataclass(frozen=True)
class PlainCassandraSink(Sink):
    """Holds options and the rows' schema."""

    options: SinkOptions
    schema: pa.Schema

    def validate_schema(self, schema: pa.Schema) -> None:
        """See the contract."""
        write_plan(shared_client(self.options.connection), self.options, self.schema).check(schema, self.options)

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """See the contract."""
        return _PlainWriter(self.options, context)


class OrderedRows:
    """Writes rows of one key in their order: each round is answered, and stamped later than the one before."""

    def __init__(self, options: SinkOptions, schema: pa.Schema, metrics: Metrics, name: str) -> None:
        self._writer = RowWriter(options, schema, metrics, name)
        self._stamp = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Memory: the batch, encoded."""
        batch = self._writer.screen(batch)
        if not batch.num_rows:
            return
        for number, part in enumerate(rounds(batch, self._writer.comparable_keys(batch))):
            if number:
                self._writer.drain()
            self._stamp = max(self._stamp + 1, time.time_ns() // 1000)
            # Counters have no timestamps of ours.
            self._writer.write(part, None if self._writer.plan.counters else self._stamp)

    def flush(self) -> None:
        """Returns when the server has all rows."""
        self._writer.drain()


class _PlainWriter(SinkWriter):
    def __init__(self, options: SinkOptions, context: WriterContext) -> None:
        self._context = context
        name = f"{context.batch_id}-{context.writer_index}-{context.attempt_id}"
        self._rows = OrderedRows(options, context.schema, context.metrics, name)
        self._count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.write(batch)
        self._count += batch.num_rows
        self._context.metrics.add("bytes_written", batch.nbytes)

    def flush(self) -> None:
        self._rows.flush()
        self._context.metrics.add("rows_written", self._count)
