"""Producer on the compiled part: C walks the Arrow buffers and hands records to librdkafka."""

from __future__ import annotations

import ctypes as ct
import threading

import pyarrow as pa

from penstock_kafka.client._batch_producer import CheckedProducer
from penstock_kafka.client._contracts import ClientConfig
from penstock_kafka.client._problems import Problem, producer_error
from penstock_kafka.client._settings import producer_settings
from penstock_kafka.client.native._arrow import ArrowArray, ArrowSchema, release
from penstock_kafka.client.native._library import NativeProblem, library, open_client

__all__ = ["NativeProducer"]

#: More than the statistics of a producer for thousands of partitions.
STATISTICS_BYTES = 16 << 20


class NativeProducer(CheckedProducer):
    """See :class:`penstock_kafka.client.BatchProducer`."""

    def __init__(self, config: ClientConfig) -> None:
        self._library = library()
        self._handle: int | None = open_client("penstock_producer_open", producer_settings(config))
        self._statistics_buffer: ct.Array[ct.c_char] | None = None
        self._closing = threading.Lock()

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise RuntimeError("the producer is closed")
        return self._handle

    def _send(self, batch: pa.RecordBatch) -> None:
        array, schema = ArrowArray(), ArrowSchema()
        batch._export_to_c(ct.addressof(array), ct.addressof(schema))
        try:
            self._library.penstock_producer_produce(self._open, ct.byref(schema), ct.byref(array))
        finally:
            release(array)
            release(schema)

    def _flush_for(self, timeout_ms: int) -> int:
        on_their_way: int = self._library.penstock_producer_flush(self._open, timeout_ms)
        return on_their_way

    def _failures(self) -> tuple[int, Problem | None, Problem | None]:
        first, event = NativeProblem(), NativeProblem()
        failed = self._library.penstock_producer_failures(self._open, ct.byref(first), ct.byref(event))
        return failed, first.read() if first.code else None, event.read() if event.code else None

    def _init_transactions(self, timeout_ms: int) -> Problem | None:
        problem = NativeProblem()
        failed = self._library.penstock_producer_init_transactions(self._open, timeout_ms, ct.byref(problem))
        return problem.read() if failed else None

    def _statistics(self) -> str:
        if self._statistics_buffer is None:
            self._statistics_buffer = ct.create_string_buffer(STATISTICS_BYTES)
        buffer = self._statistics_buffer
        length = self._library.penstock_producer_statistics(self._open, buffer, len(buffer))
        return ct.string_at(buffer, length).decode(errors="replace")

    def _stop_statistics(self) -> None:
        self._library.penstock_producer_statistics(self._open, None, 0)
        self._statistics_buffer = None

    def begin_transaction(self) -> None:
        """Begins the transaction."""
        problem = NativeProblem()
        if self._library.penstock_producer_begin_transaction(self._open, ct.byref(problem)):
            raise producer_error(problem.read(), "to begin a transaction")

    def _send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_ms: int
    ) -> Problem | None:
        problem = NativeProblem()
        failed = self._library.penstock_producer_send_offset(
            self._open,
            group.encode(),
            topic.encode(),
            partition,
            offset,
            metadata.encode(),
            timeout_ms,
            ct.byref(problem),
        )
        return problem.read() if failed else None

    def _abort_transaction(self, timeout_ms: int) -> Problem | None:
        problem = NativeProblem()
        failed = self._library.penstock_producer_abort_transaction(self._open, timeout_ms, ct.byref(problem))
        return problem.read() if failed else None

    def _close(self) -> None:
        with self._closing:
            handle, self._handle = self._handle, None
        if handle is not None:
            self._library.penstock_producer_close(handle)
