"""What a process makes once and keeps, because connecting costs more than most calls."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, TypeVar

__all__ = ["PerProcess"]

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class PerProcess(Generic[KeyT, ValueT]):
    """Values by key, made by ``make`` when they are first asked for. Thread-safe. One for each module that keeps some.

    A process that was forked starts with none: connections and threads do not survive a fork, and a connection is the
    parent's. Inherited values are not touched, not even to forget them: that would end them, and write to the parent's
    sockets.

    ``most``: if there are more, the least recently used one is forgotten, and passed to ``close``. Without ``close``, a
    caller that still uses it may continue.
    """

    def __init__(
        self,
        make: Callable[[KeyT], ValueT],
        *,
        most: int | None = None,
        close: Callable[[ValueT], object] | None = None,
    ) -> None:
        self._make = make
        self._most = most
        self._close = close
        self._inherited: list[Any] = []
        self._values: OrderedDict[KeyT, ValueT] = OrderedDict()
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        # The lock, too: another thread of the parent may have held it, and that thread is not here to release it.
        self._inherited.append(self._values)
        self._values, self._lock = OrderedDict(), threading.Lock()

    def get(self, key: KeyT) -> ValueT:
        """Returns the value for ``key``. Raises what ``make`` raises, and then keeps nothing.

        Others wait meanwhile, whichever key they ask for. They do not wait for the one that makes room to be closed.
        """
        surplus: list[ValueT] = []
        with self._lock:
            if key not in self._values:
                self._values[key] = self._make(key)
            self._values.move_to_end(key)
            value = self._values[key]
            if self._most is not None and len(self._values) > self._most:
                surplus.append(self._values.popitem(last=False)[1])
        self._close_all(surplus)
        return value

    def forget(self, key: KeyT, *, only: ValueT | None = None) -> ValueT | None:
        """Returns the value for ``key`` if there is one. The next who asks for it gets a new one.

        ``only``: it is forgotten if it is this one, and not the one that another thread has made since.
        """
        with self._lock:
            if only is not None and self._values.get(key) is not only:
                return None
            return self._values.pop(key, None)

    def clear(self) -> None:
        """Forgets every value, and closes it."""
        with self._lock:
            forgotten, self._values = list(self._values.values()), OrderedDict()
        self._close_all(forgotten)

    def _close_all(self, values: Iterable[ValueT]) -> None:
        if self._close is not None:
            for value in values:
                self._close(value)

    def keys(self) -> list[KeyT]:
        """Returns the keys of the values that are kept now."""
        with self._lock:
            return list(self._values)
