"""How long a record is under way from its producer, through a query, to a consumer that reads committed records."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka_setup import Bench
from benchmarks.kafka_streams import EXACTLY_ONCE, SINKS, batches_of, stream
from benchmarks.measuring import OURS, THEIRS, Measurement

_PARTITIONS = 4
_PER_SECOND = 100
#: From the first record that arrives until it is taken down; and how long the last ones may take.
_WARM_UP_SECONDS = 8.0
_LAST_SECONDS = 30.0


class _Trickle(threading.Thread):
    """Produces the time, in ns, at an even pace until it is told to stop."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 2})
        self._topic = topic
        self._stopped = threading.Event()
        self.sent = 0

    def run(self) -> None:
        """The thread."""
        begun = time.monotonic()
        while not self._stopped.wait(max(0.0, begun + self.sent / _PER_SECOND - time.monotonic())):
            self._producer.produce(self._topic, str(time.time_ns()), partition=self.sent % _PARTITIONS)
            self._producer.poll(0)
            self.sent += 1
        self._producer.flush(10)

    def stop(self) -> None:
        """Returns when every record is there."""
        self._stopped.set()
        self.join()


class _Arrivals(threading.Thread):
    """Notes when each record was produced and how long it was under way."""

    def __init__(self, address: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "bench",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 100,
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(_PARTITIONS)])
        self._stopped = threading.Event()
        self.seen: list[tuple[int, float]] = []

    def run(self) -> None:
        """The thread."""
        while not self._stopped.is_set():
            for message in self._consumer.consume(1000, 0.001) or [self._consumer.poll(0.1)]:
                if message is not None and message.error() is None:
                    produced = int(message.value() or b"0")
                    self.seen.append((produced, (time.time_ns() - produced) / 1e6))
        self._consumer.close()

    def stop(self) -> None:
        """Ends it."""
        self._stopped.set()
        self.join()


def latency(bench: Bench) -> list[Measurement]:
    """A steady trickle, one side after the other, each batch as soon as the one before has ended."""
    bench.say(f"latency, {_PER_SECOND} records/s on {_PARTITIONS} partitions")
    waits: dict[str, list[float]] = {}
    batches: dict[str, list[float]] = {}
    for name in SINKS:
        waits[name], batches[name] = _watch(bench, name)
        p50, p99 = _percentile(waits[name], 50), _percentile(waits[name], 99)
        took = statistics.median(batches[name])
        bench.say(f"  {name}: p50 {p50:.0f} ms, p99 {p99:.0f} ms; a batch {took:.0f} ms ({len(batches[name])} batches)")
    found = []
    for name, words in ((OURS, "at least once"), (EXACTLY_ONCE, "exactly once")):
        note = "Spark's own has only at least once" if name == EXACTLY_ONCE else ""
        for percent in (50, 99):
            values = {OURS: [_percentile(waits[name], percent)], THEIRS: [_percentile(waits[THEIRS], percent)]}
            found.append(
                Measurement(f"latency at {_PER_SECOND} records/s, {words}, p{percent}", "ms", "less", values, note)
            )
        values = {OURS: batches[name], THEIRS: batches[THEIRS]}
        found.append(Measurement(f"its batches, {words}", "ms", "less", values))
    return found


def _watch(bench: Bench, name: str) -> tuple[list[float], list[float]]:
    """Milliseconds of each record, and of each batch."""
    with bench.topic(_PARTITIONS) as source, bench.topic(_PARTITIONS) as target:
        trickle, arrivals = _Trickle(bench.toolbox.address, source), _Arrivals(bench.toolbox.address, target)
        trickle.start()
        arrivals.start()
        query: Any = stream(bench, name, source, target).start()
        try:
            _await(lambda: bool(arrivals.seen) or query.exception() is not None, 60)
            time.sleep(_WARM_UP_SECONDS)
            begun, ran = time.time_ns(), len(query.recentProgress)
            time.sleep(bench.scale.seconds)
            ended = time.time_ns()
            spent = [float(one["durationMs"]["triggerExecution"]) for one in batches_of(query)[ran:]]
            trickle.stop()
            query.processAllAvailable()
            _await(lambda: len(arrivals.seen) >= trickle.sent, _LAST_SECONDS)
        finally:
            query.stop()
            trickle.stop()
            arrivals.stop()
            shutil.rmtree(bench.folder / "checkpoint")
    if query.exception() is not None:
        raise RuntimeError(f"{name}: {query.exception()}")
    if len(arrivals.seen) != trickle.sent:
        raise RuntimeError(f"{name}: {len(arrivals.seen)} records arrived of {trickle.sent}")
    return [wait for produced, wait in arrivals.seen if begun <= produced < ended], spent


def _await(condition: Any, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1]
