"""How large a table is, without reading it, and in how many splits it is read."""

from __future__ import annotations

from penstock_cassandra.client import Client
from penstock_cassandra.options import SourceOptions
from penstock_cassandra.source._plan import ReadPlan
from penstock_cassandra.source._ring import Partitioner

__all__ = ["SPLITS_PER_SLOT", "describe_scan", "estimated_bytes", "split_count"]

#: A table is read in at most so many splits: offsets and plans stay small.
_MOST_SPLITS = 1_000_000
#: Where the size is not known.
SPLITS_PER_SLOT = 2


def estimated_bytes(client: Client, keyspace: str, table: str, partitioner: Partitioner) -> int | None:
    """Bytes of all rows once, uncompressed, about. ``None``: the server has no estimates (not flushed yet, or a view).

    A node knows of the ranges that it is the first to hold; the rest of the ring is taken to be like them.
    """
    cql = (
        "select range_start, range_end, partitions_count, mean_partition_size from system.size_estimates "
        "where keyspace_name = ? and table_name = ?"
    )
    (ranges,) = client.local_rows((cql, (keyspace, table)))
    total = 0
    covered = 0
    whole = partitioner.highest - partitioner.lowest
    for start, end, partitions, mean_bytes in ranges:
        total += int(partitions) * int(mean_bytes)
        covered += (int(end) - int(start)) % whole or whole
    return total * whole // covered if total and covered else None


def split_count(options: SourceOptions, estimate: int | None) -> int | None:
    """Returns the number of splits of ``maxSplitSize`` in ``estimate`` bytes; ``None`` without an estimate."""
    if options.splits is not None or estimate is None:
        return options.splits
    return max(1, min(_MOST_SPLITS, -(-estimate // options.max_split_bytes)))


def describe_scan(plan: ReadPlan, estimate: int | None, count: int | None) -> str:
    """Returns a line about a full scan, for people."""
    size = "size unknown" if estimate is None else f"about {estimate >> 20} MiB"
    splits = f"{count} splits" if count is not None else f"{SPLITS_PER_SLOT} splits for each slot"
    select = plan.select
    return f"full scan of {select.keyspace}.{select.table} ({size}) in {splits}: {plan.statement.cql}"
