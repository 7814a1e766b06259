"""How large a table is, without reading it."""

from __future__ import annotations

from penstock_cassandra.client import Client
from penstock_cassandra.source._ring import Partitioner

__all__ = ["estimated_bytes"]


def estimated_bytes(client: Client, keyspace: str, table: str, partitioner: Partitioner) -> int | None:
    """Bytes of all rows once, uncompressed, about. ``None``: the server has no estimates (not flushed yet, or a view).

    A node knows of the ranges that it is the first to hold; the rest of the ring is taken to be like them.
    """
    cql = (
        "select range_start, range_end, partitions_count, mean_partition_size from system.size_estimates "
        "where keyspace_name = ? and table_name = ?"
    )
    total = 0
    covered = 0
    whole = partitioner.highest - partitioner.lowest
    for start, end, partitions, mean_bytes in client.rows(cql, (keyspace, table)):
        total += int(partitions) * int(mean_bytes)
        covered += (int(end) - int(start)) % whole or whole
    return total * whole // covered if total and covered else None
