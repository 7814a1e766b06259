"""How much memory something takes: of the process, measured from outside, and of the objects in it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import logging
import os
import resource
import sys
import threading
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock.testing._calls import progress, slowness

__all__ = ["HeldBytes", "counting_objects", "growth_of_batches", "peak_growth_bytes", "resident_bytes"]

_STATM = Path("/proc/self/statm")
#: Batches that fill what has a bound. Then this number is compared, and more, as long as they have added that much for
#: each: what holds 128 things, as caches do, is full before the last ones have ended. Caches that begin again, as those
#: of connections that were closed and opened, are full in some of the comparisons. The last one is so long that it is
#: no growth if a pool opens one more connection, which has about sixty elements.
_WARM_UP, _COMPARED = 10, (20, 40, 40, 60, 60, 120)
_LEAST_BYTES, _LEAST_ELEMENTS = 64, 0.9
_BATCHES_S = 20.0
_CONTAINERS = (list, dict, set, deque)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Logs nothing until the end of the block: pytest keeps each record, with the frames of its error, and what grows
    with them is not the connector's. Another test's client may log as well, in a thread of its own.
    """
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def counting_objects() -> Iterator[None]:
    """Counts what Python's objects take, which makes it slower, until the end of the block. Logs nothing meanwhile."""
    is_ours = not tracemalloc.is_tracing()
    if is_ours:
        tracemalloc.start()
    try:
        with _unlogged():
            yield
    finally:
        if is_ours:
            tracemalloc.stop()


class HeldBytes:
    """What Python's objects and Arrow's buffers take more than when this was made, whatever allocators keep for later:
    the same in each run. Memory of other libraries in C is not in it. Within :func:`counting_objects`.
    """

    def __init__(self) -> None:
        gc.collect()
        self._before = self._now()

    @staticmethod
    def _now() -> int:
        return tracemalloc.get_traced_memory()[0] + int(pa.total_allocated_bytes())

    def now(self) -> int:
        """Returns what is held."""
        return self._now() - self._before

    def kept(self) -> int:
        """Returns what something refers to still."""
        gc.collect()
        return self.now()


def growth_of_batches(
    run_batch: Callable[[], object], state_bytes: Callable[[], int] = int, engines: int = 0, settles_s: float = 0.0
) -> str | None:
    """Returns what each batch adds to what this process holds, or nothing if that ends; ``None`` if it has not ended
    when there was no more time to see whether it does.

    ``state_bytes``: the size of a stored state. If it grows, as that of a source which remembers files does, elements
    prove nothing. ``engines``: how many elements the engine itself keeps of each batch. ``settles_s``: how long a
    client keeps what it has done. If each batch adds something, this has to go in that time.
    """
    until = time.monotonic() + _BATCHES_S * slowness()
    for _ in range(_WARM_UP):
        run_batch()
    with _unlogged(), _Elements() as elements:
        now = elements.count()
        for batches in _COMPARED:
            before, arrow, state = now + engines * batches, pa.total_allocated_bytes(), state_bytes()
            for _ in range(batches):
                run_batch()
                if time.monotonic() > until:
                    return None
            has_state, now = state_bytes() - state >= batches, elements.count()
            if not (added := _added(batches, now - before, pa.total_allocated_bytes() - arrow, has_state)):
                return ""
        end = time.monotonic() + settles_s
        while added and time.monotonic() < end:
            time.sleep(1)
            progress()
            added = _added(batches, elements.count() - before, pa.total_allocated_bytes() - arrow, has_state)
    return added


def _added(batches: int, elements: int, arrow: int, has_state: bool) -> str:
    more, more_bytes = elements / batches, arrow / batches
    if more_bytes < _LEAST_BYTES and (more < _LEAST_ELEMENTS or has_state):
        return ""
    return f"{more:.1f} elements of lists, sets and dictionaries, and {more_bytes:.0f} bytes of Arrow"


class _Elements:
    """Counts the elements of all containers of this process, within the block.

    What is there when it begins is looked for once, and kept from the garbage collector, which may have a million
    objects to look at in a process that has run other tests.
    """

    def __enter__(self) -> _Elements:
        self._was_frozen = gc.get_freeze_count() > 0
        gc.unfreeze()
        gc.collect()
        self._there = _containers(gc.get_objects())
        self._known = set(map(id, self._there))
        gc.freeze()
        return self

    def __exit__(self, *_: object) -> None:
        if not self._was_frozen:
            gc.unfreeze()

    def count(self) -> int:
        """Returns how many they are now."""
        gc.collect()
        new = (one for one in _containers(gc.get_objects()) if id(one) not in self._known)
        return sum(map(len, self._there)) + sum(map(len, new))


def _containers(objects: list[Any]) -> list[Any]:
    # A dictionary of texts and numbers is not among the objects: Python knows that it is in no cycle.
    untracked = {id(one): one for one in gc.get_referents(*objects) if type(one) is dict and not gc.is_tracked(one)}
    return [*(one for one in objects if issubclass(type(one), _CONTAINERS)), *untracked.values()]


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
