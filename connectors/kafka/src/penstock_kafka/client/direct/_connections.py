"""The connections that the clients of a process share: opening one costs more than what a small batch takes."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafka.future import Future

from penstock_kafka.client._brokers import connect, is_refusal
from penstock_kafka.client.direct._errors import ProblemError, problem_of
from penstock_kafka.client.direct._leaders import Leaders
from penstock_kafka.config import ClientSettings

__all__ = ["Connections", "borrow", "give_back"]

_PAUSE_S = 0.1
#: Unless the user says otherwise: kafka-python waits up to half a minute before it tries a broker again, Java's client
#: a second.
_QUICK = {"reconnect_backoff_max_ms": 1_000}

#: Settings, in librdkafka's spelling.
Connection = tuple[tuple[str, str], ...]
#: What kafka-python tells of connections comes as an error as well: it need not be on a task's standard error.
logging.getLogger("kafka").addHandler(logging.NullHandler())


class Connections:
    """One set of connections, with the thread that serves them: its "loop". Any thread, but for what says otherwise."""

    def __init__(self, connection: Connection) -> None:
        self.leaders = Leaders()
        self.users = 0
        self._connection = connection
        self._connecting = threading.Lock()
        self._admin: Any = None

    @property
    def manager(self) -> Any:
        """kafka-python's manager of connections. Only once :meth:`open` has returned."""
        return self._admin._manager

    @property
    def is_broken(self) -> bool:
        """Whether the loop has ended without having been asked to."""
        return self._admin is not None and self._admin._net._exception is not None

    def open(self, deadline: float) -> None:
        """Returns when a broker has answered; at once from then on. Raises :class:`ProblemError` after ``deadline``."""
        with self._connecting:
            if self._admin is None:
                self._admin = _until(deadline, lambda left_ms: connect({**_QUICK, **self.arguments()}, left_ms))

    def arguments(self) -> dict[str, Any]:
        """See :meth:`penstock_kafka.config.ClientSettings.kafka_python`: they hold what belongs to a process."""
        return ClientSettings("admin", self._connection).kafka_python()

    def address(self, node: int) -> tuple[str, int]:
        """A broker's host and port. Raises KafkaError if it is not known. Once :meth:`open` has returned."""
        broker = self.manager.cluster.broker_metadata(node)
        if broker is None:
            raise KafkaConnectionError(f"broker {node} is not known")
        return broker.host, broker.port

    def run(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The result of an async function of the loop. Not from the loop's own thread."""
        return self.manager.run(question, *arguments)

    def call_soon(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Has the loop run a function, or an async one; a future of its result."""
        return self.manager.call_soon(function, *arguments)

    def call_later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Of the loop."""
        self.manager._net.call_later(delay_s, function)

    async def sleep(self, seconds: float) -> None:
        """Of the loop."""
        await self.manager._net.sleep(seconds)

    def send(self, request: Any, node: Any, timeout_ms: float) -> Future:
        """A future of the node's answer, or any node's if it is ``None``. Of the loop."""
        if timeout_ms <= 0:
            return Future().failure(KafkaTimeoutError("no time is left to ask"))
        try:
            return self.manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
        except KafkaError as error:  # a broker that is not known, credentials that were refused before
            return Future().failure(error)
        except RuntimeError as error:
            return Future().failure(KafkaConnectionError(str(error)))

    def learn(self, topic: str, deadline: float, timeout_ms: float, create: bool) -> None:
        """Asks the brokers for a topic's partitions. Raises :class:`ProblemError` if none answers."""
        self.open(deadline)
        learn, manager = self.leaders.learn, self.manager
        _until(deadline, lambda left_ms: self.run(learn, manager, [topic], min(left_ms, timeout_ms), create))

    def close(self) -> None:
        """Ends them. Not from the loop's own thread."""
        with self._connecting:
            broken = self.is_broken
            admin, self._admin = self._admin, None
        if admin is not None:
            # What ended the loop was told when it did; closing what is left raises it again.
            with suppress(*([Exception] if broken else [])):
                admin.close()


def _until(deadline: float, attempt: Callable[[float], Any]) -> Any:
    """The result of ``attempt(left_ms)``, tried again until ``deadline`` unless it is refused.

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


_lent: dict[tuple[int, Connection], Connections] = {}
_lock = threading.Lock()


def borrow(connection: Connection) -> Connections:
    """This process's connections with the settings ``connection``, to be given back."""
    # By process id: the connections and the thread of a process do not live on in one that was forked.
    key = (os.getpid(), connection)
    with _lock:
        connections = _lent.get(key)
        if connections is None or connections.is_broken:
            connections = _lent[key] = Connections(connection)
        connections.users += 1
    return connections


def give_back(connections: Connections, *, useful: bool) -> None:
    """Whoever borrowed them is done: the last one closes them. If they were of no use they are not lent again."""
    with _lock:
        connections.users -= 1
        unused = connections.users == 0
        if unused or not useful:
            for key in [key for key, lent in _lent.items() if lent is connections]:
                del _lent[key]
    if unused:
        connections.close()
