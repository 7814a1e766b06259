"""Columns of a file as the types of the schema: fields of structs by name, everything else by a cast."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadDataError
from penstock.serialization.values import cast_column

__all__ = ["Lacks", "find_name", "fit_column"]

#: Gets the name of a column that is missing, and those that are there. Raises, or returns if it is null.
Lacks = Callable[[str, Sequence[str]], None]


def find_name(wanted: str, names: Sequence[str]) -> str | None:
    """Returns the one of ``names`` that equals ``wanted``, or else the one that does apart from its case.

    Raises BadDataError if there are several.
    """
    if names.count(wanted) == 1:
        return wanted
    found = [name for name in names if name.lower() == wanted.lower()]
    if len(found) > 1:
        raise BadDataError(
            f"the file has several columns or fields that may be '{wanted}': {', '.join(found)}; write the name of one "
            "in the schema as the file has it, and leave out those that are there twice"
        )
    return found[0] if found else None


def fit_column(column: pa.Array, type_: pa.DataType, path: str, lacks: Lacks) -> pa.Array:
    """Returns ``column``, called ``path``, as ``type_``.

    Fields of structs, also within lists and maps, are found by name, in whatever order; others are left out. For one
    that is missing, ``lacks`` gets its path. Raises pa.ArrowException for values that do not fit.
    """
    if column.type.equals(type_):
        _check_decimals(column)
        return column
    if pa.types.is_dictionary(column.type):
        return fit_column(column.dictionary_decode(), type_, path, lacks)
    if pa.types.is_struct(type_) and pa.types.is_struct(column.type):
        children = [_child(column, field, path, lacks) for field in type_]
        if not children:
            return pa.StructArray.from_buffers(type_, len(column), column.cast(pa.struct([])).buffers())
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=column.is_null())
    if not pa.types.is_nested(type_) or not _is_reshaped(column.type, type_):
        _check_decimals(column)
        return _cast(column, type_)
    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    if pa.types.is_map(type_) and pa.types.is_map(column.type):
        keys = fit_column(column.keys, type_.key_type, f"{path}.key", lacks)
        items = fit_column(column.items, type_.item_type, f"{path}.value", lacks)
        return pa.MapArray.from_arrays(_offsets(column), keys, items, mask=column.is_null()).cast(type_)
    if pa.types.is_list(type_) and (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
        values = fit_column(column.values, type_.value_type, path, lacks)
        kind = pa.LargeListArray if pa.types.is_large_list(column.type) else pa.ListArray
        return kind.from_arrays(_offsets(column), values, mask=column.is_null()).cast(type_)
    return cast_column(column, type_)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    cast = cast_column(column, type_)
    if _may_lose(column.type, type_):
        is_other = pc.not_equal(cast.cast(column.type), column)
        if pa.types.is_floating(column.type):
            is_other = pc.and_(is_other, pc.invert(pc.is_nan(column)))
        if pc.any(is_other).as_py():
            raise pa.ArrowInvalid(f"{column.filter(is_other)[0]} would be another value")
    return cast


def _may_lose(one: pa.DataType, other: pa.DataType) -> bool:
    """Returns whether Arrow's cast changes values without an error: digits of floats, times of day, what is true."""
    types = pa.types
    if types.is_floating(one) and types.is_floating(other):
        return bool(one.bit_width > other.bit_width)
    is_number = types.is_integer(one) or types.is_floating(one)
    return bool(types.is_timestamp(one) and types.is_date(other)) or bool(is_number and types.is_boolean(other))


def _check_decimals(column: pa.Array) -> None:
    """Raises pa.ArrowInvalid for more digits than the type has: Spark fails at them, and can't say in which file."""
    if not _holds_decimals(column.type):
        return
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        # Texts that are not UTF-8 are taken as they are, as Spark takes them.
        if "precision" in str(error):
            raise


def _holds_decimals(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_holds_decimals(type_.field(number).type) for number in range(type_.num_fields))
    return bool(pa.types.is_decimal(type_))


def _child(column: pa.Array, field: pa.Field, path: str, lacks: Lacks) -> pa.Array:
    names = [one.name for one in column.type]
    name = find_name(field.name, names)
    if name is None:
        lacks(f"{path}.{field.name}", names)
        return pa.nulls(len(column), field.type)
    return fit_column(column.field(names.index(name)), field.type, f"{path}.{field.name}", lacks)


def _is_reshaped(one: pa.DataType, other: pa.DataType) -> bool:
    """Returns whether a struct somewhere in the types has other fields, or a cast of a part may lose something."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return not one.equals(other)
    if not pa.types.is_nested(one) or not pa.types.is_nested(other) or one.num_fields != other.num_fields:
        return _may_lose(one, other)
    return any(_is_reshaped(one.field(number).type, other.field(number).type) for number in range(one.num_fields))


def _offsets(column: pa.Array) -> pa.Array:
    """Returns them as an array of its own: with a mask, the constructors take no slice."""
    return pc.add(column.offsets, pa.scalar(0, column.offsets.type))
