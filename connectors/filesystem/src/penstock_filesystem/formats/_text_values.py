"""Single texts to values: cells of CSV, and names of directories."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from penstock.serialization.values import TimeParser, read_decimal

__all__ = ["DECIMAL", "FLOAT", "NOT_FINITE", "CellConverter", "cell_converter"]

#: A cell's text to a value that ``pa.array`` takes. Raises ValueError.
CellConverter = Callable[[str], Any]

_INTEGER = re.compile(r"[+-]?\d+|-?0[xX][0-9a-fA-F]+")
#: Numbers as Java writes them, without a type.
DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL = r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
#: Regular expression of numbers with a fraction as Java reads them.
FLOAT = rf"(?:{DECIMAL.pattern}|{_HEXADECIMAL})[fFdD]?|[+-]?(?:NaN|Infinity)"
#: What Spark reads as such a number besides those, in this order, unless the user says otherwise.
NOT_FINITE: Mapping[str, float] = {"NaN": math.nan, "-Inf": -math.inf, "Inf": math.inf}
#: What Java takes around a number with a fraction, and around nothing else.
_BLANKS = "".join(map(chr, range(33)))


def _integer(type_: pa.DataType) -> CellConverter:
    limit = 1 << (type_.bit_width - 1)

    def convert(text: str) -> int:
        if _INTEGER.fullmatch(text) is None:
            raise ValueError(f"{text!r} is not a whole number")
        value = int(text, 16 if "x" in text.lower() else 10)
        if not -limit <= value < limit:
            raise ValueError(f"{text!r} is out of range")
        return value

    return convert


def _float(not_finite: Mapping[str, float]) -> CellConverter:
    def convert(text: str) -> float:
        if text in not_finite:
            return not_finite[text]
        stripped = text.strip(_BLANKS)
        if re.fullmatch(FLOAT, stripped) is None:
            raise ValueError(f"{text!r} is not a number")
        if "x" in stripped.lower():
            return _hexadecimal(stripped.rstrip("fFdD"))
        return float(stripped.rstrip("fFdD"))

    return convert


def _hexadecimal(text: str) -> float:
    """Returns a number such as 0x1.8p3: infinity, as in Java, if it is too large."""
    try:
        return float.fromhex(text)
    except OverflowError:
        return float("-inf" if text.startswith("-") else "inf")


def _boolean(text: str) -> bool:
    value = text.lower()
    if value not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return value == "true"


def cell_converter(
    type_: pa.DataType, times: TimeParser, not_finite: Mapping[str, float] = NOT_FINITE
) -> CellConverter:
    """Returns the converter of one cell. Takes everything that the conversion of whole columns takes, and more.

    ``not_finite``: texts of numbers with a fraction, besides Java's.
    """
    if pa.types.is_integer(type_):
        return _integer(type_)
    if pa.types.is_floating(type_):
        return _float(not_finite)
    if pa.types.is_boolean(type_):
        return _boolean
    if pa.types.is_decimal(type_):
        return lambda text: read_decimal(text, type_)
    if pa.types.is_date(type_):
        return times.date
    if pa.types.is_timestamp(type_):
        return lambda text: times.timestamp(text, type_)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return str.encode
    return str
