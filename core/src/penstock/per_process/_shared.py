"""Values that many use at once."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, TypeVar

from penstock.per_process._keeper import IDLE_S, MOST, Keeper, Stamp

__all__ = ["PerProcess"]

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class _Entry(Generic[KeyT, ValueT]):
    """A value, made or not yet. Guarded by the cache's lock, except for ``making``: one thread makes it."""

    def __init__(self, key: KeyT, stamp: Stamp | None) -> None:
        self.key = key
        self.making = threading.Lock()
        self.values: list[ValueT] = []
        self.stamp = stamp
        self.users = 0
        self.used = 0.0


class PerProcess(Keeper[KeyT, ValueT]):
    """Values by key, made by ``make`` when they are first asked for, and shared. Thread-safe. A module keeps one.

    The key holds everything that changes what is made. ``files`` returns the paths of what the key only names
    (certificates, keys): when one of them has changed, a new value takes the place of the old.

    Values are closed (``close``) once they have no user any more: those that had none for ``idle_s`` seconds
    (``None``: never; 0: at once), those that make room because there are more than ``most`` (the one that was not used
    for the longest, rather one without users), and those that are forgotten, are not ``usable`` any more, or were made
    from other files. So there are never more than ``most`` and those in use.
    """

    def __init__(
        self,
        make: Callable[[KeyT], ValueT],
        *,
        close: Callable[[ValueT], object] | None = None,
        most: int = MOST,
        idle_s: float | None = IDLE_S,
        files: Callable[[KeyT], Iterable[str]] | None = None,
        usable: Callable[[ValueT], bool] | None = None,
    ) -> None:
        super().__init__(make, close, most, idle_s, files)
        self._usable = usable

    def _begin(self) -> None:
        super()._begin()
        #: What is handed out, the one that was used last at the end.
        self._entries: OrderedDict[KeyT, _Entry[KeyT, ValueT]] = OrderedDict()
        #: What was acquired, by the identity of the value; also what is not handed out any more.
        self._in_use: dict[int, _Entry[KeyT, ValueT]] = {}

    def get(self, key: KeyT) -> ValueT:
        """Returns the value for ``key``, for a short use or one that a closed value survives.

        Raises what ``make`` raises, and then keeps nothing. Others who ask for the same key wait meanwhile.
        """
        with self.using(key) as value:
            return value

    @contextlib.contextmanager
    def using(self, key: KeyT) -> Iterator[ValueT]:
        """The value for ``key``, which is not closed before the end of the block. Raises as :meth:`get` does."""
        entry = self._enter(key)
        try:
            yield entry.values[0]
        finally:
            self._leave(entry, useful=True)

    def acquire(self, key: KeyT) -> ValueT:
        """Returns the value for ``key``, which is not closed before it is released. Raises as :meth:`get` does.

        Values that are acquired are objects of their own for each key.
        """
        entry = self._enter(key)
        with self._lock:
            self._in_use[id(entry.values[0])] = entry
        return entry.values[0]

    def release(self, value: ValueT, *, useful: bool = True) -> None:
        """Ends one use of an acquired value. What is not ``useful`` is not handed out again.

        Does nothing for a value that was acquired before the process was forked: it is the parent's.
        """
        with self._lock:
            entry = self._in_use.get(id(value))
        if entry is not None:
            self._leave(entry, useful=useful)

    def _enter(self, key: KeyT) -> _Entry[KeyT, ValueT]:
        """Returns the entry of ``key`` with one more user, and its value made."""
        entry = self._entry_of(key)
        try:
            with entry.making:
                if not entry.values:
                    entry.values.append(self._make(key))
        except BaseException:
            self._leave(entry, useful=False)
            raise
        return entry

    def _entry_of(self, key: KeyT) -> _Entry[KeyT, ValueT]:
        stamp = self._stamp(key)
        with self._lock:
            entry = self._entries.get(key)
            surplus = []
            if entry is not None and entry.values and not self._is_good(entry, stamp):
                surplus.append(entry)
                del self._entries[key]
                entry = None
            if entry is None:
                entry = self._entries[key] = _Entry(key, stamp)
            entry.users += 1
            self._entries.move_to_end(key)
            if len(self._entries) > self._most:
                idle = next((one for one, other in self._entries.items() if not other.users), None)
                surplus.append(self._entries.pop(next(iter(self._entries)) if idle is None else idle))
            closing = [value for one in surplus if not one.users for value in one.values]
        self._close_all(closing)
        return entry

    def _is_good(self, entry: _Entry[KeyT, ValueT], stamp: Stamp | None) -> bool:
        if self._usable is not None and not self._usable(entry.values[0]):
            return False
        if entry.stamp is None:  # made while its files were being written: the next who knows says what they are
            entry.stamp = stamp
        return stamp is None or entry.stamp == stamp

    def _leave(self, entry: _Entry[KeyT, ValueT], *, useful: bool) -> None:
        with self._lock:
            entry.users -= 1
            entry.used = time.monotonic()
            closing: list[ValueT] = []
            is_kept = self._entries.get(entry.key) is entry
            if is_kept and (not useful or (not entry.users and self._idle_s == 0)):
                del self._entries[entry.key]
                is_kept = False
            if not entry.users:
                for value in entry.values:
                    self._in_use.pop(id(value), None)
                if not is_kept:
                    closing = entry.values
                elif entry.values:
                    self._expect_idle(entry.used)
        self._close_all(closing)

    def _sweep(self) -> None:
        with self._lock:
            self._timer = None
            idle = {key: one for key, one in self._entries.items() if not one.users}
            closing = {key: one for key, one in idle.items() if self._is_idle_too_long(one.used)}
            for key in closing:
                del self._entries[key], idle[key]
            if idle:
                self._expect_idle(min(one.used for one in idle.values()))
        self._close_all(value for one in closing.values() for value in one.values)

    def forget(self, key: KeyT) -> None:
        """Has the next who asks for ``key`` get a new value. The old one is closed when its last user releases it."""
        with self._lock:
            entry = self._entries.pop(key, None)
            closing = entry.values if entry is not None and not entry.users else []
        self._close_all(closing)

    def clear(self) -> None:
        """Forgets every value."""
        for key in self.keys():
            self.forget(key)

    def keys(self) -> list[KeyT]:
        """Returns the keys of the values that are kept now."""
        with self._lock:
            return list(self._entries)
