"""Consumer on confluent-kafka's class: one Python object per record, little work on each."""

from __future__ import annotations

import threading
import time
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from penstock.errors import BadDataError
from penstock_kafka.client._errors import Problem, bad_setting
from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client._interfaces import (
    HEADERS_TYPE,
    MAX_BATCH_BYTES,
    RECORD_SCHEMA,
    ClientConfig,
    Fetched,
    PartitionRange,
)
from penstock_kafka.client._range_consumer import SequencedRangeConsumer
from penstock_kafka.client.librdkafka._errors import problem_of, setting_problem
from penstock_kafka.client.librdkafka._login import Login
from penstock_kafka.client.librdkafka._settings import consumer_settings, throttle_callback

__all__ = ["LibrdkafkaConsumer"]

#: How many records are asked for at once, at most. Each is an object that the garbage collector counts: so few are gone
#: before it sets out (at 700) to look at all that the process has, which takes as long as reading them.
TAKE = 500
WAIT_SLICE_SECONDS = 0.05

_SCHEMA_WITHOUT_HEADERS = RECORD_SCHEMA.remove(RECORD_SCHEMA.get_field_index("headers"))


class _Columns:
    """Rows become columns here: Python has to touch every record, so it is done in C loops (map) wherever possible."""

    def __init__(self, with_headers: bool) -> None:
        self._with_headers = with_headers
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._offsets = array("q")
        #: Pairs of type and time.
        self._stamps = array("q")
        self._header_counts = array("i")
        self._header_keys: list[str] = []
        self._header_values: list[bytes | None] = []

    def add(self, records: list[Message], offsets: array[int]) -> None:
        """Takes what is in ``records``, which are not needed any more."""
        self._offsets.extend(offsets)
        self._keys.extend(map(Message.key, records))
        self._values.extend(map(Message.value, records))
        self._stamps.extend(chain.from_iterable(map(Message.timestamp, records)))
        if self._with_headers:
            lists = _headers_of(records)
            self._header_counts.extend(map(len, lists))
            self._header_keys.extend(key for headers in lists for key, _ in headers)
            self._header_values.extend(value for headers in lists for _, value in headers)

    def batch(self) -> pa.RecordBatch | None:
        count = len(self._offsets)
        if not count:
            return None
        stamps = pa.FixedSizeListArray.from_arrays(_numbers(pa.int64(), self._stamps), 2)
        kinds, times = pc.list_element(stamps, 0), pc.list_element(stamps, 1)
        columns = [
            pa.array(self._keys, pa.binary()),
            pa.array(self._values, pa.binary()),
            _numbers(pa.int64(), self._offsets),
            # Where it says none, it gives 0 as the time.
            pc.if_else(pc.and_(pc.greater(kinds, 0), pc.greater_equal(times, 0)), times, None).cast(
                pa.timestamp("ms", tz="UTC")
            ),
            # The client counts none, create time, log append time from 0; Spark from -1.
            pc.subtract(kinds, 1).cast(pa.int32()),
        ]
        if not self._with_headers:
            return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA_WITHOUT_HEADERS)
        return pa.RecordBatch.from_arrays([*columns, self._headers()], schema=RECORD_SCHEMA)

    def _headers(self) -> pa.Array:
        items = pa.StructArray.from_arrays(
            [pa.array(self._header_keys, pa.string()), pa.array(self._header_values, pa.binary())],
            fields=list(HEADERS_TYPE.value_type),
        )
        ends = _numbers(pa.int32(), array("i", accumulate(self._header_counts, initial=0)))
        has_none = pc.equal(_numbers(pa.int32(), self._header_counts), 0)
        return pa.ListArray.from_arrays(ends, items, type=HEADERS_TYPE, mask=has_none)


def _headers_of(records: list[Message]) -> list[Sequence[tuple[str, bytes | None]]]:
    lists: list[Any] = []
    try:
        lists.extend(map(Message.headers, records))
    except (SystemError, UnicodeError):
        # confluent-kafka makes texts of the keys, and has no other way to them. A second try on the record would give
        # nothing, and no error.
        bad = records[len(lists)]
        raise BadDataError(
            f"topic '{bad.topic()}' partition {bad.partition()} offset {bad.offset()}: the key of a header is not "
            "UTF-8, which client=librdkafka can't read: set client to protocol, or read without headers"
        ) from None
    return [headers or () for headers in lists]


def _numbers(type_: pa.DataType, numbers: array[int]) -> pa.Array:
    return pa.Array.from_buffers(type_, len(numbers), [None, pa.py_buffer(numbers)])


class _Range:
    """One range that is being read: where it stands and what of it is not handed over yet."""

    def __init__(self, index: int, wanted: PartitionRange, with_headers: bool) -> None:
        self.index = index
        self.wanted = wanted
        self.next = wanted.start
        self.finished = False
        self._with_headers = with_headers
        self._columns = _Columns(with_headers)

    def add(self, run: list[Message]) -> None:
        offsets = array("q", map(Message.offset, run))
        within = slice(bisect_left(offsets, self.next), bisect_left(offsets, self.wanted.end))
        if within.start < within.stop:
            self._columns.add(run[within], offsets[within])
        self.next = max(self.next, offsets[-1] + 1)
        self.finished = self.next >= self.wanted.end

    def take(self) -> pa.RecordBatch | None:
        columns, self._columns = self._columns, _Columns(self._with_headers)
        return columns.batch()


def _runs(taken: list[Message]) -> Iterator[tuple[tuple[Any, Any], list[Message]]]:
    """Records by where they are from, in their order."""
    topics, partitions = list(map(Message.topic, taken)), list(map(Message.partition, taken))
    if topics.count(topics[0]) == partitions.count(partitions[0]) == len(taken):
        yield (topics[0], partitions[0]), taken
        return
    end = 0
    for place, same in groupby(zip(topics, partitions, strict=True)):
        start, end = end, end + len(list(same))
        yield place, taken[start:end]


class LibrdkafkaConsumer(SequencedRangeConsumer):
    """Reads ranges with confluent-kafka's consumer, which hands over an object for each record."""

    def __init__(self, config: ClientConfig) -> None:
        super().__init__()
        self._problems: list[Problem] = []
        self._held_back = HeldBack("reading")
        self._login = Login(config)
        settings = self._login.arguments(consumer_settings(config))
        try:
            self._client: Consumer | None = Consumer(
                {**settings, "error_cb": self._on_error, **throttle_callback(self._held_back)}
            )
        except KafkaException as error:
            raise bad_setting(setting_problem(error.args[0], settings), settings) from None
        self._by_partition: dict[tuple[str, int], _Range] = {}
        self._take = TAKE
        self._woken = threading.Event()

    def _on_error(self, error: KafkaError) -> None:
        self._problems.append(self._login.explained(problem_of(error)))

    @property
    def held_back(self) -> HeldBack:
        """For how long quotas have held reading back."""
        return self._held_back

    @property
    def reads_by_id(self) -> bool:
        """Returns False: it fetches topics by their names."""
        return False

    @property
    def _open(self) -> Consumer:
        if self._client is None:
            raise RuntimeError("the consumer is closed")
        return self._client

    def _start(self, ranges: list[PartitionRange], headers: bool) -> None:
        self._by_partition = {(one.topic, one.partition): _Range(i, one, headers) for i, one in enumerate(ranges)}
        self._open.assign([TopicPartition(one.topic, one.partition, one.start) for one in ranges])

    def _fetch(self, timeout_ms: int, max_rows: int) -> list[Fetched] | Problem:
        deadline = time.monotonic() + timeout_ms / 1000
        while not self._problems:
            fetched = self._gather(max_rows)
            if fetched:
                return fetched
            if self._problems:
                break
            left = deadline - time.monotonic()
            if self._woken.is_set() or left <= 0:
                self._woken.clear()
                return []
            # One only: the client would wait for as many as asked. In slices, so that a wake-up is seen.
            if first := self._open.consume(1, min(left, WAIT_SLICE_SECONDS)):
                return self._gather(max_rows, first)
        return self._problems.pop(0)

    def _gather(self, max_rows: int, taken: list[Message] | None = None) -> list[Fetched]:
        """Returns what the client has ready, up to ``max_rows`` records or about the bytes of a batch."""
        touched: dict[int, _Range] = {}
        rows = size = 0
        while taken or (taken := self._open.consume(min(self._take, max_rows - rows), 0)):
            rows += len(taken)
            size += sum(map(len, taken))
            self._sort(taken, touched)
            taken = None
            self._take = max(1, min(TAKE, MAX_BATCH_BYTES * rows // max(1, size)))
            if rows >= max_rows or size >= MAX_BATCH_BYTES or self._problems:
                break
        return self._hand_out(list(touched.values()))

    def _sort(self, taken: list[Message], touched: dict[int, _Range]) -> None:
        """Adds records to their ranges, run by run, and looks at errors; what belongs to no range is dropped."""
        if any(map(Message.error, taken)):
            for is_error, group in groupby(taken, lambda one: one.error() is not None):
                if is_error:
                    for one in group:
                        self._sort_error(one, touched)
                else:
                    self._sort(list(group), touched)
            return
        for place, run in _runs(taken):
            found = self._by_partition.get(place)
            if found is not None and not found.finished:
                found.add(run)
                touched[found.index] = found

    def _sort_error(self, message: Message, touched: dict[int, _Range]) -> None:
        found = self._by_partition.get((message.topic(), message.partition()))
        if found is not None and found.finished:
            return
        if message.error().code() != KafkaError._PARTITION_EOF:
            self._problems.append(self._describe(message, found))
        elif found is not None and message.offset() >= found.wanted.end:
            # An end before the range's is not its end: a new leader may lag, an open transaction hold readers back.
            found.finished = True
            touched[found.index] = found

    def _describe(self, message: Message, found: _Range | None) -> Problem:
        offset = message.offset()
        if offset is None or offset < 0:
            offset = found.next if found else -1
        topic, partition = message.topic() or "", message.partition()
        problem = problem_of(
            message.error(), topic=topic, partition=-1 if partition is None else partition, offset=offset
        )
        return self._login.explained(problem)

    def _hand_out(self, touched: list[_Range]) -> list[Fetched]:
        finished = [TopicPartition(one.wanted.topic, one.wanted.partition) for one in touched if one.finished]
        if finished:
            # So that they do not fill the client's queue. Not by a pause: it outlives the assignment, and to resume a
            # partition that has just been assigned can stall it for a second.
            self._open.incremental_unassign(finished)
        fetched = []
        for one in touched:
            records = one.take()
            if records is not None or one.finished:
                fetched.append(Fetched(one.index, records, one.finished))
        return fetched

    def wake_up(self) -> None:
        """Makes a blocked or the next poll return at once."""
        self._woken.set()

    def close(self) -> None:
        """Ends the client."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
