"""What tests with a Cassandra server share, wherever they are."""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cassandra.concurrent import execute_concurrent_with_args

from penstock.dev import ServerFiles, open_server
from penstock_cassandra.client import ConnectionSettings, _client, acquire_client, release_client
from penstock_cassandra.dev import CassandraDevServer
from suite.kept import end_all

__all__ = ["CassandraToolbox", "QuickServer", "cassandra_toolbox", "close_clients"]


class QuickServer(CassandraDevServer):
    """A server for hundreds of small tables, that nobody kills and starts again.

    It does not write its schema to disk with every change: that takes half a second for each table where disks are
    busy, and a server that is killed would lose its tables. And it takes memory for rows as they come: by default each
    table takes a megabyte of heap with its first row, and the server dies of it with the 337th.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, **options: Any) -> None:
        memory = {"memtable_allocation_type": "unslabbed_heap_buffers"}
        super().__init__(memory | dict(settings or {}), quick_start=True, **options)

    def command(self, place: ServerFiles) -> list[str]:
        """As the base class's, with one more property."""
        java, *arguments = super().command(place)
        return [java, "-Dcassandra.test.flush_local_schema_changes=false", *arguments]


class CassandraToolbox:
    """A new keyspace on a server. ``options`` tell a stream where it is. Values are the Cassandra driver's."""

    def __init__(self, address: str) -> None:
        self.address = address
        host, _, port = address.rpartition(":")
        self.settings = ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=120)
        self.client = acquire_client(self.settings)
        self.keyspace = "t" + uuid.uuid4().hex[:12]
        self.options = {"host": host, "port": port, "keyspace": self.keyspace}
        self.cql(
            f"create keyspace {self.keyspace} with replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )

    def close(self) -> None:
        """Ends the use of the connection."""
        release_client(self.client)

    def cql(self, text: str, *values: Any) -> list[tuple[Any, ...]]:
        """Runs a statement, and returns its rows."""
        return self.client.rows(text, values)

    def table(self, columns: str, options: str = "") -> str:
        """Creates a table, and returns its name."""
        table = "t" + uuid.uuid4().hex[:12]
        self.cql(f"create table {self.keyspace}.{table} ({columns}) {options}")
        return table

    def insert(self, table: str, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
        """Writes rows, a hundred in flight at a time. ``columns`` are names separated by commas."""
        places = ", ".join("?" for _ in columns.split(","))
        statement = self.client.prepare_again(f"insert into {self.keyspace}.{table} ({columns}) values ({places})")
        execute_concurrent_with_args(self.client.session, statement.prepared, rows, concurrency=100)

    def rows(self, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
        """Returns all rows of the table."""
        return self.cql(f"select {columns} from {self.keyspace}.{table}")


@contextmanager
def cassandra_toolbox(folder: Path) -> Iterator[CassandraToolbox]:
    """Opens a keyspace on the server of ``PENSTOCK_CASSANDRA_ADDRESS``, or on one that it starts in ``folder``."""
    with open_server(QuickServer(), folder) as address:
        toolbox = CassandraToolbox(address)
        yield toolbox
        if "PENSTOCK_CASSANDRA_ADDRESS" in os.environ:
            toolbox.cql(f"drop keyspace {toolbox.keyspace}")
        toolbox.close()
        close_clients({toolbox.settings.port})


def close_clients(ports: Collection[int]) -> None:
    """Closes what tests have opened to servers that are ending: the driver would look for them for ever.

    Those that a bundle leads to are closed as well: where that is, their settings do not say. So are those whose user
    has not released them, as a writer that a test left when a row was refused, handed out still or not.
    """
    end_all(_client._shared, lambda key: key.port in ports or bool(key.bundle))
