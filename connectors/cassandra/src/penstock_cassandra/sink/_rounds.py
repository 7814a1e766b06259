"""Rows of one key in their order, where requests overtake each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

__all__ = ["rounds"]


def rounds(batch: pa.RecordBatch, keys: Sequence[pa.Array]) -> Iterator[pa.RecordBatch]:
    """``batch`` in parts in which each key comes once: the first row of each, then the second ones, and so on.

    ``keys`` are those of the rows, comparable.
    """
    names = [str(number) for number in range(len(keys))]
    numbers = pa.array(np.arange(batch.num_rows))
    table = pa.table([*keys, numbers], [*names, "row"])
    first = table.group_by(names).aggregate([("row", "min")]).column("row_min").to_numpy()
    if len(first) == batch.num_rows:
        yield batch
        return
    rest = pa.array(np.setdiff1d(numbers.to_numpy(), first))
    yield batch.take(pa.array(np.sort(first)))
    yield from rounds(batch.take(rest), [key.take(rest) for key in keys])
