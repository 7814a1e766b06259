"""Quotas of the brokers: a client that is above its share must wait before it asks again."""

from __future__ import annotations

import threading
import time

from penstock.printable import get_logger

__all__ = ["HeldBack"]

_log = get_logger("penstock.kafka")
_SAY_EVERY_S = 10.0


class HeldBack:
    """For how long brokers have held one client back, and whether they do so now. Any thread."""

    def __init__(self, doing: str) -> None:
        """``doing`` is what is held back: "reading"."""
        self._doing = doing
        self._lock = threading.Lock()
        self._until = self._say_again = 0.0
        #: Milliseconds so far, those that were announced and are not over included.
        self.ms = 0

    def note(self, where: str, seconds: float) -> None:
        """Notes that a broker does so for that long from now on. Says so at most every ten seconds."""
        with self._lock:
            now = time.monotonic()
            self.ms += round(1000 * seconds)
            self._until = max(self._until, now + seconds)
            says = now >= self._say_again
            if says:
                self._say_again = now + _SAY_EVERY_S
        if says:
            _log.warning(
                "%s: %s is held back for %.1f s, because the quota of this client or its user is used up",
                *(where, self._doing, seconds),
            )

    @property
    def is_so(self) -> bool:
        """Whether a broker holds the client back at the moment."""
        return time.monotonic() < self._until
