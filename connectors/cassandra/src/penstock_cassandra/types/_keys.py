"""Values of keys: what is one key to the server must be the same bytes, and equal here.

A set or a map has one order. The server sorts what it is sent, but neither inside user-defined types nor in descending
columns: there the same set in another order would be another key.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from penstock_cassandra.types._cql import CqlType
from penstock_cassandra.types._encode import encode

__all__ = ["comparable", "key_cells"]

#: Types whose Arrow values are equal if and only if their cells are.
_AS_THEY_ARE = {"ascii", "bigint", "blob", "boolean", "date", "int", "smallint", "text", "tinyint"}
_SIGNED = {"bigint", "int", "smallint", "time", "timestamp", "tinyint", "varint"}
_FLOATS = {"double": ">d", "float": ">f"}


def comparable(array: pa.Array, cql: CqlType) -> pa.Array:
    """``array``, or its cells; not nested, and equal where keys are. Raises as :func:`encode` does."""
    return array if cql.name in _AS_THEY_ARE else key_cells(array, cql)


def key_cells(array: pa.Array, cql: CqlType) -> pa.BinaryArray:
    """Returns the cells of a column of the key: as :func:`encode` makes them, sets and maps in the server's order."""
    cells = encode(array, cql)
    if not _has_order(cql):
        return cells
    # Value by value: such keys are rare.
    return pa.array([None if cell is None else _ordered(cell, cql) for cell in cells.to_pylist()], pa.binary())


def _has_order(cql: CqlType) -> bool:
    return cql.name in ("set", "map") or any(map(_has_order, cql.args))


def _ordered(cell: bytes, cql: CqlType) -> bytes:
    if not _has_order(cql):
        return cell
    if cql.name in ("tuple", "udt"):
        return b"".join(map(_framed, _parts(cell, 0, cql.args)))
    parts: list[Any] = list(_parts(cell, 4, cql.args * int.from_bytes(cell[:4], "big")))
    element = cql.args[0]
    if cql.name == "set":
        parts = sorted(set(parts), key=lambda part: _rank(part, element))
    if cql.name == "map":
        entries = dict(zip(parts[0::2], parts[1::2], strict=True))
        keys = sorted(entries, key=lambda part: _rank(part, element))
        parts = [part for key in keys for part in (key, entries[key])]
    return (len(parts) // len(cql.args)).to_bytes(4, "big") + b"".join(map(_framed, parts))


def _rank(cell: bytes, cql: CqlType) -> Any:
    """By what the server sorts; of other types (decimals, UUIDs, nested ones) at least always the same."""
    if cql.name in _SIGNED:
        return int.from_bytes(cell, "big", signed=True)
    return struct.unpack(_FLOATS[cql.name], cell) if cql.name in _FLOATS else cell


def _parts(cell: bytes, at: int, types: tuple[CqlType, ...]) -> Iterator[bytes | None]:
    for cql in types:
        size = int.from_bytes(cell[at : at + 4], "big", signed=True)
        at += 4
        yield None if size < 0 else _ordered(cell[at : at + size], cql)
        at += max(0, size)


def _framed(part: bytes | None) -> bytes:
    return b"\xff" * 4 if part is None else len(part).to_bytes(4, "big") + part
