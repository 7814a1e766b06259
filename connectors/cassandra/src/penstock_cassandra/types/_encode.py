"""Arrow arrays into cells: each function makes one binary array of a whole column."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock_cassandra.types._cql import CqlType
from penstock_cassandra.types._encode_slow import encode_decimals, encode_durations, encode_varints

__all__ = ["NULL", "UNSET", "encode", "prefixed"]

#: What stands for the length of a cell that is null, or that is left as it is.
NULL, UNSET = -1, -2
_EMPTY = pa.scalar(b"", pa.binary())
_FIXED: dict[str, tuple[pa.DataType, str]] = {
    "bigint": (pa.int64(), ">i8"),
    "counter": (pa.int64(), ">i8"),
    "double": (pa.float64(), ">f8"),
    "float": (pa.float32(), ">f4"),
    "int": (pa.int32(), ">i4"),
    "smallint": (pa.int16(), ">i2"),
    "tinyint": (pa.int8(), ">i1"),
}


def encode(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    """Returns the cell of each value, nulls where they were. Raises BadDataError or pyarrow.ArrowInvalid."""
    if pa.types.is_null(array.type):
        return array.cast(pa.binary())
    if cql.name in _FIXED:
        arrow, kind = _FIXED[cql.name]
        return _numbers(array.cast(arrow), kind)
    return _ENCODERS[cql.name](array, cql)


def prefixed(cells: pa.BinaryArray, missing: int = NULL) -> pa.BinaryArray:
    """Returns each cell after its length; a null one is the length ``missing`` alone."""
    lengths = pc.fill_null(pc.binary_length(cells), missing)
    heads = _numbers(lengths, ">i4")
    return pc.binary_join_element_wise(heads, pc.fill_null(cells, _EMPTY), _EMPTY)


def _numbers(array: pa.Array, kind: str) -> pa.BinaryArray:
    nulls = array.is_null()
    values = array.fill_null(0) if array.null_count else array
    return _of_rows(values.to_numpy(zero_copy_only=False).astype(kind), nulls if array.null_count else None)


def _of_rows(values: Any, nulls: pa.Array | None) -> pa.BinaryArray:
    """Returns a binary array of a NumPy array's rows."""
    size = values.dtype.itemsize * (values.shape[1] if values.ndim > 1 else 1)
    offsets = np.arange(len(values) + 1, dtype=np.int32) * size
    data = pa.py_buffer(np.ascontiguousarray(values))
    array = pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), data])
    return array if nulls is None else pc.if_else(nulls, pa.scalar(None, pa.binary()), array)


def _booleans(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    return _numbers(array.cast(pa.int8()), ">i1")


def _dates(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    days = pc.add(array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), 1 << 31)
    return _numbers(days.cast(pa.uint32()), ">u4")


def _timestamps(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    unit = {"s": 1, "ms": 1, "us": 1000, "ns": 1_000_000}[array.type.unit]
    numbers = array.cast(pa.int64())
    nulls = numbers.is_null() if numbers.null_count else None
    values = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    # Downwards, also before 1970.
    millis = values * 1000 if array.type.unit == "s" else values // unit
    return _of_rows(millis.astype(">i8"), nulls)


def _times(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    if pa.types.is_time(array.type):
        array = array.cast(pa.time64("ns"))
    return _numbers(array.cast(pa.int64()), ">i8")


def _texts(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    return array.cast(pa.string()).view(pa.binary())


def _bytes(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    return array.cast(pa.binary())


def _uuids(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    if pa.types.is_binary(array.type):
        _check_lengths(array, (16,), str(cql))
        return array
    lower = pc.utf8_lower(array)
    fits = pc.match_substring_regex(lower, "^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$")
    _complain(array, fits, f"is not a {cql}")
    nulls = array.is_null() if array.null_count else None
    digits = pc.fill_null(pc.replace_substring(lower, "-", ""), "0" * 32)
    data = bytes.fromhex("".join(digits.to_pylist()))
    if cql.name == "timeuuid" and len(data):
        version = np.frombuffer(data, np.uint8).reshape(-1, 16)[:, 6] >> 4
        _complain(array, pc.or_(pa.array(version == 1), array.is_null()), "is not a timeuuid (a UUID of version 1)")
    return _of_rows(np.frombuffer(data, np.uint8).reshape(-1, 16), nulls)


def _inets(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    if pa.types.is_binary(array.type):
        _check_lengths(array, (4, 16), "inet")
        return array
    encoded = array.dictionary_encode()
    packed = []
    # Each address is turned once, however often it comes.
    for text in encoded.dictionary.to_pylist():
        try:
            packed.append(ipaddress.ip_address(text).packed)
        except ValueError:
            raise BadDataError(f"{text!r} is not an address (inet)") from None
    return pa.array(packed, pa.binary()).take(encoded.indices)


def _check_lengths(array: pa.Array, lengths: tuple[int, ...], what: str) -> None:
    _complain(array, pc.is_in(pc.binary_length(array), pa.array(lengths, pa.int32())), f"is not a {what}", nulls=True)


def _complain(array: pa.Array, fits: pa.Array, words: str, nulls: bool = False) -> None:
    fits = pc.or_(fits, array.is_null()) if nulls else fits
    bad = pc.index(fits, False).as_py()
    if bad >= 0:
        raise BadDataError(f"{array[bad].as_py()!r} {words}")


def _values_of(array: pa.Array) -> tuple[Any, Any]:
    """Returns the offsets of a list or map array, and of its slice only, with the part of its values that they point
    to.
    """
    offsets = array.offsets.to_numpy(zero_copy_only=False)
    return offsets - offsets[0], slice(int(offsets[0]), int(offsets[-1]))


def _with_offsets(array: pa.Array) -> pa.ListArray:
    if pa.types.is_fixed_size_list(array.type):
        return array.cast(pa.list_(array.type.value_type))
    return array


def _checked(values: pa.Array, cql: CqlType) -> pa.Array:
    if values.null_count:
        raise BadDataError(f"a {cql} can't hold null")
    return values


def _joined(array: pa.Array, offsets: Any, items: pa.BinaryArray, counts: Any) -> pa.BinaryArray:
    """Neighbouring ``items`` put together, after how many there are."""
    _, item_offsets, data = items.buffers()
    bounds = (
        np.frombuffer(item_offsets, np.int32)[items.offset : items.offset + len(items) + 1]
        if len(items)
        else np.zeros(1, np.int32)
    )
    joined = pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(np.ascontiguousarray(bounds[offsets])), data or pa.py_buffer(b"")]
    )
    cells = pc.binary_join_element_wise(_of_rows(counts.astype(">i4"), None), joined, _EMPTY)
    return pc.if_else(array.is_null(), pa.scalar(None, pa.binary()), cells) if array.null_count else cells


def _lists(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    array = _with_offsets(array)
    offsets, used = _values_of(array)
    values = _checked(array.values[used], cql)
    return _joined(array, offsets, prefixed(encode(values, cql.args[0])), np.diff(offsets))


def _maps(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    offsets, used = _values_of(array)
    keys, values = array.keys[used], _checked(array.items[used], cql)
    heads = prefixed(encode(keys, cql.args[0]))
    items = pc.binary_join_element_wise(heads, prefixed(encode(values, cql.args[1])), _EMPTY)
    return _joined(array, offsets, items, np.diff(offsets))


def _structs(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    # Flattened: what stands below a null is null, whatever is there.
    fields = [prefixed(encode(field, arg)) for field, arg in zip(array.flatten(), cql.args, strict=True)]
    cells = pc.binary_join_element_wise(*fields, _EMPTY)
    return pc.if_else(array.is_null(), pa.scalar(None, pa.binary()), cells) if array.null_count else cells


def _vectors(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    array = _with_offsets(array)
    offsets, used = _values_of(array)
    counts = np.diff(offsets)
    if bool(((counts != cql.size) & ~array.is_null().to_numpy(zero_copy_only=False)).any()):
        raise BadDataError(f"a {cql} has {cql.size} elements")
    values = _checked(array.values[used], cql)
    items = encode(values, cql.args[0])
    _, item_offsets, data = items.buffers()
    bounds = np.frombuffer(item_offsets, np.int32)
    cells = pa.Array.from_buffers(
        pa.binary(), len(array), [None, pa.py_buffer(np.ascontiguousarray(bounds[offsets])), data or pa.py_buffer(b"")]
    )
    return pc.if_else(array.is_null(), pa.scalar(None, pa.binary()), cells) if array.null_count else cells


_ENCODERS: dict[str, Any] = {
    "ascii": _texts,
    "blob": _bytes,
    "boolean": _booleans,
    "date": _dates,
    "decimal": encode_decimals,
    "duration": encode_durations,
    "inet": _inets,
    "list": _lists,
    "map": _maps,
    "set": _lists,
    "text": _texts,
    "time": _times,
    "timestamp": _timestamps,
    "timeuuid": _uuids,
    "tuple": _structs,
    "udt": _structs,
    "uuid": _uuids,
    "varint": encode_varints,
    "vector": _vectors,
}
