"""The driver's side of a connection: which nodes it asks, how it waits for them, and how it proves who we are."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

from cassandra import ConsistencyLevel, ProtocolVersion
from cassandra.auth import PlainTextAuthProvider
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.connection import Timer
from cassandra.io import libevreactor
from cassandra.io.libevreactor import LibevConnection
from cassandra.policies import (
    ConstantReconnectionPolicy,
    DCAwareRoundRobinPolicy,
    LoadBalancingPolicy,
    RoundRobinPolicy,
    TokenAwarePolicy,
)

from penstock.errors import BadConfigurationError
from penstock.tls import refuse_old_versions
from penstock_cassandra.client._login import own_auth_provider
from penstock_cassandra.client._raw import RawRows
from penstock_cassandra.client._settings import ConnectionSettings

__all__ = ["open_cluster"]

_RECONNECT_S = 1.0


class _Timer(Timer):  # type: ignore[misc]
    """Drops its callback, which refers to the request, when it is cancelled.

    The loop keeps a timer until its time, though the request was answered long ago. The driver's own timers keep what
    was sent and what was answered as long: at 20 MB a second and 30 seconds, 600 MB.
    """

    def cancel(self) -> None:
        """Any thread; the loop's may call it meanwhile."""
        super().cancel()
        self.callback = _do_nothing


def _do_nothing() -> None:
    pass


def _has_ended(connection: socket.socket) -> bool:
    try:
        # Of the plain class: TLS can't look without taking.
        return not socket.socket.recv(connection, 1, socket.MSG_PEEK)
    except OSError:  # nothing is there now, or the next read says what is wrong
        return False


class _Connection(LibevConnection):  # type: ignore[misc]
    #: The driver's 4 KiB would be 500 calls for each page of 2 MiB.
    in_buffer_size = 1 << 18

    def handle_read(self, watcher: Any, revents: int, errno: int | None = None) -> None:
        """Takes what has come. Ends the connection if the server has, also in the middle of an answer.

        The driver waits for the rest then: until the request's time is over, and without a pause.
        """
        begun = self._iobuf.tell()
        super().handle_read(watcher, revents, errno)
        if begun and self._iobuf.tell() == begun and not self.is_closed and _has_ended(self._socket):
            self.defunct(ConnectionError(f"{self.endpoint} closed the connection in the middle of an answer"))

    @classmethod
    def create_timer(cls, timeout: float, callback: Any) -> _Timer:
        timer = _Timer(timeout, callback)
        libevreactor._global_loop.add_timer(timer)
        return timer


class _NearReplicas(LoadBalancingPolicy):  # type: ignore[misc]
    """Asks the nodes of the local data centre that a query names (``replicas``, as ``host:port``), then the others."""

    def __init__(self, others: LoadBalancingPolicy) -> None:
        super().__init__()
        self._others = others

    def populate(self, cluster: Any, hosts: Any) -> None:
        self._others.populate(cluster, hosts)

    def distance(self, host: Any) -> Any:
        return self._others.distance(host)

    def make_query_plan(self, working_keyspace: str | None = None, query: Any = None) -> Iterator[Any]:
        plan = self._others.make_query_plan(working_keyspace, query)
        wanted = getattr(query, "replicas", ())
        if not wanted:
            yield from plan
            return
        hosts = list(plan)
        near = [host for host in hosts if str(host.endpoint) in wanted]
        yield from near
        yield from (host for host in hosts if host not in near)

    def on_up(self, host: Any) -> None:
        self._others.on_up(host)

    def on_down(self, host: Any) -> None:
        self._others.on_down(host)

    def on_add(self, host: Any) -> None:
        self._others.on_add(host)

    def on_remove(self, host: Any) -> None:
        self._others.on_remove(host)


def _as_they_are(names: Any, rows: Any) -> Any:
    return rows if isinstance(rows, RawRows) else list(rows)


def open_cluster(settings: ConnectionSettings) -> Any:
    """Returns the driver's cluster, not connected yet; results are left as they are.

    Raises BadConfigurationError for files that can't be used, and the driver's errors for a cloud that can't be asked.
    """
    near = DCAwareRoundRobinPolicy(settings.local_dc) if settings.local_dc else RoundRobinPolicy()
    profile = ExecutionProfile(
        load_balancing_policy=_NearReplicas(TokenAwarePolicy(near)),
        consistency_level=ConsistencyLevel.name_to_value[settings.consistency],
        serial_consistency_level=ConsistencyLevel.name_to_value[settings.serial_consistency],
        request_timeout=settings.request_timeout_s,
        row_factory=_as_they_are,
    )
    arguments: dict[str, Any] = {
        "execution_profiles": {EXEC_PROFILE_DEFAULT: profile},
        "connect_timeout": settings.connect_timeout_s,
        "control_connection_timeout": settings.connect_timeout_s,
        "connection_class": _Connection,
        # The driver's pauses grow to ten minutes: longer than any retry here lasts.
        "reconnection_policy": ConstantReconnectionPolicy(_RECONNECT_S, max_attempts=None),
        # A connection that was silent for so long is asked, and given up if it does not answer. The driver's own times
        # are 30 s, however long a request may take; until then, requests are sent again into the same silence.
        "idle_heartbeat_interval": settings.request_timeout_s,
        "idle_heartbeat_timeout": settings.request_timeout_s,
        # Else the last packet of a request waits for the server's delayed acknowledgement of those before: 40 ms.
        "sockopts": [(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        # Else each connection loads every table of the cluster, and again when one changes: seconds, with thousands of
        # them, in each of Spark's Python processes.
        "schema_metadata_enabled": False,
        "schema_event_refresh_window": -1,
        # Version 5 only adds checksums, which the driver computes in Python.
        "protocol_version": ProtocolVersion.V4,
    }
    if settings.auth_provider:
        arguments["auth_provider"] = own_auth_provider(settings)
    elif settings.user:
        arguments["auth_provider"] = PlainTextAuthProvider(settings.user, settings.password)
    if settings.bundle:
        return _of_bundle(settings, arguments)
    return Cluster(**arguments, contact_points=settings.hosts, port=settings.port, ssl_context=settings.tls_context())


def _of_bundle(settings: ConnectionSettings, arguments: dict[str, Any]) -> Any:
    cloud = {
        "secure_connect_bundle": settings.bundle,
        "connect_timeout": settings.connect_timeout_s,
        # Otherwise it is unpacked next to the bundle, which may be read-only.
        "use_default_tempdir": True,
    }
    try:
        cluster = Cluster(**arguments, cloud=cloud)
    except (OSError, ValueError, KeyError) as error:
        raise BadConfigurationError(f"option 'bundle': {settings.bundle} can't be used: {error}") from error
    refuse_old_versions(cluster.ssl_context)  # which the driver has made
    return cluster
