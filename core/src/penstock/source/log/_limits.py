"""How much of a backlog one micro-batch takes, and how it is cut for tasks. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from penstock.source.log._contracts import LogSplit
from penstock.source.log._positions import LogPartition

__all__ = ["cut", "take_share"]


def take_share(
    positions: Mapping[LogPartition, int], ends: Mapping[LogPartition, int], max_records: int | None
) -> dict[LogPartition, int]:
    """The ends of a batch of at most ``max_records``, each partition in proportion to what waits in it.

    The rule of Spark's Kafka source: a partition's share is rounded down, but never below one record, so that none
    starves (with more partitions than ``max_records`` the batch is larger than it). What so many ones are too much is
    taken from the largest shares; Spark exceeds its limit there.
    """
    waiting = {partition: ends[partition] - positions[partition] for partition in positions if partition in ends}
    waiting = {partition: records for partition, records in waiting.items() if records > 0}
    total = sum(waiting.values())
    if max_records is None or total <= max_records:
        return {partition: ends[partition] for partition in waiting}
    shares = {partition: max(1, max_records * records // total) for partition, records in waiting.items()}
    over = sum(shares.values()) - max(max_records, len(shares))
    for partition in sorted(shares, key=lambda p: -shares[p]) if over > 0 else ():
        less = min(max(0, over), shares[partition] - 1)
        shares[partition], over = shares[partition] - less, over - less
    return {partition: positions[partition] + share for partition, share in shares.items()}


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
    return [replace(split, start=a, end=b) for a, b in pairwise(bounds)]
