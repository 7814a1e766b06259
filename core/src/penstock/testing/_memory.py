"""How much memory something takes, measured from outside of it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.testing._resident import resident_bytes

__all__ = ["peak_growth_bytes"]


def peak_growth_bytes(work: Callable[[], object]) -> int:
    """By how much this process was larger at its largest, while ``work`` ran, than before. Looks every 10 ms."""
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
