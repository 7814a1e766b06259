"""Questions to the brokers that are asked again while a broker is away or busy."""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from kafka.errors import KafkaError, KafkaTimeoutError

from penstock_kafka.client._errors import NOT_AUTHENTICATED, request_error
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.broker._errors import ProblemError, problem_of, words_of
from penstock_kafka.client.broker._features import Feature, has, require
from penstock_kafka.client.broker._pool import Connections, acquire, release
from penstock_kafka.client.broker._settings import connection_settings

__all__ = ["RetryingBrokers"]

AnswerT = TypeVar("AnswerT")

_TRIES_FOR_S = 60.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
#: Up to here patience and the time of a first try grow over a slow network.
_SLOW_S = 16.0
_CONNECTION_LOST = NOT_AUTHENTICATED | {"REQUEST_TIMED_OUT"}


class RetryingBrokers:
    """The brokers of a cluster, asked with patience. Thread-safe; connects when first asked.

    The connections are those that the clients of the process share. They stay open between questions.
    """

    def __init__(
        self, config: ClientConfig, *, patience_s: float | None = None, first_try_s: float | None = None
    ) -> None:
        """``config`` is in librdkafka's spelling. ``patience_s``: how long to ask, a minute by default.

        ``first_try_s``: how long the first try may take, and each next one twice as long as the previous: so another
        broker is asked in time if one takes the question and is silent. By default a try takes as long as its requests.

        Over a slow network both grow to 16 s, or a caller that asks again would fail each time: patience doubles with
        each question that no broker has answered, until one does; a first try may take twice as long as the last
        answer took.
        """
        self._settings = connection_settings(config)
        self._servers = config.get("bootstrap.servers", "")
        self._patience_s = _TRIES_FOR_S if patience_s is None else patience_s
        self._first_try_s = first_try_s
        #: Guards what follows.
        self._lock = threading.Lock()
        #: What is kept open for the next question.
        self._kept: Connections | None = None
        #: How often it was closed: a question that outlives that keeps nothing open.
        self._closed = 0
        #: What patience has grown to since the last answer, and how long that one took.
        self._grown_s, self._answered_in_s = self._patience_s, 0.0

    def ask(self, question: Callable[[Connections], Awaitable[AnswerT]], what: str) -> AnswerT:
        """Returns the answer to ``question``, which the connections' loop runs, as often as it takes.

        After a try that broke, new connections are made. Raises :class:`penstock.errors.RetriableError` when patience
        ends, :class:`penstock.errors.BadConfigurationError` for a refusal and :class:`penstock.errors.FatalError` for
        what will not pass. ``what`` is a verb with its object, for the messages.
        """
        with self._lock:
            closed, patience_s, first_try_s = self._closed, self._grown_s, self._first_try_s
            if first_try_s is not None:
                first_try_s = max(first_try_s, min(2 * self._answered_in_s, _SLOW_S))
        began = time.monotonic()
        deadline, pause, try_s = began + patience_s, _PAUSE_S, first_try_s
        while True:
            # A use of its own for each try: another thread that gives the connections up does not close them.
            connections, are_useful = acquire(self._settings), False
            try:
                connections.open(deadline)
                asked = time.monotonic()
                answer: AnswerT = connections.client.run(question, connections, timeout_s=try_s)
                are_useful = True
                self._answered(time.monotonic() - asked)
                return answer
            except (ProblemError, KafkaError, OSError) as error:
                if isinstance(error, ProblemError):
                    problem = error.problem
                else:
                    problem = connections.advised(replace(problem_of(error), text=words_of(error)))
                # After a broker's answer, even a refusal: what is wrong is not the connection. And a try whose time is
                # over says little at first, or where connecting again would take as long.
                is_early = (
                    isinstance(error, KafkaTimeoutError)
                    and try_s is not None
                    and (try_s == first_try_s or try_s < 3 * connections.connected_in_s)
                )
                are_useful = is_early or (problem.code[0] != "_" and problem.code not in _CONNECTION_LOST)
                hopeless = isinstance(error, ProblemError) and error.hopeless
                if not problem.retriable or hopeless or time.monotonic() + pause > deadline:
                    self._not_answered(patience_s)
                    asked_s = time.monotonic() - began if hopeless else patience_s
                    raise request_error(problem, what, self._servers, round(asked_s, 1)) from error
            finally:
                self._keep(connections if are_useful else None, closed)
                if not are_useful:
                    release(connections, useful=False)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            try_s = None if try_s is None else 2 * try_s

    def require(self, feature: Feature) -> None:
        """Raises BadConfigurationError, which says what to do instead, if the brokers can't do it."""

        async def question(brokers: Connections) -> None:
            require(brokers.client, feature)

        self.ask(question, f"see whether they can {feature.does}")

    def has(self, feature: Feature) -> bool:
        """Returns whether the brokers can do it."""

        async def question(brokers: Connections) -> bool:
            return has(brokers.client, feature)

        return self.ask(question, f"see whether they can {feature.does}")

    def _answered(self, took_s: float) -> None:
        with self._lock:
            self._grown_s, self._answered_in_s = self._patience_s, took_s

    def _not_answered(self, patience_s: float) -> None:
        with self._lock:
            self._grown_s = max(self._patience_s, min(2 * patience_s, _SLOW_S))

    def _keep(self, connections: Connections | None, closed: int) -> None:
        """Keeps one use of the connections for the next question, and ends that of those that were kept."""
        with self._lock:
            ended = connections
            if closed == self._closed:
                ended, self._kept = self._kept, connections
        if ended is not None:
            release(ended, useful=True)

    def close(self) -> None:
        """Ends the use of the connections; the next request reopens them. Does not wait for one that is asked."""
        with self._lock:
            self._closed += 1
            ended, self._kept = self._kept, None
        if ended is not None:
            release(ended, useful=True)
