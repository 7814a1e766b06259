"""Parsed JSON values, one by one, to what ``pa.array`` takes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from penstock.serialization.formats._rows import Misfit, shown
from penstock.serialization.formats._text import is_text
from penstock.serialization.formats._time import IsoTimes

__all__ = ["ValueConverter", "value_converter"]

#: A parsed value and its path to what ``pa.array`` takes. Raises Misfit. ``None`` in, ``None`` out.
ValueConverter = Callable[[Any, str], Any]
#: As many digits as a decimal column holds at most (``decimal256``). Python's default, 28, fails above.
_DIGITS = Context(prec=76)


def value_converter(type_: pa.DataType, times: IsoTimes) -> ValueConverter:
    """The converter of values for ``type_``."""
    types = pa.types
    if types.is_struct(type_):
        convert = _struct(type_, times)
    elif types.is_list(type_) or types.is_large_list(type_):
        convert = _list(value_converter(type_.value_type, times))
    elif types.is_map(type_):
        convert = _map(value_converter(type_.item_type, times))
    else:
        single = _single(type_, times)

        def convert(value: Any, path: str) -> Any:
            return single(value)

    def guarded(value: Any, path: str) -> Any:
        if value is None:
            return None
        try:
            return convert(value, path)
        except (ValueError, ArithmeticError):
            where = f"field {path}" if path else "the record"
            raise Misfit(f"{where}: {shown(_as_json(value))} is not {type_}") from None

    return guarded


def _struct(type_: pa.DataType, times: IsoTimes) -> ValueConverter:
    fields = [(field.name, value_converter(field.type, times)) for field in type_]

    def convert(value: Any, path: str) -> Any:
        members = _of(value, dict)
        prefix = f"{path}." if path else ""
        return {name: field(members.get(name), prefix + name) for name, field in fields}

    return convert


def _list(item: ValueConverter) -> ValueConverter:
    return lambda value, path: [item(element, f"{path}[]") for element in _of(value, list)]


def _map(item: ValueConverter) -> ValueConverter:
    return lambda value, path: [(_utf8(key), item(entry, f"{path}.{key}")) for key, entry in _of(value, dict).items()]


def _single(type_: pa.DataType, times: IsoTimes) -> Callable[[Any], Any]:
    types = pa.types
    if is_text(type_):
        return lambda value: _utf8(value if isinstance(value, str) else _as_json(value))
    if types.is_boolean(type_):
        return lambda value: _of(value, bool)
    if types.is_integer(type_):
        limit = 1 << (type_.bit_width - 1)
        return lambda value: _within(_number(value, int), -limit, limit)
    if types.is_floating(type_):
        return _float
    if types.is_decimal(type_):
        return lambda value: _fitted(Decimal(value) if isinstance(value, str) else Decimal(_number(value)), type_)
    if types.is_date(type_):
        return lambda value: times.date(_of(value, str))
    if types.is_timestamp(type_):
        return lambda value: _timestamp(value, type_, times)
    return lambda value: base64.b64decode(_of(value, str), validate=True)


def _timestamp(value: Any, type_: pa.DataType, times: IsoTimes) -> Any:
    if isinstance(value, str) or type_.tz is None:
        return times.timestamp(_of(value, str), type_)
    return times.from_epoch(_number(value, int))


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError
    return value


def _number(value: Any, kind: Any = (int, Decimal)) -> Any:
    if isinstance(value, bool) or not isinstance(value, kind):
        raise ValueError
    return value


def _within(value: int, least: int, limit: int) -> int:
    if not least <= value < limit:
        raise ValueError
    return value


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value.lstrip("+-") not in ("NaN", "Infinity", "INF", "Inf"):
            raise ValueError
        return float(value)
    return float(_number(value))


def _fitted(value: Decimal, type_: pa.DataType) -> Decimal:
    """``value`` rounded (half up) to the scale of ``type_``. Raises ArithmeticError if it is too large."""
    fitted = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, _DIGITS)
    if not fitted.is_finite() or len(fitted.as_tuple().digits) > type_.precision:
        raise InvalidOperation
    return fitted


def _utf8(text: str) -> str:
    """``text``, unless it holds half of a surrogate pair (``\\ud800``), which no string column takes."""
    if not text.isascii():
        text.encode("utf-8")
    return text


def _as_json(value: Any) -> str:
    """A parsed value as JSON again, numbers as they were written."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_as_json(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_as_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False)
