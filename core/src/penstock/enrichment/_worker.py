"""The event loop of a worker process, and the functions that are open on it."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from typing import Any

from penstock.enrichment._cache import ResultCache
from penstock.enrichment._function import AsyncFunction
from penstock.enrichment._settings import CallSettings
from penstock.per_process import PerProcess

__all__ = ["OpenFunction", "Worker", "worker"]

#: A function that no task has used for so long is closed; the next task opens it again.
IDLE_S = 60.0
_CLOSE_S = 5.0


class OpenFunction:
    """A function that was opened, and its cache. On the event loop only."""

    def __init__(self, function: AsyncFunction, settings: CallSettings) -> None:
        self.function = function
        self.cache = ResultCache(settings.cache_rows, settings.cache_for_s) if settings.cache_rows else None
        self.users = 0
        self.opening: asyncio.Task[None] | None = None
        self.closing: asyncio.TimerHandle | None = None


class Worker:
    """One event loop in a daemon thread. Functions are known by ``token``: that of the query that uses them."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._open: dict[str, OpenFunction] = {}
        threading.Thread(target=self.loop.run_forever, name="penstock-async", daemon=True).start()
        atexit.register(self.close_all)

    def submit(self, coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Runs it on the loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    @contextlib.asynccontextmanager
    async def using(self, token: str, function: AsyncFunction, settings: CallSettings) -> AsyncIterator[OpenFunction]:
        """The function, open; opened by the first who comes. An error of its ``open`` is raised, and tried again next
        time.
        """
        found = self._open.get(token)
        if found is None:
            found = self._open[token] = OpenFunction(function, settings)
            found.opening = self.loop.create_task(function.open())
        found.users += 1
        if found.closing is not None:
            found.closing.cancel()
            found.closing = None
        try:
            assert found.opening is not None
            try:
                await asyncio.shield(found.opening)
            except Exception:
                if self._open.get(token) is found:
                    del self._open[token]
                raise
            yield found
        finally:
            found.users -= 1
            if not found.users and self._open.get(token) is found:
                found.closing = self.loop.call_later(IDLE_S, lambda: self.loop.create_task(self._close(token, found)))

    async def _close(self, token: str, found: OpenFunction) -> None:
        if not found.users and self._open.get(token) is found:
            del self._open[token]
            with contextlib.suppress(Exception):  # no task waits for it any more
                await found.function.close()

    def close_all(self) -> None:
        """Closes every function that is open, for a few seconds at most."""

        async def close() -> None:
            for token, found in list(self._open.items()):
                found.users = 0
                await self._close(token, found)

        if self.pid == os.getpid() and self.loop.is_running():
            with contextlib.suppress(Exception):
                self.submit(close()).result(_CLOSE_S)


_workers = PerProcess[None, Worker](lambda _: Worker(), idle_s=None)


def worker() -> Worker:
    """Returns the worker of this process; a forked process gets its own."""
    return _workers.get(None)
