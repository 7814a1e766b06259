"""Splits packed into Spark partitions, and how a task reads one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.metrics import Metrics
from penstock.source import ReaderContext, Source, SourceReader

__all__ = ["SplitPartition", "pack", "read_partition"]


class SplitPartition(InputPartition):
    """The splits that one task reads, in order."""

    def __init__(self, splits: list[Any]) -> None:
        self.splits = splits

    def __repr__(self) -> str:
        return f"SplitPartition({len(self.splits)} splits)"


def pack(splits: Iterable[Any], source: Source[Any, Any], parallelism: int) -> list[InputPartition]:
    """A Spark partition for each task's share."""
    return [SplitPartition(share) for share in source.assign_splits(list(splits), parallelism)]


def read_partition(
    source: Source[Any, Any], schema: pa.Schema, partition: InputPartition, accumulator: Any
) -> Iterator[pa.RecordBatch]:
    """Every batch of ``partition``; its counters go to ``accumulator`` when it ends, also in failure."""
    if not isinstance(partition, SplitPartition):
        return
    metrics = Metrics()
    try:
        yield from SourceReader(source, ReaderContext(schema, metrics)).read(partition.splits)
    finally:
        if accumulator is not None:
            accumulator.add(metrics.take())
