"""What both caches do alike: forks, files that change, closing, and a timer for what is idle."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

from penstock.printable import get_logger

__all__ = ["IDLE_S", "MOST", "Keeper", "Stamp"]

_log = get_logger("penstock")

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

#: For how many keys something is kept, and for how long without a user, unless a cache says otherwise.
MOST, IDLE_S = 16, 300.0
#: Certificate and key are written one after the other: a file that changed just now is left alone for so long.
_SETTLE_S = 2.0

#: What a file looked like: inode, size and time of its last change.
Stamp = tuple[tuple[int, int, int], ...]


class Keeper(Generic[KeyT, ValueT]):
    """The part of a cache that does not depend on how its values are shared.

    A process that was forked starts without values: connections and threads do not survive a fork, and a connection is
    the parent's. Inherited values are not touched, not even to forget them: that would end them, and write to the
    parent's sockets.
    """

    def __init__(
        self,
        make: Callable[[KeyT], ValueT],
        close: Callable[[ValueT], object] | None,
        most: int,
        idle_s: float | None,
        files: Callable[[KeyT], Iterable[str]] | None,
    ) -> None:
        self._make = make
        self._close = close
        self._most = most
        self._idle_s = idle_s
        self._files = files
        self._inherited: list[Any] = []
        self._begin()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        self._inherited.append(vars(self).copy())
        self._begin()

    def _begin(self) -> None:
        # The lock, too: another thread of the parent may have held it, and that thread is not here to release it.
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None

    def _stamp(self, key: KeyT) -> Stamp | None:
        """Returns what the key's files look like now; ``None`` for "no answer": one is away, or changed just now."""
        if self._files is None:
            return ()
        found = []
        for path in self._files(key):
            try:
                state = os.stat(path)
            except OSError:
                return None
            if 0 <= time.time() - state.st_mtime < _SETTLE_S:
                return None
            found.append((state.st_ino, state.st_size, state.st_mtime_ns))
        return tuple(found)

    def _expect_idle(self, since: float) -> None:
        """Has :meth:`_sweep` called when what is idle since then has been so for long enough. With the lock held."""
        if self._idle_s and self._timer is None:
            self._timer = threading.Timer(max(0.0, since + self._idle_s - time.monotonic()), self._sweep)
            self._timer.name = "penstock-idle"
            self._timer.daemon = True
            self._timer.start()

    def _expect_nothing(self) -> None:
        """Ends the timer, as nothing is idle. With the lock held."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        """Closes what has been idle for too long. On the timer's thread."""
        raise NotImplementedError

    def _is_idle_too_long(self, since: float) -> bool:
        return self._idle_s is not None and time.monotonic() - since >= self._idle_s

    def _close_all(self, values: Iterable[ValueT]) -> None:
        """Closes them, without the lock. A failure to close one is logged."""
        if self._close is not None:
            for value in values:
                try:
                    self._close(value)
                except Exception as error:
                    _log.warning("%s could not be closed: %s", type(value).__name__, error)
