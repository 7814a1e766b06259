"""Producer on confluent-kafka's class: whole runs by ``produce_batch``, which takes neither headers nor times."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from penstock_kafka.client._errors import Problem, bad_setting, producer_error
from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.librdkafka._checked import CheckedProducer, ends_all
from penstock_kafka.client.librdkafka._columns import byte_values, header_values, int_values
from penstock_kafka.client.librdkafka._errors import problem_of, setting_problem
from penstock_kafka.client.librdkafka._login import Login
from penstock_kafka.client.librdkafka._settings import producer_settings, throttle_callback

__all__ = ["LibrdkafkaProducer"]

RUN = 5_000
SERVE_SECONDS = 0.5
QUEUE_FULL_WAIT_SECONDS = 0.01
#: Of a try to connect; each further one takes twice as long.
_FIRST_CONNECT_S = 0.5

_PURGED = {"_PURGE_QUEUE", "_PURGE_INFLIGHT"}
_HOPELESS = {"_STATE", "_MSG_TIMED_OUT", *_PURGED}


class LibrdkafkaProducer(CheckedProducer):
    """Sends Arrow batches with confluent-kafka's producer, which takes an object for each record."""

    def __init__(self, config: ClientConfig) -> None:
        self._failed = 0
        self._held_back = HeldBack("writing")
        self._first: Problem | None = None
        self._event: Problem | None = None
        self._statistics_wanted = False
        self._statistics_text = ""
        self._login = Login(config)
        settings = self._login.arguments(producer_settings(config))
        callbacks = {"error_cb": self._on_error, "stats_cb": self._on_statistics, "on_delivery": self._on_delivery}
        callbacks |= throttle_callback(self._held_back)
        try:
            self._client: Producer | None = Producer({**settings, **callbacks, "delivery.report.only.error": True})
        except KafkaException as error:
            raise bad_setting(setting_problem(error.args[0], settings), settings) from None
        self._closed = threading.Event()
        self._closing = threading.Lock()
        self._server = threading.Thread(target=self._serve, name="penstock-kafka-producer", daemon=True)
        self._server.start()

    def _serve(self) -> None:
        # Statistics and errors pile up in an idle producer that is not polled.
        while not self._closed.wait(SERVE_SECONDS):
            self._call(self._open.poll, 0)

    def _call(self, call: Callable[[float], int], seconds: float) -> int:
        """Calls what runs callbacks."""
        try:
            return call(seconds)
        except KafkaException as error:
            raised = error
        except SystemError as error:
            if not isinstance(error.__cause__, KafkaException):
                if self._first is None:
                    raise
                return 0
            raised = error.__cause__
        # A fatal error is raised out of whichever call comes upon it, after error_cb was called with that exception
        # pending, which makes it fail. A record that failed with it may be reported in between: then the exception is
        # gone, and the failure of the record, which every later call raises, has to say it.
        self._event = self._login.explained(problem_of(raised.args[0]))
        return 0

    @property
    def held_back(self) -> HeldBack:
        """For how long quotas have held writing back. librdkafka counts it as a delay in delivery all the same."""
        return self._held_back

    @property
    def _open(self) -> Producer:
        if self._client is None:
            raise RuntimeError("the producer is closed")
        return self._client

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        # Of failed records only, by the settings.
        if error is not None:
            size = len(message) + len(message.key() or b"")
            self._count(error, message.topic() or "", message.partition(), size)

    def _on_error(self, error: KafkaError) -> None:
        if error.fatal() or not ends_all(self._event):
            self._event = self._login.explained(problem_of(error))

    def _on_statistics(self, text: str) -> None:
        if self._statistics_wanted:
            self._statistics_text = text

    def _count(self, error: KafkaError, topic: str, partition: int | None, size: int) -> None:
        """Keeps the first failure; one that only follows from another gives way to its cause."""
        self._failed += 1
        first = self._first
        problem = problem_of(error, topic=topic, partition=-1 if partition is None else partition, size=size)
        purged = first is not None and first.code in _PURGED and problem.code not in _PURGED
        # The broker refuses a whole batch for the one record that is too large.
        larger = first is not None and first.code == problem.code == "MESSAGE_TOO_LARGE" and size > first.size
        if first is None or purged or larger:
            self._first = problem

    def _is_lost(self) -> bool:
        return ends_all(self._event) or (self._first is not None and self._first.code in _HOPELESS)

    def _send(self, batch: pa.RecordBatch) -> None:
        for start in range(0, batch.num_rows, RUN):
            if self._is_lost():
                return
            self._send_some(batch.slice(start, RUN))
            self._call(self._open.poll, 0)

    def _send_some(self, batch: pa.RecordBatch) -> None:
        topics = batch.column("topic").cast(pa.string()).dictionary_encode()
        records = _records(batch)
        end = 0
        for index, same in groupby(topics.indices.to_pylist()):
            start, end = end, end + len(list(same))
            self._send_to(topics.dictionary[index].as_py(), records[start:end])

    def _send_to(self, topic: str, records: list[dict[str, Any]]) -> None:
        # produce_batch takes one partition for all; a partitioner's choice must not overtake an explicit one.
        partitions = {record.get("partition", -1) for record in records}
        if records[0].keys() & {"timestamp", "headers"} or (len(partitions) > 1 and -1 in partitions):
            self._send_one_by_one(topic, records)
        elif len(partitions) == 1:
            self._send_run(topic, partitions.pop(), records)
        else:
            for partition in partitions:
                self._send_run(topic, partition, [record for record in records if record["partition"] == partition])

    def _send_run(self, topic: str, partition: int, records: list[dict[str, Any]]) -> None:
        while records:
            if self._open.produce_batch(topic, records, partition) == len(records):
                return
            full = []
            for record in records:
                error = record.pop("_error", None)
                if error is not None and error.code() == KafkaError._QUEUE_FULL:
                    full.append(record)
                elif error is not None:
                    self._count_refused(error, topic, record)
            # In order: once one finds the queue full, all that follow do.
            records = full
            if records and self._is_lost():
                return
            if records:
                self._call(self._open.poll, QUEUE_FULL_WAIT_SECONDS)

    def _send_one_by_one(self, topic: str, records: list[dict[str, Any]]) -> None:
        produce = self._open.produce
        for record in records:
            while True:
                try:
                    produce(topic, **record)
                except BufferError:
                    if self._is_lost():
                        return
                    self._call(self._open.poll, QUEUE_FULL_WAIT_SECONDS)
                    continue
                except KafkaException as error:
                    self._count_refused(error.args[0], topic, record)
                break

    def _count_refused(self, error: KafkaError, topic: str, record: dict[str, Any]) -> None:
        size = len(record["value"] or b"") + len(record.get("key") or b"")
        self._count(error, topic, record.get("partition", -1), size)

    def _flush_for(self, timeout_ms: int) -> int:
        return self._call(self._open.flush, timeout_ms / 1000)

    def _failures(self) -> tuple[int, Problem | None, Problem | None]:
        event = self._event
        if event is not None and not event.fatal:
            self._event = None
        return self._failed, self._first, event

    def _init_transactions(self, timeout_ms: int) -> Problem | None:
        deadline = time.monotonic() + timeout_ms / 1000
        self._statistics_wanted = True
        try:
            self._connect(deadline)
            if ends_all(self._event):
                return self._event
            self._open.init_transactions(max(0.001, deadline - time.monotonic()))
        except KafkaException as error:
            return self._login.explained(problem_of(error.args[0]))
        return None

    def _connect(self, deadline: float) -> None:
        """Brings the connection up: registering finds it missing otherwise and waits to try again.

        That is all that it is for, so what it fails with shows in what follows. Returns as soon as a login is refused,
        which librdkafka says to callbacks only.
        """
        slice_s = _FIRST_CONNECT_S
        while (left_s := deadline - time.monotonic()) > 0 and not ends_all(self._event):
            with contextlib.suppress(KafkaException):
                self._open.list_topics(timeout=min(slice_s, left_s), topic="")
                return
            self._call(self._open.poll, 0)
            slice_s *= 2

    def _statistics(self) -> str:
        self._call(self._open.poll, 0)
        text, self._statistics_text = self._statistics_text, ""
        return text

    def _stop_statistics(self) -> None:
        self._statistics_wanted = False

    def begin_transaction(self) -> None:
        """Begins the transaction."""
        try:
            self._open.begin_transaction()
        except KafkaException as error:
            raise producer_error(self._login.explained(problem_of(error.args[0])), "to begin a transaction") from None

    def _send_offset(
        self, group: str, topic: str, partition: int, offset: int, metadata: str, timeout_ms: int
    ) -> Problem | None:
        # Only a consumer can name a group here. Without brokers it connects to none.
        member = Consumer({"group.id": group, "log_level": "0"})
        try:
            place = TopicPartition(topic, partition, offset, metadata)
            self._open.send_offsets_to_transaction([place], member.consumer_group_metadata(), timeout_ms / 1000)
        except KafkaException as error:
            return self._login.explained(problem_of(error.args[0]))
        finally:
            member.close()
        return None

    def _abort_transaction(self, timeout_ms: int) -> Problem | None:
        try:
            self._open.abort_transaction(timeout_ms / 1000)
        except KafkaException as error:
            return self._login.explained(problem_of(error.args[0]))
        return None

    def _close(self) -> None:
        with self._closing:
            if self._client is None:
                return
            self._closed.set()
            self._server.join()
            self._client.purge(blocking=False)
            # Freed with its last reference. It does not end a transaction.
            self._client = None


def _records(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Returns the arguments of ``Producer.produce`` for each row: a Python loop, as it takes one object per record."""
    names = batch.schema.names
    columns: dict[str, list[Any]] = {"value": byte_values(batch.column("value"))}
    if "key" in names:
        columns["key"] = byte_values(batch.column("key"))
    if "partition" in names:
        columns["partition"] = int_values(batch.column("partition"), -1)
    if "timestamp" in names and batch.column("timestamp").null_count < batch.num_rows:
        columns["timestamp"] = int_values(batch.column("timestamp").cast(pa.int64()), 0)
    if "headers" in names and batch.column("headers").null_count < batch.num_rows:
        columns["headers"] = header_values(batch.column("headers"))
    keys = tuple(columns)
    return [dict(zip(keys, row, strict=True)) for row in zip(*columns.values(), strict=True)]
