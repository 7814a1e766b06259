"""Values that go wrong easily, of every type that Spark hands to a sink."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa

__all__ = ["ODD_TEXTS", "SPARK_TYPES", "shown_cell"]

_UTC = datetime.timezone.utc
_EARLY, _LATE = datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999)
#: In the hour that summer time leaves out, and in the one that winter time has twice, in Central Europe.
_MISSING, _TWICE = datetime.datetime(2025, 3, 30, 2, 30), datetime.datetime(2025, 10, 26, 2, 30)

#: Spark's types by name, as Arrow gets them from Spark, each with its edges. Every column has nulls as well.
SPARK_TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "byte": (pa.int8(), [-128, 127]),
    "short": (pa.int16(), [-32768, 32767]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "long": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (pa.float32(), [0.0, -0.0, -1.5, float("inf"), float("-inf")]),
    "double": (pa.float64(), [0.1, -0.0, -1e308, 5e-324, float("nan")]),
    "decimal(38,18)": (
        pa.decimal128(38, 18),
        [decimal.Decimal("1.000000000000000001"), decimal.Decimal("-99999999999999999999.999999999999999999")],
    ),
    "string": (pa.string(), ["", "a", "ü"]),
    "binary": (pa.binary(), [b"", b"\x00\xff"]),
    "date": (pa.date32(), [_EARLY.date(), _LATE.date()]),
    "timestamp": (pa.timestamp("us", "UTC"), [t.replace(tzinfo=_UTC) for t in (_EARLY, _MISSING, _TWICE, _LATE)]),
    "timestamp_ntz": (pa.timestamp("us"), [_EARLY, _MISSING, _TWICE, _LATE]),
    "day-time interval": (pa.duration("us"), [datetime.timedelta(0), datetime.timedelta(days=-1, microseconds=1)]),
    "array": (pa.list_(pa.string()), [[], [None], ["b", "a", "b", "", None]]),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": a, "b": b} for a in (None, 0) for b in (None, "x")],
    ),
    "map": (pa.map_(pa.string(), pa.int64()), [[], [("k", None)], [("z", 0), ("", 1), ("a", -1)]]),
}

#: Texts that a format or a query language may take for something else.
ODD_TEXTS = (
    "",
    " ",
    "null",
    "\\N",
    "with \"quotes\", commas and 'apostrophes'",
    "two\nlines\r\nand a tab\t",
    "\\backslash\\",
    "grüße 東京 \N{ROCKET}",
    "e\N{COMBINING ACUTE ACCENT} is not é",
    "\N{RIGHT-TO-LEFT OVERRIDE}sdrawkcab",
    "%s {} $x ; drop table rows; --",
    "007",
    "1e5",
    "true",
    "2025-03-30",
    "\ufeffwith a byte order mark",
    "line\u2028separators\x85of\x0bUnicode\x1cand ASCII",
    "x" * 70_000,
)


def shown_cell(value: Any, type_: pa.DataType) -> str:
    """Returns a value as text, to compare two: nan equals nothing, and the entries of a map have no order."""
    if isinstance(value, list) and pa.types.is_map(type_):
        entries = [(shown_cell(key, type_.key_type), shown_cell(one, type_.item_type)) for key, one in value]
        return repr(sorted(entries))
    if isinstance(value, list) and pa.types.is_list(type_):
        return repr([shown_cell(one, type_.value_type) for one in value])
    if isinstance(value, dict) and pa.types.is_struct(type_):
        return repr({field.name: shown_cell(value.get(field.name), field.type) for field in type_})
    return repr(value)
