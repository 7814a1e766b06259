"""Types whose cells are made value by value in Python: each has a length of its own.

All raise BadDataError with the value.
"""

from __future__ import annotations

import decimal

import pyarrow as pa

from penstock.errors import BadDataError
from penstock_cassandra.types._cql import CqlType

__all__ = ["encode_decimals", "encode_durations", "encode_varints"]


def _varint(number: int) -> bytes:
    return number.to_bytes((8 + (number + (number < 0)).bit_length()) // 8, "big", signed=True)


def encode_varints(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    """``varint``, from numbers or text."""
    # Value by value: each has a length of its own, and must have the least, because a key is compared by its bytes.
    cells: list[bytes | None] = []
    for value in array.to_pylist():
        try:
            number = None if value is None else int(value)
        except ValueError:
            raise BadDataError(f"{value!r} is not a whole number") from None
        if number is not None and isinstance(value, decimal.Decimal) and value != number:
            raise BadDataError(f"{value} is not a whole number")
        cells.append(None if number is None else _varint(number))
    return pa.array(cells, pa.binary())


def encode_decimals(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    """``decimal``, from numbers or text."""
    # Value by value, as for varint; a decimal is written with the scale that it has.
    cells: list[bytes | None] = []
    for value in array.to_pylist():
        if value is None:
            cells.append(None)
            continue
        try:
            sign, digits, exponent = decimal.Decimal(value).as_tuple()
            scale = -int(exponent)
        except (decimal.InvalidOperation, ValueError):
            raise BadDataError(f"{value!r} is not a decimal number") from None
        unscaled = int("".join(map(str, digits)) or "0") * (-1 if sign else 1)
        cells.append(scale.to_bytes(4, "big", signed=True) + _varint(unscaled))
    return pa.array(cells, pa.binary())


def encode_durations(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    """``duration``, from durations or structs of months, days and nanoseconds."""
    parts: list[tuple[int, ...] | None]
    if pa.types.is_duration(array.type):
        nanos = array.cast(pa.duration("ns")).cast(pa.int64()).to_pylist()
        parts = [None if value is None else (0, 0, value) for value in nanos]
    else:
        parts = [
            None if value is None else tuple(value[name] or 0 for name in ("months", "days", "nanoseconds"))
            for value in array.to_pylist()
        ]
    cells = []
    for part in parts:
        if part is not None and not (all(n >= 0 for n in part) or all(n <= 0 for n in part)):
            raise BadDataError(f"a duration's months, days and nanoseconds must have the same sign: {part}")
        cells.append(None if part is None else b"".join(map(_vint, part)))
    return pa.array(cells, pa.binary())


def _vint(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63) if number < 0 else number << 1
    value &= (1 << 64) - 1
    extra = min(8, max(0, (value.bit_length() - 1) // 7))
    if extra == 8:
        return b"\xff" + value.to_bytes(8, "big")
    lead = (0xFF << (8 - extra)) & 0xFF
    data = bytearray(value.to_bytes(extra + 1, "big"))
    data[0] |= lead
    return bytes(data)
