"""The schema of JSON objects, as Spark infers it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import partial, reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.serialization.values import NOT_JSON, LooseJson
from penstock_filesystem.formats._bad_rows import BadRows
from penstock_filesystem.formats._block_decoder import in_pieces
from penstock_filesystem.formats._blocks import Block
from penstock_filesystem.formats._inference import SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions
from penstock_filesystem.formats._sampling import BlockSampler
from penstock_filesystem.formats._text_values import DECIMAL
from penstock_filesystem.formats.json._dialect import JsonReadDialect
from penstock_filesystem.formats.json._lines import JsonLines, object_lines

__all__ = ["JsonInference", "check_unicode", "may_hold_unknown_fields", "unknown_fields"]

_NULL, _BOOL, _LONG, _DOUBLE, _STRING = pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string()
_MOST_DIGITS = 38
_DIGITS_OF_LONG = 20
#: More digits may be too many for a long.
_MANY_DIGITS = re.compile(rb"[:\[,]\s*-?\d{19}")
#: Arrow gives each row a place for each field of the block, so the memory grows with the product.
_LARGEST_BLOCK = 64 << 10
#: Arrow follows objects and lists by recursion, without an end.
_DEEPEST = 100
_DEEP_ROW = re.compile(rb"(?m)^(?:[^{\[\n]*[{\[]){%d}" % _DEEPEST)
#: Half of a surrogate pair may be written like this.
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


@dataclass
class _List:
    """The type of lists."""

    item: _Type


#: What values have been so far: a dictionary is an object's fields.
_Type: TypeAlias = "pa.DataType | _List | _Fields"
_Fields: TypeAlias = "dict[str, _Type]"


def _whole(text: str) -> Any:
    return int(text) if len(text) <= _MOST_DIGITS + 1 else _finite(text)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError("no double is as large")
    return value


class _Fraction(float):
    """A number with a fraction or an exponent, and its decimal."""

    exact: Decimal


def _fraction(text: str) -> _Fraction:
    made = _Fraction(_finite(text))
    made.exact = Decimal(text)
    return made


class JsonInference(SchemaInference):
    """Unites the types of all objects, field by field, sorted by name.

    A field of which values do not go together is a string, and so is one that was always null or empty. A whole number
    that is too large for a long is a decimal, or a double beyond 38 digits. An object without fields is left out.
    A bad row adds the column for bad rows, if ``badRecords`` keeps such rows.
    """

    def __init__(self, lines: JsonLines, options: ReadOptions, sampler: BlockSampler) -> None:
        self._lines = lines
        self._sampler = sampler
        self._dialect = options.json
        self._loose = LooseJson(options.json, parse_int=_whole, parse_float=_fraction, parse_constant=float)
        self._corrupt_column = options.corrupt_column
        self._policy = BadRows(options.bad_records, Metrics())
        self._keeps_text = options.bad_records == "null"
        self._has_corrupt = options.adds_corrupt_column
        self._type: _Fields = {}

    def add(self, file: InputFile) -> None:
        """Takes in the objects of a file."""
        whole = partial(_of_block, self._lines)
        for block in self._sampler.blocks(file):
            for type_ in in_pieces(block, self._lines, whole, lambda part: self._of_rows(part, file.url)):
                self._type = _united(self._type, type_)

    def schema(self) -> pa.Schema:
        """Returns the fields, and the column for bad rows."""
        fields = _fields(self._type, drops_nulls=self._dialect.drops_nulls)
        if not fields:
            raise BadConfigurationError(
                "no JSON object with a field was found, so there is no schema to infer: give one with .schema"
            )
        if self._has_corrupt and self._corrupt_column not in self._type:
            fields.append(pa.field(self._corrupt_column, _STRING))
        return pa.schema(sorted(fields, key=lambda field: field.name))

    def _of_rows(self, block: Block, url: str) -> _Fields:
        # Row by row in Python: the few rows around one that does not fit, and what Arrow can't read at all.
        fields: _Fields = {}
        for line in self._lines.rows(block):
            if not self._lines.is_row(line.text):
                continue
            type_, reason = None, "" if line.valid else f"not {self._lines.encoding}"
            try:
                value = self._loose.load(line.text)
                check_unicode(line.text, value)
                type_ = _of_objects(value, self._dialect)
            except NOT_JSON:
                reason = reason or "not JSON"
            if not reason and type_ is not None:
                fields = _united(fields, type_)
            elif self._policy.keeps(url, line.offset, line.text, reason or "not a JSON object"):
                self._has_corrupt = self._has_corrupt or self._keeps_text
        return fields


def check_unicode(text: str, value: Any) -> None:
    """Raises ValueError if ``value``, parsed from ``text``, has half a surrogate pair somewhere."""
    if _SURROGATE.search(text):
        json.dumps(value, ensure_ascii=False, default=str).encode()


def _of_block(lines: JsonLines, block: Block) -> _Fields | None:
    """Has Arrow infer the types of a small block of good rows; ``None`` if they need a closer look."""
    found = object_lines(lines, block) if len(block.data) <= _LARGEST_BLOCK else None
    if found is None or lines.dialect.as_decimals:  # the digits of each number count
        return None
    data, count = found
    if _DEEP_ROW.search(data):
        return None
    try:
        table = pajson.read_json(
            pa.BufferReader(data), read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1)
        )
        table.validate(full=True)  # with nulls in lists, the parser makes arrays that hold less than they say
    except pa.ArrowException:
        return None
    if table.num_rows != count:
        return None
    as_strings = lines.dialect.as_strings
    fields = {name: _of_array(table.column(name).combine_chunks(), as_strings) for name in table.column_names}
    # Arrow takes a number that is too large for a long for a double.
    return None if _holds_double(fields) and _MANY_DIGITS.search(data) else fields


def may_hold_unknown_fields(lines: JsonLines, block: Block, type_: pa.DataType, elsewhere: Collection[str]) -> bool:
    """Returns whether rows of a block may have what :func:`unknown_fields` finds, except for ``elsewhere``.

    Without a look at each row, so that fields that are always null or empty cost little.
    """
    found = in_pieces(block, lines, partial(_of_block, lines), lambda _: None)
    return any(
        fields is None or _has_more({k: one for k, one in fields.items() if k not in elsewhere}, type_)
        for fields in found
    )


def _has_more(found: _Type, type_: pa.DataType) -> bool:
    if isinstance(found, _List):
        return bool(pa.types.is_list(type_)) and _has_more(found.item, type_.value_type)
    if not isinstance(found, dict) or not pa.types.is_struct(type_):
        return False
    known = {field.name: field.type for field in type_}
    return any(_has_more(one, known[k]) if k in known else _says_something(one) for k, one in found.items())


def _says_something(type_: _Type) -> bool:
    if isinstance(type_, _List):
        return _says_something(type_.item)
    return any(map(_says_something, type_.values())) if isinstance(type_, dict) else type_ != _NULL


def unknown_fields(value: Any, type_: pa.DataType, path: str = "") -> list[str]:
    """Returns the paths of fields of ``value``, also within lists, that ``type_`` lacks.

    Those that hold only nulls, empty texts, and empty lists and objects do not count.
    """
    if isinstance(value, list) and pa.types.is_list(type_):
        return [name for one in value for name in unknown_fields(one, type_.value_type, path)]
    if not isinstance(value, dict) or not pa.types.is_struct(type_):
        return []
    found = []
    for name, one in value.items():
        number = type_.get_field_index(name)
        if number >= 0:
            found += unknown_fields(one, type_.field(number).type, f"{path}{name}.")
        elif _has_value(one):
            found.append(path + name)
    return found


def _has_value(value: Any) -> bool:
    try:
        return _says_something(_of_value(value, JsonReadDialect()))
    except RecursionError:
        return False


def _of_objects(value: Any, dialect: JsonReadDialect) -> _Fields | None:
    """Returns the fields of an object, or of those in a list; ``None`` for another value. Null is as no object."""
    objects = value if isinstance(value, list) else [] if value is None else [value]
    if not all(one is None or isinstance(one, dict) for one in objects):
        return None
    fields: _Fields = {}
    return reduce(_united, (_of_value(one, dialect) for one in objects if one is not None), fields)


def _of_value(value: Any, dialect: JsonReadDialect, depth: int = 0) -> Any:
    if value is None or value == "":
        return _NULL
    if depth > _DEEPEST:
        raise RecursionError("nested too deeply")
    if isinstance(value, dict):
        return {name: _of_value(one, dialect, depth + 1) for name, one in value.items()}
    if isinstance(value, list):
        return _List(_common(_of_value(one, dialect, depth + 1) for one in value))
    if isinstance(value, str):
        return (_of_number_in_text(value) if dialect.as_decimals else None) or _STRING
    if dialect.as_strings:
        return _STRING
    if isinstance(value, bool):
        return _BOOL
    if isinstance(value, _Fraction) and dialect.as_decimals:
        return _decimal_of(value.exact)
    if isinstance(value, float):
        return _DOUBLE
    return _LONG if -(1 << 63) <= value < 1 << 63 else _decimal(len(str(abs(value))), 0)


def _of_number_in_text(text: str) -> pa.DataType | None:
    try:
        return _decimal_of(Decimal(text)) if DECIMAL.fullmatch(text) else None
    except ArithmeticError:
        return None


def _decimal_of(value: Decimal) -> pa.DataType:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = -exponent
    return _decimal(max(len(digits), scale), scale)


def _of_array(array: pa.Array, as_strings: bool) -> _Type:
    """Returns the type of what Arrow parsed: for it, an empty text is one, and a time is no text."""
    type_ = array.type
    if pa.types.is_struct(type_):
        members = zip(type_, array.flatten(), strict=True)
        return {field.name: _of_array(one, as_strings) for field, one in members}
    if pa.types.is_list(type_):
        return _List(_of_array(array.flatten(), as_strings))
    if pa.types.is_string(type_):
        return _STRING if pc.max(pc.binary_length(array)).as_py() else _NULL
    return _STRING if pa.types.is_timestamp(type_) or (as_strings and type_ != _NULL) else type_


def _common(types: Iterable[_Type]) -> _Type:
    return reduce(_wider, types, _NULL)


def _united(one: _Fields, other: _Fields) -> _Fields:
    """Adds the fields of ``other`` to ``one``, which the caller owns, and returns it."""
    for name, type_ in other.items():
        one[name] = _wider(one[name], type_) if name in one else type_
    return one


def _wider(one: _Type, other: _Type) -> _Type:
    """Returns the type of values of both."""
    if one == other or other == _NULL:
        return one
    if one == _NULL:
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return _united(one, other)
    if isinstance(one, _List) and isinstance(other, _List):
        return _List(_wider(one.item, other.item))
    if _is_number(one) and _is_number(other):
        if _DOUBLE in (one, other):
            return _DOUBLE
        (whole, scale), (other_whole, other_scale) = _digits(one), _digits(other)
        scale = max(scale, other_scale)
        return _decimal(max(whole, other_whole) + scale, scale)
    return _STRING


def _is_number(type_: _Type) -> bool:
    return isinstance(type_, pa.DataType) and (type_ in (_LONG, _DOUBLE) or bool(pa.types.is_decimal(type_)))


def _digits(type_: Any) -> tuple[int, int]:
    """Returns how many digits are before the point and behind it."""
    return (_DIGITS_OF_LONG, 0) if type_ == _LONG else (type_.precision - type_.scale, type_.scale)


def _decimal(digits: int, scale: int) -> pa.DataType:
    return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS and scale >= 0 else _DOUBLE


def _holds_double(type_: _Type) -> bool:
    if isinstance(type_, dict):
        return any(map(_holds_double, type_.values()))
    return _holds_double(type_.item) if isinstance(type_, _List) else type_ == _DOUBLE


def _fields(types: _Fields, *, drops_nulls: bool) -> list[pa.Field]:
    found = ((name, _finished(types[name], drops_nulls)) for name in sorted(types))
    return [pa.field(name, type_) for name, type_ in found if type_ is not None]


def _finished(type_: _Type, drops_nulls: bool) -> pa.DataType | None:
    if isinstance(type_, dict):
        fields = _fields(type_, drops_nulls=drops_nulls)
        return pa.struct(fields) if fields else None
    if isinstance(type_, _List):
        item = _finished(type_.item, drops_nulls)
        return None if item is None else pa.list_(item)
    if type_ == _NULL:
        return None if drops_nulls else _STRING
    return type_
