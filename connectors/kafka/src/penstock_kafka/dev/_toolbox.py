"""Small blocking helpers on a broker, for tests and demos: what goes in and what readers see, a message at a time."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerError
from dataclasses import dataclass
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

__all__ = ["Isolation", "KafkaToolbox", "ReadRecord"]

#: Whether records of open and aborted transactions are seen.
Isolation = Literal["read_committed", "read_uncommitted"]

_SECONDS = 30.0
#: A request about topics or records is sent again, by a new client, when it gets no answer: brokers on a busy machine
#: have left one without an answer for half a minute.
_SECONDS_PER_ATTEMPT = 15.0
_ATTEMPTS = 4
_FENCED_S = 3.0
_QUIET = {"log_level": 2}
#: Registering a transactional id is a chain of requests, each tried first before its connection is there.
_AT_ONCE = {"retry.backoff.ms": 1, "reconnect.backoff.ms": 1}


@dataclass(frozen=True)
class ReadRecord:
    """A record as a consumer got it. ``timestamp`` in ms; ``headers`` in order, duplicates and null values kept."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaToolbox:
    """Not for volume: every call makes its own client and waits until the broker has done it (30 s, for topics 60 s).

    The clients are confluent-kafka's, on purpose: tests see by another library what Penstock's has written, and give it
    to read what another has written.

    Calls raise confluent_kafka's KafkaException. Any thread, any process.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def __repr__(self) -> str:
        return f"KafkaToolbox({self.address!r})"

    def create_topic(self, name: str | None = None, partitions: int = 1, **configs: str | int) -> str:
        """Returns a new topic; returns its name, one of its own unless given.

        Settings are written with ``_`` for ``.``, such as ``retention_ms=1``. The topic can be written and read when
        this returns.
        """
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in configs.items()}
        wanted = NewTopic(name, partitions, config=settings)
        admin = self._ask(lambda admin: admin.create_topics([wanted])[name], KafkaError.TOPIC_ALREADY_EXISTS)
        _await_leaders(admin, name, partitions)
        return name

    def add_partitions(self, topic: str, total: int) -> None:
        """Lets the topic have ``total`` partitions; they can be written and read when this returns."""
        wanted = NewPartitions(topic, total)
        admin = self._ask(lambda admin: admin.create_partitions([wanted])[topic], KafkaError.INVALID_PARTITIONS)
        _await_leaders(admin, topic, total)

    def delete_topic(self, topic: str) -> None:
        """Deletes the topic; it may be seen for a moment longer."""
        self._ask(
            lambda admin: admin.delete_topics([topic], operation_timeout=_SECONDS)[topic],
            KafkaError.UNKNOWN_TOPIC_OR_PART,
        )

    def produce(self, topic: str, records: Iterable[Mapping[str, Any] | bytes], **settings: Any) -> None:
        """Writes the records, in order, and returns when the broker has them all.

        A record is its value as bytes, or a mapping with any of ``key``, ``value`` (bytes or str), ``partition``,
        ``headers`` (list of pairs) and ``timestamp`` (ms). ``settings`` are the producer's, with ``_`` for ``.``.
        """
        producer = self._producer(settings)
        _send(producer, topic, records)

    def produce_transaction(
        self, topic: str, records: Iterable[Mapping[str, Any] | bytes], commit: bool = True, **settings: Any
    ) -> None:
        """Writes the records in a transaction of their own and ends it. As :meth:`produce` otherwise."""
        producer = self._producer({"transactional.id": f"toolbox-{uuid.uuid4().hex}", **_AT_ONCE, **settings})
        # Brings the connection up first: registering finds it missing otherwise and waits half a second.
        producer.list_topics(topic, timeout=_SECONDS)
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        _send(producer, topic, records)
        if commit:
            producer.commit_transaction(_SECONDS)
        else:
            producer.abort_transaction(_SECONDS)

    def read(self, topic: str, isolation: Isolation = "read_committed") -> list[ReadRecord]:
        """Everything a reader can see in the topic now, by partition and offset.

        With ``read_committed`` that ends where the oldest open transaction begins, as for every such reader.
        """
        consumer = self._consumer(isolation)
        try:
            partitions = _partitions(consumer, topic)
            consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
            read: list[ReadRecord] = []
            ended: set[int] = set()
            last_sign = time.monotonic()
            while len(ended) < len(partitions):
                # It waits for as many messages as asked for: a short time, because the last ones never fill it.
                messages = consumer.consume(10_000, 0.02)
                last_sign = time.monotonic() if messages else last_sign
                if time.monotonic() > last_sign + _SECONDS:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"nothing of '{topic}' in {_SECONDS} s"))
                for message in messages:
                    error = message.error()
                    if error is None:
                        read.append(_read_record(message))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        ended.add(message.partition() or 0)
                    else:
                        raise KafkaException(error)
        finally:
            consumer.close()
        return sorted(read, key=lambda record: (record.partition, record.offset))

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Deletes the records of the partition below offset ``before``, as retention does."""
        wanted = TopicPartition(topic, partition, before)
        self._ask(lambda admin: next(iter(admin.delete_records([wanted]).values())), done=None)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Partition → the offset that the next record gets (control records included)."""
        return {partition: high for partition, (_, high) in self._watermarks(topic).items()}

    def begin_offsets(self, topic: str) -> dict[int, int]:
        """Partition → the first offset that is still there."""
        return {partition: low for partition, (low, _) in self._watermarks(topic).items()}

    def leaders(self, topic: str) -> dict[int, int]:
        """Partition → the node that leads it now, -1 while none does."""
        admin = self._admin()
        partitions = admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
        return {number: one.leader for number, one in partitions.items()}

    def _watermarks(self, topic: str) -> dict[int, tuple[int, int]]:
        consumer = self._consumer("read_uncommitted")
        try:
            return {
                partition: consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=_SECONDS)
                for partition in _partitions(consumer, topic)
            }
        finally:
            consumer.close()

    def _ask(self, request: Callable[[AdminClient], Future[Any]], done: int | None) -> AdminClient:
        """Waits for the answer, and returns the client that got it.

        ``done`` is the error that says, from the second attempt on, that an earlier one did it.
        """
        for attempt in range(_ATTEMPTS):
            admin = self._admin()
            try:
                request(admin).result(_SECONDS_PER_ATTEMPT)
                return admin
            except NoAnswerError:  # the built-in TimeoutError only from Python 3.11 on
                continue
            except KafkaException as error:
                if attempt and error.args[0].code() == done:
                    return admin
                if error.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR or attempt == _ATTEMPTS - 1:
                    raise
                # On a busy machine a broker misses its heartbeats, and its controller counts it as gone for a while.
                time.sleep(_FENCED_S)
        seconds = _ATTEMPTS * _SECONDS_PER_ATTEMPT
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer from {self.address} in {seconds:.0f} s"))

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address, **_QUIET})

    def _producer(self, settings: Mapping[str, Any]) -> Producer:
        own = {key.replace("_", "."): value for key, value in settings.items()}
        # One request at a time: a retry keeps the order of batches. An idempotent producer would keep it too, but waits
        # half a second for its id before it sends anything.
        default = {"bootstrap.servers": self.address, "linger.ms": 5, "max.in.flight": 1, **_QUIET}
        return Producer({**default, **own})

    def _consumer(self, isolation: Isolation) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.address,
                "group.id": "penstock-toolbox",  # the client wants one; it never joins
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 2,
                **_QUIET,
            }
        )


def _partitions(client: Consumer, topic: str) -> list[int]:
    found = client.list_topics(topic, timeout=_SECONDS).topics[topic]
    if found.error is not None:
        raise KafkaException(found.error)
    return sorted(found.partitions)


def _await_leaders(admin: AdminClient, topic: str, partitions: int) -> None:
    # The controller has made them; the broker learns of it a moment later, and until then refuses to know them.
    deadline = time.monotonic() + _SECONDS
    while True:
        known = admin.list_topics(topic, timeout=_SECONDS).topics[topic].partitions.values()
        if len(known) >= partitions and all(one.leader >= 0 for one in known):
            return
        if time.monotonic() > deadline:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"'{topic}' has no leaders in {_SECONDS} s"))
        time.sleep(0.02)


def _send(producer: Producer, topic: str, records: Iterable[Mapping[str, Any] | bytes]) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for record in records:
        fields = {"value": record} if isinstance(record, bytes) else record
        while True:
            try:
                producer.produce(topic, on_delivery=delivered, **fields)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_SECONDS):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"'{topic}' did not take all records in {_SECONDS} s"))
    if failures:
        raise KafkaException(failures[0])


def _read_record(message: Message) -> ReadRecord:
    # The client's annotations allow for messages that are errors, and for headers that only producers write.
    fields: Any = message
    return ReadRecord(
        topic=fields.topic(),
        partition=fields.partition(),
        offset=fields.offset(),
        key=fields.key(),
        value=fields.value(),
        timestamp=fields.timestamp()[1],
        headers=tuple(fields.headers() or ()),
    )
