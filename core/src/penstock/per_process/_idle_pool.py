"""Values that one user has at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from penstock.per_process._keeper import IDLE_S, Keeper, Stamp

__all__ = ["IdlePool"]

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class IdlePool(Keeper[KeyT, ValueT]):
    """Lends values, each to one user at a time, and keeps those that were released. Thread-safe.

    ``make`` and ``files`` are as for :class:`PerProcess`. At most ``most`` values are idle: the one that was idle for
    the longest is closed when there are more, and each after ``idle_s`` seconds (``None``: never).
    """

    def __init__(
        self,
        make: Callable[[KeyT], ValueT],
        *,
        close: Callable[[ValueT], object],
        most: int,
        idle_s: float | None = IDLE_S,
        files: Callable[[KeyT], Iterable[str]] | None = None,
    ) -> None:
        super().__init__(make, close, most, idle_s, files)

    def _begin(self) -> None:
        super()._begin()
        #: Since when it is idle, its key, what its files looked like, the value; the one that is idle longest first.
        self._idle: list[tuple[float, KeyT, Stamp | None, ValueT]] = []
        #: What is lent, by the identity of the value.
        self._lent: dict[int, tuple[KeyT, Stamp | None]] = {}

    def acquire(self, key: KeyT) -> ValueT:
        """Returns an idle value for ``key``, or a new one. Raises what ``make`` raises. Release it, or discard it."""
        stamp = self._stamp(key)
        with self._lock:
            of_key = [one for one in self._idle if one[1] == key]
            good = [one for one in of_key if stamp is None or one[2] in (None, stamp)]
            surplus = [one for one in of_key if one not in good]
            found = good[-1:]
            self._idle = [one for one in self._idle if one not in surplus and one not in found]
        self._close_all(one[3] for one in surplus)
        value = found[0][3] if found else self._make(key)
        with self._lock:
            self._lent[id(value)] = (key, found[0][2] or stamp if found else stamp)
        return value

    def release(self, value: ValueT) -> None:
        """Keeps the value for the next user. Does nothing for one that is not lent, or was lent before a fork."""
        with self._lock:
            lent = self._lent.pop(id(value), None)
            if lent is None:
                return
            self._idle.append((time.monotonic(), *lent, value))
            surplus, self._idle = self._idle[: -self._most], self._idle[-self._most :]
            self._expect_idle(self._idle[0][0])
        self._close_all(one[3] for one in surplus)

    def discard(self, value: ValueT) -> None:
        """Has the value not lent again. The caller closes it."""
        with self._lock:
            self._lent.pop(id(value), None)

    def _sweep(self) -> None:
        with self._lock:
            self._timer = None
            closing = [one for one in self._idle if self._is_idle_too_long(one[0])]
            self._idle = self._idle[len(closing) :]
            if self._idle:
                self._expect_idle(self._idle[0][0])
        self._close_all(one[3] for one in closing)

    def clear(self) -> None:
        """Closes what is idle."""
        with self._lock:
            closing, self._idle = self._idle, []
            self._expect_nothing()
        self._close_all(one[3] for one in closing)

    def idle(self) -> list[ValueT]:
        """Returns what is idle now, the one that is idle longest first."""
        with self._lock:
            return [one[3] for one in self._idle]
