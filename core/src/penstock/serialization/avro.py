"""Avro schemas and Arrow types, in both directions, and values as fastavro and Arrow have them. Needs fastavro."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import fastavro
import pyarrow as pa
from fastavro.schema import expand_schema

from penstock.errors import BadConfigurationError
from penstock.serialization._avro_limits import contains_itself, holds_values_without_bytes, is_without_bytes
from penstock.serialization._malformed import MALFORMED, shortened
from penstock.serialization.ddl import shown_type
from penstock.serialization.values import is_text

__all__ = [
    "AvroSchema",
    "arrow_to_avro",
    "avro_to_arrow",
    "contains_itself",
    "holds_map",
    "holds_values_without_bytes",
    "is_without_bytes",
    "load",
    "standalone",
    "stored_type",
    "with_dicts",
    "with_pairs",
    "without_logical",
]

#: A schema as JSON has it: with every named type defined once, in it.
AvroSchema = Any

_PRIMITIVES = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
#: By what stores them: the type in Avro's unit. Spark's unit is the microsecond.
_TEMPORAL = {
    "int-date": pa.date32(),
    "int-time-millis": pa.time32("ms"),
    "long-time-micros": pa.time64("us"),
    "long-timestamp-millis": pa.timestamp("ms", "UTC"),
    "long-timestamp-micros": pa.timestamp("us", "UTC"),
    "long-local-timestamp-millis": pa.timestamp("ms"),
    "long-local-timestamp-micros": pa.timestamp("us"),
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def load(option: str, text: str) -> AvroSchema:
    """Returns the schema in ``text`` (JSON). Raises BadConfigurationError that names ``option``."""
    try:
        return standalone(json.loads(text), {})
    except Exception as error:  # fastavro raises what it runs into
        reason = shortened(f"{type(error).__name__}: {error}")
        raise BadConfigurationError(f"{option} is not an Avro schema: {reason}") from None


def standalone(schema: Any, named: dict[str, Any]) -> AvroSchema:
    """``schema`` with full names, and with the types of ``named`` that it refers to defined in it.

    Raises what fastavro raises for a schema that is none. ``named`` gets the types that ``schema`` defines.
    """
    return _with_definitions(fastavro.parse_schema(schema, named_schemas=named), named, set())


def _with_definitions(part: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    """Returns a parsed schema with the types that it refers to. ``defined`` gets the names of those that it has."""
    if isinstance(part, list):
        return [_with_definitions(branch, named, defined) for branch in part]
    if isinstance(part, str):
        return _with_definitions(named[part], named, defined) if part in named and part not in defined else part
    if part["type"] in ("record", "error", "enum", "fixed"):
        defined.add(part["name"])
    kept = {key: value for key, value in part.items() if not key.startswith("__")}
    for key in ("type", "items", "values"):
        if isinstance(kept.get(key), dict | list) or kept.get(key) in named:
            kept[key] = _with_definitions(kept[key], named, defined)
    if "fields" in kept:
        kept["fields"] = [
            {**field, "type": _with_definitions(field["type"], named, defined)} for field in kept["fields"]
        ]
    return kept


def avro_to_arrow(schema: AvroSchema) -> pa.DataType:
    """Returns the Arrow type that values of ``schema`` are decoded to, as Spark maps Avro's types.

    Records are structs, enums strings, fixed is binary, timestamps and times have microseconds, a UUID is a string.
    Of unions, those with null are taken, and numbers of two sizes (the larger one). Raises BadConfigurationError for
    other unions, for a type that contains itself, and for decimals of more than 38 digits.
    """
    return _read(schema, _in_micros)


def stored_type(schema: AvroSchema) -> pa.DataType:
    """Does what :func:`avro_to_arrow` does, but keeps times in Avro's unit."""
    return _read(schema, lambda type_: type_)


def _read(schema: AvroSchema, unit: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    try:
        return _arrow(expand_schema(schema), unit)
    except (*MALFORMED, pa.ArrowException) as error:
        reason = shortened(f"{type(error).__name__}: {error}")
        raise BadConfigurationError(f"an Avro schema has no column type: {reason}") from error


def _in_micros(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", type_.tz)
    return pa.time64("us") if pa.types.is_time(type_) else type_


def _arrow(schema: Any, unit: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    if isinstance(schema, list):
        return _arrow_of_union(schema, unit)
    if isinstance(schema, str):
        if schema not in _PRIMITIVES:
            raise BadConfigurationError(f"the Avro type {schema} contains itself: no column type can hold it")
        return _PRIMITIVES[schema]
    kind = schema["type"]
    logical = f"{kind}-{schema.get('logicalType')}" if isinstance(kind, str) else ""
    if logical in _TEMPORAL:
        return unit(_TEMPORAL[logical])
    if logical in ("bytes-decimal", "fixed-decimal"):
        if schema["precision"] > 38:
            raise BadConfigurationError(f"an Avro decimal has {schema['precision']} digits: a column holds up to 38")
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if kind in ("record", "error"):
        return pa.struct([pa.field(field["name"], _arrow(field["type"], unit)) for field in schema["fields"]])
    if kind == "array":
        return pa.list_(_arrow(schema["items"], unit))
    return pa.map_(pa.string(), _arrow(schema["values"], unit)) if kind == "map" else _arrow(kind, unit)


def _arrow_of_union(branches: list[Any], unit: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    found = [_arrow(branch, unit) for branch in branches if branch != "null"]
    if len(found) == 1:
        return found[0]
    if found and all(type_ in (pa.int32(), pa.int64()) for type_ in found):
        return pa.int64()
    if found and all(type_ in (pa.float32(), pa.float64()) for type_ in found):
        return pa.float64()
    raise BadConfigurationError(
        f"the Avro union of {', '.join(map(shown_type, found)) or 'nothing'} has no column type"
    )


def without_logical(schema: AvroSchema, logical: frozenset[str]) -> AvroSchema:
    """``schema`` without the logical types named: values then come as what Avro stores."""
    if isinstance(schema, list):
        return [without_logical(branch, logical) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_logical(value, logical) if key in ("type", "items", "values", "fields") else value
        for key, value in schema.items()
        if key != "logicalType" or value not in logical
    }


def arrow_to_avro(type_: pa.DataType, name: str, namespace: str = "", *, all_nullable: bool = False) -> AvroSchema:
    """Returns the Avro schema of a column: a union with null where a field may be null, or with ``all_nullable``
    everywhere.

    Structs are records (nested ones are named by their path), timestamps and times have microseconds, decimals are
    bytes. Raises BadConfigurationError for names and types that Avro lacks.
    """
    schema = _avro(_nullable_inside(type_) if all_nullable else type_, name, "the column")
    return {**schema, "namespace": namespace} if namespace and isinstance(schema, dict) else schema


def _avro(type_: pa.DataType, name: str, path: str) -> Any:
    types = pa.types
    if types.is_struct(type_):
        return {"type": "record", "name": name, "fields": [_avro_field(field, name) for field in type_]}
    if types.is_map(type_):
        if not is_text(type_.key_type):
            raise BadConfigurationError(
                f"format avro: keys of the map '{path}' must be strings, not {shown_type(type_.key_type)}"
            )
        return {"type": "map", "values": _nullable(type_.item_field, name, path)}
    if types.is_list(type_) or types.is_large_list(type_):
        return {"type": "array", "items": _nullable(type_.value_field, name, path)}
    if types.is_decimal128(type_):
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if types.is_timestamp(type_):
        return {"type": "long", "logicalType": "timestamp-micros" if type_.tz else "local-timestamp-micros"}
    if types.is_date32(type_):
        return {"type": "int", "logicalType": "date"}
    if types.is_time(type_):
        return {"type": "long", "logicalType": "time-micros"}
    return _avro_primitive(type_, path)


def _avro_primitive(type_: pa.DataType, path: str) -> str:
    types = pa.types
    if types.is_boolean(type_):
        return "boolean"
    if types.is_signed_integer(type_):
        return "long" if type_ == pa.int64() else "int"
    if types.is_floating(type_):
        return "double" if type_ == pa.float64() else "float"
    if is_text(type_):
        return "string"
    if types.is_binary(type_) or types.is_large_binary(type_):
        return "bytes"
    raise BadConfigurationError(f"format avro has no form for '{path}' of type {shown_type(type_)}: cast it to string")


def _avro_field(field: pa.Field, parent: str) -> dict[str, Any]:
    if not _NAME.fullmatch(field.name):
        raise BadConfigurationError(
            f"format avro: '{field.name}' is not a name that Avro allows (letters, digits, _): rename the field"
        )
    member = {"name": field.name, "type": _nullable(field, f"{parent}_{field.name}", field.name)}
    return {**member, "default": None} if field.nullable else member


def _nullable(field: pa.Field, name: str, path: str) -> Any:
    schema = _avro(field.type, name, path)
    return ["null", schema] if field.nullable else schema


def _nullable_inside(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(field.name, _nullable_inside(field.type)) for field in type_])
    if pa.types.is_map(type_):
        return pa.map_(type_.key_type, _nullable_inside(type_.item_type))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_nullable_inside(type_.value_type))
    return type_


def holds_map(type_: pa.DataType) -> bool:
    """Returns whether values of the type have maps in them, which fastavro and Arrow write differently."""
    if pa.types.is_map(type_):
        return True
    return any(holds_map(type_.field(index).type) for index in range(type_.num_fields))


def with_pairs(value: Any, type_: pa.DataType) -> Any:
    """Returns a value of fastavro's with its maps as the lists of pairs that every release of Arrow takes."""
    if value is None or not pa.types.is_nested(type_):
        return value
    if pa.types.is_map(type_):
        return [(key, with_pairs(item, type_.item_type)) for key, item in value.items()]
    if pa.types.is_struct(type_):
        return {field.name: with_pairs(value.get(field.name), field.type) for field in type_}
    return [with_pairs(item, type_.value_type) for item in value]


def with_dicts(value: Any, type_: pa.DataType) -> Any:
    """Returns a value of Arrow's with its maps, which Arrow gives as lists of pairs, as dictionaries."""
    if value is None or not pa.types.is_nested(type_):
        return value
    if pa.types.is_map(type_):
        return {key: with_dicts(item, type_.item_type) for key, item in value}
    if pa.types.is_struct(type_):
        return {field.name: with_dicts(value[field.name], field.type) for field in type_}
    return [with_dicts(item, type_.value_type) for item in value]
