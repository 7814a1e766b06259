"""A time limit for a case: a connector that hangs fails, and the others are tried."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

__all__ = ["time_limit"]


@contextlib.contextmanager
def time_limit(seconds: float, what: str) -> Iterator[None]:
    """Fails what takes longer, at the line where it stands.

    Works in the main thread, where pytest runs tests, and on systems that have alarms; elsewhere there is no limit. A
    call into C that does not return to Python can't be ended.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def end(number: int, frame: Any) -> None:
        # Not an Exception: a connector that catches everything does not catch this.
        pytest.fail(f"hangs: {what} has not ended within {seconds:.0f} s, and stands at the line above")

    before, began = signal.signal(signal.SIGALRM, end), time.monotonic()
    # Again and again: the first may be raised where Python drops it (__del__), or a cleanup after it may hang as well.
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds, max(1.0, seconds / 4))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # the limit of another plugin (pytest-timeout) continues
            signal.setitimer(signal.ITIMER_REAL, max(0.01, left - (time.monotonic() - began)), interval)
