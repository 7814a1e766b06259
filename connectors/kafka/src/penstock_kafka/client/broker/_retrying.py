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
from penstock_kafka.client.broker._pool import Connections, acquire, release
from penstock_kafka.client.broker._settings import connection_settings

__all__ = ["RetryingBrokers"]

AnswerT = TypeVar("AnswerT")

_TRIES_FOR_S = 60.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
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

    def ask(self, question: Callable[[Connections], Awaitable[AnswerT]], what: str) -> AnswerT:
        """Returns the answer to ``question``, which the connections' loop runs, as often as it takes.

        After a try that broke, new connections are made. Raises :class:`penstock.errors.RetriableError` when patience
        ends, :class:`penstock.errors.BadConfigurationError` for a refusal and :class:`penstock.errors.FatalError` for
        what will not pass. ``what`` is a verb with its object, for the messages.
        """
        deadline, pause, try_s = time.monotonic() + self._patience_s, _PAUSE_S, self._first_try_s
        closed = self._closed
        while True:
            # A use of its own for each try: another thread that gives the connections up does not close them.
            connections, are_useful = acquire(self._settings), False
            try:
                connections.open(deadline)
                answer: AnswerT = connections.client.run(question, connections, timeout_s=try_s)
                are_useful = True
                return answer
            except (ProblemError, KafkaError, OSError) as error:
                if isinstance(error, ProblemError):
                    problem = error.problem
                else:
                    problem = replace(problem_of(error), text=words_of(error))
                # After a broker's answer, even a refusal: what is wrong is not the connection. And a try whose time is
                # over says little: over a slow network, connecting again would take even longer.
                is_early = try_s is not None and try_s == self._first_try_s and isinstance(error, KafkaTimeoutError)
                are_useful = is_early or (problem.code[0] != "_" and problem.code not in _CONNECTION_LOST)
                if not problem.retriable or time.monotonic() + pause > deadline:
                    raise request_error(problem, what, self._servers, self._patience_s) from error
            finally:
                self._keep(connections if are_useful else None, closed)
                if not are_useful:
                    release(connections, useful=False)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)
            try_s = None if try_s is None else 2 * try_s

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
