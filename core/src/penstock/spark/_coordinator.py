"""The enumerator's context: background calls whose results are handled in the coordinator thread."""

from __future__ import annotations

import contextlib
import functools
import queue
import threading
import time
from collections.abc import Callable
from typing import NoReturn, TypeVar

from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy

__all__ = ["Coordinator"]

ResultT = TypeVar("ResultT")


class Coordinator:
    """Implements :class:`penstock.source.EnumeratorContext`.

    The coordinator thread is the one that calls the enumerator (in Spark: the main thread of the stream reader's
    process). Handlers wait in a queue until it comes by in :meth:`run_handlers`.
    """

    def __init__(
        self, metrics: Metrics | None = None, *, parallelism: int = 1, retry: RetryPolicy = NO_RETRIES
    ) -> None:
        self._metrics = metrics or Metrics()
        self._parallelism = parallelism
        self._retry = retry
        self._handlers: queue.Queue[Callable[[], None]] = queue.Queue()
        self._closed = threading.Event()

    @property
    def metrics(self) -> Metrics:
        """Counters of the source's driver side."""
        return self._metrics

    @property
    def parallelism(self) -> int:
        """Slots of the engine."""
        return self._parallelism

    @property
    def retry(self) -> RetryPolicy:
        """By the option ``retryTimeout``."""
        return self._retry

    def call_async(
        self,
        call: Callable[[], ResultT],
        handler: Callable[[ResultT | None, BaseException | None], None],
        *,
        interval_ms: int | None = None,
    ) -> None:
        """Each use has a daemon thread of its own."""

        def once() -> None:
            result: ResultT | None = None
            failure: BaseException | None = None
            try:
                result = call()
            except BaseException as error:  # given to the handler
                failure = error
            self._handlers.put(lambda: handler(result, failure))

        def repeat() -> None:
            while not self._closed.is_set():
                once()
                if interval_ms is None or self._closed.wait(interval_ms / 1000):
                    return

        threading.Thread(target=repeat, name="penstock-coordinator", daemon=True).start()

    def run_handlers(self, *, keep_failure: bool = False) -> None:
        """Handles the results that are there. Coordinator thread.

        ``keep_failure``: the first error of a handler is raised by the next call, where it can be dealt with.
        """
        while True:
            try:
                handler = self._handlers.get_nowait()
            except queue.Empty:
                return
            try:
                handler()
            except Exception as error:
                if not keep_failure:
                    raise
                self._handlers.put(functools.partial(_raise, error))
                return

    def await_result(self, timeout_s: float) -> None:
        """Handles the next result, once it is there; returns without one after ``timeout_s``. Coordinator thread."""
        with contextlib.suppress(queue.Empty):
            self._handlers.get(timeout=timeout_s)()

    def await_handlers(self, until: Callable[[], bool], timeout_ms: int) -> bool:
        deadline = time.monotonic() + timeout_ms / 1000
        self.run_handlers()
        while not until():
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return False
            try:
                self._handlers.get(timeout=min(remaining, 0.5))()
            except queue.Empty:
                continue
        return True

    def close(self) -> None:
        """Ends the repetition of background calls; a call that is running ends by itself."""
        self._closed.set()


def _raise(error: Exception) -> NoReturn:
    raise error
