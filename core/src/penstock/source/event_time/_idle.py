"""Partitions, segments or splits of another name that bring nothing, and must not hold the others back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from penstock.source.event_time._iso import iso_time

__all__ = ["IdleTracker", "describe_alignment"]

KeyT = TypeVar("KeyT", bound=Hashable)


class IdleTracker(Generic[KeyT]):
    """Says which splits are idle: their end has not moved for ``idle_timeout_ms``. One thread at a time.

    The clock (seconds) starts with the process. Memory: two numbers for each split.
    """

    def __init__(self, idle_timeout_ms: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout_s = idle_timeout_ms / 1000
        self._clock = clock
        self._ends: dict[KeyT, tuple[int, float]] = {}

    def track(self, ends: Mapping[KeyT, int]) -> tuple[list[KeyT], list[KeyT]]:
        """Takes in where every split ends now. Returns the splits that are new, and those that are gone."""
        now = self._clock()
        new = [key for key in ends if key not in self._ends]
        gone = [key for key in self._ends if key not in ends]
        for key, end in ends.items():
            if key not in self._ends or self._ends[key][0] != end:
                self._ends[key] = (end, now)
        for key in gone:
            del self._ends[key]
        return new, gone

    def idle(self, silent: Iterable[KeyT]) -> list[KeyT]:
        """Returns those of ``silent``, splits that have nothing to read, which are not waited for any more."""
        now = self._clock()
        return [key for key in silent if now - self._ends[key][1] >= self._timeout_s]


def describe_alignment(
    reached: Mapping[Any, float], held: Collection[Any], idle: Collection[Any], name: Callable[[Any], str] = str
) -> dict[str, Any]:
    """Returns what :meth:`SplitEnumerator.describe_event_time` says. ``reached`` is the latest time (ms since the
    epoch) that was handed out of each split that has one; ``name`` shows a split to a person.
    """
    return {
        "frontiers": {name(key): iso_time(ms) for key, ms in sorted(reached.items())},
        "held": [name(key) for key in sorted(held)],
        "idle": [name(key) for key in sorted(idle)],
    }
