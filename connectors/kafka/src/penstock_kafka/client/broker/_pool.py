"""The connections that the clients of a process share: opening one costs more than what a small batch takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, RequestTimedOutError
from kafka.future import Future

from penstock.per_process import PerProcess
from penstock_kafka.client._errors import NOT_AUTHENTICATED, Problem
from penstock_kafka.client.broker._arguments import kafka_python_arguments
from penstock_kafka.client.broker._errors import ProblemError, is_refusal, problem_of
from penstock_kafka.client.broker._kafka_python import KafkaPython, connect
from penstock_kafka.client.broker._metadata import Leaders
from penstock_kafka.client.broker._wrong_port import wrong_at
from penstock_kafka.client.login import login_advice
from penstock_kafka.config import files_of

__all__ = ["Connections", "Settings", "acquire", "release"]

_PAUSE_S = 0.1
_FIRST_CONNECT_MS, _LONGEST_CONNECT_MS = 5_000.0, 60_000.0
#: Unless the user says otherwise: kafka-python waits up to half a minute before it tries a broker again, Java's client
#: a second.
_QUICK = {"reconnect_backoff_max_ms": 1_000}

#: Settings of the connections, in librdkafka's spelling.
Settings = tuple[tuple[str, str], ...]


class Connections:
    """A set of connections, with the thread that serves them: its "loop". Any thread, unless noted otherwise."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.leaders = Leaders()
        #: Held while connecting, so that one thread does it and the others wait for it.
        self._connecting = threading.Lock()
        self._client: KafkaPython | None = None
        #: How long the next try to connect may take: over a slow network, several answers take long.
        self._connect_ms = _FIRST_CONNECT_MS
        #: How long connecting took in the end.
        self.connected_in_s = 0.0
        #: What was seen at the brokers' addresses when the first try to connect had failed.
        self._seen: str | None = None

    @property
    def client(self) -> KafkaPython:
        """What is connected. Only once :meth:`open` has returned."""
        assert self._client is not None
        return self._client

    @property
    def is_broken(self) -> bool:
        """Whether the loop has ended without having been asked to."""
        return self._client is not None and self._client.is_broken

    def open(self, deadline: float) -> None:
        """Returns when a broker has answered; at once from then on. Raises :class:`ProblemError` after ``deadline``."""
        if self._client is None:
            self._until(deadline, self._connect)

    def _connect(self, left_ms: float) -> None:
        if not self._connecting.acquire(timeout=left_ms / 1000):
            raise self._in_better_words(KafkaTimeoutError("another thread is still trying to connect"))
        try:
            if self._client is None:
                started = time.monotonic()
                self._client = connect({**_QUICK, **self.arguments()}, min(left_ms, self._connect_ms))
                self.connected_in_s = time.monotonic() - started
        except (KafkaError, OSError) as error:
            if isinstance(error, (KafkaTimeoutError, RequestTimedOutError)):
                self._connect_ms = min(2 * self._connect_ms, _LONGEST_CONNECT_MS)
            if is_refusal(error):
                raise
            raise self._explained(error) from error
        finally:
            self._connecting.release()

    def _explained(self, error: Exception) -> Exception:
        """Looks at the brokers' addresses, once, and returns ``error`` in better words if something is seen."""
        if self._seen is None:
            self._seen = wrong_at(dict(self.settings))
        return self._in_better_words(error)

    def _in_better_words(self, error: Exception) -> Exception:
        if not self._seen:
            return error
        # What listens nowhere now may in a moment: the caller decides how long to ask again, and says why meanwhile.
        return ProblemError(Problem("_TRANSPORT", self._seen, retriable=True), timed_out=True, hopeless=True)

    def arguments(self) -> dict[str, Any]:
        """Returns kafka-python's arguments, new ones for each call: they hold what belongs to a process."""
        return kafka_python_arguments(dict(self.settings))

    def address(self, node: int) -> tuple[str, int]:
        """Returns a broker's host and port. Raises KafkaError if it is not known. Once :meth:`open` has returned."""
        broker = self.client.broker(node)
        if broker is None:
            raise KafkaConnectionError(f"broker {node} is not known")
        return broker.host, broker.port

    def send(self, request: Any, node: Any = None, timeout_ms: float | None = None) -> Future:
        """Sends a request to a node, or to any for ``None``. Returns a future of the answer. Belongs to the loop."""
        if timeout_ms is not None and timeout_ms <= 0:
            return Future().failure(KafkaTimeoutError("no time is left to ask"))
        try:
            return self.client.send(request, node_id=node, timeout_ms=timeout_ms)
        except KafkaError as error:  # a broker that is not known, credentials that were refused before
            return Future().failure(error)
        except RuntimeError as error:
            return Future().failure(KafkaConnectionError(str(error)))

    def refresh_metadata(self, topic: str, deadline: float, timeout_ms: float, create: bool) -> None:
        """Asks the brokers for a topic's partitions. Raises :class:`ProblemError` if none answers."""
        self.open(deadline)
        refresh, client = self.leaders.refresh_metadata, self.client
        self._until(deadline, lambda left_ms: client.run(refresh, client, [topic], min(left_ms, timeout_ms), create))

    def _until(self, deadline: float, attempt: Callable[[float], Any]) -> Any:
        """Returns the result of ``attempt(left_ms)``, tried again until ``deadline`` unless it is refused.

        Raises :class:`ProblemError`.
        """
        while True:
            try:
                return attempt(max(1.0, (deadline - time.monotonic()) * 1000))
            except (KafkaError, OSError) as error:
                refused = is_refusal(error)
                if refused or time.monotonic() + _PAUSE_S > deadline:
                    raise ProblemError(self.problem_of(error), timed_out=not refused) from error
            time.sleep(_PAUSE_S)

    def problem_of(self, error: BaseException) -> Problem:
        """Returns the problem that an error means, with where to look if a login was refused."""
        return self.advised(problem_of(error))

    def advised(self, problem: Problem) -> Problem:
        """Returns ``problem``, with where to look if a login was refused."""
        if problem.code not in NOT_AUTHENTICATED:
            return problem
        return replace(problem, text=f"{problem.text}; {login_advice(dict(self.settings))}")

    def close(self) -> None:
        """Ends them. Not from the loop's own thread."""
        with self._connecting:
            broken = self.is_broken
            client, self._client = self._client, None
        if client is not None:
            # What ended the loop was reported when it did; closing what is left raises it again.
            with suppress(*([Exception] if broken else [])):
                client.close()


#: The last user of connections closes them.
_shared = PerProcess(
    Connections, close=Connections.close, idle_s=0, files=files_of, usable=lambda connections: not connections.is_broken
)


def acquire(settings: Settings) -> Connections:
    """Returns this process's connections with ``settings``. Release them when they are no longer needed."""
    return _shared.acquire(settings)


def release(connections: Connections, *, useful: bool) -> None:
    """Ends the use of acquired connections; the last user closes them. Useless ones are not shared any further."""
    _shared.release(connections, useful=useful)
