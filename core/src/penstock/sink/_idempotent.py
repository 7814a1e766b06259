"""The idempotent template: rows are written under their key, so writing one again changes nothing.

For systems without transactions that keep one row for each key. A batch is decided like any other (see
:mod:`penstock._commit`), with nothing left to publish: once it is decided a replay writes nothing; before that a replay
writes it again, over what is there.

What that alone does not stop is a *zombie*: an attempt that was given up and still writes, over rows of later
batches. So every run of a batch gets a write timestamp, greater than that of every run before, that is made durable in
the decision log before the first row is written. A system that has write timestamps keeps the row with the greatest
one. That is enough, because a batch is planned only after the previous one was decided, and a run that was planned
after its batch was decided writes nothing. So every run that writes a batch was planned, and stamped, before any later
batch.

After Flink's idempotent sinks (its Cassandra connector); the timestamps are Penstock's own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization import JsonSerializer
from penstock.serialization.ddl import shown_type
from penstock.sink._changes import check_not_null
from penstock.sink._contracts import (
    NOTHING_SERIALIZER,
    TIMESTAMPS_PER_RUN,
    Committer,
    CommittingSinkWriter,
    Found,
    PreparedCommit,
    SinkContext,
    SupportsCompleteMode,
    SupportsWriteTimestamps,
    TwoPhaseCommitSink,
    WriterContext,
)

__all__ = ["IdempotentSink", "Upserter"]


class Upserter(ABC):
    """Writes rows under their keys. Lives in the task, single thread, serves one attempt."""

    def drop_invalid(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch`` without rows that can't be written, which the upserter has refused (:meth:`WriterContext.refuse`).

        Called first with every batch, before keys are looked at. By default all rows are kept. The template refuses
        rows whose key is null.
        """
        return batch

    def comparable_keys(self, batch: pa.RecordBatch, keys: Sequence[str]) -> Sequence[pa.Array]:
        """Arrays by which rows have the same key: one for each column of the key, or fewer; not nested, without nulls.

        Called after :meth:`drop_invalid`. By default the columns ``keys`` as they are. Override it where different
        values are the same to the system (letters in upper and lower case, times that are cut off), or where keys are
        of a nested type. Raises :class:`penstock.errors.BadDataError` for a row that can't be written.
        """
        return [batch.column(key) for key in keys]

    @abstractmethod
    def upsert(self, batch: pa.RecordBatch, timestamp_us: int) -> None:
        """Inserts or replaces the row of each key; no key is in ``batch`` twice, none is null.

        Of a sink with an :attr:`IdempotentSink.order_column`, no key is in it twice with the same position.

        ``timestamp_us`` is what the rows must be stamped with if the system has write timestamps: it grows from call to
        call and from batch to batch. What is in flight on return is finished, or found to have failed, by
        :meth:`flush`. Raises :class:`penstock.errors.RetriableError` for a failure that may pass: the call is then
        repeated, with the same rows and the same timestamp; :class:`penstock.errors.BadDataError` for a row that can't
        be written, with its key.
        """

    def flush(self) -> None:  # noqa: B027
        """Returns when everything is durable. May be repeated after a RetriableError."""

    def close(self) -> None:  # noqa: B027
        """Frees resources. Called once, also after an error."""


class IdempotentSink(SupportsCompleteMode, SupportsWriteTimestamps, TwoPhaseCommitSink[None, None]):
    """Delivers effectively exactly once, by upserts. Built on the driver, pickled to the tasks; holds options only.

    In output mode *complete* each row of a result replaces the one with its key; a key that is not in the result any
    more stays. Spark gives a data source in Python no other way to write aggregates as they change: Spark itself
    refuses its output mode *update*.

    Rows of one key that come in one task are written in their order, so that the last one stays. Rows of one key in
    *several* tasks of one batch have no order: repartition by the key before the sink where that matters, or give the
    sink an :attr:`order_column`.
    """

    @property
    @abstractmethod
    def key_columns(self) -> Sequence[str]:
        """The columns that are the key, at least one."""

    @property
    def order_column(self) -> str:
        """The column of the rows by which the system itself keeps the greatest of a key; empty without one.

        Then all rows of a key are written, in any order and by any task. Of equal positions the last row is written.
        """
        return ""

    @abstractmethod
    def create_upserter(self, context: WriterContext) -> Upserter:
        """Returns an upserter for one attempt. Task."""

    def validate_schema(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError if a key column is missing or of a type that is no key (a list, a struct…).

        To be overridden with :meth:`Upserter.comparable_keys` by a sink that has such keys.
        """
        for name in self.key_columns:
            if schema.get_field_index(name) < 0:
                has = ", ".join(schema.names)
                raise BadConfigurationError(f"the rows have no key column '{name}', only: {has}")
            if pa.types.is_nested(schema.field(name).type):
                raise BadConfigurationError(
                    f"key column '{name}' is of type {shown_type(schema.field(name).type)}: not comparable"
                )

    @final
    @property
    def committable_serializer(self) -> JsonSerializer[None]:
        """Stores nothing: there is nothing to commit."""
        return NOTHING_SERIALIZER

    @final
    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[None, None]:
        """Makes a writer that upserts the rows of one attempt. Task."""
        return _UpsertWriter(self.create_upserter(context), tuple(self.key_columns), self.order_column, context)

    @final
    def create_committer(self, context: SinkContext) -> Committer[None, None]:
        """Makes a committer that has nothing to do. Driver."""
        return _NothingToCommit()


class _NothingToCommit(Committer[None, None]):
    def look(self, committables: Sequence[None]) -> list[Found]:
        return [Found.COMMITTED for _ in committables]

    def publish(self, committables: Sequence[None]) -> list[Found]:
        return [Found.COMMITTED for _ in committables]

    def seal(self, committables: Sequence[None]) -> None:
        """Does nothing: nothing is hidden."""

    def discard(self, committables: Sequence[None], states: Sequence[None]) -> None:
        """Rows stay: the batch is written again, over them."""


class _UpsertWriter(CommittingSinkWriter[None, None]):
    """Memory: one Arrow batch, and what the upserter has in flight."""

    def __init__(self, upserter: Upserter, keys: tuple[str, ...], order: str, context: WriterContext) -> None:
        self._upserter = upserter
        self._keys = keys
        self._order = order
        self._context = context
        self._calls = 0
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        batch = self._upserter.drop_invalid(batch)
        if not batch.num_rows:
            return
        batch = self._with_keys(batch)
        if not batch.num_rows:
            return
        # Beyond the last one calls share it: a system that compares timestamps would then order equal keys at random.
        timestamp_us = self._context.write_timestamp_us + min(self._calls, TIMESTAMPS_PER_RUN - 1)
        self._calls += 1
        keys = [*self._upserter.comparable_keys(batch, self._keys)]
        if self._order:
            keys.append(batch.column(self._order))
        rows = _last_of_each_key(batch, keys)
        self._with_retries(lambda: self._upserter.upsert(rows, timestamp_us))
        self._rows += batch.num_rows
        self._context.metrics.add("bytes_written", batch.nbytes)

    def _with_keys(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows whose key is whole. The others become dead letters, or fail the batch."""
        if self._context.refused is None:
            check_not_null(batch, self._keys, "key column")
            return batch
        reasons: dict[int, str] = {}
        for name in self._keys:
            column = batch.column(name)
            if column.null_count:
                rows = pc.indices_nonzero(column.is_null()).to_pylist()
                reasons = {**dict.fromkeys(rows, f"key column '{name}' is null"), **reasons}
        return self._context.refuse(batch, reasons)

    def prepare_commit(self) -> PreparedCommit[None, None]:
        self._with_retries(self._upserter.flush)
        self._context.metrics.add("rows_written", self._rows)
        return PreparedCommit()

    def _with_retries(self, call: Callable[[], None]) -> None:
        self._context.retry.call(call, "writing rows", self._context.metrics)

    def abort(self) -> None:
        """Does nothing: rows can't be withdrawn, and the batch is written again."""

    def close(self) -> None:
        self._upserter.close()


def _last_of_each_key(batch: pa.RecordBatch, keys: Sequence[pa.Array]) -> pa.RecordBatch:
    """``batch`` without rows whose key comes again later in it."""
    names = [str(number) for number in range(len(keys))]
    numbered = pa.table([*keys, pa.array(range(batch.num_rows))], [*names, "row"])
    last = numbered.group_by(names).aggregate([("row", "max")]).column("row_max")
    if len(last) == batch.num_rows:
        return batch
    return batch.take(last.take(pc.sort_indices(last)).combine_chunks())
