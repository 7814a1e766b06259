"""Cassandra: pages of results."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from cassandra import cqltypes

from penstock_cassandra.client import RawRows
from penstock_cassandra.client._client import _python_rows
from penstock_cassandra.types import CqlType, arrow_type, decode_page

_SIMPLE = [
    *("ascii", "bigint", "blob", "boolean", "counter", "date", "decimal", "double", "duration", "float", "inet", "int"),
    *("smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varint"),
]
_INT, _TEXT = CqlType("int"), CqlType("text")
_ADDRESS = CqlType("udt", (_TEXT, CqlType("set", (_TEXT,))), ("street", "tags"), label="address")
_NESTED = [
    CqlType("list", (_INT,)),
    CqlType("set", (_TEXT,)),
    CqlType("map", (_TEXT, CqlType("bigint"))),
    CqlType("tuple", (_INT, _TEXT, CqlType("boolean"))),
    CqlType("list", (CqlType("map", (_TEXT, CqlType("set", (_INT,)))),)),
    CqlType("list", (_ADDRESS,)),
    CqlType("vector", (CqlType("float"),), size=3),
    CqlType("list", (CqlType("decimal"),)),
]
TYPES = [*map(CqlType, _SIMPLE), *_NESTED]
#: Columns of the tables whose pages are read, by the first byte of an input; the last one wants numbers as text.
TABLES: list[list[CqlType]] = [[one] for one in TYPES] + [list(map(CqlType, ("int", "text", "decimal")))]
_CELLS = {
    "ascii": [b"", b"abc"],
    "bigint": [struct.pack(">q", -5)],
    "blob": [b"", b"\x00\xff"],
    "boolean": [b"\x01"],
    "counter": [struct.pack(">q", 7)],
    "date": [struct.pack(">I", (1 << 31) + 1)],
    "decimal": [struct.pack(">i", 2) + b"\x01\x00", struct.pack(">i", -3) + b"\xff"],
    "double": [struct.pack(">d", 1.5)],
    "duration": [b"\x02\x04\x06", b"\x80\xc8\x04\xc1\x00\x00"],
    "float": [struct.pack(">f", 0.5)],
    "inet": [b"\x7f\x00\x00\x01", bytes(15) + b"\x01"],
    "int": [struct.pack(">i", 4)],
    "smallint": [struct.pack(">h", 4)],
    "text": [b"", "grüße".encode()],
    "time": [struct.pack(">q", 86_399_999_999_999)],
    "timestamp": [struct.pack(">q", 1_700_000_000_000)],
    "timeuuid": [bytes(range(16))],
    "tinyint": [b"\x05"],
    "uuid": [bytes(range(16))],
    "varint": [b"\x00", b"\xff" * 9],
}


def _framed(cells: Sequence[bytes | None]) -> bytes:
    return b"".join(struct.pack(">i", -1) if c is None else struct.pack(">i", len(c)) + c for c in cells)


def _cell(cql: CqlType, dice: random.Random) -> bytes | None:
    if dice.random() < 0.1:
        return None
    if cql.name in _CELLS:
        return dice.choice(_CELLS[cql.name])
    if cql.name == "vector":
        return struct.pack(">3f", 1, 2, 3)
    if cql.name in ("tuple", "udt"):
        return _framed([_cell(one, dice) for one in cql.args])
    count = dice.randrange(4)
    inner = [
        dice.choice(_CELLS["text"]) if one is _TEXT else _cell(one, dice) or b""
        for _ in range(count)
        for one in cql.args
    ]
    return struct.pack(">i", count) + _framed(inner)


def page_seeds() -> list[bytes]:
    """Returns a page of each table: the table's number, the number of rows, and the cells."""
    dice, found = random.Random(4), []
    for number, types in enumerate(TABLES):
        cells = [_cell(one, dice) for _ in range(6) for one in types]
        found.append(struct.pack(">Bi", number, 6) + _framed(cells))
    return found


def _page(table: CqlType, *cells: bytes | None, count: int | None = None) -> bytes:
    number = TABLES.index([table])
    return struct.pack(">Bi", number, len(cells) if count is None else count) + _framed(cells)


def refused_pages() -> list[bytes]:
    """Returns pages that no server sends."""
    ints, texts = CqlType("list", (_INT,)), CqlType("set", (_TEXT,))
    minus, plus = struct.pack(">i", -5), struct.pack(">i", 5) + _framed([b"abcd"] * 5)
    return [
        _page(_INT, b"abcd", count=(1 << 31) - 1),
        _page(_INT, b"abcd", count=-1),
        _page(_INT, b"abc"),
        _page(ints, minus, plus),  # together no element: there was no memory for the five
        _page(ints, struct.pack(">i", (1 << 31) - 1) + bytes(8)),
        _page(ints, *[struct.pack(">i", 100_000) + bytes(8)] * 100),
        _page(texts, struct.pack(">i", 1) + _framed([b"\xff\xfe"])),
        _page(_TEXT, b"\xff\xfe"),
        _page(CqlType("ascii"), b"\xff"),
        _page(CqlType("vector", (CqlType("float"),), size=3), bytes(8)),
        _page(CqlType("decimal"), struct.pack(">i", -(1 << 31)) + b"\x05"),
        _page(CqlType("decimal"), struct.pack(">i", 0) + b"\x05" * 60_000),
        _page(CqlType("varint"), b"\x05" * 60_000),
        _page(CqlType("inet"), b"abc"),
        _page(CqlType("duration"), b"\xff"),
        _page(CqlType("duration"), b"\x02\x04"),
        _page(CqlType("timestamp"), struct.pack(">q", (1 << 63) - 1)),
    ]


def wanted(number: int) -> list[Any]:
    """Returns the columns' types in Arrow."""
    types = TABLES[number]
    if number == len(TABLES) - 1:
        return [pa.int32(), pa.string(), pa.string()]
    return [arrow_type(one) for one in types]


def read_page(data: bytes) -> object:
    """Reads a page as a task does."""
    if len(data) < 5:
        return 0
    table, count = struct.unpack_from(">Bi", data)
    table %= len(TABLES)
    types, names = TABLES[table], [f"c{i}" for i in range(len(TABLES[table]))]
    RawRows(names, count, data[5:])
    columns = decode_page(data[5:], count, types, wanted(table), names)
    for column, arrow in zip(columns, wanted(table), strict=True):
        column.validate(full=True)
        assert column.type.equals(arrow) and len(column) == count
    return count


_DRIVER_TYPES = (cqltypes.Int32Type, cqltypes.UTF8Type, cqltypes.LongType, cqltypes.UUIDType)


def row_seeds() -> list[bytes]:
    """Returns a small result: the number of rows, and the cells."""
    cells = [struct.pack(">i", 5), b"text", struct.pack(">q", 7), bytes(range(16))]
    return [struct.pack(">i", 2) + _framed([*cells, None, b"", None, None])]


def refused_rows() -> list[bytes]:
    """Returns results whose cells are not theirs."""
    return [row_seeds()[0][:-3], struct.pack(">i", 1) + _framed([b"abc", b"", None, None]), struct.pack(">i", 1 << 30)]


def read_rows(data: bytes) -> object:
    """Reads a small result into Python, as a control query does."""
    if len(data) < 4:
        return None
    columns = [("k", "t", f"c{number}", type_) for number, type_ in enumerate(_DRIVER_TYPES)]
    return _python_rows(RawRows(columns, struct.unpack_from(">i", data)[0], data[4:]))
