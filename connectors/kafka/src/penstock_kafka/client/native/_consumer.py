"""Consumer on the compiled part: librdkafka's messages become Arrow batches without passing through Python."""

from __future__ import annotations

import ctypes as ct
import threading

import pyarrow as pa

from penstock_kafka.client._contracts import RECORD_SCHEMA, ClientConfig, Fetched, PartitionRange
from penstock_kafka.client._problems import Problem
from penstock_kafka.client._range_consumer import MAX_BATCH_BYTES, WavedConsumer
from penstock_kafka.client._settings import consumer_settings
from penstock_kafka.client.native._arrow import ArrowArray
from penstock_kafka.client.native._library import NativeProblem, library, open_client

__all__ = ["NativeConsumer"]

_SCHEMA_WITHOUT_HEADERS = RECORD_SCHEMA.remove(RECORD_SCHEMA.get_field_index("headers"))


class _Fetched(ct.Structure):
    """``struct fetched`` of consumer.c."""

    _fields_ = [("range", ct.c_int32), ("finished", ct.c_int32), ("records", ArrowArray)]


class NativeConsumer(WavedConsumer):
    """See :class:`penstock_kafka.client.RangeConsumer`."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__()
        self._library = library()
        self._handle: int | None = open_client("penstock_consumer_open", consumer_settings(config))
        self._schema = RECORD_SCHEMA
        # Between wake_up from another thread and close, which frees what wake_up touches.
        self._closing = threading.Lock()

    @property
    def _open(self) -> int:
        if self._handle is None:
            raise RuntimeError("the consumer is closed")
        return self._handle

    def _start(self, ranges: list[PartitionRange], headers: bool) -> None:
        count = len(ranges)
        self._schema = RECORD_SCHEMA if headers else _SCHEMA_WITHOUT_HEADERS
        problem = NativeProblem()
        failed = self._library.penstock_consumer_assign(
            self._open,
            (ct.c_char_p * count)(*(one.topic.encode() for one in ranges)),
            (ct.c_int32 * count)(*(one.partition for one in ranges)),
            (ct.c_int64 * count)(*(one.start for one in ranges)),
            (ct.c_int64 * count)(*(one.end for one in ranges)),
            count,
            headers,
            ct.byref(problem),
        )
        if failed:
            self._judge(problem.read())
            raise RuntimeError(f"partitions can't be assigned: {problem.read().text}")

    def _fetch(self, timeout_ms: int, max_rows: int) -> list[Fetched] | Problem:
        results = ct.POINTER(_Fetched)()
        problem = NativeProblem()
        count = self._library.penstock_consumer_poll(
            self._open, timeout_ms, max_rows, MAX_BATCH_BYTES, ct.byref(results), ct.byref(problem)
        )
        if count < 0:
            return problem.read()
        return [self._take(results[i]) for i in range(count)]

    def _take(self, result: _Fetched) -> Fetched:
        records = None
        if result.records.release:
            # Moves the ownership: the memory is freed with the batch's last buffer.
            records = pa.RecordBatch._import_from_c(ct.addressof(result.records), self._schema)
        return Fetched(result.range, records, bool(result.finished))

    def wake_up(self) -> None:
        """Makes a blocked or the next poll return at once."""
        with self._closing:
            if self._handle is not None:
                self._library.penstock_consumer_wake_up(self._handle)

    def close(self) -> None:
        """Ends the client."""
        with self._closing:
            handle, self._handle = self._handle, None
        if handle is not None:
            self._library.penstock_consumer_close(handle)
