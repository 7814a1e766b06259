"""Reads one range per partition at a time, for both consumers, and translates their problems for the caller."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from penstock_kafka.client._errors import Problem, consumer_error
from penstock_kafka.client._interfaces import (
    MAX_BATCH_ROWS,
    Fetched,
    PartitionRange,
    RangeConsumer,
    TransientClientError,
)

__all__ = ["SequencedRangeConsumer"]

#: How long all brokers must be down, without a record arriving, before that is reported: reconnecting takes a moment.
BROKERS_DOWN_GRACE_SECONDS = 1.0
#: How librdkafka's words for a partition that can't be read begin, where it says nothing else of it.
_NAMED_IN_TEXT = re.compile(r"(\S+) \[(\d+)\]: ")


def _waves(ranges: Sequence[PartitionRange]) -> list[list[int]]:
    """Indexes of non-empty ranges: the first of each partition, the second of each, and so on."""
    waves: list[list[int]] = []
    seen: dict[tuple[str, int], int] = {}
    for index, wanted in enumerate(ranges):
        if wanted.start == wanted.end:
            continue
        turn = seen.get((wanted.topic, wanted.partition), 0)
        seen[wanted.topic, wanted.partition] = turn + 1
        if turn == len(waves):
            waves.append([])
        waves[turn].append(index)
    return waves


class SequencedRangeConsumer(RangeConsumer):
    """Reads ranges of one partition one after the other: clients have one position for each partition."""

    def __init__(self) -> None:
        self._ranges: list[PartitionRange] = []
        self._headers = False
        self._waves: list[list[int]] = []
        self._wave: list[int] = []
        self._unfinished = 0
        self._empty: list[Fetched] = []
        self._down_since: float | None = None
        self._last_event = ""

    def assign(self, ranges: Sequence[PartitionRange], *, headers: bool) -> None:
        """Replaces what is read."""
        for wanted in ranges:
            if not 0 <= wanted.start <= wanted.end:
                raise ValueError(f"not a range of offsets: {wanted}")
        self._ranges = list(ranges)
        self._headers = headers
        self._waves = _waves(ranges)
        self._empty = [Fetched(i, None, True) for i, wanted in enumerate(ranges) if wanted.start == wanted.end]
        if self._down_since is not None:
            self._down_since = time.monotonic()
        self._next_wave()

    def poll(self, timeout_ms: int, max_rows: int = MAX_BATCH_ROWS) -> list[Fetched]:
        """Returns what is there, or arrives within ``timeout_ms``."""
        if self._empty:
            fetched, self._empty = self._empty, []
            return fetched
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left = max(0.0, deadline - time.monotonic())
            outcome = self._fetch(int(left * 1000), max_rows)
            if isinstance(outcome, Problem):
                self._handle_error(outcome)
            elif outcome:
                return self._hand_over(outcome)
            else:
                self._report_if_down()
                return []

    def _hand_over(self, fetched: list[Fetched]) -> list[Fetched]:
        self._down_since = None
        wave = self._wave
        self._unfinished -= sum(one.finished for one in fetched)
        if self._unfinished == 0 and self._waves:
            self._next_wave()
        return [Fetched(wave[one.range_index], one.records, one.finished) for one in fetched]

    def _next_wave(self) -> None:
        self._wave = self._waves.pop(0) if self._waves else []
        self._unfinished = len(self._wave)
        self._start([self._ranges[index] for index in self._wave], self._headers)

    def _handle_error(self, problem: Problem) -> None:
        if not problem.topic and (named := _NAMED_IN_TEXT.match(problem.text)):
            problem = replace(problem, topic=named[1], partition=int(named[2]))
            if all((one.topic, one.partition) != (problem.topic, problem.partition) for one in self._ranges):
                # librdkafka keeps reporting a missing partition for a while after it was assigned.
                return
        if problem.code == "_ALL_BROKERS_DOWN":
            self._down_since = self._down_since or time.monotonic()
            return
        error = consumer_error(problem)
        if error is not None:
            raise error
        self._last_event = problem.text

    def _report_if_down(self) -> None:
        now = time.monotonic()
        if self._down_since is not None and self._unfinished and now - self._down_since > BROKERS_DOWN_GRACE_SECONDS:
            self._down_since = now
            why = self._last_event or "all are down"
            raise TransientClientError(f"no Kafka broker with what is to be read can be reached: {why}")

    @abstractmethod
    def _start(self, ranges: list[PartitionRange], headers: bool) -> None:
        """Reads exactly ``ranges`` from now on: none empty, no two of one partition."""

    @abstractmethod
    def _fetch(self, timeout_ms: int, max_rows: int) -> list[Fetched] | Problem:
        """Returns what is there, with indexes into the list given to :meth:`_start`; or a problem to handle."""
