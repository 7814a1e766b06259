"""Counters that tasks, enumerators and writers add to; the engine's adapter carries them to the driver."""

from __future__ import annotations

import threading
from collections.abc import Mapping

__all__ = ["Metrics"]


class Metrics:
    """Named counters. Thread-safe. Names are lower case with underscores, units in the name (``bytes_read``).

    Names in use: ``rows_read``, ``bytes_read``, ``rows_written``, ``bytes_written``, ``bad_rows``, ``dead_letters``,
    ``rescued_rows``, ``rewritten_files``, ``changed_files``, ``missing_files``, ``transactions_opened``,
    ``transactions_committed``, ``transactions_aborted``.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[str, int] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Adds ``amount`` to the counter ``name``."""
        with self._lock:
            self._counts[name] = self._counts.get(name, 0) + amount

    def merge(self, counts: Mapping[str, int]) -> None:
        """Adds every counter of ``counts``."""
        for name, amount in counts.items():
            self.add(name, amount)

    def take(self) -> dict[str, int]:
        """The counts since the last call, which are then forgotten here."""
        with self._lock:
            taken, self._counts = self._counts, {}
        return taken

    def snapshot(self) -> dict[str, int]:
        """The counts now."""
        with self._lock:
            return dict(self._counts)
