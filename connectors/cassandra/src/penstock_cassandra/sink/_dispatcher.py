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
from penstock.retry import Retries, RetryPolicy
from penstock_cassandra.client import Client, RawRows, RowsBatch, Throttle, translate, was_not_applied
from penstock_cassandra.sink._rows import Request

__all__ = ["RequestDispatcher"]

_POLL_S = 0.05


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

    ``on_rejected`` is called with a single row that the server does not take (its request, the reason); it may raise.
    ``check_table`` is called before that, and raises if it is not the rows that the server does not take.
    With ``repeatable`` false a request whose fate is unknown is not sent again.
    """

    def __init__(
        self,
        client: Client,
        metrics: Metrics,
        on_rejected: Callable[[Request, str], None],
        check_table: Callable[[], None],
        *,
        max_in_flight: int,
        retry: RetryPolicy,
        rows_per_second: int | None,
        counters: bool = False,
        repeatable: bool = True,
    ) -> None:
        self._client = client
        self._metrics = metrics
        self._on_rejected = on_rejected
        self._check_table = check_table
        self._max_in_flight = max_in_flight
        self._retries = Retries(retry, metrics=metrics)
        self._throttle = Throttle(rows_per_second)
        self._counters = counters
        self._repeatable = repeatable
        self._changed = threading.Condition()
        self._in_flight = 0
        #: Of those in flight: how many are sent again.
        self._repeated = 0
        self._answered: list[tuple[Request, float, int, Any, BaseException | None]] = []
        self._waiting: list[_Waiting] = []
        self._numbers = itertools.count()

    def send(self, request: Request) -> None:
        """Sends a request and returns; waits for room first. Raises what an earlier request failed with."""
        while (pause := self._throttle.wait_s()) > 0:
            time.sleep(min(pause, _POLL_S))
            self._handle_answers(0)
        while self._in_flight >= self._max_in_flight or self._waiting:
            self._handle_answers(_POLL_S)
        self._throttle.add(request.count)
        self._start(request, time.monotonic(), 0)

    def drain(self) -> None:
        """Returns when everything was answered. Raises as :meth:`send` does."""
        while self._in_flight or self._answered or self._waiting:
            self._handle_answers(_POLL_S)

    def _start(self, request: Request, since: float, failures: int) -> None:
        batch = RowsBatch(
            request.count, request.body, request.timestamp_us, request.routing_key, counters=self._counters
        )
        with self._changed:
            self._in_flight += 1
        try:
            future = self._client.session.execute_async(batch)
        except Exception as error:  # no connection: the driver says so at once
            self._on_answer(request, since, failures, None, error)
            return
        future.add_callbacks(
            lambda rows: self._on_answer(request, since, failures, rows, None),
            lambda error: self._on_answer(request, since, failures, None, error),
        )

    def _on_answer(self, request: Request, since: float, failures: int, rows: Any, error: BaseException | None) -> None:
        with self._changed:
            self._in_flight -= 1
            self._answered.append((request, since, failures, rows, error))
            self._changed.notify()

    def _handle_answers(self, timeout_s: float) -> None:
        """Handles what was answered, and sends again what is due."""
        with self._changed:
            if not self._answered:
                self._changed.wait(timeout_s)
            answered, self._answered = self._answered, []
        if any(error is not None and _is_refusal(error) for *_, error in answered):  # once: all were answered before
            self._check_table()
        for request, since, failures, rows, error in answered:
            self._repeated -= failures > 0
            if error is None:
                self._count_applied(rows)
            else:
                repeatable = self._repeatable or was_not_applied(error)
                self._handle_failure(request, since, failures, translate(error, "writing rows"), repeatable=repeatable)
        if answered and not self._waiting and not self._repeated:
            self._retries.worked()
        while self._waiting and self._waiting[0].due <= time.monotonic() and self._in_flight < self._max_in_flight:
            one = heapq.heappop(self._waiting)
            self._repeated += one.failures > 0
            self._start(one.request, one.since, one.failures)

    def _count_applied(self, rows: Any) -> None:
        # A conditional write answers with a row that begins with whether it was applied: a cell of one byte.
        if isinstance(rows, RawRows) and rows.count and len(rows.body) > 4 and rows.body[4] == 0:
            self._metrics.add("rows_not_applied")

    def _handle_failure(
        self, request: Request, since: float, failures: int, error: PenstockError, *, repeatable: bool
    ) -> None:
        if isinstance(error, RetriableError):
            if not repeatable:
                raise error
            due = time.monotonic() + self._retries.failed(error, since=since, failures=failures)
            heapq.heappush(self._waiting, _Waiting(due, next(self._numbers), request, since, failures + 1))
        elif _is_refusal(error):
            # The server does not take the request: too large, or a row of it is bad.
            if request.count == 1:
                self._on_rejected(request, str(error))
                return
            for half in request.halves():
                heapq.heappush(self._waiting, _Waiting(0.0, next(self._numbers), half, since, failures))
        else:
            raise error


def _is_refusal(error: BaseException) -> bool:
    """Returns whether the server does not take what a request holds. A user without the right is not its fault."""
    translated = translate(error, "writing rows")
    return isinstance(translated, BadConfigurationError) and "may not do that" not in str(translated)
