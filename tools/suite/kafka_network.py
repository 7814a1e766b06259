"""Kafka brokers behind a bad network, and past it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from penstock.dev import LocalServer, free_ports
from penstock_kafka.dev import KafkaCluster, KafkaDevServer
from suite.bad_network import BadNetwork
from suite.frames import KafkaFrames

__all__ = ["ClusterBehindNetwork", "broker_behind_network"]


def _listeners(port: int, controller: int, behind: int, network: str) -> dict[str, str]:
    """Of a broker with a second listener, which advertises the proxy: who asks there is sent nowhere else."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},NETWORK://127.0.0.1:{behind}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},NETWORK://{network}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,NETWORK:PLAINTEXT",
    }


@contextmanager
def broker_behind_network(
    folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[LocalServer, BadNetwork]]:
    """One broker, which knows itself by both ways."""
    port, controller, behind = free_ports(3)
    with BadNetwork(f"127.0.0.1:{behind}", KafkaFrames) as network:
        listeners = _listeners(port, controller, behind, network.address)
        server = KafkaDevServer({**(properties or {}), **listeners}, quick_start=True)
        with LocalServer(server, folder, ports=(port, controller)) as running:
            yield running, network


class ClusterBehindNetwork(KafkaCluster):
    """A cluster whose nodes are reached by clients at :attr:`network_address` through ``networks``, one for each."""

    def __init__(self, folder: Path | str, properties: Mapping[str, str] | None = None, *, nodes: int = 3) -> None:
        self.networks: dict[int, BadNetwork] = {}
        self._open = ExitStack()
        super().__init__(folder, properties, nodes=nodes)

    def _listeners(self, number: int, port: int, controller_port: int) -> Mapping[str, str]:
        behind, front = free_ports(2)
        self.networks[number] = BadNetwork(f"127.0.0.1:{behind}", KafkaFrames, port=front)
        return _listeners(port, controller_port, behind, self.networks[number].address)

    @property
    def network_address(self) -> str:
        """Of all nodes, through the networks."""
        return ",".join(network.address for network in self.networks.values())

    def __enter__(self) -> ClusterBehindNetwork:
        for network in self.networks.values():
            self._open.enter_context(network)
        super().__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._open.close()
