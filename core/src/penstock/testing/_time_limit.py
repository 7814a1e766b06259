"""A time limit for a case, and one for each call of a connector: one that hangs fails, and the others are tried."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.testing import _calls

__all__ = ["call_limit_s", "time_limit"]

_TICK_S = 1.0
_call_limits = [float("inf")]


def call_limit_s() -> float:
    """Returns how long a call may take in the case that runs."""
    return _call_limits[-1]


@contextlib.contextmanager
def time_limit(seconds: float, what: str, call_s: float | None = None) -> Iterator[None]:
    """Fails what takes longer, at the line where it stands, and a call of the connector that takes longer than
    ``call_s`` without a step: a share of ``seconds``. A busy machine has more time for a call.

    Works in the main thread, where pytest runs tests, and on systems that have alarms; elsewhere there is no limit. A
    call into C that does not return to Python can't be ended.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return
    call_s = seconds / _calls.CALL_SHARE if call_s is None else call_s
    tick = min(_TICK_S, seconds, call_s)
    began = looked = time.monotonic()
    used = time.process_time()

    def look(number: int, frame: Any) -> None:
        # What is raised is not an Exception: a connector that catches everything does not catch this.
        nonlocal looked, used
        now, used_now = time.monotonic(), time.process_time()
        passed, ran, looked, used = now - looked, used_now - used, now, used_now
        is_over = now - began > seconds
        call = "" if is_over else _calls.overdue(passed, call_s, ran)
        if is_over or call:
            signal.setitimer(signal.ITIMER_REAL, *[max(_TICK_S, seconds / 4)] * 2)  # what follows has time to end
        if is_over:
            pytest.fail(f"hangs: {what} has not ended within {seconds:.0f} s, and stands at the line above")
        if call:
            pytest.fail(f"hangs: in {what}, {call} has not returned for {call_s:.0f} s. It is here:\n{_calls.stacks()}")

    before = signal.signal(signal.SIGALRM, look)
    # Again and again: one may be raised where Python drops it (__del__), or a cleanup after it may hang as well.
    left, interval = signal.setitimer(signal.ITIMER_REAL, tick, tick)
    _call_limits.append(call_s)
    try:
        yield
    finally:
        _call_limits.pop()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:  # the limit of another plugin (pytest-timeout) continues
            signal.setitimer(signal.ITIMER_REAL, max(0.01, left - (time.monotonic() - began)), interval)
