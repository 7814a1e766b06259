"""Waiting for what a process elsewhere does."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]


def wait_until(
    is_so: Callable[[], object],
    problem: Callable[[], object] = lambda: "it never came to it",
    *,
    timeout: float = 120,
    pause: float = 0.05,
    may_come: Callable[[], bool] = lambda: True,
) -> None:
    """Returns when ``is_so``. Raises AssertionError with ``problem`` at the time-out, or if it may not come any more.

    ``may_come`` says whether whoever has to bring it about still runs.
    """
    deadline = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() > deadline or not may_come():
            raise AssertionError(problem())
        time.sleep(pause)
