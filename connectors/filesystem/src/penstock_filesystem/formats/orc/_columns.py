"""Columns of a stripe as Arrow's arrays.

pyarrow has a reader of its own. But a damaged byte may end the process in it, which no ``ignoreCorruptFiles`` can
skip; it holds no time before 1677 or after 2262; and it knows one calendar.

Source: ORC Specification v1, "Column Encodings".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock_filesystem.formats._fit import find_name
from penstock_filesystem.formats.orc._decimals import decimals
from penstock_filesystem.formats.orc._integers import Bits, Numbers, bits, numbers, signed_bytes
from penstock_filesystem.formats.orc._layout import Column, StripeStreams
from penstock_filesystem.formats.orc._specification import SPARK_NTZ, SPARK_TYPE, Encoding, Kind, StreamKind
from penstock_filesystem.formats.orc._times import Times

__all__ = ["ColumnReader", "arrow_type", "numbers_of"]

_DICTIONARIES = (Encoding.DICTIONARY, Encoding.DICTIONARY_V2)
_TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.BYTE: pa.int8(),
    Kind.SHORT: pa.int16(),
    Kind.INT: pa.int32(),
    Kind.LONG: pa.int64(),
    Kind.FLOAT: pa.float32(),
    Kind.DOUBLE: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.VARCHAR: pa.string(),
    Kind.CHAR: pa.string(),
    Kind.BINARY: pa.binary(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.TIMESTAMP_INSTANT: pa.timestamp("us", "UTC"),
}
#: Of decimals whose type has no digits, as Hive wrote them before version 0.13.
_OLD_DIGITS = (38, 6)
#: An Arrow array of lists or texts counts with 31 bits.
_MOST_VALUES = (1 << 31) - 1


def arrow_type(column: Column) -> pa.DataType:
    """Returns the type in which a column is read. Raises ValueError for one that Spark has no type for."""
    if column.kind == Kind.LONG and column.attributes.get(SPARK_TYPE) == SPARK_NTZ:
        return pa.timestamp("us")
    if column.kind == Kind.DECIMAL:
        return pa.decimal128(*(column.digits if column.digits[0] else _OLD_DIGITS))
    if column.kind == Kind.LIST:
        return pa.list_(pa.field("element", arrow_type(column.children[0])))
    if column.kind == Kind.MAP:
        return pa.map_(*map(arrow_type, column.children))
    if column.kind == Kind.STRUCT:
        return pa.struct(list(zip(column.names, map(arrow_type, column.children), strict=True)))
    if column.kind not in _TYPES:
        name = Kind(column.kind).name.lower() if column.kind in set(Kind) else column.kind
        raise ValueError(f"column {column.number} is of type {name}, for which Spark has none")
    return _TYPES[Kind(column.kind)]


def numbers_of(column: Column) -> list[int]:
    """Returns the number of a column and of all within it."""
    return [column.number, *(number for child in column.children for number in numbers_of(child))]


class ColumnReader:
    """Reads columns out of the streams of a stripe."""

    def __init__(self, streams: StripeStreams, times: Times) -> None:
        self._streams = streams
        self._times = times

    def read(self, column: Column, count: int, wanted: pa.DataType | None = None) -> pa.Array:
        """Returns ``count`` values. Raises ValueError, OSError or pa.ArrowException for streams that are damaged.

        ``wanted`` is the type of the schema: where it has no zone, times stay as the writer's clocks showed them.
        """
        if not 0 <= count <= _MOST_VALUES:
            raise ValueError(f"column {column.number} would have {count} values in a stripe")
        data = self._streams.get(column.number, StreamKind.PRESENT)
        present = np.ones(count, np.bool_) if data is None else bits(data, count)
        valid = int(present.sum())
        if column.kind == Kind.STRUCT:
            return self._struct(column, present, valid, wanted)
        if column.kind in (Kind.LIST, Kind.MAP):
            return self._list(column, present, valid, wanted)
        if column.kind in (Kind.STRING, Kind.VARCHAR, Kind.CHAR, Kind.BINARY):
            return self._text(column, present, valid)
        if column.kind == Kind.DECIMAL:
            return _expanded(self._decimals(column, valid), present)
        if column.kind in (Kind.TIMESTAMP, Kind.TIMESTAMP_INSTANT):
            seconds = self._numbers(column, StreamKind.DATA, valid)
            nanos = self._numbers(column, StreamKind.SECONDARY, valid, signed=False)
            is_plain = wanted is not None and pa.types.is_timestamp(wanted) and wanted.tz is None
            is_instant = column.kind == Kind.TIMESTAMP_INSTANT
            micros = self._times.micros(seconds, nanos, is_instant=is_instant, is_plain=is_plain)
            return _array(micros, present, pa.int64()).view(pa.timestamp("us") if is_plain else arrow_type(column))
        return _array(self._values(column, valid), present, arrow_type(column))

    def _values(self, column: Column, count: int) -> npt.NDArray[Any]:
        """Returns those of a type that numpy has, too."""
        if column.kind == Kind.BOOLEAN:
            return bits(self._stream(column, StreamKind.DATA), count)
        if column.kind == Kind.BYTE:
            return signed_bytes(self._stream(column, StreamKind.DATA), count)
        if column.kind in (Kind.FLOAT, Kind.DOUBLE):
            type_ = np.dtype("<f4" if column.kind == Kind.FLOAT else "<f8")
            return np.frombuffer(self._stream(column, StreamKind.DATA)[: count * type_.itemsize], type_)
        found = self._numbers(column, StreamKind.DATA, count)
        if column.kind == Kind.DATE:
            return self._times.days(found)
        return found

    def _struct(self, column: Column, present: Bits, valid: int, wanted: pa.DataType | None) -> pa.Array:
        asked = (
            {field.name: field.type for field in wanted} if wanted is not None and pa.types.is_struct(wanted) else {}
        )
        children = []
        for name, child in zip(column.names, column.children, strict=True):
            type_ = next((type_ for field, type_ in asked.items() if find_name(field, [name]) is not None), None)
            children.append(_expanded(self.read(child, valid, type_), present))
        fields = [pa.field(name, child.type) for name, child in zip(column.names, children, strict=True)]
        return pa.Array.from_buffers(pa.struct(fields), len(present), [_validity(present)], children=children)

    def _list(self, column: Column, present: Bits, valid: int, wanted: pa.DataType | None) -> pa.Array:
        offsets = _offsets(self._numbers(column, StreamKind.LENGTH, valid, signed=False), present)
        types: list[pa.DataType | None] = [None] * len(column.children)
        if column.kind == Kind.LIST and wanted is not None and pa.types.is_list(wanted):
            types = [wanted.value_type]
        elif column.kind == Kind.MAP and wanted is not None and pa.types.is_map(wanted):
            types = [wanted.key_type, wanted.item_type]
        pairs = zip(column.children, types, strict=True)
        parts = [self.read(child, int(offsets[-1]), type_) for child, type_ in pairs]
        if column.kind == Kind.LIST:
            made, child = pa.list_(pa.field("element", parts[0].type)), parts[0]
        else:
            made = pa.map_(parts[0].type, parts[1].type)
            if parts[0].null_count:
                raise ValueError(f"column {column.number} has a map with a key that is null")
            child = pa.StructArray.from_arrays(parts, fields=[made.key_field, made.item_field])
        buffers = [_validity(present), pa.py_buffer(offsets.astype(np.int32))]
        return pa.Array.from_buffers(made, len(present), buffers, children=[child])

    def _text(self, column: Column, present: Bits, valid: int) -> pa.Array:
        type_ = arrow_type(column)
        if self._streams.encoding(column.number) not in _DICTIONARIES:
            return self._texts(
                column, StreamKind.DATA, self._numbers(column, StreamKind.LENGTH, valid, signed=False), present, type_
            )
        places = self._numbers(column, StreamKind.DATA, valid, signed=False)
        words = self._streams.words(column.number)
        if valid and (int(places.min()) < 0 or int(places.max()) >= words):
            raise ValueError(f"column {column.number} has {words} words and names another")
        lengths = self._numbers(column, StreamKind.LENGTH, words, signed=False)
        dictionary = self._texts(column, StreamKind.DICTIONARY, lengths, np.ones(words, np.bool_), type_)
        return dictionary.take(_array(places, present, pa.int64()))

    def _texts(self, column: Column, kind: int, lengths: Numbers, present: Bits, type_: pa.DataType) -> pa.Array:
        offsets = _offsets(lengths, present)
        data = self._streams.get(column.number, kind) or b""
        if offsets[-1] > len(data):
            raise ValueError(f"column {column.number} has texts of {offsets[-1]} bytes, and {len(data)} bytes")
        buffers = [_validity(present), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
        return pa.Array.from_buffers(type_, len(present), buffers)

    def _decimals(self, column: Column, valid: int) -> pa.Array:
        scales = self._numbers(column, StreamKind.SECONDARY, valid)
        return decimals(self._streams.get(column.number, StreamKind.DATA) or b"", scales, arrow_type(column))

    def _numbers(self, column: Column, kind: int, count: int, *, signed: bool = True) -> Numbers:
        version = 2 if self._streams.encoding(column.number) >= Encoding.DIRECT_V2 else 1
        return numbers(self._streams.get(column.number, kind) or b"", count, signed=signed, version=version)

    def _stream(self, column: Column, kind: int) -> bytes:
        return self._streams.get(column.number, kind) or b""


def _offsets(lengths: Numbers, present: Bits) -> Numbers:
    """Returns where each value begins, and where the last one ends. Raises ValueError for more than Arrow can count."""
    if len(lengths) and (int(lengths.min()) < 0 or int(lengths.max()) > _MOST_VALUES):
        raise ValueError("a list or a text has a length that can't be")
    offsets = np.zeros(len(present) + 1, np.int64)
    offsets[1:][present] = lengths
    np.cumsum(offsets, out=offsets)
    if offsets[-1] > _MOST_VALUES:
        raise ValueError(f"lists or texts of a stripe have {offsets[-1]} elements or bytes, more than Arrow counts")
    return offsets


def _validity(present: Bits) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _array(values: npt.NDArray[Any], present: Bits, type_: pa.DataType) -> pa.Array:
    """Returns ``values`` where ``present``, and nulls elsewhere."""
    if len(values) == len(present):
        return pa.array(values).cast(type_)
    filled = np.zeros(len(present), values.dtype)
    filled[present] = values
    return pa.array(filled, mask=~present).cast(type_)


def _expanded(array: pa.Array, present: Bits) -> pa.Array:
    """Returns the elements of ``array`` where ``present``, and nulls elsewhere."""
    if len(array) == len(present):
        return array
    places = np.zeros(len(present), np.int64)
    places[present] = np.arange(len(array))
    return array.take(pa.array(places, mask=~present))
