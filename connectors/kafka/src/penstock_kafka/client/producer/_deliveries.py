"""The batches of one producer that are neither acknowledged nor given up, and the outcome of the others."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from penstock_kafka.client._errors import Problem
from penstock_kafka.client.codec import SealedBatch
from penstock_kafka.client.producer._partition_queue import InFlightBatch
from penstock_kafka.client.producer._settings import ProducerSettings

__all__ = ["Deliveries"]

_WATCH_S = 1.0


class Deliveries:
    """Shared by the producer's threads, which add batches and wait, and the connections' loop, which sends them.

    Any thread may call any method, but the loop must not wait.
    """

    def __init__(self, settings: ProducerSettings, is_broken: Callable[[], bool]) -> None:
        """``is_broken``: whether the loop has died."""
        self._settings = settings
        self._is_broken = is_broken
        # Written under this lock; the counts and ``_is_stopped`` are also read without it, where a late answer does no
        # harm. The loop never waits for anything while it holds it.
        self._changed = threading.Condition()
        #: Appended by the producer's threads and by ``on_idle``, emptied by the loop.
        self._submitted: deque[InFlightBatch] = deque()
        #: Of batches that are neither acknowledged nor given up. The producer's threads wait for room.
        self._queued_bytes = 0
        #: How many such batches there are: ``flush`` waits for none.
        self._unfinished = 0
        #: Records that were not delivered, and the first reason that concerns a record.
        self._failed = 0
        self._first: Problem | None = None
        #: The first reason that concerns no record by itself.
        self._event: Problem | None = None
        #: Nothing is delivered any more, after a failure or by ``stop``. Never becomes false again.
        self._is_stopped = False
        #: Numbers batches in the order in which they are submitted.
        self._orders = 0

    @property
    def is_idle(self) -> bool:
        """Whether nothing is in flight."""
        return self._unfinished == 0

    @property
    def is_stopped(self) -> bool:
        """Whether nothing is delivered any more."""
        return self._is_stopped

    # --- batches ------------------------------------------------------------------------------------------------------

    def add(self, batch: SealedBatch, attributes: int, plain_bytes: int, *, wait: bool) -> bool:
        """Queues a batch, and waits for room if ``wait``. Returns false once nothing is delivered any more."""
        size = len(batch.data)
        with self._changed:
            if wait:
                self._await(lambda: not self._queued_bytes or self._queued_bytes + size <= self._settings.queue_bytes)
            if self._is_stopped:
                self._failed += batch.records
                return False
            self._orders += 1
            deadline = time.monotonic() + self._settings.delivery_timeout_ms / 1000
            self._submitted.append(InFlightBatch(batch, attributes, plain_bytes, (self._orders,), deadline))
            self._queued_bytes += size
            self._unfinished += 1
            return True

    def take(self) -> Sequence[InFlightBatch]:
        """Returns what was added since the last time, in order. The loop's."""
        with self._changed:
            taken, self._submitted = self._submitted, deque()
        return taken

    def replace(self, one: InFlightBatch, parts: Sequence[InFlightBatch]) -> None:
        """Counts ``parts`` in place of a batch."""
        with self._changed:
            self._queued_bytes += sum(part.queued_bytes for part in parts) - one.queued_bytes
            self._unfinished += len(parts) - 1

    def finish(self, one: InFlightBatch, *, failed: bool = False) -> None:
        """Ends a batch that is acknowledged or, if it ``failed``, given up."""
        with self._changed:
            self._failed += one.batch.records if failed else 0
            self._queued_bytes -= one.queued_bytes
            self._unfinished -= 1
            self._changed.notify_all()

    # --- failures -----------------------------------------------------------------------------------------------------

    def failures(self) -> tuple[int, Problem | None, Problem | None]:
        """Returns how many records failed, the first failure, and what ended everything."""
        with self._changed:
            return self._failed, self._first, self._event

    def count_failure(self, problem: Problem, records: int = 1) -> None:
        """Counts records that are not delivered, for a reason that concerns them."""
        with self._changed:
            self._failed += records
            first = self._first
            # The broker refuses a whole batch for the one that is too large.
            larger = first is not None and first.code == problem.code and problem.size > first.size
            if first is None or (larger and problem.code == "MESSAGE_TOO_LARGE"):
                self._first = problem

    def fail(self, problem: Problem, *, event: bool = False) -> None:
        """Stops for good, with the reason. ``event``: one that concerns no record by itself."""
        with self._changed:
            self._is_stopped = True
            if event and self._event is None:
                self._event = problem
            elif self._first is None:
                self._first = problem
            self._changed.notify_all()

    def stop(self) -> None:
        """Stops for good, without a failure."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    # --- waiting ------------------------------------------------------------------------------------------------------

    def await_all(self) -> None:
        """Returns when everything submitted is acknowledged or has failed, or nothing is delivered any more."""
        with self._changed:
            self._await(lambda: not self._unfinished)

    def await_idle(self, timeout_s: float) -> bool:
        """Returns whether everything is acknowledged or has failed within that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._unfinished, timeout_s)

    def _await(self, is_so: Callable[[], bool]) -> None:
        """Waits, holding the lock, until ``is_so`` or nothing is delivered any more, as when the loop has died."""
        while not self._is_stopped and not is_so():
            if not self._changed.wait(_WATCH_S) and self._is_broken():
                self.fail(Problem("_FAIL", "the thread that serves the connections has ended", fatal=True), event=True)
