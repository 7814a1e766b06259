"""JSON to typed columns: whole blocks by Arrow's parser, single values for rows that do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from penstock_filesystem.source.convert import TemporalConverter, base64_bytes, cell_converter, fit_decimal

__all__ = ["JsonBlockParser", "ValueConverter", "value_converter"]


def _raw_type(type_: pa.DataType) -> pa.DataType | None:
    """The type to parse as, before :func:`_finish`; ``None`` for types that only the closer look can read."""
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return pa.string()
    if pa.types.is_binary(type_) or pa.types.is_map(type_):
        return None
    if pa.types.is_struct(type_):
        fields = [(field.name, _raw_type(field.type)) for field in type_]
        return None if any(raw is None for _, raw in fields) else pa.struct(fields)
    if pa.types.is_list(type_):
        raw = _raw_type(type_.value_type)
        return None if raw is None else pa.list_(raw)
    return type_


def _finish(array: pa.Array, type_: pa.DataType, temporal: TemporalConverter) -> pa.Array:
    if array.type.equals(type_):
        return array
    if pa.types.is_struct(type_):
        children = [_finish(array.field(i), field.type, temporal) for i, field in enumerate(type_)]
        return pa.StructArray.from_arrays(children, fields=list(type_), mask=array.is_null())
    if pa.types.is_list(type_):
        values = _finish(array.values, type_.value_type, temporal)
        return pa.ListArray.from_arrays(array.offsets, values, mask=array.is_null()).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_):
        return temporal.column(array, type_)
    return pc.cast(array, type_)


class JsonBlockParser:
    """Parses blocks in which every row fits; says so if one does not. Fields that are not asked for are skipped."""

    def __init__(self, schema: pa.Schema, temporal: TemporalConverter) -> None:
        self._schema = schema
        self._temporal = temporal
        raw = [_raw_type(field.type) for field in schema]
        self._raw = None if not raw or None in raw else pa.schema(list(zip(schema.names, raw, strict=True)))

    def parse(self, data: bytes) -> dict[str, pa.Array] | None:
        """Columns of the objects in ``data`` (one a line, UTF-8); ``None`` if the rows need a closer look."""
        if self._raw is None:
            return None
        expected = data.count(b"\n") + (not data.endswith(b"\n"))
        try:
            # Arrow's JSON parser does not look at what strings are made of.
            pa.array([data], pa.large_binary()).cast(pa.large_string())
            table = pajson.read_json(
                pa.BufferReader(data),
                read_options=pajson.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pajson.ParseOptions(explicit_schema=self._raw, unexpected_field_behavior="ignore"),
            )
            if table.num_rows != expected:
                return None
            columns = {
                field.name: _finish(table.column(field.name).combine_chunks(), field.type, self._temporal)
                for field in self._schema
            }
            for column in columns.values():
                if _holds_decimals(column.type):
                    column.validate(full=True)  # the parser looks at a number's digits before it scales it
            return columns
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
            return None


def _holds_decimals(type_: pa.DataType) -> bool:
    nested = [type_.field(i).type for i in range(type_.num_fields)]
    return pa.types.is_decimal(type_) or any(_holds_decimals(one) for one in nested)


#: A parsed value to what ``pa.array`` takes. Raises ValueError; ``None`` in, ``None`` out.
ValueConverter = Callable[[Any], Any]


def value_converter(type_: pa.DataType, temporal: TemporalConverter, problem: Callable[[str], None]) -> ValueConverter:
    """The converter of one JSON value. What does not fit becomes ``None`` and is told to ``problem``."""
    convert = _converter(type_, temporal, problem)

    def guarded(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except (ValueError, OverflowError, ArithmeticError):
            problem(f"{json.dumps(value, default=str)} is not {type_}")
            return None

    return guarded


def _converter(type_: pa.DataType, temporal: TemporalConverter, problem: Callable[[str], None]) -> ValueConverter:
    if pa.types.is_struct(type_):
        fields = [(field.name, value_converter(field.type, temporal, problem)) for field in type_]
        return lambda value: {name: convert(_of(value, dict).get(name)) for name, convert in fields}
    if pa.types.is_list(type_):
        item = value_converter(type_.value_type, temporal, problem)
        return lambda value: [item(element) for element in _of(value, list)]
    if pa.types.is_map(type_):
        item = value_converter(type_.item_type, temporal, problem)
        return lambda value: [(key, item(element)) for key, element in _of(value, dict).items()]
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return _as_text
    if pa.types.is_boolean(type_):
        return lambda value: _of(value, bool)
    if pa.types.is_integer(type_):
        cell = cell_converter(type_, temporal)
        return lambda value: cell(str(_number(value, int)))
    if pa.types.is_floating(type_):
        return _as_float
    if pa.types.is_decimal(type_):
        return lambda value: fit_decimal(Decimal(str(value if isinstance(value, str) else _number(value))), type_)
    if pa.types.is_binary(type_):
        return lambda value: base64_bytes(_of(value, str))
    cell = cell_converter(type_, temporal)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return lambda value: cell(value) if isinstance(value, str) else _from_epoch(_number(value, int))
    return lambda value: cell(_of(value, str))


def _from_epoch(seconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(seconds=seconds)


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError
    return value


def _number(value: Any, kind: type | tuple[type, ...] = (int, Decimal)) -> Any:
    if isinstance(value, bool):
        raise ValueError
    return _of(value, kind)  # type: ignore[arg-type]


def _as_float(value: Any) -> float:
    if isinstance(value, str):
        if value.lstrip("+-") not in ("NaN", "Infinity", "INF", "Inf"):
            raise ValueError
        return float(value)
    return float(_number(value))


def _as_text(value: Any) -> str:
    if isinstance(value, str | Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)
