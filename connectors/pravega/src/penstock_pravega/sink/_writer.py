"""The writers of tasks, one for each attempt: in a transaction, or plain."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from typing import Any

import pyarrow as pa

from penstock.errors import PenstockError, RetriableError
from penstock.printable import get_logger
from penstock.retry import NO_RETRIES
from penstock.sink import CommittingSinkWriter, PreparedCommit, SinkWriter, WriterContext
from penstock.system import system
from penstock_pravega.client import (
    NoSuchSegment,
    Refused,
    SegmentSealed,
    SegmentStores,
    segment_name,
    transaction_segment_name,
)
from penstock_pravega.options import SinkOptions
from penstock_pravega.sink._committable import PravegaCommittable, TransactionRef
from penstock_pravega.sink._event_appender import EventAppender
from penstock_pravega.sink._leases import lease_keeper
from penstock_pravega.sink._rows import EventColumns
from penstock_pravega.sink._transaction_log import OpenTransaction, TransactionLog

__all__ = ["PravegaAtLeastOnceWriter", "PravegaTransactionalWriter"]

_log = get_logger("penstock.pravega")


class PravegaEventWriter(SinkWriter):
    """Turns batches into events, and appends them; segment stores acknowledge them later."""

    def __init__(self, context: WriterContext, columns: EventColumns, options: SinkOptions) -> None:
        self._context = context
        self._columns = columns
        self._stores = SegmentStores(options.connection)
        self._appender: EventAppender | None = None
        self._events = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends the events of ``batch``."""
        if not batch.num_rows:
            return
        batch, events, keys = self._columns.convert(batch, self._context)
        if batch.num_rows:
            self._append(batch, events, keys)

    @abstractmethod
    def _append(self, batch: pa.RecordBatch, events: pa.Array, keys: pa.Array | None) -> None:
        """Appends at least one event, with the rows that they were."""

    def close(self) -> None:
        """Ends the connections."""
        if self._appender is not None:
            self._appender.close()
        self._stores.close()


class PravegaTransactionalWriter(PravegaEventWriter, CommittingSinkWriter[PravegaCommittable, Any]):
    """Writes one transaction, begun with the first row and left open for the driver. A task without rows has none.

    Memory: 8 MiB for each segment, and one Arrow batch three times.
    """

    def __init__(self, context: WriterContext, columns: EventColumns, options: SinkOptions, lease_ms: int) -> None:
        super().__init__(context, columns, options)
        self._options = options
        self._lease_ms = lease_ms
        self._ref: TransactionRef | None = None
        self._latest_ms: int | None = None

    def _append(self, batch: pa.RecordBatch, events: pa.Array, keys: pa.Array | None) -> None:
        times = (self._latest_ms, self._columns.latest_ms(batch))
        self._latest_ms = max((ms for ms in times if ms is not None), default=None)
        appender = self._transaction_appender()
        with self._translated_errors():
            appender.append(events, keys)
        self._events += len(events)

    def _transaction_appender(self) -> EventAppender:
        if self._appender is None:
            stream = self._options.stream
            scope, _, name = stream.partition("/")
            # If an answer is lost, a transaction stays open without a row; its lease ends it.
            number, ranges = self._context.retry.call(
                lambda: self._stores.controller.begin_transaction(scope, name, self._lease_ms),
                "beginning a transaction",
                self._context.metrics,
            )
            self._ref = TransactionRef(stream, number)
            lease_keeper().keep(self._options.connection, self._ref, self._lease_ms)
            if self._context.checkpoint is not None:
                log = TransactionLog(self._context.checkpoint, self._context.query_id)
                log.write(OpenTransaction(self._ref, self._lease_ms, self._context.base))
            self._context.metrics.add("transactions_opened")
            self._appender = EventAppender(
                self._stores,
                stream,
                ranges,
                lambda segment: transaction_segment_name(stream, segment, number),
                framed=self._options.framed,
                retry=self._context.retry,
                metrics=self._context.metrics,
            )
        return self._appender

    def prepare_commit(self) -> PreparedCommit[PravegaCommittable, Any]:
        """Waits until segment stores have acknowledged every event. Readers see none before the commit."""
        if self._appender is None or self._ref is None:
            return PreparedCommit()
        with self._translated_errors():
            self._appender.flush()
        sizes = self._appender.bytes_by_segment()
        self._context.metrics.add("rows_written", self._events)
        self._context.metrics.add("bytes_written", sum(sizes.values()))
        return PreparedCommit(
            [
                PravegaCommittable(
                    ref=self._ref,
                    segments=tuple(sorted(sizes.items())),
                    events=self._events,
                    batch_id=self._context.batch_id,
                    attempt_id=self._context.attempt_id,
                    lease_ms=self._lease_ms,
                    prepared_ms=system().now_us() // 1000,
                    latest_ms=self._latest_ms,
                )
            ]
        )

    @contextlib.contextmanager
    def _translated_errors(self) -> Any:
        try:
            yield
        except (NoSuchSegment, SegmentSealed) as error:
            raise RetriableError(
                f"{self._ref} is over before everything was written: its lease ran out, or it was aborted by a driver "
                f"that gave this attempt up ({error})"
            ) from None

    def abort(self) -> None:
        """Aborts the transaction. If that fails, the driver finds it in the transaction log, or its lease ends it."""
        if self._ref is not None:
            with contextlib.suppress(PenstockError):
                self._stores.controller.abort_transaction(*self._ref.scope_and_stream, self._ref.id)
            lease_keeper().forget(self._ref)

    def close(self) -> None:
        """Ends the connections. The transaction stays open, and its lease is renewed as long as this process lives."""
        super().close()


class PravegaAtLeastOnceWriter(PravegaEventWriter):
    """Writes at least once: everything is acknowledged when a task ends. With best effort, events that can't be written
    are dropped, counted (metric ``failed_rows``) and logged.

    Memory: 8 MiB for each segment, and one Arrow batch three times.
    """

    def __init__(self, context: WriterContext, columns: EventColumns, options: SinkOptions) -> None:
        super().__init__(context, columns, options)
        self._stream = options.stream
        self._framed = options.framed
        self._drops_failed = options.delivery == "none"
        self._retry = NO_RETRIES if self._drops_failed else context.retry
        self._logged = False

    def _append(self, batch: pa.RecordBatch, events: pa.Array, keys: pa.Array | None) -> None:
        self._events += len(events)
        with self._translated_errors():
            self._stream_appender().append(events, keys)

    def _stream_appender(self) -> EventAppender:
        if self._appender is None:
            scope, _, name = self._stream.partition("/")

            def find_ranges() -> Any:
                return self._stores.controller.current_segments(scope, name)

            def find_some() -> Any:
                if ranges := find_ranges():
                    return ranges
                raise RetriableError(f"stream {self._stream} has no segments to write to: it is sealed, or being made")

            ranges = self._retry.call(find_some, "appending", self._context.metrics)
            self._appender = EventAppender(
                self._stores,
                self._stream,
                ranges,
                lambda segment: segment_name(self._stream, segment),
                find_ranges,
                framed=self._framed,
                retry=self._retry,
                metrics=self._context.metrics,
            )
        return self._appender

    def flush(self) -> None:
        """Waits until every event is acknowledged."""
        if self._appender is not None:
            with self._translated_errors():
                self._appender.flush()
            self._context.metrics.add("bytes_written", sum(self._appender.bytes_by_segment().values()))
        written = self._appender.acknowledged() if self._appender is not None else 0
        self._context.metrics.add("rows_written", written)
        if written < self._events:
            self._context.metrics.add("failed_rows", self._events - written)

    @contextlib.contextmanager
    def _translated_errors(self) -> Any:
        try:
            yield
        except Refused as error:
            if not self._drops_failed:
                raise RetriableError(f"writing to {self._stream}: {error}") from None
            self._log_dropped(error)
        except RetriableError as error:
            if not self._drops_failed:
                raise
            self._log_dropped(error)

    def _log_dropped(self, error: Exception) -> None:
        """Logs the first failure of a task."""
        if not self._logged:
            self._logged = True
            _log.warning("writing to %s: %s; what was not acknowledged is dropped (delivery=none)", self._stream, error)
