"""What the protocol takes from the system: time, names and threads. A simulation puts its own in their place."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["System", "in_parallel", "system", "use"]

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


class System:
    """The real one. Thread-safe."""

    def now_us(self) -> int:
        """Microseconds since 1970, by this machine's clock, which may jump."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Returns after ``seconds``."""
        time.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        """Returns a number between the two, at random."""
        return random.uniform(low, high)  # noqa: S311 - spreads pauses, keeps no secret

    def new_id(self) -> str:
        """Returns 32 hex digits that are unique."""
        return uuid.uuid4().hex

    def executor(self, threads: int, name: str) -> Executor:
        """Threads of this process, to be shut down by the caller."""
        return ThreadPoolExecutor(max(1, threads), name)


_REAL = System()
_used: System = _REAL


def system() -> System:
    """Returns the system in use."""
    return _used


def use(replacement: System | None) -> None:
    """Uses ``replacement`` from now on in this process; with ``None``, the real one again."""
    global _used
    _used = replacement or _REAL


def in_parallel(
    work: Callable[[ItemT], AnswerT], items: Iterable[ItemT], threads: int, name: str = "penstock-requests"
) -> list[AnswerT]:
    """Returns ``work`` of each item, in order: for requests that wait for a server, and not for each other.

    At most ``threads`` run at once, which are called ``name``; a single item is done by the caller's own. If one fails,
    its error is raised when all have ended, and those that have not begun are left out.
    """
    waiting = list(items)
    if len(waiting) < 2:
        return [work(item) for item in waiting]
    with system().executor(min(threads, len(waiting)), name) as pool:
        futures = [pool.submit(work, item) for item in waiting]
        try:
            return [future.result() for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise
