"""Connections to the brokers for requests that client libraries keep to themselves: those of kafka-python."""

from __future__ import annotations

import logging
import math
import socket
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import kafka.errors
from kafka import KafkaAdminClient
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.net.inet import KafkaNetSocket
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from penstock.errors import BadConfigurationError, RetriableError

__all__ = ["IN_FLIGHT", "BrokerConnections", "connect", "find_coordinators", "is_refusal", "words_of"]

AnswerT = TypeVar("AnswerT")

#: Requests that may be under way to one broker.
IN_FLIGHT = 64
_TRIES_FOR_S = 60.0
_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
_CONNECT_MS = 5000

#: A broker is busy, moving or not there yet; it finishes what it was told in any case.
_AGAIN = (
    "ConcurrentTransactionsError",
    "CoordinatorLoadInProgressError",
    "CoordinatorNotAvailableError",
    "NotCoordinatorError",
    "NotLeaderForPartitionError",
    "LeaderNotAvailableError",
    "UnknownError",
    "KafkaStorageError",
    "NotEnoughReplicasError",
    "RequestTimedOutError",
    "KafkaTimeoutError",
)


async def _connect_or_close(
    self: KafkaNetSocket, net: Any, sock: socket.socket, address: Any, timeout_at: float | None = None
) -> socket.socket:
    try:
        connected: socket.socket = await _connect(self, net, sock, address, timeout_at=timeout_at)
    except BaseException:
        sock.close()
        raise
    return connected


# kafka-python 3.0 leaves a socket open that could not be connected, and goes on trying: a driver whose brokers are away
# for long would run out of files.
_connect = KafkaNetSocket.sock_connect
KafkaNetSocket.sock_connect = _connect_or_close


class BrokerConnections:
    """kafka-python's connections, which know how to authenticate. One thread; connects when first asked."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        self._admin: Any = None

    @property
    def admin(self) -> Any:
        """kafka-python's client; within :meth:`persist` only."""
        return self._admin

    def send(self, request: Any, *, node_id: int | None = None) -> Any:
        """What to await for the answer of the node, or any; the request is on its way at once."""
        return self._admin._manager.send(request, node_id=node_id)

    def run(self, question: Callable[..., Any], *arguments: Any) -> Any:
        """The result of an async function of the connections' own loop."""
        return self._admin._manager.run(question, *arguments)

    def persist(self, attempt: Callable[[], AnswerT], what: str) -> AnswerT:
        """``attempt`` until it succeeds, for up to a minute, with a new connection after each that broke.

        Raises :class:`penstock.errors.RetriableError` after that; a refusal is a
        :class:`penstock.errors.BadConfigurationError` at once. ``what`` is a verb with its object, for the messages.
        """
        deadline, pause = time.monotonic() + _TRIES_FOR_S, _PAUSE_S
        while True:
            try:
                if self._admin is None:
                    self._admin = connect(self._arguments)
                return attempt()
            except (KafkaError, OSError) as error:
                if is_refusal(error):
                    self.close()
                    raise BadConfigurationError(f"the Kafka brokers refuse to {what}: {words_of(error)}") from error
                if type(error).__name__ not in _AGAIN or not isinstance(error, KafkaError):
                    self.close()
                if time.monotonic() + pause > deadline:
                    self.close()
                    raise RetriableError(
                        f"could not {what} within {_TRIES_FOR_S:.0f} s: {words_of(error)}. Nothing is lost: try again "
                        "(a query does so when it is restarted)"
                    ) from error
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def close(self) -> None:
        """Ends the connections; the next question opens them anew."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()


class _Causes(logging.Handler):
    """The exceptions that kafka-python only logs: of connections that it goes on trying."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.seen: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        self.seen += [one for one in arguments if isinstance(one, BaseException)]


def connect(arguments: Mapping[str, Any], timeout_ms: float = math.inf) -> Any:
    """A ``KafkaAdminClient`` that has found its brokers, within 5 s at most.

    Raises what kept it from that, which kafka-python itself only logs.
    """
    own = {
        "max_in_flight_requests_per_connection": IN_FLIGHT,
        "bootstrap_timeout_ms": int(min(timeout_ms, _CONNECT_MS)),
    }
    causes = _Causes()
    logger = logging.getLogger("kafka.net.manager")
    logger.addHandler(causes)
    try:
        return KafkaAdminClient(**{**arguments, **own})
    except KafkaTimeoutError as error:
        refusals = [cause for cause in causes.seen if is_refusal(cause)]
        if not causes.seen:
            raise
        raise (refusals or causes.seen)[-1] from error
    finally:
        logger.removeHandler(causes)


async def find_coordinators(manager: Any, kind: CoordinatorType, keys: Collection[str]) -> dict[str, Any]:
    """The nodes that coordinate groups or transactional ids, asked anew: they move. Of the connections' own loop."""
    unknown = sorted(set(keys))
    if not unknown:
        return {}
    if manager.broker_version_data.api_version(FindCoordinatorRequest) >= 4:
        request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=unknown, min_version=4)
        found = {one.key: one for one in (await manager.send(request)).coordinators}
    else:
        found = {
            key: await manager.send(FindCoordinatorRequest(key=key, key_type=kind.value, max_version=3))
            for key in unknown
        }
    nodes = {}
    for key, one in found.items():
        if one.error_code:
            raise kafka.errors.for_code(one.error_code)(f"while looking for the coordinator of '{key}'")
        nodes[key] = manager.cluster.add_coordinator(one, kind, key, synthesize_node_id=False)
    return nodes


def is_refusal(error: BaseException) -> bool:
    """Whether the brokers will not take these credentials, or not from this user."""
    name = type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return True
    return "Authorization" in name or "Authentication" in name or name == "UnsupportedVersionError"


def words_of(error: BaseException) -> str:
    """The error's kind and text."""
    return f"{type(error).__name__}: {error}".rstrip(": ")
