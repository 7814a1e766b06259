"""Arrow columns as the values of COPY's binary format, a whole column at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock_postgres.client._table import Column

__all__ = ["ENCODED", "Cells", "cells_of", "fits", "read_type"]

#: PostgreSQL counts from 2000, Arrow from 1970.
_DAYS = 10_957
_MICROSECONDS = _DAYS * 86_400_000_000
_DAY_LIMITS = (-2_451_545 + _DAYS, 2_145_031_948 + _DAYS)
_MICROSECOND_LIMITS = (-211_813_488_000_000_000 + _MICROSECONDS, 9_223_371_331_200_000_000)


@dataclass(frozen=True)
class Cells:
    """The values of a column. All have ``width`` bytes, or value ``i`` has the bytes ``offsets[i]:offsets[i + 1]``.

    ``data`` has a row for each value in the first case, and is flat in the second. ``valid`` is ``None`` without nulls;
    what ``data`` holds for a null does not count.
    """

    data: np.ndarray
    width: int | None
    offsets: np.ndarray | None
    valid: np.ndarray | None


def fits(type_: pa.DataType, column: Column) -> bool:
    """Returns whether rows of ``type_`` can be written into ``column``, its values permitting."""
    if column.is_enum:
        return _is_text(type_)
    known = ENCODED.get(column.type_name)
    return known is not None and known[0](type_)


def cells_of(values: pa.Array, column: Column) -> Cells:
    """Raises BadDataError for a value that the column can't hold."""
    valid = values.is_valid().to_numpy(zero_copy_only=False) if values.null_count else None
    try:
        if column.is_enum:
            return _text(values, valid)
        return ENCODED[column.type_name][1](values, valid)
    except (pa.ArrowInvalid, ValueError) as error:
        raise BadDataError(f"column '{column.name}' ({column.type_name}) can't hold a value: {error}") from error


def read_type(column: Column) -> tuple[pa.DataType, bool]:
    """The Arrow type to read ``column`` as, and whether the database must cast it to text for that."""
    if column.type_name == "numeric":
        precision, scale = column.decimal_places or (38, 18)
        return (pa.string(), True) if precision > 38 or scale > precision else (pa.decimal128(precision, scale), False)
    known = _READ.get(column.type_name)
    return (known, False) if known is not None and not column.is_enum else (pa.string(), True)


_READ = {
    "bool": pa.bool_(),
    "int2": pa.int16(),
    "int4": pa.int32(),
    "int8": pa.int64(),
    "float4": pa.float32(),
    "float8": pa.float64(),
    "text": pa.string(),
    "varchar": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}


def _is_text(type_: pa.DataType) -> bool:
    return pa.types.is_string(type_) or pa.types.is_large_string(type_)


def _is_binary(type_: pa.DataType) -> bool:
    return pa.types.is_binary(type_) or pa.types.is_large_binary(type_)


def _is_number(type_: pa.DataType) -> bool:
    return pa.types.is_signed_integer(type_) or pa.types.is_decimal128(type_)


def _is_timestamp(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.unit == "us" and type_.tz is None


def _is_instant(type_: pa.DataType) -> bool:
    return pa.types.is_timestamp(type_) and type_.unit == "us" and type_.tz is not None


def _plain(values: pa.Array, kind: str) -> np.ndarray:
    """The values of a fixed-width array as they are in memory, nulls as whatever is there."""
    return np.frombuffer(values.buffers()[1], kind)[values.offset : values.offset + len(values)]


def _fixed(numbers: np.ndarray, kind: str, valid: np.ndarray | None) -> Cells:
    """Numbers in the byte order of the network."""
    in_order = np.ascontiguousarray(numbers, dtype=kind)
    return Cells(in_order.view(np.uint8).reshape(len(numbers), -1), in_order.dtype.itemsize, None, valid)


def _number(arrow_type: pa.DataType, kind: str) -> Callable[[pa.Array, np.ndarray | None], Cells]:
    def encode(values: pa.Array, valid: np.ndarray | None) -> Cells:
        numbers = values.cast(arrow_type)  # raises for an integer that is too large
        return _fixed(_plain(numbers, kind.replace(">", "<")), kind, valid)

    return encode


def _moment(kind: str, epoch: int, limits: tuple[int, int]) -> Callable[[pa.Array, np.ndarray | None], Cells]:
    def encode(values: pa.Array, valid: np.ndarray | None) -> Cells:
        moments = _plain(values, kind.replace(">", "<"))
        outside = (moments < limits[0]) | (moments >= limits[1])
        if (outside if valid is None else outside & valid).any():
            raise ValueError("PostgreSQL has dates from 4713 BC to 294276 AD")
        with np.errstate(over="ignore"):  # of what is there for a null
            return _fixed(moments - moments.dtype.type(epoch), kind, valid)

    return encode


def _bool(values: pa.Array, valid: np.ndarray | None) -> Cells:
    return _fixed(values.fill_null(False).to_numpy(zero_copy_only=False), ">u1", valid)


def _text(values: pa.Array, valid: np.ndarray | None) -> Cells:
    kept = values.cast(pa.large_binary())
    if valid is not None:
        kept = pc.fill_null(kept, b"")
    _, offset_bytes, data = kept.buffers()
    offsets = np.frombuffer(offset_bytes, np.int64)[kept.offset : kept.offset + len(kept) + 1]
    return Cells(np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8), None, offsets, valid)


def _jsonb(values: pa.Array, valid: np.ndarray | None) -> Cells:
    """The version of the format, 1, stands before the text."""
    version, between = pa.scalar(b"\1", pa.large_binary()), pa.scalar(b"", pa.large_binary())
    return _text(pc.binary_join_element_wise(version, values.cast(pa.large_binary()), between), valid)


def _uuid(values: pa.Array, valid: np.ndarray | None) -> Cells:
    """Sixteen bytes from text such as 8c2e…: 32 hexadecimal digits, with or without the four dashes."""
    digits = pc.replace_substring(values.cast(pa.string()).fill_null("0" * 32), "-", "")
    if len(digits) and not pc.all(pc.match_substring_regex(digits, "^[0-9a-fA-F]{32}$")).as_py():
        raise ValueError("a UUID has 32 hexadecimal digits")
    text = _text(digits, None)
    assert text.offsets is not None
    letters = text.data[text.offsets[0] : text.offsets[-1]]
    nibbles = np.where(letters > 57, (letters | 32) - 87, letters - 48).astype(np.uint8)
    return Cells((nibbles[::2] << 4 | nibbles[1::2]).reshape(len(digits), 16), 16, None, valid)


def _numeric(values: pa.Array, valid: np.ndarray | None) -> Cells:
    """Digits to the base 10,000 around the decimal point, as many for each value: the server drops leading zeros."""
    if pa.types.is_integer(values.type):
        values = values.cast(pa.decimal128(19, 0))
    precision, scale = values.type.precision, values.type.scale
    if scale < 0:
        precision, scale = precision - scale, 0
        values = values.cast(pa.decimal128(precision, 0))
    halves = np.frombuffer(values.buffers()[1], "<u8").reshape(-1, 2)[values.offset : values.offset + len(values)]
    negative = halves[:, 1] >> np.uint64(63) == 1
    low = np.where(negative, ~halves[:, 0] + np.uint64(1), halves[:, 0])
    carry = (negative & (halves[:, 0] == 0)).astype(np.uint64)
    high = np.where(negative, ~halves[:, 1] + carry, halves[:, 1])
    # Four limbs of 32 bits, the highest first, so that a remainder and a limb fit into 64.
    mask, bits = np.uint64(0xFFFFFFFF), np.uint64(32)
    limbs = [high >> bits, high & mask, low >> bits, low & mask]

    def take(divisor: int) -> np.ndarray:
        rest = np.zeros(len(values), np.uint64)
        for i, limb in enumerate(limbs):
            rest = rest << bits | limb
            limbs[i], rest = rest // np.uint64(divisor), rest % np.uint64(divisor)
        return rest

    groups = []
    if scale % 4:
        groups.append(take(10 ** (scale % 4)) * np.uint64(10 ** (4 - scale % 4)))
    groups += [take(10_000) for _ in range(scale // 4)]
    whole = max(1, -(-(precision - scale) // 4))
    groups += [take(10_000) for _ in range(whole)]
    out = np.empty((len(values), 4 + len(groups)), ">u2")
    out[:, 0], out[:, 1], out[:, 3] = len(groups), whole - 1, scale
    out[:, 2] = np.where(negative, 0x4000, 0)
    for place, group in enumerate(reversed(groups)):
        out[:, 4 + place] = group
    return Cells(out.view(np.uint8).reshape(len(values), -1), 2 * out.shape[1], None, valid)


#: By the type of the column: which Arrow types it takes, and how their values are encoded.
ENCODED: dict[str, tuple[Callable[[pa.DataType], bool], Callable[[pa.Array, np.ndarray | None], Cells]]] = {
    "bool": (pa.types.is_boolean, _bool),
    "int2": (pa.types.is_signed_integer, _number(pa.int16(), ">i2")),
    "int4": (pa.types.is_signed_integer, _number(pa.int32(), ">i4")),
    "int8": (pa.types.is_signed_integer, _number(pa.int64(), ">i8")),
    "float4": (pa.types.is_float32, _number(pa.float32(), ">f4")),
    "float8": (pa.types.is_floating, _number(pa.float64(), ">f8")),
    "numeric": (_is_number, _numeric),
    "text": (_is_text, _text),
    "varchar": (_is_text, _text),
    "bpchar": (_is_text, _text),
    "json": (_is_text, _text),
    "jsonb": (_is_text, _jsonb),
    "uuid": (_is_text, _uuid),
    "bytea": (_is_binary, _text),
    "date": (pa.types.is_date32, _moment(">i4", _DAYS, _DAY_LIMITS)),
    "timestamp": (_is_timestamp, _moment(">i8", _MICROSECONDS, _MICROSECOND_LIMITS)),
    "timestamptz": (_is_instant, _moment(">i8", _MICROSECONDS, _MICROSECOND_LIMITS)),
}
