"""A Kafka broker behind a bad network, and past it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from penstock.dev import LocalServer, free_ports
from penstock_kafka.dev import KafkaDevServer
from suite.bad_network import BadNetwork
from suite.frames import KafkaFrames

__all__ = ["broker_behind_network"]


@contextmanager
def broker_behind_network(
    folder: Path, properties: Mapping[str, str] | None = None
) -> Iterator[tuple[LocalServer, BadNetwork]]:
    """A broker with a second listener, which advertises the proxy: who asks there is sent nowhere else."""
    port, controller, behind = free_ports(3)
    with BadNetwork(f"127.0.0.1:{behind}", KafkaFrames) as network:
        listeners = {
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},"
            f"NETWORK://127.0.0.1:{behind}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},NETWORK://{network.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,NETWORK:PLAINTEXT",
        }
        server = KafkaDevServer({**(properties or {}), **listeners}, quick_start=True)
        with LocalServer(server, folder, ports=(port, controller)) as running:
            yield running, network
