"""What tasks write with: one writer for each attempt, plain or in a transaction."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.printable import get_logger
from penstock.sink import CommittingSinkWriter, PreparedCommit, SinkWriter, WriterContext, convert_refusing
from penstock.system import system
from penstock_kafka.client import BatchProducer, DeliveryError
from penstock_kafka.sink._committable import KafkaCommittable
from penstock_kafka.sink._kept_producers import KEPT_PRODUCERS
from penstock_kafka.sink._keyed_rows import KeyedRows
from penstock_kafka.sink._partitioners import Partitions
from penstock_kafka.sink._rows import RecordColumns, too_large
from penstock_kafka.transactions import ProducerPool, ReadyProducer, release_pool

__all__ = ["KafkaAtLeastOnceWriter", "RecordBatches", "KafkaTransactionalWriter"]

_log = get_logger("penstock.kafka")
_REQUEST_TIMEOUT_MS = 60_000
#: A task that has failed holds its slot for so long; what it leaves open is aborted before the next batch.
_ABORT_TIMEOUT_MS = 10_000


class RecordBatches:
    """Rows to records, with their partitions chosen. ``most_bytes``: of a record that the client takes. ``keyed``: for
    rows that are not the columns of records.
    """

    def __init__(
        self, columns: RecordColumns, partitions: Partitions | None, most_bytes: int, keyed: KeyedRows | None = None
    ) -> None:
        self._columns = columns
        self._partitions = partitions
        self._most_bytes = most_bytes
        self._keyed = keyed

    def convert(self, batch: pa.RecordBatch, context: WriterContext) -> pa.RecordBatch:
        """Returns a batch of ``DELIVERY_SCHEMA`` columns. Rows that make no record become dead letters, if such are
        kept.
        """
        if context.refused is not None and self._keyed is None:
            batch = context.refuse(batch, self._columns.without_topic(batch), self._letter_fields)
        batch, records = convert_refusing(context, batch, self._records, self._letter_fields)
        if context.refused is not None and (reasons := too_large(records, self._most_bytes)):
            records = self._records(context.refuse(batch, reasons, self._letter_fields))
        return records if self._partitions is None else self._partitions.fill(records)

    def _records(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return self._columns.convert(batch if self._keyed is None else self._keyed.convert(batch))

    def _letter_fields(self, batch: pa.RecordBatch) -> Mapping[str, Any]:
        # A keyed row is kept as a row: its columns are not those of a record, whatever they are called.
        return self._columns.letter_fields(batch if self._keyed is None else batch.select([]))


class _Proof:
    """Puts the proof into a transaction: an offset of a group of its own, committed if and only if it is.

    Runs in a thread of its own, while records are written: the brokers take some milliseconds for it.
    """

    def __init__(self, ready: ReadyProducer, topic: str, context: WriterContext) -> None:
        self._ready = ready
        self._topic = topic
        self._context = context
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._send, name="penstock-proof", daemon=True)
        self._thread.start()

    def _send(self) -> None:
        group, offset, attempt = self._ready.slot.transactional_id, self._context.batch_id, self._context.attempt_id
        try:
            self._ready.producer.send_offset(group, self._topic, 0, offset, attempt, _REQUEST_TIMEOUT_MS)
        except BaseException as error:  # raised by check
            self._error = error

    def wait(self) -> None:
        """Returns when it was sent, or has failed."""
        self._thread.join()

    def check(self) -> None:
        """Returns when the brokers have it. Raises what kept it from being sent."""
        self.wait()
        if self._error is not None:
            raise self._error


def _count_held_back(context: WriterContext, producer: BatchProducer, before_ms: int) -> None:
    """Metric ``held_back_ms``: for how long a quota has held this task back."""
    if more := producer.held_back.ms - before_ms:
        context.metrics.add("held_back_ms", more)


class KafkaTransactionalWriter(CommittingSinkWriter[KafkaCommittable, Any]):
    """Exactly once: one transaction, begun with the first row and left open. A task without rows has none.

    Memory: the producer's queue (``queue.buffering.max.kbytes``) and one Arrow batch.
    """

    def __init__(
        self,
        context: WriterContext,
        batches: RecordBatches,
        pool: ProducerPool,
        other_batches: RecordBatches | None = None,
        *,
        proves_first: bool = False,
    ) -> None:
        self._context = context
        self._batches = batches
        self._pool = pool
        self._proves_first = proves_first
        #: Of the other sink, whose rows this one takes; nothing of those is refused.
        self._other_batches = other_batches
        self._other_context = replace(context, refused=None)
        self._ready: ReadyProducer | None = None
        self._proof: _Proof | None = None
        self._topics: set[str] = set()
        self._records = 0
        self._rows = 0
        self._opened_ms = 0
        self._held_back_before = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Sends a batch within the transaction, which the first row begins."""
        if not batch.num_rows:
            return
        records = self._batches.convert(batch, self._context)
        self._rows += records.num_rows
        self._send(records)

    def write_other(self, batch: pa.RecordBatch) -> None:
        """Sends rows of the other sink within the same transaction."""
        assert self._other_batches is not None
        self._send(self._other_batches.convert(batch, self._other_context))

    def _send(self, records: pa.RecordBatch) -> None:
        if not records.num_rows:
            return
        if self._ready is None:
            self._ready = self._pool.take(self._context.base)
            self._opened_ms = system().now_us() // 1000
            self._ready.producer.begin_transaction()
            self._held_back_before = self._ready.producer.held_back.ms
            self._proof = _Proof(self._ready, records.column("topic")[0].as_py(), self._context)
            self._context.metrics.add("transactions_opened")
            if self._proves_first:
                self._proof.check()
        self._ready.producer.produce(records)
        self._records += records.num_rows
        self._topics.update(pc.unique(records.column("topic")).to_pylist())
        self._context.metrics.add("bytes_written", records.nbytes)

    def prepare_commit(self) -> PreparedCommit[KafkaCommittable, Any]:
        """Waits until the brokers have every record. No reader of committed records sees them yet."""
        ready, proof = self._ready, self._proof
        if ready is None or proof is None:
            return PreparedCommit()
        ready.producer.flush()
        proof.check()
        self._context.metrics.add("rows_written", self._rows)
        _count_held_back(self._context, ready.producer, self._held_back_before)
        committable = KafkaCommittable(
            ref=ready.ref,
            batch_id=self._context.batch_id,
            attempt_id=self._context.attempt_id,
            records=self._records,
            prepared_ms=system().now_us() // 1000,
            topics=tuple(sorted(self._topics)),
            opened_ms=self._opened_ms,
        )
        return PreparedCommit([committable])

    def abort(self) -> None:
        """Aborts the transaction. One that can't be aborted here is found open, and aborted, before the next batch."""
        if self._ready is not None:
            if self._proof is not None:
                self._proof.wait()  # a part that is added after the end would begin the next transaction
            with contextlib.suppress(PenstockError):
                self._ready.producer.abort_transaction(_ABORT_TIMEOUT_MS)

    def close(self) -> None:
        """Lets the producer go. Its transaction stays open."""
        if self._ready is not None:
            self._pool.retire(self._ready)
            self._ready = None
        release_pool(self._pool)


class KafkaAtLeastOnceWriter(SinkWriter):
    """At least once: everything is acknowledged when a task ends. Or no guarantee: the task does not wait.

    ``log_failures_only``: a record that is refused is counted (``failed_rows``) and logged, and the task continues.
    Memory as for :class:`KafkaTransactionalWriter`.
    """

    def __init__(
        self,
        context: WriterContext,
        batches: RecordBatches,
        producer: BatchProducer,
        *,
        wait: bool,
        log_failures_only: bool,
    ) -> None:
        self._context = context
        self._batches = batches
        self._producer = producer
        self._wait = wait
        self._log_failures_only = log_failures_only
        self._failed_before = producer.failed
        self._held_back_before = producer.held_back.ms
        self._records = 0
        self._logged = False
        self._is_reusable = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Sends a batch."""
        if not batch.num_rows:
            return
        records = self._batches.convert(batch, self._context)
        if not records.num_rows:
            return
        with self._failures():
            self._producer.produce(records)
        self._records += records.num_rows
        self._context.metrics.add("bytes_written", records.nbytes)

    def flush(self) -> None:
        """Waits until every record is acknowledged, if the delivery asks for that."""
        if self._wait:
            with self._failures():
                self._producer.flush()
        failed = self._producer.failed - self._failed_before
        self._is_reusable = not failed  # the next task would count the failures of this one
        self._context.metrics.add("rows_written", self._records - failed)
        _count_held_back(self._context, self._producer, self._held_back_before)
        if failed:
            self._context.metrics.add("failed_rows", failed)

    @contextlib.contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except DeliveryError as error:
            if not self._log_failures_only:
                raise
            if not self._logged:
                _log.warning("records are not delivered (logFailuresOnly), the first: %s", error)
            self._logged = True

    def close(self) -> None:
        """Leaves the producer to the next task, for a while.

        After an error it is not used again: its records in flight can't be called back.
        """
        if self._is_reusable:
            KEPT_PRODUCERS.release(self._producer)
        else:
            KEPT_PRODUCERS.discard(self._producer)
            self._producer.close()
