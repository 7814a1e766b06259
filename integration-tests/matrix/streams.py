"""Streams under kills: a round has four, which read and write each system once."""

from __future__ import annotations

import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from harness import checkpoint
from harness.driver import Driver
from harness.kills import Victim
from harness.oracle import Outcome
from harness.waiting import wait_until
from matrix.systems import Row, System, row_of

__all__ = ["Round", "Stream", "streams_of"]

WINDOW_S, DELAY_S = 60, 300
#: How often a round starts a driver that it does not kill.
MOST_STARTS = 3


@dataclass
class Stream:
    """A stream from one system to another, with or without an aggregation."""

    source: System
    sink: System
    windows: bool
    delivery: str
    origin: str
    target: str
    distinct: bool = False
    straggler: bool = False
    fed: int = 0

    @classmethod
    def between(
        cls, source: System, sink: System, delivery: str = "", *, windows: bool = False, **more: bool
    ) -> Stream:
        """Creates a stream with new places. A sink that lacks the delivery uses its first one."""
        if delivery not in sink.deliveries:
            delivery = sink.deliveries[0]
        return cls(source, sink, windows, delivery, source.new_place(), sink.new_place(), **more)

    @property
    def name(self) -> str:
        """The names of both systems."""
        return f"{self.source.name}-{self.sink.name}"

    def feed(self, rows: int) -> None:
        """Writes that many rows more, unless the source reads only once and has rows."""
        if self.fed == 0 or self.source.grows:
            self.source.feed(self.origin, range(self.fed, self.fed + rows))
            self.fed += rows

    def expected(self) -> Counter[Row]:
        """Returns the result of a batch computation."""
        rows = [row_of(number) for number in range(self.fed)]
        if not self.windows:
            return Counter(rows)
        counts = Counter(at - at % WINDOW_S for _, at, _ in rows)
        closed = max(at for _, at, _ in rows) - DELAY_S
        return Counter((start, start, str(n)) for start, n in counts.items() if start + WINDOW_S <= closed)

    def outcome(self) -> Outcome:
        """Compares what a reader sees now with the result of a batch computation."""
        return Outcome.of(self.sink.rows(self.target), self.expected())

    def problems(self) -> str:
        """Returns what breaks the guarantee as text, or "" if nothing does."""
        problems = self.outcome().problems(may_repeat=self.delivery != "exactly-once")
        return f"{self.name}, {self.delivery}: {problems}" if problems else ""

    def spec(self) -> dict[str, Any]:
        """Returns the spec for ``jobs/every.py``."""
        source, sink = self.source.source(self.origin), self.sink.sink(self.target, self.delivery)
        between = {"windows": self.windows, "distinct": self.distinct, "straggler": self.straggler}
        return {"name": self.name, "source": source, "sink": sink, **between}


#: Pairs whose streams count in windows: their rows come in the order of their times.
WINDOWS = {("files", "kafka"), ("kafka", "pravega"), ("pravega", "cassandra"), ("kafka", "files")}


def streams_of(systems: Sequence[System], shift: int, delivery: str = "exactly-once") -> list[Stream]:
    """Returns four streams that read and write each system once. The sink is ``shift`` places behind the source."""
    pairs = [(source, systems[(number + shift) % len(systems)]) for number, source in enumerate(systems)]
    return [
        Stream.between(source, sink, delivery, windows=(source.name, sink.name) in WINDOWS) for source, sink in pairs
    ]


class Round:
    """Streams in one driver, which it starts again after each kill."""

    def __init__(self, streams: Sequence[Stream], folder: Path, start: Callable[..., Driver], **job: object) -> None:
        self.streams = streams
        self._folder = folder
        self._spec = folder / "spec.json"
        self._spec.write_text(json.dumps([stream.spec() for stream in streams]))
        self._job = partial(start, "every", spec=self._spec, **job)
        self.killed: list[str] = []

    def feed(self, rows: int) -> None:
        """Writes that many rows more for each stream."""
        for stream in self.streams:
            stream.feed(rows)

    def start(self, **fault: str) -> Driver:
        """Starts a driver with all streams."""
        return self._job(**fault)

    def problems(self) -> str:
        """Returns what is wrong now as text, or "" if nothing is."""
        return "\n".join(filter(None, (stream.problems() for stream in self.streams)))

    def commits(self, stream: Stream) -> int:
        """Returns how many batches of the stream are committed."""
        return checkpoint.committed(self._folder / f"ck-{stream.name}")

    def run(self, dice: random.Random, victims: Sequence[Victim], rows: int) -> None:
        """Writes more rows, and starts a run with one kill at a random moment. It may leave everything unfinished."""
        self.feed(rows)
        driver, committed = self.start(), self._commits()
        with contextlib.suppress(AssertionError):  # the kill then hits it wherever it is
            wait_until(lambda: self._commits() > committed, timeout=240, may_come=lambda: driver.is_running)
        time.sleep(dice.uniform(0, 8))
        self.killed.append(dice.choice(victims)(driver, dice) or "nothing")
        if self.killed[-1] != "driver":
            driver.wait(600)
        driver.kill()

    def finish(self, rows: int) -> str:
        """Writes more rows, runs to the end without kills, and returns what is wrong then.

        It starts a driver that fails again, as a user would: a busy machine may be too slow for Spark.
        """
        self.feed(rows)
        for _ in range(MOST_STARTS):
            driver = self.start()
            if driver.wait(600) == 0:
                break
        else:
            return f"the driver failed {MOST_STARTS} times:\n{driver.tail()}"
        return self.problems()

    def _commits(self) -> int:
        return sum(map(self.commits, self.streams))
