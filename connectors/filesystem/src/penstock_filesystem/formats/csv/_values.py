"""Single cells of CSV to values, for rows that do not fit as a whole."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from penstock.serialization.values import TimeParser, fit_decimal

__all__ = ["CellConverter", "cell_converter"]

#: A cell's text to a value that ``pa.array`` takes. Raises ValueError.
CellConverter = Callable[[str], Any]

_INTEGER = re.compile(r"[+-]?\d+|-?0[xX][0-9a-fA-F]+")


def _integer(type_: pa.DataType) -> CellConverter:
    limit = 1 << (type_.bit_width - 1)

    def convert(text: str) -> int:
        stripped = text.strip()
        if _INTEGER.fullmatch(stripped) is None:
            raise ValueError(f"{text!r} is not a whole number")
        value = int(stripped, 16 if "x" in stripped.lower() else 10)
        if not -limit <= value < limit:
            raise ValueError(f"{text!r} is out of range")
        return value

    return convert


def _float(text: str) -> float:
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _boolean(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return value == "true"


def _decimal(type_: pa.DataType) -> CellConverter:
    def convert(text: str) -> Decimal:
        try:
            return fit_decimal(Decimal(text.strip()), type_)
        except InvalidOperation:
            raise ValueError(f"{text!r} is not a number") from None

    return convert


def cell_converter(type_: pa.DataType, times: TimeParser) -> CellConverter:
    """Returns the converter of one cell. Takes everything that the conversion of whole columns takes, and more."""
    if pa.types.is_integer(type_):
        return _integer(type_)
    if pa.types.is_floating(type_):
        return _float
    if pa.types.is_boolean(type_):
        return _boolean
    if pa.types.is_decimal(type_):
        return _decimal(type_)
    if pa.types.is_date(type_):
        return times.date
    if pa.types.is_timestamp(type_):
        return lambda text: times.timestamp(text, type_)
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return str.encode
    return str
