"""The calls of a connector that have not returned: one that never does fails its case long before the case's limit."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

__all__ = ["CALL_SHARE", "calling", "overdue", "patiently", "progress", "slowness", "stacks"]

#: The share of a case's limit that one call may take: ten seconds of two minutes.
CALL_SHARE = 12
#: Of its time, what a process runs that only waits; and how much slower a server answers at most.
_IDLE_SHARE, _MOST_SLOWNESS_OF_OTHERS = 0.02, 2.0
_LOAD = Path("/proc/loadavg")
_KIT = str(Path(__file__).parent) + os.sep


class _Call:
    """``spent_s``: how long it has been running without a step, in seconds of a machine that has nothing else to do."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.spent_s = 0.0


#: Those that are running, of all threads.
_running: dict[int, _Call] = {}
#: Holds an element for each block within which a call may wait.
_patient: list[None] = []


@contextlib.contextmanager
def calling(what: str) -> Iterator[None]:
    """Says that the connector is called until the end of the block."""
    call = _Call(what)
    _running[id(call)] = call
    try:
        yield
    finally:
        del _running[id(call)]


@contextlib.contextmanager
def patiently() -> Iterator[None]:
    """Lets calls wait as long as the case may take: the system is away, or gets a lot."""
    _patient.append(None)
    try:
        yield
    finally:
        _patient.pop()
        progress()


def progress() -> None:
    """Something has happened in the calls that are running."""
    for call in list(_running.values()):
        call.spent_s = 0.0


def overdue(passed_s: float, limit_s: float, used_s: float) -> str:
    """Counts time for the calls that are running. Returns which of them has taken more than ``limit_s``, or nothing.

    ``used_s``: how long this process has run meanwhile. One that only waits has no use for a faster machine; the server
    that it may wait for has.
    """
    if _patient:
        return ""
    is_idle = used_s < _IDLE_SHARE * passed_s
    passed_s /= min(slowness(), _MOST_SLOWNESS_OF_OTHERS) if is_idle else slowness()
    for call in list(_running.values()):
        call.spent_s += passed_s
        if call.spent_s > limit_s:
            return call.what
    return ""


def slowness() -> float:
    """Returns how many threads want each processor now, at least 1: what takes a second takes so many."""
    try:
        wanting = float(_LOAD.read_text().split()[3].partition("/")[0])
    except OSError:
        wanting = os.getloadavg()[0]
    return max(1.0, wanting / (os.cpu_count() or 1))


def stacks() -> str:
    """Returns where the threads of the core are that run what an author wrote."""
    frames = sys._current_frames()
    shown = []
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        if frame is None or not (thread is threading.main_thread() or thread.name.startswith("penstock")):
            continue
        lines = traceback.StackSummary.extract(traceback.walk_stack(frame))
        own = [line for line in reversed(lines) if not line.filename.startswith(_KIT)]
        shown += [f"{thread.name}:", *traceback.format_list(own[-4:])]
    return "\n".join(line.rstrip() for line in shown)
