"""What of Arrow columns does not fit the schema, kept as JSON: the option ``rescuedDataColumn``."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values import JsonWriter, ValueText, why_not_json
from penstock_filesystem.formats._fit import Lacks, find_name, fit_column

__all__ = ["as_text", "fit_columns", "to_json"]

_JSON = JsonWriter(ValueText(), ignore_nulls=True)


def fit_columns(
    columns: Mapping[str, pa.Array], fields: list[pa.Field], prefix: str, count: int, lacks: Lacks
) -> tuple[dict[str, pa.Array], dict[str, pa.Array]]:
    """Returns ``columns`` of ``count`` rows as ``fields``, and what does not fit by the names that they have.

    A column that no field asks for does not fit. ``prefix`` is put before the names of fields in errors.
    """
    fitted, left = {}, dict(columns)
    for field in fields:
        name = find_name(field.name, list(columns))
        if name is None:
            lacks(prefix + field.name, list(columns))
            fitted[field.name] = pa.nulls(count, field.type)
            continue
        fitted[field.name], rest = _fit_column(columns[name], field.type, prefix + field.name, lacks)
        if rest is None or name not in left:
            left.pop(name, None)
        else:
            left[name] = rest
    return fitted, left


def _fit_column(column: pa.Array, type_: pa.DataType, path: str, lacks: Lacks) -> tuple[pa.Array, pa.Array | None]:
    """Returns ``column`` as ``type_``, and what of it does not fit: null where all does, ``None`` if that is every row.

    A value that can't be cast is null in the first and as it is in the second. Of structs, the second has the fields
    that ``type_`` lacks, and those that do not fit. A list or a map of which an element does not fit is there whole;
    likewise one whose elements have more fields than ``type_``. Parameters are as of :func:`fit_column`.
    """
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_struct(column.type) and pa.types.is_struct(type_):
        return _struct(column, type_, path, lacks)
    fitted, misfits = _each(column, type_, lambda part: fit_column(part, type_, path, lacks))
    if _has_more(column.type, type_):
        return fitted, column
    if misfits is None:
        return fitted, None
    rows = pc.if_else(misfits, pa.array(range(len(column)), pa.int64()), pa.scalar(None, pa.int64()))
    return fitted, column.take(rows)


def _struct(column: pa.Array, type_: pa.DataType, path: str, lacks: Lacks) -> tuple[pa.Array, pa.Array | None]:
    children = dict(zip((field.name for field in column.type), column.flatten(), strict=True))
    fitted, left = fit_columns(children, list(type_), f"{path}.", len(column), lacks)
    if fitted:
        made = pa.StructArray.from_arrays(list(fitted.values()), fields=list(type_), mask=column.is_null())
    else:
        made = fit_column(column, type_, path, lacks)
    if not left:
        return made, None
    is_empty = reduce(pc.and_, (one.is_null() for one in left.values()))
    return made, pa.StructArray.from_arrays(list(left.values()), names=list(left), mask=is_empty)


#: Casts a column, or raises pa.ArrowException.
_Fit = Callable[[pa.Array], pa.Array]


def _each(column: pa.Array, type_: pa.DataType, fit: _Fit) -> tuple[pa.Array, pa.Array | None]:
    """Returns the column as ``fit`` makes it, and where it does not: there it is null. ``None``: nowhere."""
    found = list(_pieces(column, type_, fit))
    if len(found) == 1:
        ((fitted, is_misfit),) = found
        return fitted, pa.array([True] * len(column)) if is_misfit else None
    misfits = [is_misfit for fitted, is_misfit in found for _ in range(len(fitted))]
    return pa.concat_arrays([fitted for fitted, _ in found]), pa.array(misfits, pa.bool_())


def _pieces(part: pa.Array, type_: pa.DataType, fit: _Fit) -> Iterator[tuple[pa.Array, bool]]:
    """Yields the part in pieces of which all values fit, or none does: these are nulls."""
    # What does not fit is looked for by halves: Arrow's casts don't say which value it is.
    try:
        yield fit(part), False
    except pa.ArrowException as error:
        if len(part) == 1 or isinstance(error, pa.ArrowNotImplementedError):
            yield pa.nulls(len(part), type_), True
            return
        middle = len(part) // 2
        for half in (range(middle), range(middle, len(part))):
            # A copy: a cast of a part of a list array looks at the elements of all of it.
            yield from _pieces(part.take(pa.array(half)), type_, fit)


def _has_more(one: pa.DataType, other: pa.DataType) -> bool:
    """Returns whether a struct somewhere in ``one`` has a field that the one in ``other`` lacks."""
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        names = {field.name: find_name(field.name, [theirs.name for theirs in one]) for field in other}
        if {field.name for field in one} - set(names.values()):
            return True
        return any(
            _has_more(one.field(theirs).type, other.field(ours).type)
            for ours, theirs in names.items()
            if theirs is not None
        )
    if not pa.types.is_nested(one) or not pa.types.is_nested(other) or one.num_fields != other.num_fields:
        return False
    return any(_has_more(one.field(number).type, other.field(number).type) for number in range(one.num_fields))


def to_json(columns: Mapping[str, pa.Array], count: int) -> pa.Array:
    """Returns an object of the columns for each of ``count`` rows, without nulls; null where it would be empty."""
    if not columns:
        return pa.nulls(count, pa.string())
    texts = _JSON.objects(list(columns), [_with_json(column) for column in columns.values()])
    is_empty = reduce(pc.and_, (column.is_null() for column in columns.values()))
    return pc.if_else(is_empty, pa.scalar(None, pa.string()), texts)


def _with_json(column: pa.Array) -> pa.Array:
    """Returns the column, or its values as texts if JSON has no form of their type."""
    if not why_not_json(column.type):
        return column
    # Value by value in Python: times of day, durations, maps whose keys are no texts.
    return pa.array([as_text(value) for value in column.to_pylist()], pa.string())


def as_text(value: Any) -> str | None:
    """Returns a value of Python's as text: JSON for what has parts, base64 for bytes, and ``None`` for ``None``."""
    if value is None:
        return None
    return json.dumps(value, default=_plain, ensure_ascii=False) if isinstance(value, dict | list) else _plain(value)


def _plain(value: Any) -> str:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
