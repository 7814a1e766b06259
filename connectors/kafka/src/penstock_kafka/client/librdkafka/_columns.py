"""Arrow columns as Python lists, faster than ``to_pylist``, which makes a scalar object of every value first."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeVar

import pyarrow as pa

__all__ = ["byte_values", "header_values", "int_values"]

ValueT = TypeVar("ValueT")


def byte_values(column: pa.Array) -> list[bytes | None]:
    """Returns the values of a column of binary or string, large or not."""
    wide = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offsets_buffer, data_buffer = column.buffers()
    if len(column) == 0:
        return []
    offsets = memoryview(offsets_buffer).cast("q" if wide else "i")[column.offset : column.offset + len(column) + 1]
    first, last = offsets[0], offsets[-1]
    data = data_buffer.slice(first, last - first).to_pybytes() if last > first else b""
    ends = [offset - first for offset in offsets] if first else offsets.tolist()
    values = [data[start:end] for start, end in pairwise(ends)]
    return _with_nulls(values, column)


def int_values(column: pa.Array, if_null: int) -> list[int]:
    """Returns the values of a column of int32 or int64."""
    if column.null_count:
        column = column.fill_null(if_null)
    numbers = memoryview(column.buffers()[1]).cast("i" if pa.types.is_int32(column.type) else "q")
    return numbers[column.offset : column.offset + len(column)].tolist()


def header_values(column: pa.ListArray) -> list[list[tuple[str, bytes | None]] | None]:
    """Returns the values of a column of headers: null for none."""
    if len(column) == 0:
        return []
    ends = int_values(column.offsets, 0)
    first = ends[0]
    # Of a slice, the values are those of the whole.
    pairs = column.values.slice(first, ends[-1] - first)
    keys = [key.decode() if key is not None else "" for key in byte_values(pairs.field(0))]
    items = list(zip(keys, byte_values(pairs.field(1)), strict=True))
    values = [items[start - first : end - first] or None for start, end in pairwise(ends)]
    return _with_nulls(values, column)


def _with_nulls(values: list[ValueT], column: pa.Array) -> list[ValueT | None]:
    if not column.null_count:
        return list(values)
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]
