"""Decimals of ORC files: numbers of any length, and the scale of each.

Source: ORC Specification v1, "Decimal Columns".
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values import cast_column
from penstock_filesystem.formats.orc._integers import Numbers

__all__ = ["decimals"]

#: A number of 128 bits has as many bytes, of seven bits each.
_MOST_BYTES = 19
_MOST_DIGITS = 38
_SEVEN = np.uint64(0x7F)


def decimals(data: bytes, scales: Numbers, type_: pa.DataType) -> pa.Array:
    """Returns as many decimals of ``type_`` as there are ``scales``.

    Raises ValueError for a stream that is damaged, and pa.ArrowException for a number that the type does not hold.
    """
    count = len(scales)
    raw = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(raw < 0x80)[:count]
    if len(ends) < count:
        raise ValueError("a stream of decimals is cut off")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])[:count]
    sizes = ends - starts + 1
    if count and sizes.max() > _MOST_BYTES:
        raise ValueError("a stream of decimals has a number of more than 128 bits")
    low, high = np.zeros(count, np.uint64), np.zeros(count, np.uint64)
    for place in range(int(sizes.max()) if count else 0):
        part = np.where(sizes > place, raw[np.minimum(starts + place, len(raw) - 1)], 0).astype(np.uint64) & _SEVEN
        shift = 7 * place
        if shift < 64:
            low |= part << np.uint64(shift)
        if shift >= 64:
            high |= part << np.uint64(shift - 64)
        elif shift > 57:
            high |= part >> np.uint64(64 - shift)
    # The lowest bit is the sign: of negative numbers every bit is the other one.
    flips = ~(low & np.uint64(1)) + np.uint64(1)
    plain = np.empty((count, 2), np.uint64)
    plain[:, 0] = (low >> np.uint64(1) | high << np.uint64(63)) ^ flips
    plain[:, 1] = high >> np.uint64(1) ^ flips
    column = pa.Array.from_buffers(pa.decimal128(38, 0), count, [None, pa.py_buffer(plain)])
    return _scaled(column, scales, type_)


def _scaled(column: pa.Array, scales: Numbers, type_: pa.DataType) -> pa.Array:
    if not len(scales) or (scales == type_.scale).all():
        found = pa.Array.from_buffers(type_, len(column), column.buffers())
        found.validate(full=True)
        return found
    # Java's writer leaves zeros at the end out, so that values of one column have several scales.
    found = pa.nulls(len(column), type_)
    for scale in np.unique(scales).tolist():
        if not 0 <= scale <= _MOST_DIGITS:
            raise ValueError(f"a decimal has {scale} digits behind the point")
        is_so = pa.array(scales == scale)
        part = pa.Array.from_buffers(pa.decimal128(_MOST_DIGITS, scale), len(column), column.buffers())
        fitted = cast_column(pc.if_else(is_so, part, pa.scalar(None, part.type)), type_)
        found = pc.if_else(is_so, fitted, found)
    return found
