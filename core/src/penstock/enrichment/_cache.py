"""Results by key, the newest of them, for a while."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

__all__ = ["ResultCache"]


class ResultCache:
    """At most ``rows`` keys, those used last, each for ``for_s`` seconds. For one event loop.

    It holds futures, so that a key that is being asked for is not asked for again.
    """

    def __init__(self, rows: int, for_s: float) -> None:
        self._rows = rows
        self._for_s = for_s
        self._entries: OrderedDict[Hashable, tuple[float, asyncio.Future[Any]]] = OrderedDict()

    def get(self, key: Hashable, now: float) -> asyncio.Future[Any] | None:
        """``None`` if it is not there, or too old."""
        found = self._entries.get(key)
        if found is None:
            return None
        until, future = found
        if now >= until:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return future

    def put(self, key: Hashable, future: asyncio.Future[Any], now: float) -> None:
        """Another one goes if it is full."""
        self._entries[key] = (now + self._for_s, future)
        self._entries.move_to_end(key)
        while len(self._entries) > self._rows:
            self._entries.popitem(last=False)

    def drop(self, key: Hashable, future: asyncio.Future[Any]) -> None:
        """Drops a failed entry."""
        found = self._entries.get(key)
        if found is not None and found[1] is future:
            del self._entries[key]
