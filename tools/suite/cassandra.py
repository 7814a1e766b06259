"""What tests with a Cassandra server share, wherever they are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from penstock.dev import ServerFiles
from penstock_cassandra.client import _client
from penstock_cassandra.dev import CassandraDevServer

__all__ = ["QuickServer", "close_clients"]


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


def close_clients(ports: Collection[int]) -> None:
    """Closes what tests have opened to servers that are ending: the driver would look for them for ever.

    Those that a bundle leads to are closed as well: where that is, their settings do not say.
    """
    for key in _client._shared.keys():  # noqa: SIM118 - it is no dictionary
        if (key.port in ports or key.bundle) and (client := _client._shared.forget(key)) is not None:
            client.close()
