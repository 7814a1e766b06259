"""Which Arrow (and so Spark) type a CQL type is, and which others it may be read as and written from."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type
from penstock_cassandra.types._cql import FIXED, CqlType

__all__ = ["DURATION", "arrow_type", "check_readable", "check_writable", "tuple_names"]

#: Months, days and nanoseconds are kept apart: a month has no fixed length, nor has a day.
DURATION = pa.struct([("months", pa.int32()), ("days", pa.int32()), ("nanoseconds", pa.int64())])

_SIMPLE = {
    "ascii": pa.string(),
    "bigint": pa.int64(),
    "blob": pa.binary(),
    "boolean": pa.bool_(),
    "counter": pa.int64(),
    "date": pa.date32(),
    "decimal": pa.decimal128(38, 18),
    "double": pa.float64(),
    "duration": DURATION,
    "float": pa.float32(),
    "inet": pa.string(),
    "int": pa.int32(),
    "smallint": pa.int16(),
    "text": pa.string(),
    "time": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timeuuid": pa.string(),
    "tinyint": pa.int8(),
    "uuid": pa.string(),
    "varint": pa.decimal128(38, 0),
}
_INTEGERS = ("tinyint", "smallint", "int", "bigint", "counter")


def tuple_names(cql: CqlType) -> list[str]:
    """Returns the names of a tuple's or a user-defined type's fields; those of a tuple are numbers, from 0."""
    return list(cql.fields) if cql.name == "udt" else [str(number) for number in range(len(cql.args))]


def arrow_type(cql: CqlType) -> pa.DataType:
    """Returns what a value of ``cql`` is read as, unless a schema says otherwise."""
    if cql.name in ("list", "set", "vector"):
        return pa.list_(arrow_type(cql.args[0]))
    if cql.name == "map":
        return pa.map_(arrow_type(cql.args[0]), arrow_type(cql.args[1]))
    if cql.name in ("tuple", "udt"):
        return pa.struct(list(zip(tuple_names(cql), map(arrow_type, cql.args), strict=True)))
    return _SIMPLE[cql.name]


def check_readable(column: str, cql: CqlType, wanted: pa.DataType) -> None:
    """Raises BadConfigurationError if a column can't be read as ``wanted``."""
    if not _fits(cql, wanted, _reads_as):
        raise BadConfigurationError(
            f"column '{column}' of CQL type {cql} can't be read as {shown_type(wanted)}; it is read as "
            f"{shown_type(arrow_type(cql), wanted)}"
        )


def check_writable(column: str, cql: CqlType, given: pa.DataType) -> None:
    """Raises BadConfigurationError if values of ``given`` can't be written into a column."""
    if cql.name == "vector" and cql.args[0].name not in FIXED:
        raise BadConfigurationError(f"column '{column}': a {cql} can't be written, only vectors of fixed-size types")
    if not _fits(cql, given, _writes_from):
        raise BadConfigurationError(
            f"column '{column}' of CQL type {cql} can't be written from {given}; cast it, best to {arrow_type(cql)}"
        )


def _fits(cql: CqlType, arrow: pa.DataType, leaf: object) -> bool:
    if cql.name in ("list", "set", "vector"):
        return is_list(arrow) and _fits(cql.args[0], arrow.value_type, leaf)
    if cql.name == "map":
        if not pa.types.is_map(arrow):
            return False
        return _fits(cql.args[0], arrow.key_type, leaf) and _fits(cql.args[1], arrow.item_type, leaf)
    if cql.name in ("tuple", "udt"):
        if not pa.types.is_struct(arrow) or arrow.num_fields != len(cql.args):
            return False
        if cql.name == "udt" and [arrow.field(i).name for i in range(arrow.num_fields)] != list(cql.fields):
            return False
        return all(_fits(arg, arrow.field(i).type, leaf) for i, arg in enumerate(cql.args))
    return bool(arrow == _SIMPLE[cql.name] or leaf(cql, arrow))  # type: ignore[operator]


def is_list(arrow: pa.DataType) -> bool:
    """Returns whether it is a list of any kind."""
    return bool(pa.types.is_list(arrow) or pa.types.is_large_list(arrow) or pa.types.is_fixed_size_list(arrow))


def _reads_as(cql: CqlType, arrow: pa.DataType) -> bool:
    if cql.name in _INTEGERS:
        return bool(pa.types.is_integer(arrow) and arrow.bit_width >= 8 * FIXED[cql.name])
    if cql.name == "float":
        return bool(pa.types.is_float64(arrow))
    if cql.name in ("varint", "decimal"):
        return bool(pa.types.is_decimal(arrow) or pa.types.is_string(arrow))
    if cql.name == "timestamp":
        return bool(pa.types.is_timestamp(arrow))
    if cql.name in ("uuid", "timeuuid", "inet"):
        return bool(pa.types.is_binary(arrow))
    return False


def _writes_from(cql: CqlType, arrow: pa.DataType) -> bool:
    if pa.types.is_null(arrow):
        return True
    if cql.name in _INTEGERS or cql.name in ("varint", "decimal"):
        text = cql.name in ("varint", "decimal") and pa.types.is_string(arrow)
        return bool(pa.types.is_integer(arrow) or pa.types.is_decimal(arrow) or text)
    if cql.name in ("float", "double"):
        return bool(pa.types.is_floating(arrow) or pa.types.is_integer(arrow))
    if cql.name in ("text", "ascii"):
        return bool(pa.types.is_large_string(arrow))
    if cql.name in ("uuid", "timeuuid", "inet", "blob"):
        return bool(pa.types.is_binary(arrow) or pa.types.is_large_binary(arrow))
    if cql.name == "timestamp":
        return bool(pa.types.is_timestamp(arrow))
    if cql.name == "time":
        return bool(pa.types.is_time(arrow))
    if cql.name == "duration":
        return bool(pa.types.is_duration(arrow))
    return False
