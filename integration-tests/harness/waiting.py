"""Waits for what another process does."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["wait_until"]


def wait_until(
    is_so: Callable[[], object],
    problem: Callable[[], object] = lambda: "the condition never came true",
    *,
    timeout: float = 120,
    pause: float = 0.05,
    may_come: Callable[[], bool] = lambda: True,
) -> None:
    """Returns when ``is_so()`` is true.

    Raises AssertionError with ``problem()`` after ``timeout`` seconds, or when ``may_come()`` turns false: the process
    that the condition depends on has ended.
    """
    deadline = time.monotonic() + timeout
    while not is_so():
        if time.monotonic() > deadline or not may_come():
            raise AssertionError(problem())
        time.sleep(pause)
