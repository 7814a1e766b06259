"""Values as Debezium writes them to those of a table's columns: whole columns."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization._malformed import MALFORMED
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._debezium._encodings import Encoding, How
from penstock.serialization.formats._rows import Misfit, shown
from penstock.serialization.values import TimeParser, cast_column

__all__ = ["converted"]

_MICROS = pa.timestamp("us")
_WORD = 16
_DIGITS = 38


def converted(column: pa.Array, encoding: Encoding, type_: pa.DataType, times: TimeParser, path: str = "") -> pa.Array:
    """Returns ``column`` as ``type_``. A field that it lacks is null, and one that ``type_`` lacks is left out.

    Raises Misfit, which names the field, if one of the values does not fit.
    """
    types = pa.types
    if types.is_struct(type_) and types.is_struct(column.type):
        parts = encoding.parts or (encoding,) * type_.num_fields
        below = f"{path}." if path else ""
        children = [
            _field(column, field, part, times, f"{below}{field.name}") for field, part in zip(type_, parts, strict=True)
        ]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=column.is_null())
    if types.is_list(type_) and types.is_list(column.type) and encoding.parts:
        return _list(column, encoding.parts[0], type_, times, path)
    try:
        return _single(column, encoding, type_, times)
    except (pa.ArrowException, *MALFORMED) as error:
        what = shown(column[0].as_py()) if len(column) == 1 else f"{len(column)} values"
        raise Misfit(f"field {path}: {what} can't be {shown_type(type_)} ({shown(error)})") from None


def _field(column: pa.Array, field: pa.Field, encoding: Encoding, times: TimeParser, path: str) -> pa.Array:
    index = column.type.get_field_index(field.name)
    if index < 0:
        return pa.nulls(len(column), field.type)
    # Below a null, a child may hold anything: struct_field makes it null.
    return converted(pc.struct_field(column, index), encoding, field.type, times, path)


def _list(column: pa.Array, encoding: Encoding, type_: pa.DataType, times: TimeParser, path: str) -> pa.Array:
    items = converted(column.flatten(), encoding, type_.value_type, times, f"{path}[]")
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(column), 0)).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, items, mask=column.is_null()).cast(type_)


def _single(column: pa.Array, encoding: Encoding, type_: pa.DataType, times: TimeParser) -> pa.Array:
    how = encoding.how
    if column.type == type_:
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column), type_)
    if how == "days":
        return column.cast(pa.int32()).cast(type_)
    if how == "iso date":
        # An ISO date of Debezium's ends with a Z.
        return pc.utf8_rtrim(column, "Z").cast(type_)
    if how == "iso":
        return _iso(column, type_, times)
    if how == "iso local":
        return _iso(pc.utf8_rtrim(column, "Z"), type_, times)
    if how in ("ms", "us", "ns"):
        return times.localize(_micros(column, how), type_)
    if how in _BYTES:
        return pa.array(_bytes(column, how), type_)
    if how == "unscaled":
        return _decimals(column, [encoding.scale], type_)
    if how == "scaled":
        return _scaled(column, type_)
    return cast_column(column, type_)


def _iso(texts: pa.Array, type_: pa.DataType, times: TimeParser) -> pa.Array:
    try:
        return times.column(texts, type_)
    except pa.ArrowInvalid:
        # One by one in Python: more digits than microseconds have, years that Arrow's parser does not know.
        single = [None if text is None else times.timestamp(text, type_) for text in texts.to_pylist()]
        return pa.array(single, pa.int64()).cast(type_)


def _micros(numbers: pa.Array, unit: How) -> pa.Array:
    if unit == "ms":
        numbers = pc.multiply_checked(numbers, 1000)
    elif unit == "ns":
        whole = pc.divide(numbers, 1000)
        # A time before 1970 is in the microsecond that began before it.
        numbers = pc.subtract(whole, pc.less(numbers, pc.multiply(whole, 1000)).cast(pa.int64()))
    return numbers.cast(_MICROS)


#: By how bytes are written as text: what the text is made of, and what decodes it.
_BYTES: Mapping[How, tuple[str, Callable[[str], bytes]]] = {
    "base64": ("^[A-Za-z0-9+/]*={0,2}$", binascii.a2b_base64),
    # Java's encoder may leave out the padding.
    "base64-url-safe": ("^[A-Za-z0-9_-]*={0,2}$", lambda text: base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))),
    "hex": ("^[0-9A-Fa-f]*$", binascii.a2b_hex),
}


def _bytes(texts: pa.Array, how: How) -> list[bytes | None]:
    """Returns the bytes that texts stand for. Raises ValueError.

    One by one in Python: Arrow has no function for base 64.
    """
    pattern, decode = _BYTES[how]
    if pc.all(pc.match_substring_regex(texts, pattern)).as_py() is False:
        raise ValueError(f"not {how}")
    return [None if text is None else decode(text) for text in texts.to_pylist()]


def _scaled(column: pa.Array, type_: pa.DataType) -> pa.Array:
    """Decimals that bring their scale along, each its own."""
    unscaled = column.field(column.type.get_field_index("value"))
    scales = column.field(column.type.get_field_index("scale"))
    present = pc.and_(column.is_valid(), unscaled.is_valid())
    if pc.any(pc.and_(present, scales.is_null())).as_py():
        raise ValueError("a scale is missing")
    values = pc.if_else(present, unscaled, pa.scalar(None, unscaled.type))
    distinct = pc.unique(scales.drop_null()).to_pylist() or [0]
    return _decimals(values, distinct if len(distinct) == 1 else scales.to_pylist(), type_)


def _decimals(column: pa.Array, scales: list[Any], type_: pa.DataType) -> pa.Array:
    """``column`` has two's complements, the most significant byte first, as bytes or base 64. One scale, or one each.

    One by one in Python: Arrow knows no numbers of any length.
    """
    values = _bytes(column, "base64") if pa.types.is_string(column.type) else column.to_pylist()
    words = [int.from_bytes(one or b"", "big", signed=True).to_bytes(_WORD, "little", signed=True) for one in values]
    if len(scales) == 1:
        return _words(words, values, scales[0], type_)
    each = [
        _words([word], [value], scale or 0, type_) for word, value, scale in zip(words, values, scales, strict=True)
    ]
    return pa.concat_arrays(each) if each else pa.array([], type_)


def _words(words: list[bytes], values: list[Any], scale: int, type_: pa.DataType) -> pa.Array:
    present = pa.array([value is not None for value in values], pa.bool_())
    data = [present.buffers()[1], pa.py_buffer(b"".join(words))]
    column = pa.Array.from_buffers(pa.decimal128(_DIGITS, scale), len(words), data)
    column.validate(full=True)  # 16 bytes hold numbers of more digits
    return cast_column(column, type_)
