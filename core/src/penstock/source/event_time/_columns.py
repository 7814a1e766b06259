"""Columns by their path, such as ``value.at``."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.ddl import shown_type

__all__ = ["column_at", "type_at"]


def type_at(schema: pa.Schema, path: str, option: str) -> pa.DataType:
    """Returns the type of the column or field ``path``. Raises BadConfigurationError that names the ``option`` if there
    is none.
    """
    type_: pa.DataType = pa.struct(list(schema))
    for number, name in enumerate(names := path.split(".")):
        inside = [field.name for field in type_] if pa.types.is_struct(type_) else []
        if name not in inside:
            where = (
                f"'{'.'.join(names[:number])}' is {shown_type(type_)}" if number else f"there are {', '.join(inside)}"
            )
            raise BadConfigurationError(f"option '{option}': no column '{path}': {where}")
        type_ = type_.field(name).type
    return type_


def column_at(records: pa.RecordBatch, path: str) -> pa.Array:
    """Returns the column or field ``path``; null where a struct around it is."""
    first, *rest = path.split(".")
    column = records[first]
    return pc.struct_field(column, rest) if rest else column
