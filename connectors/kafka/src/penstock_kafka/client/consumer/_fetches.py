"""What the threads of one consumer share: the ranges that are read, and what was fetched of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from penstock.printable import get_logger
from penstock_kafka.client._errors import Problem
from penstock_kafka.client._held_back import HeldBack
from penstock_kafka.client.consumer._position import FetchedBatches, FetchPosition

__all__ = ["Fetches"]

_log = get_logger("penstock.kafka")
_RETRY_S = 0.1
#: How long until an error that does not pass is reported again.
_REPORT_AGAIN_S = 1.0
#: Kept at most, if the reader does not ask for them.
_MOST_PROBLEMS = 100


class Fetches:
    """The reader sets ranges and takes; the finder looks for their leaders; a channel for each leader fetches.

    Any thread may call any method.
    """

    def __init__(self, queue_bytes: int) -> None:
        self._queue_bytes = queue_bytes
        self.held_back = HeldBack("reading")
        #: Guards everything below. Notified whenever the reader, the finder or a channel may have something to do.
        self.changed = threading.Condition()
        #: What is being read. Replaced by the reader as a whole: a channel that comes back with an answer must find its
        #: position still here, or it would hand over records of the ranges before.
        self.positions: dict[tuple[str, int], FetchPosition] = {}
        #: Appended by any thread, taken by the reader.
        self.problems: deque[Problem] = deque(maxlen=_MOST_PROBLEMS)
        #: Why nothing will come any more. Written by a thread that broke.
        self.fatal: Problem | None = None
        #: Set by the reader, when it closes. Read without the lock, too: it never becomes false again.
        self.is_closed = False
        #: Of all that is in ``fetched``. Channels wait while it is above the limit, the reader makes room.
        self._queued_bytes = 0

    # --- the reader ---------------------------------------------------------------------------------------------------

    def set(self, positions: Sequence[FetchPosition]) -> None:
        """Replaces what is read. What was fetched of the positions before is dropped."""
        with self.changed:
            self.positions = {(one.topic, one.partition): one for one in positions}
            self.problems.clear()
            self._queued_bytes = 0
            self.changed.notify_all()

    def drop(self, position: FetchPosition, *, is_finished: bool) -> None:
        """Drops the first batches of a position, which the reader has taken; all that a finished one has."""
        with self.changed:
            dropped = list(position.fetched) if is_finished else [position.fetched[0]]
            for one in dropped:
                position.fetched.popleft()
                self._queued_bytes -= one.queued_bytes
            if is_finished:
                self.positions.pop((position.topic, position.partition), None)
            self.changed.notify_all()

    # --- the finder and the channels ----------------------------------------------------------------------------------

    def due(self, node: int | None) -> list[FetchPosition]:
        """Waits until something is to be done for positions of the node. Returns none once the reader has closed.

        Those of no node are the finder's.
        """
        with self.changed:
            while not self.is_closed:
                now = time.monotonic()
                has_room = node is None or self._queued_bytes < self._queue_bytes
                mine = [
                    one for one in self.positions.values() if one.node == node and one.fetch_offset < one.end_offset
                ]
                if has_room and (due := [one for one in mine if one.not_before <= now]):
                    return due
                later = min((one.not_before for one in mine if one.not_before > now), default=None)
                self.changed.wait(None if later is None else later - now)
            return []

    def pause(self, seconds: float) -> None:
        """Waits that long, or until the reader closes. A channel's."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_closed, seconds)

    def add(self, position: FetchPosition, batches: FetchedBatches, following: int) -> None:
        """Hands fetched batches over to the reader. ``following``: the offset after them."""
        with self.changed:
            if self.is_current(position):
                position.fetched.append(batches)
                position.fetch_offset = following
                self._queued_bytes += batches.queued_bytes
                self.changed.notify_all()

    def is_current(self, position: FetchPosition) -> bool:
        """Returns whether it is being read: the reader may have moved to other ranges. Under the lock."""
        return self.positions.get((position.topic, position.partition)) is position

    def forget_leader(self, positions: Sequence[FetchPosition]) -> None:
        """Gives positions back to the finder, after a pause: another broker may lead them by now."""
        with self.changed:
            for position in positions:
                position.node = None
                position.not_before = time.monotonic() + _RETRY_S
            self.changed.notify_all()

    # --- problems -----------------------------------------------------------------------------------------------------

    def report(self, problem: Problem) -> None:
        """Reports a problem to the reader."""
        with self.changed:
            self.problems.append(problem)
            self.changed.notify_all()

    def report_on(self, position: FetchPosition, code: str, text: str) -> None:
        """Reports what does not pass, and puts the position off. The thread's that the position belongs to."""
        position.not_before = time.monotonic() + _REPORT_AGAIN_S
        self.report(Problem(code, text, position.topic, position.partition, position.fetch_offset))

    def report_down(self, where: str, problem: Problem) -> None:
        """Reports that a broker that is needed can't be reached."""
        self.report(Problem(problem.code, f"{where}: {problem.text}", retriable=problem.retriable))
        if problem.retriable:
            self.report(Problem("_ALL_BROKERS_DOWN", "all that are needed are down"))

    def end(self, error: BaseException) -> None:
        """Ends reading because a thread met an unexpected (internal) error."""
        _log.error("the Kafka client can't continue", exc_info=error)
        with self.changed:
            self.fatal = Problem("_FAIL", f"{type(error).__name__}: {error}", fatal=True)
            self.changed.notify_all()
