"""Writers of the three deliveries, on one :class:`RowWriter` each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from penstock.sink import Segment, Sender, SinkContext, SinkWriter, Upserter, WriterContext
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._row_writer import RowWriter

__all__ = ["CassandraAtLeastOnceWriter", "CassandraSender", "CassandraUpserter"]


class CassandraUpserter(Upserter):
    """Upserts rows with the stamp of their batch. One thread. Memory: see :class:`RowWriter`."""

    def __init__(self, options: SinkOptions, context: WriterContext) -> None:
        self._writer = RowWriter(options, context)

    def drop_invalid(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._writer.drop_invalid(batch)

    def comparable_keys(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Sequence[pa.Array]:
        return self._writer.comparable_keys(batch)

    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        self._writer.write(batch, timestamp_us)

    def flush(self) -> None:
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class CassandraAtLeastOnceWriter(SinkWriter):
    """Writes the rows of one attempt, those of one key in their order. One thread. Memory: see :class:`RowWriter`."""

    def __init__(self, options: SinkOptions, context: WriterContext) -> None:
        self._context = context
        self._rows = _OrderedRows(options, context)
        self._count = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._count += self._rows.write(batch)
        self._context.metrics.add("bytes_written", batch.nbytes)

    def flush(self) -> None:
        self._rows.flush()
        self._context.metrics.add("rows_written", self._count)

    def close(self) -> None:
        self._rows.close()


class CassandraSender(Sender):
    """Sends segments, each with a writer of its own. The thread that sends. Memory: see :class:`RowWriter`."""

    def __init__(self, options: SinkOptions, context: SinkContext) -> None:
        self._options = options
        self._context = context

    def send(self, batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
        rows = _OrderedRows(self._options, self._context)
        with contextlib.closing(rows):
            for batch in batches:
                rows.write(batch)
            rows.flush()


class _OrderedRows:
    """Writes rows of one key in their order: each round is answered, and stamped later than the previous one."""

    def __init__(self, options: SinkOptions, context: SinkContext) -> None:
        self._writer = RowWriter(options, context)
        self._stamp = 0

    def write(self, batch: pa.RecordBatch) -> int:
        """Returns how many rows it has sent; the others are refused. Memory: the batch, encoded."""
        batch = self._writer.drop_invalid(batch)
        if not batch.num_rows:
            return 0
        for number, part in enumerate(_rounds(batch, self._writer.comparable_keys(batch))):
            if number:
                self._writer.drain()
            self._stamp = max(self._stamp + 1, time.time_ns() // 1000)
            # Counters have no timestamps of the batch.
            self._writer.write(part, None if self._writer.plan.counters else self._stamp)
        return int(batch.num_rows)

    def flush(self) -> None:
        """Returns when the server has all rows."""
        self._writer.flush()

    def close(self) -> None:
        """Ends the use of the connection."""
        self._writer.close()


def _rounds(batch: pa.RecordBatch, keys: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
    """Splits ``batch`` into parts that have each key once: the first row of each key, then the second ones, and so on.

    Requests overtake each other, so rows of one key may not be in flight together. ``keys`` are comparable.
    """
    names = [str(number) for number in range(len(keys))]
    numbers = pa.array(np.arange(batch.num_rows))
    table = pa.table([*keys, numbers], [*names, "row"])
    first = table.group_by(names).aggregate([("row", "min")]).column("row_min").to_numpy()
    if len(first) == batch.num_rows:
        yield batch
        return
    rest = pa.array(np.setdiff1d(numbers.to_numpy(), first))
    yield batch.take(pa.array(np.sort(first)))
    yield from _rounds(batch.take(rest), [key.take(rest) for key in keys])
