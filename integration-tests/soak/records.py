"""Feeds and checks numbered records of a few keys: a counter for each key is enough to check them."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from confluent_kafka import Producer

from harness.watcher import CommittedReader
from soak.findings import Findings

KEYS = [f"k{number}" for number in range(16)]
_TICK_SECONDS = 0.1


class Feeder(threading.Thread):
    """Writes records ``<key>:<n>`` at an even rate, where n counts from 0 for each key.

    The topic has each record once and in order: the producer is idempotent, and waits for the broker without a limit.
    """

    def __init__(self, brokers: str, topic: str, rate: int) -> None:
        super().__init__(name="feeder", daemon=True)
        settings = {"enable.idempotence": True, "delivery.timeout.ms": 3_600_000, "linger.ms": 20, "log_level": 0}
        self._producer = Producer({"bootstrap.servers": brokers, **settings})
        self._topic = topic
        self._per_key = max(1, round(rate * _TICK_SECONDS / len(KEYS)))
        self._ended = threading.Event()
        self.next = dict.fromkeys(KEYS, 0)

    @property
    def fed(self) -> int:
        return sum(self.next.values())

    def run(self) -> None:
        while not self._ended.wait(_TICK_SECONDS):
            for key in KEYS:
                for number in range(self.next[key], self.next[key] + self._per_key):
                    self._send(key, f"{key}:{number}")
                self.next[key] += self._per_key
        self._producer.flush()

    def _send(self, key: str, value: str) -> None:
        while True:
            try:
                self._producer.produce(self._topic, key=key, value=value)
                break
            except BufferError:
                self._producer.poll(0.1)

    def stop(self) -> None:
        """Stops, and returns when the broker has everything."""
        self._ended.set()
        self.join()


class Checker(CommittedReader):
    """Checks that the numbers of each key arrive without gaps.

    A number that is too large means that others were lost. One that is too small was duplicated or overtaken. One
    counter for each key is enough, however long the soak runs.
    """

    def __init__(self, brokers: str, topic: str, partitions: int, findings: Findings) -> None:
        super().__init__(brokers, topic, partitions)
        self._findings = findings
        self.next = dict.fromkeys(KEYS, 0)
        self.records = self.lost = self.doubled = 0
        self.last_seen = time.monotonic()

    def on_values(self, values: Sequence[str]) -> None:
        for value in values:
            self._check(value)
        self.last_seen = time.monotonic()

    def on_gone(self, error: str) -> None:
        self._findings.add(f"records that a consumer has read are gone: {error}")

    def _check(self, value: str) -> None:
        key, _, text = value.partition(":")
        number, expected = int(text), self.next[key]
        self.records += 1
        if number > expected:
            self.lost += number - expected
            self._findings.add(f"lost, or overtaken: {value} came and {key}:{expected} was due")
        elif number < expected:
            self.doubled += 1
            self._findings.add(f"duplicated, or late: {value} came and {key}:{expected} was due")
        self.next[key] = max(expected, number + 1)
