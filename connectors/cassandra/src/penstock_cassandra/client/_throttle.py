"""Limits the rate of rows per second."""

from __future__ import annotations

import time

__all__ = ["Throttle"]


class Throttle:
    """Counts rows; :meth:`wait_s` says how long to wait before the next ones. ``None`` is no limit."""

    def __init__(self, rows_per_second: int | None) -> None:
        self._rate = rows_per_second
        self._free_at = time.monotonic()

    def add(self, rows: int) -> None:
        """Counts rows that were just moved."""
        if self._rate is not None:
            self._free_at = max(self._free_at, time.monotonic()) + rows / self._rate

    def wait_s(self) -> float:
        """Returns how long to wait before the next rows."""
        return 0.0 if self._rate is None else max(0.0, self._free_at - time.monotonic())
