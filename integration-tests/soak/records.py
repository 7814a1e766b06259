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
_POLL_SECONDS = 0.2


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


class Tally:
    """Counts records ``<key>:<n>``: the numbers of each key must come without gaps, each once.

    ``ordered``: a number that is too large means that others were lost, and one that is too small was duplicated or
    overtaken; a counter for each key is enough. Not ordered, what is early is kept until the gap is filled.
    """

    def __init__(self, findings: Findings, *, ordered: bool = True) -> None:
        self._findings = findings
        self._ordered = ordered
        self.early: dict[str, set[int]] = {key: set() for key in KEYS}
        self.next = dict.fromkeys(KEYS, 0)
        self.records = self.lost = self.doubled = 0
        self.last_seen = time.monotonic()

    def note(self, values: Sequence[str]) -> None:
        """Takes the next records."""
        for value in values:
            self._check(value)
        if values:
            self.last_seen = time.monotonic()

    def _check(self, value: str) -> None:
        key, _, text = value.partition(":")
        number, expected, early = int(text), self.next[key], self.early[key]
        self.records += 1
        if number < expected or number in early:
            self.doubled += 1
            self._findings.add(f"duplicated, or late: {value} came and {key}:{expected} was due")
            return
        if number > expected and not self._ordered:
            early.add(number)
            return
        if number > expected:
            self.lost += number - expected
            self._findings.add(f"lost, or overtaken: {value} came and {key}:{expected} was due")
        expected = number + 1
        while expected in early:
            early.remove(expected)
            expected += 1
        self.next[key] = expected

    def miss(self) -> None:
        """At the end: what others have overtaken does not come any more."""
        for key, early in self.early.items():
            missing = max(early) + 1 - self.next[key] - len(early) if early else 0
            if missing:
                self.lost += missing
                self._findings.add(f"lost: {missing} from {key}:{self.next[key]} on")


class Checker(CommittedReader, Tally):
    """Checks what a consumer of committed records sees."""

    def __init__(self, brokers: str, topic: str, partitions: int, findings: Findings) -> None:
        CommittedReader.__init__(self, brokers, topic, partitions)
        Tally.__init__(self, findings)

    def on_values(self, values: Sequence[str]) -> None:
        self.note(values)

    def on_gone(self, error: str) -> None:
        self._findings.add(f"records that a consumer has read are gone: {error}")


class PollingChecker(threading.Thread, Tally):
    """Asks again and again what is new. A system that does not answer is asked again."""

    def __init__(self, findings: Findings, *, ordered: bool) -> None:
        threading.Thread.__init__(self, name="checker", daemon=True)
        Tally.__init__(self, findings, ordered=ordered)
        self._ended = threading.Event()

    def take(self) -> Sequence[str]:
        """Returns the records that have come since the last call. Called in this thread. May raise anything."""
        raise NotImplementedError

    def run(self) -> None:
        failed = ""
        while not self._ended.wait(_POLL_SECONDS):
            try:
                self.note(self.take())
                failed = ""
            except Exception as error:  # an error that stays ends the soak: nothing comes any more
                if str(error) != failed:
                    failed = str(error)
                    print(f"           the reader waits: {type(error).__name__}: {failed[:150]}", flush=True)

    def stop(self) -> None:
        self._ended.set()
        if self.is_alive():
            self.join(30)
        self.miss()
