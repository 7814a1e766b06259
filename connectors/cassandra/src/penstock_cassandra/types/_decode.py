"""Cells into Arrow arrays, column by column. No copy of a page is made but the columns themselves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.serialization import MALFORMED, shortened
from penstock.serialization.ddl import shown_type
from penstock_cassandra.native import walk
from penstock_cassandra.types._arrow import arrow_type, is_list, tuple_names
from penstock_cassandra.types._cql import FIXED, CqlType
from penstock_cassandra.types._slow import decimals, durations, inets, integers

__all__ = ["Cells", "check_count", "decode", "decode_page"]

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cells:
    """Cells of one type in ``body``: where each begins, and its length; -1 is null."""

    body: pa.Buffer
    starts: Int64s
    lengths: Int64s

    @property
    def nulls(self) -> npt.NDArray[np.bool_]:
        """Which are null."""
        return self.lengths < 0

    def binary(self) -> pa.BinaryArray:
        """Returns the bytes of each."""
        n = len(self.starts)
        if n == 0:
            return pa.array([], pa.binary())
        # The page itself is the data of an array whose even elements are the cells and whose odd ones lie between.
        offsets = np.empty(2 * n, np.int32)
        offsets[0::2] = self.starts
        offsets[1::2] = self.starts + np.maximum(self.lengths, 0)
        page = pa.Array.from_buffers(pa.binary(), 2 * n - 1, [None, pa.py_buffer(offsets), self.body])
        return page.take(pa.array(np.arange(0, 2 * n, 2), mask=self.nulls))

    def fixed(self, size: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
        """Returns the bytes of each as a row of ``size``, and which are null (or empty, which old clients wrote)."""
        nulls = self.lengths != size
        if bool(((self.lengths > 0) & nulls).any()):
            raise BadDataError(f"a cell is not {size} bytes long")
        page = np.frombuffer(self.body, np.uint8)
        starts = np.where(nulls, 0, self.starts)
        if len(page) < size:
            return np.zeros((len(starts), size), np.uint8), nulls
        # Each byte of the page is the first of a window: picking rows of it copies the cells and nothing else.
        windows = np.lib.stride_tricks.sliding_window_view(page, size)
        return windows[np.minimum(starts, len(windows) - 1)], nulls


def check_count(body: bytes, count: int, columns: int) -> None:
    """Raises BadDataError for more rows than the bytes of a page can hold: each cell has a length of four bytes."""
    if count < 0 or count * columns * 4 > len(body):
        raise BadDataError(f"a page of a result can't be understood: {count} rows are not in {len(body)} bytes")


def decode_page(body: bytes, count: int, types: list[CqlType], wanted: list[Any], names: list[str]) -> list[Any]:
    """Returns the columns of a page of ``count`` rows; none if none are wanted. Raises BadDataError that names it."""
    check_count(body, count, len(types))
    buffer = pa.py_buffer(body)
    whole = np.array([count * len(types)])
    starts, lengths = walk(buffer, np.array([0]), np.array([len(body)]), whole)
    columns: list[Any] = []
    for number, (cql, arrow, name) in enumerate(zip(types, wanted, names, strict=True)):
        if arrow is None:
            columns.append(None)
            continue
        cells = Cells(buffer, starts[number :: len(types)], lengths[number :: len(types)])
        try:
            columns.append(decode(cells, cql, arrow))
        except (BadDataError, pa.ArrowException, *MALFORMED) as error:
            reason = shortened(str(error))
            raise BadDataError(
                f"column '{name}' of CQL type {cql} can't be read as {shown_type(arrow)}: {reason}"
            ) from error
    return columns


def decode(cells: Cells, cql: CqlType, wanted: pa.DataType | None = None) -> pa.Array:
    """Returns an array of ``wanted`` (by default: what the type is in Arrow)."""
    wanted = wanted if wanted is not None else arrow_type(cql)
    if cql.name in _LEAVES:
        array = _LEAVES[cql.name](cells, wanted)
        return array if array.type.equals(wanted) else array.cast(wanted)
    return _NESTED[cql.name](cells, cql, wanted)


def _numbers(cells: Cells, wanted: pa.DataType, kind: str, arrow: pa.DataType) -> pa.Array:
    values, nulls = cells.fixed(np.dtype(kind).itemsize)
    numbers = np.ascontiguousarray(values).view(kind).ravel()
    return pa.array(numbers.astype(numbers.dtype.newbyteorder("=")), arrow, mask=nulls)


def _booleans(cells: Cells, wanted: pa.DataType) -> pa.Array:
    values, nulls = cells.fixed(1)
    return pa.array(values.ravel() != 0, mask=nulls)


def _dates(cells: Cells, wanted: pa.DataType) -> pa.Array:
    values, nulls = cells.fixed(4)
    days = np.ascontiguousarray(values).view(">u4").ravel().astype(np.int64) - (1 << 31)
    return pa.array(days.astype(np.int32), pa.int32(), mask=nulls).cast(pa.date32())


def _timestamps(cells: Cells, wanted: pa.DataType) -> pa.Array:
    millis = _numbers(cells, wanted, ">i8", pa.int64())
    zone = wanted.tz if pa.types.is_timestamp(wanted) else "UTC"
    return millis.cast(pa.timestamp("ms", zone)).cast(pa.timestamp("us", zone))


_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)


def _uuids(cells: Cells, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_binary(wanted):
        return cells.binary()
    values, nulls = cells.fixed(16)
    digits = _HEX[values].reshape(len(values), 32)
    text = np.full((len(values), 36), ord("-"), np.uint8)
    for digit, at, size in ((0, 0, 8), (8, 9, 4), (12, 14, 4), (16, 19, 4), (20, 24, 12)):
        text[:, at : at + size] = digits[:, digit : digit + size]
    offsets = np.arange(len(values) + 1, dtype=np.int32) * 36
    array = pa.Array.from_buffers(
        pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(text))]
    )
    return pc.if_else(pa.array(nulls), pa.scalar(None, pa.string()), array) if nulls.any() else array


def _texts(cells: Cells, wanted: pa.DataType) -> pa.Array:
    return cells.binary().cast(pa.string())


def _bytes(cells: Cells, wanted: pa.DataType) -> pa.Array:
    return cells.binary()


def _inets(cells: Cells, wanted: pa.DataType) -> pa.Array:
    return cells.binary() if pa.types.is_binary(wanted) else inets(cells.binary())


_LEAVES: dict[str, Any] = {
    "ascii": _texts,
    "bigint": partial(_numbers, kind=">i8", arrow=pa.int64()),
    "blob": _bytes,
    "boolean": _booleans,
    "counter": partial(_numbers, kind=">i8", arrow=pa.int64()),
    "date": _dates,
    "decimal": lambda cells, wanted: decimals(cells.binary(), wanted),
    "double": partial(_numbers, kind=">f8", arrow=pa.float64()),
    "duration": lambda cells, wanted: durations(cells.binary()),
    "float": partial(_numbers, kind=">f4", arrow=pa.float32()),
    "inet": _inets,
    "int": partial(_numbers, kind=">i4", arrow=pa.int32()),
    "smallint": partial(_numbers, kind=">i2", arrow=pa.int16()),
    "text": _texts,
    "time": partial(_numbers, kind=">i8", arrow=pa.int64()),
    "timestamp": _timestamps,
    "timeuuid": _uuids,
    "tinyint": partial(_numbers, kind=">i1", arrow=pa.int8()),
    "uuid": _uuids,
    "varint": lambda cells, wanted: integers(cells.binary(), wanted),
}


def _elements(cells: Cells, per_entry: int) -> tuple[Cells, Int64s]:
    """Returns what is in collections, and how many entries each has."""
    values, nulls = _counts(cells)
    counts = np.where(nulls, 0, values)
    rooms = np.maximum(cells.lengths - 4, 0)
    if bool(((counts < 0) | (counts * per_entry * 4 > rooms)).any()):
        raise BadDataError("a collection has more elements than bytes")
    present = np.where(nulls, 0, cells.starts + 4)
    starts, lengths = walk(cells.body, present, present + rooms, counts * per_entry)
    return Cells(cells.body, starts, lengths), counts


def _counts(cells: Cells) -> tuple[Int64s, npt.NDArray[np.bool_]]:
    nulls = cells.lengths < 4
    heads = Cells(cells.body, cells.starts, np.where(nulls, -1, 4))
    return np.ascontiguousarray(heads.fixed(4)[0]).view(">i4").ravel().astype(np.int64), nulls


def _list_offsets(counts: Int64s, nulls: npt.NDArray[np.bool_]) -> pa.Array:
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    # A null offset says that the list is null.
    return pa.array(offsets, mask=np.append(nulls, False)) if nulls.any() else pa.array(offsets)


def _lists(cells: Cells, cql: CqlType, wanted: pa.DataType) -> pa.Array:
    elements, counts = _elements(cells, 1)
    values = decode(elements, cql.args[0], wanted.value_type)
    return pa.ListArray.from_arrays(_list_offsets(counts, cells.nulls), values).cast(wanted)


def _maps(cells: Cells, cql: CqlType, wanted: pa.DataType) -> pa.Array:
    both, counts = _elements(cells, 2)
    keys = decode(Cells(both.body, both.starts[0::2], both.lengths[0::2]), cql.args[0], wanted.key_type)
    values = decode(Cells(both.body, both.starts[1::2], both.lengths[1::2]), cql.args[1], wanted.item_type)
    return pa.MapArray.from_arrays(_list_offsets(counts, cells.nulls), keys, values).cast(wanted)


def _structs(cells: Cells, cql: CqlType, wanted: pa.DataType) -> pa.Array:
    width = len(cql.args)
    counts = np.full(len(cells.starts), width)
    ends = cells.starts + np.maximum(cells.lengths, 0)
    starts, lengths = walk(cells.body, cells.starts, ends, counts)
    fields = [
        decode(Cells(cells.body, starts[i::width], lengths[i::width]), arg, wanted.field(i).type)
        for i, arg in enumerate(cql.args)
    ]
    names = [wanted.field(i).name for i in range(width)] or tuple_names(cql)
    return pa.StructArray.from_arrays(fields, names, mask=pa.array(cells.nulls)).cast(wanted)


def _vectors(cells: Cells, cql: CqlType, wanted: pa.DataType) -> pa.Array:
    element = cql.args[0]
    size = FIXED.get(element.name)
    if size is None or not is_list(wanted):
        raise BadDataError("only vectors of fixed-size types can be read")
    if bool((cells.lengths[~cells.nulls] != cql.size * size).any()):
        raise BadDataError(f"a vector is not of {cql.size} elements")
    if bool(cells.nulls.all()):
        return pa.nulls(len(cells.starts), wanted)
    counts = np.where(cells.nulls, 0, cql.size)
    starts = (cells.starts[~cells.nulls, None] + np.arange(cql.size) * size).ravel()
    values = decode(Cells(cells.body, starts, np.full(len(starts), size)), element, wanted.value_type)
    return pa.ListArray.from_arrays(_list_offsets(counts, cells.nulls), values).cast(wanted)


_NESTED: dict[str, Any] = {
    "list": _lists,
    "set": _lists,
    "map": _maps,
    "tuple": _structs,
    "udt": _structs,
    "vector": _vectors,
}
