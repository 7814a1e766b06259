"""Requests in flight: a bounded number, tried again with growing pauses."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from penstock.errors import BadConfigurationError, PenstockError, RetriableError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.retry import RetryPolicy
from penstock_cassandra.client import Client, RawRows, RowsBatch, Throttle, translate, was_not_applied
from penstock_cassandra.sink._rows import Request

__all__ = ["RequestDispatcher"]

_log = get_logger("penstock.cassandra")
_POLL_S = 0.05
_SAY_EVERY_S = 10.0


@dataclass(order=True)
class _Waiting:
    """A request that is sent again at ``due``."""

    due: float
    number: int
    request: Request = field(compare=False)
    since: float = field(compare=False)
    failures: int = field(compare=False)


class RequestDispatcher:
    """Used by one thread; the driver's calls back. Memory: ``max_in_flight`` requests, and the rows they point to.

    ``refused`` is called with a single row that the server does not take (its request, the reason); it may raise. With
    ``repeatable`` false a request whose fate is unknown is not sent again.
    """

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        refused: Callable[[Request, str], None],
        *,
        max_in_flight: int,
        retry: RetryPolicy,
        rows_per_second: int | None,
        counters: bool = False,
        repeatable: bool = True,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._refused = refused
        self._max_in_flight = max_in_flight
        self._retry = retry
        self._throttle = Throttle(rows_per_second)
        self._counters = counters
        self._repeatable = repeatable
        self._changed = threading.Condition()
        self._in_flight = 0
        self._ended: list[tuple[Request, float, int, Any, BaseException | None]] = []
        self._again: list[_Waiting] = []
        self._numbers = itertools.count()
        self._say_again = 0.0

    def send(self, request: Request) -> None:
        """Sends a request and returns; waits for room first. Raises what an earlier request failed with."""
        while (pause := self._throttle.wait_s()) > 0:
            time.sleep(min(pause, _POLL_S))
            self._look(0)
        while self._in_flight >= self._max_in_flight or self._again:
            self._look(_POLL_S)
        self._throttle.add(request.count)
        self._start(request, time.monotonic(), 0)

    def drain(self) -> None:
        """Returns when everything was answered. Raises as :meth:`send` does."""
        while self._in_flight or self._ended or self._again:
            self._look(_POLL_S)

    def _start(self, request: Request, since: float, failures: int) -> None:
        batch = RowsBatch(
            request.count, request.body, request.timestamp_us, request.routing_key, counters=self._counters
        )
        with self._changed:
            self._in_flight += 1
        try:
            future = self._client.session.execute_async(batch)
        except Exception as error:  # no connection: the driver says so at once
            self._end(request, since, failures, None, error)
            return
        future.add_callbacks(
            lambda rows: self._end(request, since, failures, rows, None),
            lambda error: self._end(request, since, failures, None, error),
        )

    def _end(self, request: Request, since: float, failures: int, rows: Any, error: BaseException | None) -> None:
        with self._changed:
            self._in_flight -= 1
            self._ended.append((request, since, failures, rows, error))
            self._changed.notify()

    def _look(self, timeout_s: float) -> None:
        """Handles what was answered, and sends again what is due."""
        with self._changed:
            if not self._ended:
                self._changed.wait(timeout_s)
            ended, self._ended = self._ended, []
        for request, since, failures, rows, error in ended:
            if error is None:
                self._count_applied(rows)
            else:
                self._handle(
                    request,
                    since,
                    failures,
                    translate(error, "writing rows"),
                    repeatable=self._repeatable or was_not_applied(error),
                )
        while self._again and self._again[0].due <= time.monotonic() and self._in_flight < self._max_in_flight:
            one = heapq.heappop(self._again)
            self._start(one.request, one.since, one.failures)

    def _count_applied(self, rows: Any) -> None:
        # A conditional write answers with a row that begins with whether it was applied: a cell of one byte.
        if isinstance(rows, RawRows) and rows.count and len(rows.body) > 4 and rows.body[4] == 0:
            self._metrics.add("rows_not_applied")

    def _say(self, error: PenstockError) -> None:
        """One line for all requests in flight, in ten seconds."""
        now = time.monotonic()
        if now >= self._say_again:
            self._say_again = now + _SAY_EVERY_S
            _log.warning("%s; trying again for up to %.0f s (retryTimeout)", error, self._retry.timeout_s)

    def _handle(self, request: Request, since: float, failures: int, error: PenstockError, *, repeatable: bool) -> None:
        if isinstance(error, RetriableError):
            lasted = time.monotonic() - since
            if not repeatable or not self._retry.timeout_s:
                raise error
            if lasted > self._retry.timeout_s:
                raise self._retry.exhausted(str(error), failures + 1, lasted) from error
            self._say(error)
            self._metrics.add("retries")
            due = time.monotonic() + self._retry.pause_s(failures)
            heapq.heappush(self._again, _Waiting(due, next(self._numbers), request, since, failures + 1))
        elif isinstance(error, BadConfigurationError) and "may not do that" not in str(error):
            # The server does not take the request: too large, or a row of it is bad.
            if request.count == 1:
                self._refused(request, str(error))
                return
            for half in request.halves():
                heapq.heappush(self._again, _Waiting(0.0, next(self._numbers), half, since, failures))
        else:
            raise error
