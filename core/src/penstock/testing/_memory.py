"""How much memory something takes, measured from outside of it."""

from __future__ import annotations

import ctypes
import gc
import os
import resource
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

__all__ = ["peak_growth_bytes", "resident_bytes"]

_STATM = Path("/proc/self/statm")


def peak_growth_bytes(work: Callable[[], object]) -> int:
    """By how much this process was larger at its largest, while ``work`` ran, than before. Looks every 10 ms."""
    _release_free_memory()
    before = most = resident_bytes()
    done = threading.Event()

    def watch() -> None:
        nonlocal most
        while not done.wait(0.01):
            most = max(most, resident_bytes())

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    return max(most, resident_bytes()) - before


def resident_bytes() -> int:
    """Returns what this process has in memory now; where the system does not tell, the most it ever had."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _release_free_memory() -> None:
    """Returns to the system what earlier work has freed: to use it a second time would not look like growth."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of the GNU C library only
    if trim is not None:
        trim(0)
