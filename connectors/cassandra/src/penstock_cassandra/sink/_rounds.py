"""Rows of one key in their order, where requests overtake each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

__all__ = ["rounds"]


def rounds(batch: pa.RecordBatch, key: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """``batch`` in parts in which each key comes once: the first row of each, then the second ones, and so on."""
    numbers = pa.array(np.arange(batch.num_rows))
    table = pa.table([*(batch.column(name) for name in key), numbers], [*key, "\0row"])
    first = table.group_by(list(key)).aggregate([("\0row", "min")]).column("\0row_min").to_numpy()
    if len(first) == batch.num_rows:
        yield batch
        return
    rest = np.setdiff1d(numbers.to_numpy(), first)
    yield batch.take(pa.array(np.sort(first)))
    yield from rounds(batch.take(pa.array(rest)), key)
