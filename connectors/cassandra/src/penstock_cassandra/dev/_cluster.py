"""Several nodes that hold replicas for each other: for nodes that die."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from penstock.errors import FatalError
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev._server import CassandraDevServer, CassandraServer

__all__ = ["CassandraCluster"]

_TOKENS_EACH = 4
_POLL_SECONDS = 0.05


class CassandraCluster:
    """``nodes`` nodes on one address, with different ports, each about 600 MB, as a context manager.

    Each of ``servers`` can be killed and started as any private server. Data is in ``folder``. The one data centre is
    ``datacenter1``.
    """

    def __init__(self, folder: Path | str, *, nodes: int = 3) -> None:
        self.servers: list[CassandraServer] = []
        for number in range(nodes):
            seed = f"127.0.0.1:{self.servers[0].ports[1]}" if self.servers else None
            # Nodes that know their tokens, and have no data to fetch, need not join one by one.
            settings = {"initial_token": _tokens(number, nodes), "num_tokens": _TOKENS_EACH, "auto_bootstrap": False}
            node = CassandraDevServer(settings, heap_mb=320, quick_start=True, seed=seed)
            self.servers.append(CassandraServer(node, Path(folder) / str(number)))
        self._running = ExitStack()

    def __enter__(self) -> CassandraCluster:
        """Starts all at once; returns when each knows of the others."""
        with ExitStack() as started:
            for server in self.servers:
                started.callback(server.kill)
                server.launch()
            for server in self.servers:
                server.await_ready()
            for server in self.servers:
                self._await_others(server)
            self._running = started.pop_all()
        return self

    def restart(self) -> None:
        """Starts the nodes that were killed, if any; returns when each node takes all others for alive."""
        dead = [server for server in self.servers if not server.running]
        for server in dead:
            server.launch()
        for server in dead:
            server.await_ready()
        for server in self.servers if dead else ():
            self._await_alive(server)

    def _await_alive(self, server: CassandraServer) -> None:
        deadline = time.monotonic() + server.server.start_seconds
        while server.nodetool("status").count("\nUN ") < len(self.servers):
            if time.monotonic() > deadline:
                raise FatalError(f"the node at {server.address} does not see all others as alive")

    def _await_others(self, server: CassandraServer) -> None:
        host, _, port = server.address.rpartition(":")
        deadline = time.monotonic() + server.server.start_seconds
        with Client(ConnectionSettings(hosts=(host,), port=int(port))) as client:
            while len(client.rows("select peer from system.peers_v2")) < len(self.servers) - 1:
                if time.monotonic() > deadline:
                    raise FatalError(f"the node at {server.address} does not discover the others")
                time.sleep(_POLL_SECONDS)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()


def _tokens(number: int, nodes: int) -> str:
    """Returns those of one node: its share of tokens that lie equally far apart, by turns with the other nodes."""
    count = nodes * _TOKENS_EACH
    return ",".join(str(-(2**63) + 1 + 2**64 // count * turn) for turn in range(number, count, nodes))
