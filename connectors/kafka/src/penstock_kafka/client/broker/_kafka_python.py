"""kafka-python's connections, through one small interface.

The library keeps to itself what is needed here: sending any request to any node, the thread that serves the
connections (its "loop"), and why a connection can't be made. This module alone touches its private parts: to
update kafka-python, look here and nowhere else.
"""

from __future__ import annotations

import logging
import random
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kafka import KafkaAdminClient
from kafka.errors import IncompatibleBrokerVersion, KafkaError, KafkaTimeoutError, NodeNotReadyError
from kafka.future import Future
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.inet import KafkaNetSocket
from kafka.net.sasl import get_sasl_mechanism
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest

from penstock_kafka.client.broker._errors import is_refusal, raise_for

__all__ = ["IN_FLIGHT", "KafkaPython", "connect", "find_coordinators", "sasl_mechanism"]

#: Requests that may be in flight to one broker.
IN_FLIGHT = 64
#: The library's time limits, unless the user gives another one for requests.
_REQUEST_MS, _CONNECT_MS = 30_000, 10_000
#: Without an answer for so long, a broker is not asked what any broker can answer, for a while.
_SILENT_S, _AVOIDED_S = 2.5, 30.0
#: Brokers that were silent, and until when they are avoided. By address, for all connections of the process; each entry
#: is read and written at once, by any thread.
_avoided: dict[tuple[str, int], float] = {}

# kafka-python reports connections to its log, and what matters of it comes as an error as well: it need not be on a
# task's standard error.
logging.getLogger("kafka").addHandler(logging.NullHandler())


async def _connect_or_close(
    self: KafkaNetSocket, net: Any, sock: socket.socket, address: Any, timeout_at: float | None = None
) -> socket.socket:
    try:
        connected: socket.socket = await _connect(self, net, sock, address, timeout_at=timeout_at)
    except BaseException:
        sock.close()
        raise
    return connected


# kafka-python 3.0 leaves a socket open that could not be connected, and keeps trying: a driver whose brokers are away
# for long would run out of files.
_connect = KafkaNetSocket.sock_connect
KafkaNetSocket.sock_connect = _connect_or_close


def _data_first(receive: Callable[[Any], tuple[bytes, Any]]) -> Callable[[Any], tuple[bytes, Any]]:
    def received(self: Any) -> tuple[bytes, Any]:
        data, error = receive(self)
        # The next call finds the end again.
        return data, None if data else error

    return received


# kafka-python 3.0 drops what it has received together with the end of a connection: a broker that refuses a login says
# so and closes, and the library would keep trying.
for _transport in (KafkaTCPTransport, KafkaSSLTransport):
    _transport._sock_recv = _data_first(_transport._sock_recv)


class KafkaPython:
    """A connected ``KafkaAdminClient`` and its loop. Any thread, except for what says that it belongs to the loop."""

    def __init__(self, admin: Any, request_ms: int) -> None:
        self._admin = admin
        self._request_ms = request_ms

    # --- the loop -----------------------------------------------------------------------------------------------------

    @property
    def is_broken(self) -> bool:
        """Whether the loop has ended without having been asked to."""
        return self._admin._net._exception is not None

    def run(self, question: Callable[..., Any], *arguments: Any, timeout_s: float | None = None) -> Any:
        """Returns the result of an async function that the loop runs. Not from the loop's own thread.

        Raises KafkaTimeoutError after ``timeout_s``; the function continues then, and its result is dropped.
        """
        if timeout_s is None:
            return self._admin._manager.run(question, *arguments)
        ended = threading.Event()
        future = self.call_soon(question, *arguments)
        future.add_both(lambda _: ended.set())
        if not ended.wait(timeout_s):
            raise KafkaTimeoutError(f"no answer within {timeout_s:.1f} s")
        if future.exception is not None:
            raise future.exception
        return future.value

    def call_soon(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Has the loop run a function, or an async one. Returns a future of its result."""
        return self._admin._manager.call_soon(function, *arguments)

    def call_later(self, delay_s: float, function: Callable[[], None]) -> None:
        """Has the loop run a function after a while. Belongs to the loop."""
        self._admin._net.call_later(delay_s, function)

    async def sleep(self, seconds: float) -> None:
        """Lets the loop do other things meanwhile. Belongs to the loop."""
        await self._admin._net.sleep(seconds)

    async def within(self, timeout_ms: float, question: Callable[..., Any], *arguments: Any) -> Any:
        """Returns the result of another async function. Belongs to the loop.

        Raises KafkaTimeoutError after ``timeout_ms``; the function continues then, and its result is dropped. A request
        has a time limit of its own only once it is sent, not while no broker can be connected.
        """
        return await self._admin._manager.wait_for(self.call_soon(question, *arguments), max(0.0, timeout_ms))

    # --- requests -----------------------------------------------------------------------------------------------------

    def send(self, request: Any, *, node_id: Any = None, timeout_ms: float | None = None) -> Future:
        """Sends a request at once, to a node or to any. Returns a future of the answer. Belongs to the loop.

        Any is one that has not kept a request waiting lately, if there is one. ``timeout_ms`` counts from when there is
        a connection, which has a time limit of its own. Raises KafkaError or RuntimeError for a node that is not known
        and for credentials that were refused before.
        """
        node = self._any_node() if node_id is None else node_id
        timeout_ms = self._request_ms if timeout_ms is None else timeout_ms
        answer: Future
        if self._is_connecting(node):
            answer = self.call_soon(self._send_when_connected, request, node, timeout_ms)
        else:
            answer = self._admin._manager.send(request, node_id=node, request_timeout_ms=timeout_ms)
        place = self._place(node)
        if place is not None:
            answer.add_callback(lambda _: _avoided.pop(place, None))
            answer.add_errback(lambda _: _avoid(place))
            if node_id is None:
                # The library limits the time of a request from when it is sent, and not while a connection is made.
                self.call_later(_SILENT_S, lambda: None if answer.is_done else _avoid(place))
        return answer

    def _is_connecting(self, node: Any) -> bool:
        """Returns whether the next request waits for a connection. Raises what :meth:`send` does."""
        try:
            return not self._admin._manager.get_connection(node).init_future.is_done
        except NodeNotReadyError:  # which sending reports
            return False

    async def _send_when_connected(self, request: Any, node: Any, timeout_ms: float) -> Any:
        # The library counts the time from before it connects, and closes the connection when it is over: over a slow
        # network there would never be one.
        await self._admin._manager.get_connection(node)
        return await self._admin._manager.send(request, node_id=node, request_timeout_ms=timeout_ms)

    def _place(self, node: Any) -> tuple[str, int] | None:
        broker = self.broker(node)
        return None if broker is None else (broker.host, broker.port)

    def _any_node(self) -> Any:
        node = self._admin._manager.least_loaded_node()
        if not self._is_avoided(node):
            return node
        manager = self._admin._manager
        others = [one for one in self.nodes() if not self._is_avoided(one) and not manager.connection_delay(one)]
        return random.choice(others) if others else node  # noqa: S311 - spreads questions, keeps no secret

    def _is_avoided(self, node: Any) -> bool:
        place = self._place(node)
        return place is not None and time.monotonic() < _avoided.get(place, 0.0)

    def disconnect(self, node: int, why: KafkaError) -> None:
        """Ends the connection to a node: what is in flight there fails with ``why``. Belongs to the loop."""
        connection = self._admin._manager._conns.get(node)
        if connection is not None:
            connection.close(why)

    def held_back_until(self, node: int) -> float:
        """Returns until when a node takes no request, because a quota is used up; 0 if it takes them.

        In seconds of the monotonic clock. Belongs to the loop.
        """
        connection = self._admin._manager._conns.get(node)
        return 0.0 if connection is None else float(connection._throttle_time)

    def version_of(self, request: Any, *limits: int) -> int:
        """Returns the newest version of a request that both sides know, between ``limits``."""
        version: int = self._admin._manager.broker_version_data.api_version(request, *limits)
        return version

    def takes(self, request: Any, version: int) -> bool:
        """Returns whether both sides know the version of a request, or a newer one."""
        try:
            return self.version_of(request, version) >= version
        except IncompatibleBrokerVersion:
            return False

    # --- the cluster --------------------------------------------------------------------------------------------------

    def broker(self, node: int) -> Any:
        """Returns what is known of a broker (``host``, ``port``); ``None`` for nothing."""
        return self._admin._manager.cluster.broker_metadata(node)

    def nodes(self) -> list[int]:
        """Returns the numbers of all brokers that are known."""
        return [broker.node_id for broker in self._admin._manager.cluster.brokers()]

    async def refresh_brokers(self) -> None:
        """Asks which brokers there are. Belongs to the loop."""
        await self._admin._manager.cluster.refresh_metadata()

    def add_coordinator(self, found: Any, kind: CoordinatorType, key: str) -> Any:
        """Notes a coordinator that a broker has named. Returns its node."""
        return self._admin._manager.cluster.add_coordinator(found, kind, key, synthesize_node_id=False)

    def close(self) -> None:
        """Ends the connections and the loop. Not from the loop's own thread."""
        self._admin.close()


def _avoid(place: tuple[str, int]) -> None:
    now = time.monotonic()
    for other in [one for one, until in list(_avoided.items()) if until < now]:
        _avoided.pop(other, None)
    _avoided[place] = now + _AVOIDED_S


class _Causes(logging.Handler):
    """Keeps exceptions that kafka-python only logs: of connections that it keeps trying.

    Ends the trying of ``begun`` as soon as a login is refused: it would be refused each time.
    """

    def __init__(self, begun: Sequence[KafkaNetClient]) -> None:
        super().__init__(logging.WARNING)
        self._begun = begun
        self.seen: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        found = [one for one in arguments if isinstance(one, BaseException)]
        # Called in the loops of all clients that connect just now.
        if not any(record.thread == _loop_of(client) for client in self._begun):
            return
        self.seen += found
        if any(map(is_refusal, found)):
            for client in self._begun:
                client._manager.closed = True


def _loop_of(client: KafkaNetClient) -> int | None:
    thread = client._net._io_thread
    return None if thread is None else thread.ident


def connect(arguments: Mapping[str, Any], timeout_ms: float) -> KafkaPython:
    """Returns a client that has found its brokers, within ``timeout_ms``.

    Raises what kept it from that, which kafka-python itself only logs.
    """
    begun: list[KafkaNetClient] = []

    def begin(**settings: Any) -> KafkaNetClient:
        begun.append(KafkaNetClient(**settings))
        return begun[-1]

    request_ms = arguments.get("request_timeout_ms", _REQUEST_MS)
    own = {
        # Of the library's own questions, which it asks before it is connected.
        "request_timeout_ms": request_ms + _CONNECT_MS,
        "max_in_flight_requests_per_connection": IN_FLIGHT,
        "bootstrap_timeout_ms": int(timeout_ms),
        "kafka_client": begin,
    }
    causes = _Causes(begun)
    logging.getLogger("kafka.net.manager").addHandler(causes)
    try:
        return KafkaPython(_connected({**arguments, **own}, begun), request_ms)
    except KafkaTimeoutError as error:
        refusals = [cause for cause in causes.seen if is_refusal(cause)]
        if not causes.seen:
            raise
        raise (refusals or causes.seen)[-1] from error
    finally:
        logging.getLogger("kafka.net.manager").removeHandler(causes)


def _connected(arguments: Mapping[str, Any], begun: Sequence[KafkaNetClient]) -> KafkaAdminClient:
    try:
        return KafkaAdminClient(**arguments)
    except BaseException:
        # The library leaves its thread and its sockets: a driver whose brokers are away for long would run out of both.
        for client in begun:
            client._manager.closed = False  # as the end of its trying has left it: it would not be closed
            client.close()
        raise


async def find_coordinators(client: KafkaPython, kind: CoordinatorType, keys: Collection[str]) -> dict[str, Any]:
    """Asks which nodes coordinate groups or transactional ids, each time again: they move. Belongs to the loop."""
    unknown = sorted(set(keys))
    if not unknown:
        return {}
    if client.version_of(FindCoordinatorRequest) >= 4:
        request = FindCoordinatorRequest(key_type=kind.value, coordinator_keys=unknown, min_version=4)
        found = {one.key: one for one in (await client.send(request)).coordinators}
    else:
        found = {
            key: await client.send(FindCoordinatorRequest(key=key, key_type=kind.value, max_version=3))
            for key in unknown
        }
    nodes = {}
    for key, one in found.items():
        raise_for(one.error_code, f"while looking for the coordinator of '{key}'")
        nodes[key] = client.add_coordinator(one, kind, key)
    return nodes


def sasl_mechanism(name: str, arguments: Mapping[str, Any], host: str) -> Any:
    """Returns one side of an authentication by a mechanism, with kafka-python's defaults for what is not given."""
    return get_sasl_mechanism(name)(**{**KafkaConnection.DEFAULT_CONFIG, **arguments, "host": host})
