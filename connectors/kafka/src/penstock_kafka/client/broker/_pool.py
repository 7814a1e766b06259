"""The connections that the clients of a process share: opening one costs more than what a small batch takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.future import Future

from penstock.per_process import PerProcess
from penstock_kafka.client.broker._arguments import kafka_python_arguments
from penstock_kafka.client.broker._errors import ProblemError, is_refusal, problem_of
from penstock_kafka.client.broker._kafka_python import KafkaPython, connect
from penstock_kafka.client.broker._metadata import Leaders

__all__ = ["Connections", "Settings", "acquire", "release"]

_PAUSE_S = 0.1
#: Unless the user says otherwise: kafka-python waits up to half a minute before it tries a broker again, Java's client
#: a second.
_QUICK = {"reconnect_backoff_max_ms": 1_000}

#: Settings of the connections, in librdkafka's spelling.
Settings = tuple[tuple[str, str], ...]


class Connections:
    """One set of connections, with the thread that serves them: its "loop". Any thread, but for what says otherwise."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.leaders = Leaders()
        #: How many have acquired it. Guarded by the pool's lock.
        self.users = 0
        #: Held while connecting, so that one thread does it and the others wait for it.
        self._connecting = threading.Lock()
        self._client: KafkaPython | None = None

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
        with self._connecting:
            if self._client is None:
                self._client = _until(deadline, lambda left_ms: connect({**_QUICK, **self.arguments()}, left_ms))

    def arguments(self) -> dict[str, Any]:
        """Returns kafka-python's arguments, made anew: they hold what belongs to a process."""
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
        _until(deadline, lambda left_ms: client.run(refresh, client, [topic], min(left_ms, timeout_ms), create))

    def close(self) -> None:
        """Ends them. Not from the loop's own thread."""
        with self._connecting:
            broken = self.is_broken
            client, self._client = self._client, None
        if client is not None:
            # What ended the loop was reported when it did; closing what is left raises it again.
            with suppress(*([Exception] if broken else [])):
                client.close()


def _until(deadline: float, attempt: Callable[[float], Any]) -> Any:
    """Returns the result of ``attempt(left_ms)``, tried again until ``deadline`` unless it is refused.

    Raises :class:`ProblemError`.
    """
    while True:
        try:
            return attempt(max(1.0, (deadline - time.monotonic()) * 1000))
        except (KafkaError, OSError) as error:
            refused = is_refusal(error)
            if refused or time.monotonic() + _PAUSE_S > deadline:
                raise ProblemError(problem_of(error), timed_out=not refused) from error
        time.sleep(_PAUSE_S)


class _Pool:
    """What the clients of a process share, and how many use it. Thread-safe."""

    def __init__(self) -> None:
        self.shared: dict[Settings, Connections] = {}
        #: Guards ``shared`` and the number of users of each. Never held while connecting or closing.
        self._lock = threading.Lock()

    def acquire(self, settings: Settings) -> Connections:
        with self._lock:
            connections = self.shared.get(settings)
            if connections is None or connections.is_broken:
                connections = self.shared[settings] = Connections(settings)
            connections.users += 1
        return connections

    def release(self, connections: Connections, *, useful: bool) -> None:
        with self._lock:
            connections.users -= 1
            unused = connections.users == 0
            if (unused or not useful) and self.shared.get(connections.settings) is connections:
                del self.shared[connections.settings]
        if unused:
            connections.close()


_pool = PerProcess[None, _Pool](lambda _: _Pool())


def acquire(settings: Settings) -> Connections:
    """Returns this process's connections with ``settings``. Release them when they are no longer needed."""
    return _pool.get(None).acquire(settings)


def release(connections: Connections, *, useful: bool) -> None:
    """Ends the use of acquired connections; the last user closes them. Useless ones are not shared any further."""
    _pool.get(None).release(connections, useful=useful)
