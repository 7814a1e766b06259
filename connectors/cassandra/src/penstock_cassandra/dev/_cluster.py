"""Several nodes that hold replicas for each other: for nodes that die."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from penstock_cassandra.dev._server import CassandraDevServer, CassandraServer

__all__ = ["CassandraCluster"]


class CassandraCluster:
    """``nodes`` nodes on one address, told apart by their ports, each about 600 MB, as a context manager.

    Each of ``servers`` can be killed and started as any private server. Data is in ``folder``. The one data centre is
    ``datacenter1``.
    """

    def __init__(self, folder: Path | str, *, nodes: int = 3) -> None:
        self.servers: list[CassandraServer] = []
        for number in range(nodes):
            seed = f"127.0.0.1:{self.servers[0].ports[1]}" if self.servers else None
            node = CassandraDevServer(heap_mb=320, quick_start=True, seed=seed)
            self.servers.append(CassandraServer(node, Path(folder) / str(number)))
        self._running = ExitStack()

    def __enter__(self) -> CassandraCluster:
        """Starts one after the other, since they join one by one (15 to 40 s each)."""
        with ExitStack() as started:
            for server in self.servers:
                started.callback(server.kill)
                server.start()
            self._running = started.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()
