"""The way of rows to a table, whatever the delivery: encoded, grouped, sent, bad ones put aside."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.sink import SinkContext, WriterContext
from penstock_cassandra.client import Client, acquire_client, release_client
from penstock_cassandra.options import SinkOptions
from penstock_cassandra.sink._dispatcher import RequestDispatcher
from penstock_cassandra.sink._plan import WritePlan, write_plan
from penstock_cassandra.sink._rows import ENCODING_ERRORS, Grouping, Request, encode_rows, find_bad_rows, requests
from penstock_cassandra.types import comparable

__all__ = ["RowWriter", "bad_rows", "describe_row"]

_EXCERPT = 200


class _WithoutBatchAdvice(logging.Filter):
    """The server advises against batches of several partitions, with every answer; here they are on purpose."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        return not ("Server warning" in text and ("nlogged batch" in text or "Batch for" in text))


_quiet = _WithoutBatchAdvice()


class RowWriter:
    """One attempt's. Used by one thread. Memory: one Arrow batch encoded, and the requests in flight."""

    def __init__(self, options: SinkOptions, context: SinkContext) -> None:
        logging.getLogger("cassandra.protocol").addFilter(_quiet)
        self._options = options
        #: While rows may still become dead letters; a sender's are decided.
        self._context = context if isinstance(context, WriterContext) and context.refused is not None else None
        self._client = client = acquire_client(options.connection)
        try:
            self.plan: WritePlan = write_plan(client, options, context.schema)
        except BaseException:
            release_client(client)
            raise
        self._grouping = _grouping(client, options, self.plan)
        self._dispatcher = RequestDispatcher(
            client,
            context.metrics,
            self._reject,
            lambda: self.plan.check_table(client),
            max_in_flight=options.max_in_flight,
            retry=context.retry,
            rows_per_second=options.max_rows_per_second,
            counters=self.plan.counters,
            # Rows under a key stay the same when they are repeated; at least once may repeat anything but a count.
            repeatable=options.delivery == "exactly-once"
            or (options.delivery == "at-least-once" and not self.plan.counters),
        )

    def drop_invalid(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch`` without rows that can't be written: they are among the dead letters. All of it without those."""
        if self._context is None or not batch.num_rows:
            return batch
        return self._context.refuse(batch, bad_rows(batch, self.plan, self._options), self.plan.letter_fields)

    def comparable_keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """Arrays by which rows have the same key to the server. Raises BadDataError as :meth:`write` does."""
        types = {one.column: one.cql for one in self.plan.writes.bindings}
        try:
            return [comparable(batch.column(name), types[name]) for name in self.plan.key]
        except ENCODING_ERRORS as error:
            raise self._bad_row(batch, error) from error

    def _bad_row(self, batch: pa.RecordBatch, error: BaseException) -> BadDataError:
        bad = find_bad_rows(batch, self.plan, self._options)
        row, reason = next(iter(bad.items()), (0, str(error)))
        return BadDataError(f"{describe_row(self.plan, batch, row)}: {reason}")

    def write(self, batch: pa.RecordBatch, timestamp_us: int | None) -> None:
        """Sends rows, each key once. On return some are still in flight. Raises BadDataError with row and column."""
        options = self._options
        stamp = None if self.plan.lwt else (timestamp_us if options.timestamp_us is None else options.timestamp_us)
        try:
            encoded = encode_rows(batch, self.plan, self._grouping, options)
        except ENCODING_ERRORS as error:
            raise self._bad_row(batch, error) from error
        for request in requests(encoded, options.batch_bytes, stamp):
            self._dispatcher.send(request)

    def flush(self) -> None:
        """Returns when all rows are in the table. Raises DataLostError if it was dropped and created again."""
        self.drain()
        self.plan.check_table_id(self._client)

    def drain(self) -> None:
        """Returns when the server has taken all rows, and those that it does not take are dead letters."""
        self._dispatcher.drain()

    def close(self) -> None:
        """Ends the use of the connection."""
        release_client(self._client)

    def _reject(self, request: Request, reason: str) -> None:
        row = int(request.encoded.order[request.first])
        if self._context is None:
            raise BadDataError(f"{describe_row(self.plan, request.encoded.batch, row)}: {reason}")
        self._context.refuse(request.encoded.batch.slice(row, 1), {0: reason}, self.plan.letter_fields)
        self._context.metrics.add("rows_written", -1)  # it was counted when it was sent


def describe_row(plan: WritePlan, batch: pa.RecordBatch, row: int) -> str:
    """Returns which row it is about, in words, by its key."""
    values = _row_values(batch, row)
    key = ", ".join(f"{name}={values[name]!r}" for name in plan.key)
    key = key if len(key) <= _EXCERPT else key[:_EXCERPT] + "…"
    return f"the row with key ({key}) can't be written to {plan.keyspace}.{plan.table}"


def bad_rows(batch: pa.RecordBatch, plan: WritePlan, options: SinkOptions) -> dict[int, str]:
    """Returns why rows can't be written, by their number."""
    reasons: dict[int, str] = {}
    for name in plan.key:
        for row in pc.indices_nonzero(batch.column(name).is_null()).to_pylist():
            reasons.setdefault(row, f"column '{name}' of the key is null")
    kept = [row for row in range(batch.num_rows) if row not in reasons] if reasons else range(batch.num_rows)
    found = find_bad_rows(_without(batch, reasons), plan, options)
    return reasons | {kept[row]: reason for row, reason in found.items()}


def _without(batch: pa.RecordBatch, rows: Mapping[int, str]) -> pa.RecordBatch:
    """``batch`` without the rows of these numbers."""
    if not rows:
        return batch
    kept = np.ones(batch.num_rows, bool)
    kept[list(rows)] = False
    return batch.filter(pa.array(kept))


def _row_values(batch: pa.RecordBatch, row: int) -> dict[str, Any]:
    """Returns a row as Python values."""
    found: dict[str, Any] = batch.slice(row, 1).to_pylist()[0]
    return found


def _grouping(client: Client, options: SinkOptions, plan: WritePlan) -> Grouping:
    kind = "none" if plan.lwt else options.grouping
    tokens = client.metadata.token_map
    ends: list[int] = []
    sets: list[int] = []
    known: dict[tuple[str, ...], int] = {}
    # By replica needs tokens that NumPy can hold.
    if kind == "replica" and tokens is not None and "Murmur3" in client.metadata.partitioner:
        for token in tokens.ring:
            replicas = tuple(sorted(str(host.endpoint) for host in tokens.get_replicas(plan.keyspace, token)))
            ends.append(int(token.value))
            sets.append(known.setdefault(replicas, len(known)))
    elif kind == "replica":
        kind = "partition"
    return Grouping(kind, ends, sets)
