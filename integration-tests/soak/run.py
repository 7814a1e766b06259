"""Watches a job that copies numbered records, while something is done to it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Protocol

from soak.findings import Findings
from soak.supervisor import Supervisor

__all__ = ["CheckerThread", "FeederThread", "Run", "StuckError"]

#: After that long without a record the job is stuck.
PATIENCE_SECONDS = 180.0
_LOOK_EVERY_SECONDS = 1.0
_LATE_SECONDS = 3.0


class StuckError(Exception):
    """The job makes no progress."""


class FeederThread(Protocol):
    """Writes records ``<key>:<n>``, where n counts from 0 for each key."""

    @property
    def fed(self) -> int:
        """Records so far."""

    @property
    def next(self) -> dict[str, int]:
        """For each key the number that follows."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> None:
        """Ends, and returns when everything is there to read."""


class CheckerThread(Protocol):
    """Reads what the job has written, as any reader would, and reports what is lost or duplicated."""

    records: int
    lost: int
    doubled: int
    #: When a record came last, by the monotonic clock.
    last_seen: float

    @property
    def next(self) -> dict[str, int]:
        """For each key the number up to which everything has come."""

    def start(self) -> None:
        """Begins."""

    def stop(self) -> None:
        """Ends."""


class Run:
    """One job with its feeder and its checker, from the first record to the last. One thread.

    ``look`` is called each second with the seconds since the job has recovered. ``line`` returns what to print each
    minute.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        feeder: FeederThread,
        checker: CheckerThread,
        findings: Findings,
        *,
        look: Callable[[float], None] = lambda calm_seconds: None,
        line: Callable[[], str] = lambda: "",
    ) -> None:
        self.supervisor, self.feeder, self.checker, self.findings = supervisor, feeder, checker, findings
        self._look, self._line = look, line
        self.started = self._disturbed = self._looked = time.monotonic()
        self._recovered: float | None = None
        self._minute = 0
        #: The longest that no record came since it was set to 0.
        self.longest_wait_seconds = 0.0
        feeder.start()
        checker.start()

    def disturb(self) -> None:
        """Learns that something was done to the job, or to what it needs."""
        self._disturbed, self._recovered = time.monotonic(), None

    @property
    def calm_seconds(self) -> float:
        """For how long records have arrived since the last disturbance; 0 until the first one."""
        return 0.0 if self._recovered is None else time.monotonic() - self._recovered

    def attend(self, until: float, calm_seconds: float = math.inf) -> None:
        """Watches until the time ``until``, or until the job has worked for ``calm_seconds``. Raises StuckError."""
        while (now := time.monotonic()) < until and self.calm_seconds < calm_seconds:
            if self.supervisor.look():
                self.disturb()
            self.longest_wait_seconds = max(self.longest_wait_seconds, now - self.checker.last_seen)
            if self._recovered is None and self.checker.last_seen > self._disturbed:
                self._recovered = now
                self.supervisor.works()
            if now - max(self.checker.last_seen, self._disturbed) > PATIENCE_SECONDS:
                raise StuckError(f"no record came for {PATIENCE_SECONDS:.0f} s, and nothing was done")
            if now - self._looked > _LOOK_EVERY_SECONDS:
                self._looked = now
                self._look(self.calm_seconds)
            if now - self.started >= 60 * (self._minute + 1):
                self._minute += 1
                print(f"{self._minute:4d} min  {self.counts()} · {self._line()}", flush=True)
            time.sleep(0.1)

    def finish(self) -> None:
        """Waits until all records have arrived, and for those that come twice. Raises StuckError."""
        self.feeder.stop()
        self.disturb()
        while self.checker.next != self.feeder.next:
            self.attend(time.monotonic() + 0.5)
        time.sleep(_LATE_SECONDS)
        self._look(0.0)

    def counts(self) -> str:
        """Returns how many records came, and what was wrong with them."""
        return (
            f"fed {self.feeder.fed:,} · read {self.checker.records:,} · lost={self.checker.lost} "
            f"duplicated={self.checker.doubled} · {self.supervisor.starts} starts · violations {self.findings.count}"
        )
