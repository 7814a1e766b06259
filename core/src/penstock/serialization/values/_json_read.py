"""JSON to typed columns: whole blocks by Arrow's parser, and single values for rows that do not fit."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from penstock.serialization.ddl import shown_type
from penstock.serialization.values._decimals import fit_decimal, read_decimal, wide_decimal
from penstock.serialization.values._text import is_text
from penstock.serialization.values._times import TimeParser

__all__ = [
    "NOT_JSON",
    "JsonColumns",
    "ValueConverter",
    "WrittenNumber",
    "json_decoder",
    "json_text",
    "value_converter",
    "written_int",
]


def _raw_type(type_: pa.DataType) -> pa.DataType | None:
    """Returns the type that Arrow parses as, before :func:`_finish`; ``None`` for what its parser cannot read."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        fields = [(field.name, _raw_type(field.type)) for field in type_]
        names = {name for name, _ in fields}
        return None if len(names) < len(fields) or any(raw is None for _, raw in fields) else pa.struct(fields)
    if pa.types.is_list(type_):
        raw = _raw_type(type_.value_type)
        return None if raw is None else pa.list_(raw)
    if pa.types.is_decimal128(type_):
        return wide_decimal(type_)
    plain = pa.types.is_primitive(type_) or pa.types.is_string(type_) or pa.types.is_null(type_)
    return type_ if plain else None


def _finish(array: pa.Array, type_: pa.DataType, times: TimeParser) -> pa.Array:
    if pa.types.is_decimal(type_):
        # Arrow's parser takes 12345 for a decimal(5, 2), which is two digits too many: it looks before it scales.
        array.validate(full=True)
        return array.cast(type_)
    if pa.types.is_struct(type_):
        children = [_finish(array.field(index), field.type, times) for index, field in enumerate(type_)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if pa.types.is_list(type_):
        values = _finish(array.values, type_.value_type, times)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null()).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return times.column(array, type_)
    return array


class JsonColumns:
    """Parses blocks in which every line is one object that fits. Fields that are not asked for are skipped, or with
    ``refuses_unknown`` need a closer look.

    Arrow's parser sees objects, not lines. A line that begins with { and ends with } is at least one object for it
    (within an object that is open after a }, no { may follow): as many objects as such lines means one each. The
    caller ensures that the lines are such.
    """

    def __init__(self, type_: pa.StructType, times: TimeParser, *, refuses_unknown: bool = False) -> None:
        self._type = type_
        self._times = times
        self._unexpected = "error" if refuses_unknown else "ignore"
        raw = _raw_type(type_)
        self._raw = None if raw is None or not raw.num_fields else pa.schema(list(raw))

    def parse(self, lines: bytes | pa.Buffer, count: int) -> pa.StructArray | None:
        """Returns the rows of ``count`` lines, UTF-8 and each ended by a line feed; ``None`` if they need a closer
        look.
        """
        if self._raw is None or not count:
            return None
        if _is_read_otherwise(lines if isinstance(lines, bytes) else lines.to_pybytes()):
            return None
        try:
            table = pajson.read_json(
                pa.BufferReader(lines),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                parse_options=pajson.ParseOptions(
                    explicit_schema=self._raw, unexpected_field_behavior=self._unexpected
                ),
            )
            if table.num_rows != count:
                return None
            columns = [column.combine_chunks() for column in table.columns]
            return _finish(pa.StructArray.from_arrays(columns, fields=list(self._raw)), self._type, self._times)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            return None


class _WrittenInt(int):
    """A whole number that is written in another way than Python would: -0, of which Arrow's parser keeps the sign for a
    column of floats, and 007. Its text is as it was written.
    """

    _text: str

    def __float__(self) -> float:
        return float(self._text)

    def __str__(self) -> str:
        return self._text


def written_int(text: str) -> int:
    """Returns a whole number that keeps its text, and the sign of -0."""
    value = int(text)
    if text.startswith("-0") or (text.startswith("0") and text != "0"):
        value = _WrittenInt(text)
        value._text = text
    return value


#: Numbers that only Arrow's parser takes: for every other one the row is no JSON.
_ONLY_ARROWS = re.compile(rb"(?<=[\s:,\[])(?:-NaN|-?Inf)\b")


def _is_read_otherwise(data: bytes) -> bool:
    return (b"NaN" in data or b"Inf" in data) and _ONLY_ARROWS.search(data) is not None


class WrittenNumber(Decimal):
    """A number with a fraction or an exponent. Its text is as it was written."""

    _text: str

    def __new__(cls, text: str) -> WrittenNumber:
        made = super().__new__(cls, text)
        made._text = text
        return made

    def __str__(self) -> str:
        return self._text


#: What the parser raises: also for an exponent that is too long, and for values that are nested too deeply.
NOT_JSON = (ValueError, ArithmeticError, RecursionError)


def json_decoder() -> json.JSONDecoder:
    """Parses for :func:`value_converter`: numbers keep their digits. Raises one of :data:`NOT_JSON`."""
    return json.JSONDecoder(parse_float=WrittenNumber, parse_int=written_int, parse_constant=str)


#: A parsed value and its path to what ``pa.array`` takes. ``None`` in, ``None`` out.
ValueConverter = Callable[[Any, str], Any]


def value_converter(
    type_: pa.DataType, times: TimeParser, refuse: Callable[[str], None], *, non_numeric: bool = True
) -> ValueConverter:
    """Returns the converter of parsed values for ``type_``. What does not fit is ``None``, and ``refuse`` gets the
    reason. ``non_numeric``: texts such as NaN and INF are floating-point numbers.

    ``refuse`` may raise: not one of ValueError and ArithmeticError.
    """
    return _guarded(type_, _Reading(times, refuse, non_numeric))


@dataclass(frozen=True)
class _Reading:
    """How every value of a row is read; see :func:`value_converter`."""

    times: TimeParser
    refuse: Callable[[str], None]
    non_numeric: bool


def _guarded(type_: pa.DataType, reading: _Reading) -> ValueConverter:
    convert, refuse = _converter(type_, reading), reading.refuse

    def guarded(value: Any, path: str) -> Any:
        if value is None:
            return None
        try:
            return convert(value, path)
        except _ElementError as error:
            refuse(str(error))
        except (ValueError, ArithmeticError, RecursionError):
            refuse(_misfit(value, path, type_))
        return None

    return guarded


class _ElementError(ValueError):
    """An element of a list or a map does not fit."""


def _misfit(value: Any, path: str, type_: pa.DataType) -> str:
    where = f"field {path}" if path else "the record"
    try:
        shown = _cut(_as_json(value))
    except RecursionError:
        shown = "a value that is nested too deeply"
    return f"{where}: {shown} is not {shown_type(type_)}"


def _converter(type_: pa.DataType, reading: _Reading) -> ValueConverter:
    if pa.types.is_struct(type_):
        return _struct(type_, reading)
    # As in Spark, a list or a map is null as a whole if an element does not fit; of an object, only the field.
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        item = _element(type_.value_type, reading)
        return lambda value, path: [item(element, f"{path}[]") for element in _of(value, list)]
    if pa.types.is_map(type_):
        entry = _element(type_.item_type, reading)
        return lambda value, path: [(_utf8(key), entry(one, f"{path}.{key}")) for key, one in _of(value, dict).items()]
    single = _single(type_, reading)
    return lambda value, path: single(value)


def _element(type_: pa.DataType, reading: _Reading) -> ValueConverter:
    convert = _converter(type_, reading)

    def element(value: Any, path: str) -> Any:
        try:
            return None if value is None else convert(value, path)
        except _ElementError:
            raise
        except (ValueError, ArithmeticError, RecursionError):
            raise _ElementError(_misfit(value, path, type_)) from None

    return element


def _struct(type_: pa.DataType, reading: _Reading) -> ValueConverter:
    fields = [(field.name, _guarded(field.type, reading)) for field in type_]

    def convert(value: Any, path: str) -> Any:
        members = _of(value, dict)
        prefix = f"{path}." if path else ""
        return {name: field(members.get(name), prefix + name) for name, field in fields}

    return convert


def _single(type_: pa.DataType, reading: _Reading) -> Callable[[Any], Any]:
    types, times = pa.types, reading.times
    if is_text(type_):
        return lambda value: _utf8(value if isinstance(value, str) else _as_json(value))
    if types.is_boolean(type_):
        return lambda value: _of(value, bool)
    if types.is_integer(type_):
        limit = 1 << (type_.bit_width - 1)
        return lambda value: _within(_number(value, int), -limit, limit)
    if types.is_floating(type_):
        return _float if reading.non_numeric else lambda value: float(_number(value))
    if types.is_decimal(type_):
        return lambda value: _decimal(value, type_)
    if types.is_date(type_):
        return lambda value: times.date(_of(value, str))
    if types.is_timestamp(type_):
        return lambda value: _timestamp(value, type_, times)
    if types.is_null(type_):
        return lambda value: _of(value, type(None))
    return lambda value: base64.b64decode("".join(_of(value, str).split()), validate=True)


def _timestamp(value: Any, type_: pa.DataType, times: TimeParser) -> Any:
    if isinstance(value, str) or type_.tz is None:
        return times.timestamp(_of(value, str), type_)
    return times.from_epoch(_number(value, int), type_)


def _decimal(value: Any, type_: pa.DataType) -> Decimal:
    return read_decimal(value, type_) if isinstance(value, str) else fit_decimal(Decimal(_number(value)), type_)


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


#: As Spark spells them.
_NOT_FINITE = frozenset(("NaN", "Infinity", "+Infinity", "-Infinity", "+INF", "-INF"))


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value not in _NOT_FINITE:
            raise ValueError
        return float(value)
    return float(_number(value))


def _utf8(text: str) -> str:
    """``text``, unless it holds half of a surrogate pair (``\\ud800``), which no string column takes."""
    if not text.isascii():
        text.encode("utf-8")
    return text


def json_text(value: Any) -> str:
    """Returns what :func:`json_decoder` parsed as JSON again, numbers as they were written.

    Half of a surrogate pair is escaped. Raises RecursionError for a value that is nested too deeply.
    """
    return _HALF_PAIR.sub(lambda found: f"\\u{ord(found[0]):04x}", _as_json(value))


#: In a Python text, a whole pair is one character.
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def _as_json(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_as_json(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_as_json, value)) + "]"
    is_number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return str(value) if is_number else json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


_SHOWN = 100
