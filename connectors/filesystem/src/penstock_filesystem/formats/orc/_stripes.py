"""Columns of Arrow as the streams of a stripe.

pyarrow's own writer stores times before 1970 with a negative fraction of a second, at which Spark's reader fails, and
notes neither the calendar nor types of Spark's.

Source: ORC Specification v1, "Column Encodings".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock_filesystem.formats.orc._integers import Numbers
from penstock_filesystem.formats.orc._packing import packed_bits, packed_bytes, packed_decimals, packed_numbers
from penstock_filesystem.formats.orc._protobuf import Field, encoded, packed
from penstock_filesystem.formats.orc._specification import (
    SPARK_NTZ,
    SPARK_TYPE,
    AttributeFields,
    Encoding,
    Kind,
    StreamKind,
    TypeFields,
)

__all__ = ["StripeColumns", "kind_of", "types_of"]

_KINDS = {
    pa.bool_(): Kind.BOOLEAN,
    pa.int8(): Kind.BYTE,
    pa.int16(): Kind.SHORT,
    pa.int32(): Kind.INT,
    pa.int64(): Kind.LONG,
    pa.float32(): Kind.FLOAT,
    pa.float64(): Kind.DOUBLE,
    pa.string(): Kind.STRING,
    pa.large_string(): Kind.STRING,
    pa.binary(): Kind.BINARY,
    pa.large_binary(): Kind.BINARY,
    pa.date32(): Kind.DATE,
}
#: Kinds whose columns have no numbers in runs.
_PLAIN = (Kind.BOOLEAN, Kind.BYTE, Kind.FLOAT, Kind.DOUBLE, Kind.STRUCT)
#: 2015-01-01, from which seconds are counted.
_BASE_S = 1_420_070_400
_MICROS = 1_000_000
_MOST_ZEROS = 9


def kind_of(type_: pa.DataType) -> Kind | None:
    """Returns the type that a column becomes, whose parts may have none; ``None`` if ORC has none for it."""
    types = pa.types
    if types.is_timestamp(type_):
        # A point in time, whatever the zone of who reads it. Clock times are whole numbers, with a note.
        return Kind.LONG if type_.tz is None else Kind.TIMESTAMP_INSTANT
    if types.is_decimal128(type_):
        return Kind.DECIMAL
    if types.is_struct(type_):
        return Kind.STRUCT if type_.num_fields else None
    if types.is_map(type_):
        return Kind.MAP
    if types.is_list(type_) or types.is_large_list(type_):
        return Kind.LIST
    return _KINDS.get(type_)


def types_of(schema: pa.Schema) -> list[bytes]:
    """Returns the tree of types as messages, each before those within it. All have a :func:`kind_of`."""
    found: list[bytes] = []
    _add_type(pa.struct(list(schema)), found)
    return found


def _add_type(type_: pa.DataType, found: list[bytes]) -> int:
    number = len(found)
    found.append(b"")
    parts = _parts(type_)
    children = [_add_type(part.type, found) for part in parts]
    kind = kind_of(type_)
    assert kind is not None
    message: list[Field] = [(TypeFields.KIND, kind)]
    if children:
        message.append((TypeFields.SUBTYPES, packed(children)))
    if kind == Kind.STRUCT:
        message += [(TypeFields.NAMES, part.name.encode()) for part in parts]
    elif kind == Kind.DECIMAL:
        message += [(TypeFields.PRECISION, type_.precision), (TypeFields.SCALE, type_.scale)]
    elif kind == Kind.LONG and pa.types.is_timestamp(type_):
        note = encoded((AttributeFields.KEY, SPARK_TYPE.encode()), (AttributeFields.VALUE, SPARK_NTZ.encode()))
        message.append((TypeFields.ATTRIBUTES, note))
    found[number] = encoded(*message)
    return number


def _parts(type_: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(number) for number in range(type_.num_fields)]


@dataclass
class StripeColumns:
    """The streams of a stripe, by kind and number of the column; and of each column its encoding, how many values it
    has, and whether it has nulls."""

    streams: list[tuple[StreamKind, int, bytes]] = field(default_factory=list)
    encodings: list[Encoding] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    has_null: list[bool] = field(default_factory=list)

    def add(self, array: pa.Array, path: str) -> None:
        """Adds a column, called ``path``, and those within it.

        Raises ValueError for a value that ORC can't hold.
        """
        kind = kind_of(array.type)
        assert kind is not None
        number = len(self.encodings)
        self.encodings.append(Encoding.DIRECT if kind in _PLAIN else Encoding.DIRECT_V2)
        self.values.append(len(array) - array.null_count)
        self.has_null.append(array.null_count > 0)
        if array.null_count:
            present = pc.is_valid(array).to_numpy(zero_copy_only=False)
            self._put(StreamKind.PRESENT, number, packed_bits(present))
            array = array.drop_null()
        if kind == Kind.STRUCT:
            for part, child in zip(array.type, array.flatten(), strict=True):
                self.add(child, f"{path}.{part.name}" if path else part.name)
        elif kind in (Kind.LIST, Kind.MAP):
            self._put(StreamKind.LENGTH, number, packed_numbers(_lengths(array), signed=False))
            for part, child in zip(_parts(array.type), _elements(array), strict=True):
                self.add(child, f"{path}.{part.name}")
        else:
            for stream, data in _streams(array, kind, path):
                self._put(stream, number, data)

    def _put(self, kind: StreamKind, column: int, data: bytes) -> None:
        self.streams.append((kind, column, data))


def _streams(array: pa.Array, kind: Kind, path: str) -> Iterator[tuple[StreamKind, bytes]]:
    """Yields the streams of values none of which is null."""
    if kind == Kind.BOOLEAN:
        yield StreamKind.DATA, packed_bits(array.to_numpy(zero_copy_only=False))
    elif kind == Kind.BYTE:
        yield StreamKind.DATA, packed_bytes(array.to_numpy().view(np.uint8))
    elif kind in (Kind.FLOAT, Kind.DOUBLE):
        yield StreamKind.DATA, array.to_numpy().tobytes()
    elif kind in (Kind.STRING, Kind.BINARY):
        offsets = _offsets(array)
        data = array.buffers()[2]
        yield StreamKind.DATA, b"" if data is None else memoryview(data)[offsets[0] : offsets[-1]].tobytes()
        yield StreamKind.LENGTH, packed_numbers(np.diff(offsets), signed=False)
    elif kind == Kind.DECIMAL:
        yield StreamKind.DATA, packed_decimals(_words(array))
        yield StreamKind.SECONDARY, packed_numbers(np.full(len(array), array.type.scale, np.int64), signed=True)
    elif kind == Kind.TIMESTAMP_INSTANT:
        seconds, nanos = _times(_integers(array.cast(pa.timestamp("us", array.type.tz), safe=False)), path)
        yield StreamKind.DATA, packed_numbers(seconds, signed=True)
        yield StreamKind.SECONDARY, packed_numbers(nanos, signed=False)
    else:
        if pa.types.is_timestamp(array.type):
            array = array.cast(pa.timestamp("us"), safe=False)
        yield StreamKind.DATA, packed_numbers(_integers(array), signed=True)


def _integers(array: pa.Array) -> Numbers:
    width = array.type.bit_width
    found: Numbers = array.view(pa.int64() if width == 64 else pa.int32() if width == 32 else pa.int16()).to_numpy()
    return found.astype(np.int64, copy=False)


def _words(array: pa.Array) -> npt.NDArray[np.uint64]:
    words = np.frombuffer(array.buffers()[1] or b"", np.uint64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def _offsets(array: pa.Array) -> Numbers:
    """Returns where each value begins, and the last one ends."""
    is_large = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    buffer = array.buffers()[1]
    if buffer is None or not len(array):
        return np.zeros(1, np.int64)
    offsets = np.frombuffer(buffer, np.int64 if is_large else np.int32)[array.offset : array.offset + len(array) + 1]
    return offsets.astype(np.int64)


def _lengths(array: pa.Array) -> Numbers:
    found: Numbers = np.diff(array.offsets.to_numpy()).astype(np.int64)
    return found


def _elements(array: Any) -> list[pa.Array]:
    """Returns what lists hold, or the keys and values of maps. None of ``array`` is null."""
    if not pa.types.is_map(array.type):
        return [array.flatten()]
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return [array.keys.slice(first, last - first), array.items.slice(first, last - first)]


def _times(micros: Numbers, path: str) -> tuple[Numbers, Numbers]:
    """Returns seconds and the fraction of a second, as they are stored.

    A reader takes a second off if a time is before 1970 and its fraction is above 999,999 nanoseconds, for Java's
    first writer rounded to 1970. So no time in the last second before 1970 can be stored, unless its fraction is less.
    """
    seconds, fraction = np.divmod(micros, _MICROS)
    is_rounded = (seconds < 0) & (fraction > 999)
    if (is_rounded & (seconds == -1)).any():
        raise ValueError(f"column '{path}' has a time in the last second before 1970, which ORC can't hold")
    return seconds + is_rounded - _BASE_S, _nanos(fraction * 1000)


def _nanos(nanos: Numbers) -> Numbers:
    """Returns them without zeros at the end, of which the lowest three bits say how many there were, less one."""
    zeros = np.zeros(len(nanos), np.int64)
    for count in range(2, _MOST_ZEROS):
        zeros[(nanos % 10**count == 0) & (nanos != 0)] = count
    shortened: Numbers = nanos // 10**zeros << 3
    shortened |= np.where(zeros > 0, zeros - 1, 0)
    return shortened
