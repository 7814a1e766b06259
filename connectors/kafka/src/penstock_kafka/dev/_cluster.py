"""Several brokers that hold replicas for each other: for leaders that move."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from penstock.dev import LocalServer, free_ports
from penstock_kafka.dev._server import KafkaDevServer, Node, new_cluster_id

__all__ = ["KafkaCluster"]


class KafkaCluster:
    """``nodes`` brokers (three: one may be down), each 250 to 300 MB, as a context manager.

    Topics have a replica on every node unless made otherwise, and take writes while a majority is there. Node
    ``number`` (from 1) of ``servers`` can be killed, stopped and started as any private server. Data is in ``folder``.
    """

    def __init__(self, folder: Path | str, properties: Mapping[str, str] | None = None, *, nodes: int = 3) -> None:
        ports = free_ports(2 * nodes)
        listeners, controllers = ports[:nodes], dict(enumerate(ports[nodes:], 1))
        settings = _replicated(nodes) | dict(properties or {})
        cluster_id = new_cluster_id()
        self.servers: dict[int, LocalServer] = {}
        for number, port in enumerate(listeners, 1):
            own = {**settings, **self._listeners(number, port, controllers[number])}
            server = KafkaDevServer(own, heap_mb=256, quick_start=True, node=Node(number, controllers, cluster_id))
            self.servers[number] = LocalServer(server, Path(folder) / str(number), ports=(port, controllers[number]))

    def _listeners(self, number: int, port: int, controller_port: int) -> Mapping[str, str]:
        """Returns settings of one node alone. For subclasses whose nodes listen elsewhere too."""
        return {}

    @property
    def address(self) -> str:
        """Of all nodes."""
        return ",".join(server.address for server in self.servers.values())

    def __enter__(self) -> KafkaCluster:
        """Starts every node; returns when each answers. None answers before a majority is there."""
        try:
            self.restart()
        except BaseException:
            self._kill()
            raise
        return self

    def restart(self) -> None:
        """Starts the nodes that do not run, together; returns when each of them answers."""
        dead = [server for server in self.servers.values() if not server.running]
        with ThreadPoolExecutor(len(self.servers)) as pool:
            # As a list, so that an error comes out.
            list(pool.map(LocalServer.launch, dead))
        for server in dead:
            server.await_ready()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def _kill(self) -> None:
        for server in self.servers.values():
            server.kill()


def _replicated(nodes: int) -> dict[str, str]:
    replicas, majority = str(nodes), str(nodes // 2 + 1)
    return {
        "default.replication.factor": replicas,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": majority,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": majority,
        "min.insync.replicas": majority,
    }
