"""JSON to typed columns: whole blocks by Arrow's parser, and single values for rows that do not fit."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
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
    "json_decoder",
    "json_text",
    "load_loose_json",
    "value_converter",
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


class _MinusZero(int):
    """-0, which Arrow's parser keeps for a column of floats."""

    def __float__(self) -> float:
        return -0.0

    def __str__(self) -> str:
        return "-0"


def _parse_int(text: str) -> int:
    return _MinusZero() if text == "-0" else int(text)


class _Written(Decimal):
    """A number with a fraction or an exponent. Its text is as it was written."""

    _text: str

    def __new__(cls, text: str) -> _Written:
        made = super().__new__(cls, text)
        made._text = text
        return made

    def __str__(self) -> str:
        return self._text


#: What the parser raises: also for an exponent that is too long, and for values that are nested too deeply.
NOT_JSON = (ValueError, ArithmeticError, RecursionError)


def json_decoder() -> json.JSONDecoder:
    """Parses for :func:`value_converter`: numbers keep their digits. Raises one of :data:`NOT_JSON`."""
    return json.JSONDecoder(parse_float=_Written, parse_int=_parse_int, parse_constant=str)


#: Texts in either kind of quotes, and numbers that are not finite, as only Spark's parser takes them. A text that is
#: not closed is matched up to the end: what is behind its quote is looked at once.
_LOOSE = re.compile(r"""("[^"\\]*(?:\\.[^"\\]*)*"?|'[^'\\]*(?:\\.[^'\\]*)*'?)|([+-]INF|\+Infinity)\b""", re.DOTALL)
_ESCAPED_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_OTHERWISE_WRITTEN = {'"': '\\"', "\\'": "'"}


def load_loose_json(decoder: json.JSONDecoder, text: str) -> Any:
    """Returns what ``decoder`` makes of the value that ``text`` begins with, behind blanks.

    As in Spark, texts and names may be in single quotes, and a number may be +INF, -INF or +Infinity. Raises one of
    :data:`NOT_JSON`.
    """
    text = text.lstrip()
    try:
        return decoder.raw_decode(text)[0]
    except NOT_JSON:
        strict = _LOOSE.sub(_as_strict, text)
        if strict == text:
            raise
        return decoder.raw_decode(strict)[0]


def _as_strict(found: re.Match[str]) -> str:
    quoted, number = found.groups()
    if quoted is None:
        return "-Infinity" if number == "-INF" else "Infinity"
    inner = _ESCAPED_OR_QUOTE.sub(lambda one: _OTHERWISE_WRITTEN.get(one[0], one[0]), quoted[1:-1])
    return f'"{inner}"'


#: A parsed value and its path to what ``pa.array`` takes. ``None`` in, ``None`` out.
ValueConverter = Callable[[Any, str], Any]


def value_converter(type_: pa.DataType, times: TimeParser, refuse: Callable[[str], None]) -> ValueConverter:
    """Returns the converter of parsed values for ``type_``. What does not fit is ``None``, and ``refuse`` gets the
    reason.

    ``refuse`` may raise: not one of ValueError and ArithmeticError.
    """
    convert = _converter(type_, times, refuse)

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


def _converter(type_: pa.DataType, times: TimeParser, refuse: Callable[[str], None]) -> ValueConverter:
    if pa.types.is_struct(type_):
        return _struct(type_, times, refuse)
    # As in Spark, a list or a map is null as a whole if an element does not fit; of an object, only the field.
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        item = _element(type_.value_type, times, refuse)
        return lambda value, path: [item(element, f"{path}[]") for element in _of(value, list)]
    if pa.types.is_map(type_):
        entry = _element(type_.item_type, times, refuse)
        return lambda value, path: [(_utf8(key), entry(one, f"{path}.{key}")) for key, one in _of(value, dict).items()]
    single = _single(type_, times)
    return lambda value, path: single(value)


def _element(type_: pa.DataType, times: TimeParser, refuse: Callable[[str], None]) -> ValueConverter:
    convert = _converter(type_, times, refuse)

    def element(value: Any, path: str) -> Any:
        try:
            return None if value is None else convert(value, path)
        except _ElementError:
            raise
        except (ValueError, ArithmeticError, RecursionError):
            raise _ElementError(_misfit(value, path, type_)) from None

    return element


def _struct(type_: pa.DataType, times: TimeParser, refuse: Callable[[str], None]) -> ValueConverter:
    fields = [(field.name, value_converter(field.type, times, refuse)) for field in type_]

    def convert(value: Any, path: str) -> Any:
        members = _of(value, dict)
        prefix = f"{path}." if path else ""
        return {name: field(members.get(name), prefix + name) for name, field in fields}

    return convert


def _single(type_: pa.DataType, times: TimeParser) -> Callable[[Any], Any]:
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


def _float(value: Any) -> float:
    if isinstance(value, str):
        if value.lstrip("+-") not in ("NaN", "Infinity", "INF", "Inf"):
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
