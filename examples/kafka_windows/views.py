"""The page views: made up, in order of arrival, and what a plain count of them gives."""

from __future__ import annotations

import json
import math
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone

from confluent_kafka import Producer

START_MS = int(datetime(2026, 1, 1, 10, tzinfo=timezone.utc).timestamp() * 1000)
MINUTES = 20
MINUTE_MS = 60_000
PAGES = {"/": 40, "/search": 30, "/product": 20, "/cart": 8, "/checkout": 2}
#: A view is reported up to so much later than it happened: less than the job's watermark waits for.
LATEST_REPORT_MS = 20_000
#: Event time that is fed at once.
CHUNK_MS = 10_000


@dataclass(frozen=True)
class View:
    """One page view; ``at_ms`` since 1970 is when it happened, ``reported_ms`` when it is told."""

    page: str
    at_ms: int
    reported_ms: int


def make_views(dice: random.Random) -> list[View]:
    """About 2,500 views a minute, in the order in which they are reported."""
    views = []
    for minute in range(MINUTES):
        busy = 2500 + 1500 * math.sin(minute / MINUTES * 2 * math.pi)
        for page in dice.choices(list(PAGES), list(PAGES.values()), k=round(busy)):
            at = START_MS + minute * MINUTE_MS + dice.randrange(MINUTE_MS)
            views.append(View(page, at, at + dice.randrange(LATEST_REPORT_MS)))
    return sorted(views, key=lambda view: view.reported_ms)


def count_views(views: list[View]) -> Counter[tuple[str, int]]:
    """(page, minute) → views, where minutes count from the first: what the job has to come to."""
    return Counter((view.page, (view.at_ms - START_MS) // MINUTE_MS) for view in views)


class Feeder(threading.Thread):
    """Writes the views into a topic in the order in which they are reported, at an even pace, as far as allowed.

    The last record is a heartbeat. A minute is counted out only when the watermark has passed its end, and the
    watermark follows what was read, so the last minutes would wait for news that never comes. The heartbeat is dated
    ten minutes later; its own minute stays open, as the newest minute of a stream always does, and is not compared.
    """

    def __init__(self, brokers: str, topic: str, views: list[View], *, seconds: float) -> None:
        super().__init__(name="feeder", daemon=True)
        self._topic = topic
        self._views = views
        self._pause = seconds * CHUNK_MS / (MINUTES * MINUTE_MS)
        self._allowed_ms = START_MS
        self._allowed_more = threading.Condition()
        self._producer = Producer({"bootstrap.servers": brokers, "enable.idempotence": True, "log_level": 0})
        self.total = len(views)
        self.fed = 0
        self.newest_ms = START_MS

    def allow(self, share: float) -> None:
        """Feeds on, until ``share`` of the time is fed: so that every run of the job finds something new to count."""
        with self._allowed_more:
            self._allowed_ms = START_MS + math.ceil(share * MINUTES * MINUTE_MS) + LATEST_REPORT_MS * (share >= 1)
            self._allowed_more.notify()

    def run(self) -> None:
        """See the class."""
        chunk_end = START_MS + CHUNK_MS
        self._await_permission(chunk_end)
        for view in self._views:
            while view.reported_ms >= chunk_end:
                self._producer.flush()
                time.sleep(self._pause)
                chunk_end += CHUNK_MS
                self._await_permission(chunk_end)
            self._send(view)
            self.fed, self.newest_ms = self.fed + 1, view.reported_ms
        self._send(View("(heartbeat)", START_MS + (MINUTES + 10) * MINUTE_MS, 0))
        self._producer.flush()

    def _await_permission(self, until_ms: int) -> None:
        with self._allowed_more:
            self._allowed_more.wait_for(lambda: until_ms <= self._allowed_ms)

    def _send(self, view: View) -> None:
        at = datetime.fromtimestamp(view.at_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        self._producer.produce(self._topic, key=view.page, value=json.dumps({"page": view.page, "at": at}))
