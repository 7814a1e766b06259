"""Reads a Kafka topic while jobs write it, as a consumer of committed records would."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaError, TopicPartition

from harness.feeding import Feed
from harness.oracle import KeyOrder, check_once
from penstock_kafka.dev import KafkaToolbox

__all__ = ["CommittedReader", "WatchedCopy", "Watcher"]


class CommittedReader(threading.Thread):
    """A thread that passes values to its subclass as they become visible."""

    def __init__(self, brokers: str, topic: str, partitions: int) -> None:
        super().__init__(name=f"reader of {topic}", daemon=True)
        settings = {
            "bootstrap.servers": brokers,
            "group.id": f"reader-{topic}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 10,
            "log_level": 0,
        }
        self._consumer = Consumer(settings)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._ended = threading.Event()

    def on_values(self, values: Sequence[str]) -> None:
        """Takes the next values, in the order of each partition. Called in this thread."""
        raise NotImplementedError

    def on_gone(self, error: str) -> None:
        """Learns that records which were visible have disappeared. Called in this thread."""
        raise NotImplementedError

    def run(self) -> None:
        while not self._ended.is_set():
            messages = self._consumer.consume(10_000, 0.02)
            errors = {id(message): error for message in messages if (error := message.error()) is not None}
            for error in errors.values():
                if error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.on_gone(error.str())
            if values := [message.value().decode() for message in messages if id(message) not in errors]:
                self.on_values(values)
        self._consumer.close()

    def stop(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join(10)


class Watcher(CommittedReader):
    """Counts the values ``<key>:<number>`` of a topic, and checks that the numbers of a key grow. Starts at once."""

    def __init__(self, kafka: KafkaToolbox, topic: str, partitions: int) -> None:
        super().__init__(kafka.address, topic, partitions)
        self.seen: Counter[str] = Counter()
        self._kafka, self._topic = kafka, topic
        self._order = KeyOrder()
        self._more = threading.Condition()
        self._gone: list[str] = []
        self.start()

    def on_values(self, values: Sequence[str]) -> None:
        with self._more:
            self.seen.update(values)
            for value in values:
                self._order.note(value)
            self._more.notify_all()

    def on_gone(self, error: str) -> None:
        self._gone.append(error)

    def wait_for(self, records: int, timeout: float = 180) -> None:
        """Waits until that many records were seen, at most ``timeout`` seconds."""
        with self._more:
            self._more.wait_for(lambda: self.seen.total() >= records, timeout)

    def repeated(self) -> list[str]:
        """Returns the values that were seen more than once so far."""
        with self._more:
            return [value for value, count in self.seen.items() if count > 1]

    def check(self, expected: set[str], *, order: bool = True) -> None:
        """Reads to the end of the topic.

        Raises AssertionError if values were lost, duplicated, unexpected or out of order.
        """
        self.wait_for(len(expected))
        self.wait_for(len(self._kafka.read(self._topic)))
        assert not self._gone, self._gone
        check_once(self.seen, expected)
        if order:
            self._order.check()


class WatchedCopy:
    """Two topics: one to feed, and a watched one that jobs copy it into. ``job`` holds arguments for ``copy_kafka``."""

    def __init__(self, kafka: KafkaToolbox, partitions: int = 2, into: int = 2) -> None:
        self.source, self.target = kafka.create_topic(partitions=partitions), kafka.create_topic(partitions=into)
        self.job = {"brokers": kafka.address, "in": self.source, "out": self.target}
        self.records = Feed.of_topic(kafka, self.source)
        self.reader = Watcher(kafka, self.target, into)

    def check(self, *, order: bool = True) -> None:
        """Raises AssertionError unless the target has each record once and, by default, in order."""
        self.reader.check(self.records.expected, order=order)
