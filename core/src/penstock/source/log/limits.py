"""How much of a backlog one micro-batch takes, and how it is cut for tasks. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from penstock.source.log._contracts import LogSplit
from penstock.source.log.positions import LogPartition

__all__ = ["cut", "take_share"]


def take_share(
    positions: Mapping[LogPartition, int], ends: Mapping[LogPartition, int], max_records: int | None
) -> dict[LogPartition, int]:
    """The ends of a batch of at most ``max_records``, each partition in proportion to what waits in it.

    Every partition gets a record, so that none starves (with more partitions than ``max_records`` the batch is larger
    than it); what is left of the limit is shared, rounded down. Spark's Kafka source rounds each whole share up to one
    instead, and may exceed the limit by that.
    """
    waiting = {partition: ends[partition] - positions[partition] for partition in positions if partition in ends}
    waiting = {partition: records for partition, records in waiting.items() if records > 0}
    total, partitions = sum(waiting.values()), len(waiting)
    if max_records is None or total <= max_records:
        return {partition: ends[partition] for partition in waiting}
    left, more = max(0, max_records - partitions), max(1, total - partitions)
    return {p: positions[p] + 1 + left * (records - 1) // more for p, records in waiting.items()}


def cut(ranges: list[LogSplit], min_partitions: int | None, max_records: int | None) -> list[LogSplit]:
    """``ranges`` cut into at least ``min_partitions`` pieces of at most ``max_records``, in proportion to their sizes.

    Pieces of one partition follow each other. Fewer pieces than ``min_partitions`` come only of fewer records.
    """
    total = sum(split.records for split in ranges)
    cut_ranges: list[LogSplit] = []
    for split in ranges:
        pieces = 1
        if max_records is not None:
            pieces = -(-split.records // max_records)
        if min_partitions is not None and len(ranges) < min_partitions:
            pieces = max(pieces, -(-split.records * min_partitions // total))
        cut_ranges += _pieces(split, min(pieces, split.records))
    return cut_ranges


def _pieces(split: LogSplit, pieces: int) -> list[LogSplit]:
    bounds = [split.start + split.records * number // pieces for number in range(pieces + 1)]
    return [LogSplit(split.stream, split.partition, a, b) for a, b in pairwise(bounds)]
