"""A consumer of committed records, as anybody's: it watches all the time what the job has published."""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from confluent_kafka import Consumer, TopicPartition
from views import MINUTE_MS, START_MS


@dataclass(frozen=True)
class Comparison:
    """``lost``: views missing in the counts. ``doubled``: views counted too often."""

    lost: int
    doubled: int
    rows: int


class Reader(threading.Thread):
    """Adds up the counts of each page and minute as they become visible. :attr:`counts` only ever grows."""

    def __init__(self, brokers: str, topic: str, partitions: int) -> None:
        super().__init__(name="reader", daemon=True)
        self._ended = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": brokers,
                "group.id": f"views-reader-{uuid.uuid4().hex}",
                "isolation.level": "read_committed",  # the one setting that readers of an exactly-once topic need
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        self._lock = threading.Lock()
        self.counts: Counter[tuple[str, int]] = Counter()
        self.rows = 0

    def run(self) -> None:
        """See the class."""
        while not self._ended.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                row = json.loads(message.value())
                at_ms = datetime.fromisoformat(row["minute"].replace("Z", "+00:00")).timestamp() * 1000
                with self._lock:
                    self.counts[row["page"], round(at_ms - START_MS) // MINUTE_MS] += row["views"]
                    self.rows += 1
        self._consumer.close()

    def stop(self) -> None:
        """Ends it."""
        self._ended.set()
        self.join(10)

    def seen(self) -> tuple[Counter[tuple[str, int]], int]:
        """The counts and the number of rows that they came in, now."""
        with self._lock:
            return Counter(self.counts), self.rows


def compare(expected: Counter[tuple[str, int]], counts: Counter[tuple[str, int]], rows: int) -> Comparison:
    """What was published with what there should be."""
    return Comparison((expected - counts).total(), (counts - expected).total() + max(0, rows - len(counts)), rows)
