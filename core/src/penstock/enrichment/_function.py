"""What a user writes to ask another system about rows."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from penstock.errors import BadConfigurationError

__all__ = ["AsyncFunction", "as_function"]


class AsyncFunction(ABC):
    """Asks another system about a row, or a group of rows. Pickled to the tasks; there it is opened once for a worker
    process, and all its methods run on one event loop, in a thread of their own: they must not block.

    ::

        class Score(AsyncFunction):
            async def open(self):
                self.http = httpx.AsyncClient()

            async def invoke(self, row):
                return {"score": (await self.http.get(f"https://…/{row['id']}")).json()["score"]}

            async def close(self):
                await self.http.aclose()
    """

    async def open(self) -> None:  # noqa: B027 - most have nothing to do
        """Makes clients. An error is one of every call of the task."""

    @abstractmethod
    async def invoke(self, row: Any) -> Any:
        """Returns the new columns of ``row`` (its columns by name) as a mapping; ``None``: nulls.

        With groups ``row`` is a list of rows, and the result a list of as many.
        """

    async def close(self) -> None:  # noqa: B027
        """Closes clients. Called when no task of the process has used them for a while, and before it ends if Python
        gets to know.
        """


class _Coroutine(AsyncFunction):
    def __init__(self, call: Callable[[Any], Any]) -> None:
        self._call = call

    async def invoke(self, row: Any) -> Any:
        return await self._call(row)

    def __repr__(self) -> str:
        return _name(self._call)


class _Blocking(AsyncFunction):
    """Runs calls in threads, one for each. A call that is given up continues in its thread: nothing can stop it."""

    def __init__(self, call: Callable[[Any], Any], threads: int) -> None:
        self._call = call
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="penstock-call")

    async def invoke(self, row: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._call, row)

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def __repr__(self) -> str:
        return _name(self._call)


def _name(call: Callable[..., Any]) -> str:
    return getattr(call, "__qualname__", None) or repr(call)


def as_function(function: AsyncFunction | Callable[[Any], Any], capacity: int) -> AsyncFunction:
    """Returns a coroutine function as it is; any other function is called in threads. Raises BadConfigurationError."""
    if isinstance(function, AsyncFunction):
        return function
    if not callable(function):
        raise BadConfigurationError(f"{function!r} can't be called: give an AsyncFunction or a function of a row")
    call = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    return _Coroutine(function) if inspect.iscoroutinefunction(call) else _Blocking(function, capacity)
