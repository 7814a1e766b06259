"""Types that are turned value by value in Python: none has a fixed layout that NumPy could read at once."""

from __future__ import annotations

import decimal
import ipaddress
from typing import Any

import pyarrow as pa

from penstock.errors import BadDataError
from penstock_cassandra.types._arrow import DURATION

__all__ = ["decimals", "durations", "inets", "integers"]

_DIGITS = 10_000
_EXACT = decimal.Context(prec=_DIGITS, traps=[decimal.InvalidOperation])
#: Of a number of so many digits. The time to turn one grows with the square of its bytes.
_MOST_BYTES = 4152


def integers(values: pa.BinaryArray, wanted: pa.DataType) -> pa.Array:
    """``varint``: of any size, so that only text holds all. Raises BadDataError for one of more than 38 digits."""
    numbers = [_number(cell) if cell else None for cell in values.to_pylist()]
    if pa.types.is_string(wanted):
        return pa.array([None if number is None else str(number) for number in numbers], pa.string())
    return _as_decimals(numbers, wanted)


def _number(cell: bytes) -> decimal.Decimal:
    if len(cell) > _MOST_BYTES:
        raise BadDataError(f"a number of {len(cell)} bytes has more than {_DIGITS} digits")
    return decimal.Decimal(int.from_bytes(cell, "big", signed=True))


def decimals(values: pa.BinaryArray, wanted: pa.DataType) -> pa.Array:
    """``decimal``: each value has a scale of its own. Raises BadDataError for one that would lose digits."""
    found: list[decimal.Decimal | None] = []
    for cell in values.to_pylist():
        if not cell:
            found.append(None)
            continue
        scale = int.from_bytes(cell[:4], "big", signed=True)
        found.append(_number(cell[4:]).scaleb(-scale, _EXACT))
    if pa.types.is_string(wanted):
        return pa.array([None if number is None else str(number) for number in found], pa.string())
    return _as_decimals(found, wanted)


def _as_decimals(values: list[decimal.Decimal | None], wanted: pa.DataType) -> pa.Array:
    unit = decimal.Decimal(1).scaleb(-wanted.scale)
    limit = decimal.Decimal(10) ** (wanted.precision - wanted.scale)
    fitted: list[decimal.Decimal | None] = []
    for value in values:
        if value is None:
            fitted.append(None)
            continue
        exact = value.quantize(unit, context=_EXACT)
        # abs() would round to the 28 digits of Python's default context.
        if exact != value or value.copy_abs() >= limit:
            raise BadDataError(f"{value} has too many digits; give a schema with another decimal, or with string")
        fitted.append(exact)
    return pa.array(fitted, wanted)


def inets(values: pa.BinaryArray) -> pa.Array:
    """``inet`` as text. Each address is turned once, however often it comes."""
    encoded = values.dictionary_encode()
    texts = [str(ipaddress.ip_address(cell)) if cell else None for cell in encoded.dictionary.to_pylist()]
    return pa.array(texts, pa.string()).take(encoded.indices)


def durations(values: pa.BinaryArray) -> pa.Array:
    """``duration``: three numbers of variable length."""
    found: list[Any] = []
    for cell in values.to_pylist():
        if not cell:
            found.append(None)
            continue
        numbers = []
        at = 0
        for _ in range(3):
            number, at = _vint(cell, at)
            numbers.append(number)
        found.append(dict(zip(("months", "days", "nanoseconds"), numbers, strict=True)))
    return pa.array(found, DURATION)


def _vint(cell: bytes, at: int) -> tuple[int, int]:
    """Returns the number at ``at``, and what comes after it: leading ones of the first byte count the bytes that
    follow.
    """
    if at >= len(cell):
        raise BadDataError("a duration is cut off")
    first = cell[at]
    extra = 8 - (first ^ 0xFF).bit_length()
    value = first & (0xFF >> extra) if extra < 8 else 0
    if len(cell) < at + 1 + extra:
        raise BadDataError("a duration is cut off")
    for byte in cell[at + 1 : at + 1 + extra]:
        value = value << 8 | byte
    return (value >> 1) ^ -(value & 1), at + 1 + extra
