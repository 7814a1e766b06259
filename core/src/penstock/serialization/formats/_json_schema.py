"""JSON Schema and column types, in both directions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization._malformed import MALFORMED, shortened
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._schemas import SchemaLanguage
from penstock.serialization.values import is_text

__all__ = ["JsonSchema", "JsonSchemaLanguage", "arrow_to_json_schema", "check_column", "load_json_schema"]

_DRAFT = "http://json-schema.org/draft-07/schema#"
_SCALARS = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_FORMATS = {"date": pa.date32(), "date-time": pa.timestamp("us", "UTC")}
#: Of numbers: what Kafka Connect writes with their type, and the type itself.
_SIZES = {"int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "float32": pa.float32()}
_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_DEEPEST = 100


@dataclass(frozen=True)
class JsonSchema:
    """A schema, and those that it refers to by their names."""

    document: Any
    references: Mapping[str, Any]

    @property
    def title(self) -> str | None:
        """The name of what it describes."""
        found = self.document.get("title") if isinstance(self.document, dict) else None
        return found if isinstance(found, str) else None

    def column_type(self) -> pa.DataType:
        """Returns the type of a column of such objects. Raises BadConfigurationError for what has none."""
        return self._column()[0]

    def required(self) -> tuple[str, ...]:
        """Returns names of the fields that an object must have."""
        return self._column()[1]

    def _column(self) -> tuple[pa.DataType, tuple[str, ...]]:
        try:
            root, document = _Reader(self.references).resolved(self.document, self.document, "the record")
            type_ = _Reader(self.references).type(root, document, "", 0)
            required = root.get("required", ())
            if not pa.types.is_struct(type_):
                raise BadConfigurationError(f"the JSON schema is not of an object with properties, but of {type_}")
            return type_, tuple(name for name in required if isinstance(name, str))
        except BadConfigurationError:
            raise
        except (*MALFORMED, pa.ArrowException) as error:
            reason = shortened(f"{type(error).__name__}: {error}")
            raise BadConfigurationError(f"the JSON schema can't be read: {reason}") from None


class JsonSchemaLanguage(SchemaLanguage[JsonSchema]):
    """JSON Schema in a registry."""

    name = "JSON"
    label = "JSON"

    def load(self, text: str, references: Sequence[tuple[str, str]]) -> JsonSchema:
        return JsonSchema(_document(text), {name: _document(one) for name, one in references})


def load_json_schema(text: str) -> JsonSchema:
    """Returns the schema that an option holds. Raises BadConfigurationError."""
    try:
        return JsonSchema(_document(text), {})
    except MALFORMED as error:
        raise BadConfigurationError(f"option 'schema' is not a JSON schema: {shortened(str(error))}") from None


def _document(text: str) -> Any:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not an object")
    return found


class _Reader:
    """Follows references."""

    def __init__(self, references: Mapping[str, Any]) -> None:
        self._references = references

    def resolved(self, schema: Any, document: Any, path: str) -> tuple[dict[str, Any], Any]:
        """Returns the schema that is meant, without ``null`` as another choice, and the document that it is in."""
        for _ in range(_DEEPEST):
            if not isinstance(schema, dict):
                raise _refused(path, "has no type")
            if "$ref" in schema:
                schema, document = self._followed(schema["$ref"], document, path)
                continue
            choices = next((schema[key] for key in ("oneOf", "anyOf", "allOf") if key in schema), None)
            if choices is None:
                return schema, document
            values = [one for one in choices if not (isinstance(one, dict) and one.get("type") == "null")]
            if len(values) != 1 or "properties" in schema:
                raise _refused(path, "may be one of several types")
            schema = values[0]
        raise _refused(path, "refers to itself")

    def _followed(self, reference: str, document: Any, path: str) -> tuple[Any, Any]:
        base, fragment = urldefrag(reference)
        if base:
            own = document.get("$id", "")
            found = next((one for one in (base, urljoin(own, base)) if one in self._references), None)
            if found is None and base != urldefrag(own)[0]:
                raise _refused(path, f"refers to {shortened(reference)}, which the registry does not have")
            document = document if found is None else self._references[found]
        part = document
        for step in (unquote(fragment).split("/")[1:]) if fragment else ():
            step = step.replace("~1", "/").replace("~0", "~")
            part = part[int(step)] if isinstance(part, list) else part[step]
        return part, document

    def type(self, schema: Any, document: Any, path: str, depth: int) -> pa.DataType:
        """Returns the type of a field. Raises BadConfigurationError, or one of :data:`MALFORMED`."""
        if depth > _DEEPEST:
            raise _refused(path.split(".")[0], "contains itself")
        schema, document = self.resolved(schema, document, path)
        kind = _kind(schema, path)
        if kind == "object":
            return self._object(schema, document, path, depth)
        if kind == "array":
            if not isinstance(schema.get("items"), dict):
                raise _refused(path, "is an array without one type of items")
            return pa.list_(pa.field("element", self.type(schema["items"], document, f"{path}[]", depth + 1)))
        if kind == "string" and schema.get("contentEncoding") == "base64":
            return pa.binary()
        if kind == "string":
            return _FORMATS.get(schema.get("format"), pa.string())
        size = _SIZES.get(schema.get("connect.type"))
        if size is not None and pa.types.is_integer(size) == (kind == "integer"):
            return size
        return _SCALARS[kind]

    def _object(self, schema: dict[str, Any], document: Any, path: str, depth: int) -> pa.DataType:
        below = f"{path}." if path else ""
        if schema.get("properties"):
            parts = schema["properties"].items()
            return pa.struct([(name, self.type(one, document, f"{below}{name}", depth + 1)) for name, one in parts])
        others = schema.get("additionalProperties")
        if not isinstance(others, dict) or not others:
            raise _refused(path, "is an object of unknown fields")
        return pa.map_(pa.string(), self.type(others, document, f"{below}*", depth + 1))


def _kind(schema: dict[str, Any], path: str) -> str:
    given = schema.get("type")
    if given is None and ("enum" in schema or "const" in schema):
        given = [_NAMES.get(type(one), "?") for one in schema.get("enum", [schema.get("const")])]
    if given is None and "properties" in schema:
        given = "object"
    kinds = {given} if isinstance(given, str) else set(given or ())
    kinds -= {"null"}
    if kinds == {"integer", "number"}:
        kinds = {"number"}
    if len(kinds) != 1 or not kinds <= {"object", "array", *_SCALARS}:
        raise _refused(path, "has no type" if not kinds else "may be one of several types")
    return str(kinds.pop())


def _refused(path: str, what: str) -> BadConfigurationError:
    return BadConfigurationError(
        f"the JSON schema gives no column for '{path or 'the record'}', which {what}: name the fields and their types "
        "yourself"
    )


def arrow_to_json_schema(type_: pa.DataType) -> dict[str, Any]:
    """Returns the schema of objects as the JSON format writes a column of that type; every field may be null."""
    return {"$schema": _DRAFT, **_plain(type_)}


def _schema(type_: pa.DataType) -> dict[str, Any]:
    return {"oneOf": [{"type": "null"}, _plain(type_)]}


def _plain(type_: pa.DataType) -> dict[str, Any]:
    types = pa.types
    if types.is_struct(type_):
        return {"type": "object", "properties": {field.name: _schema(field.type) for field in type_}}
    if types.is_map(type_):
        return {"type": "object", "additionalProperties": _schema(type_.item_type)}
    if types.is_list(type_) or types.is_large_list(type_):
        return {"type": "array", "items": _schema(type_.value_type)}
    if types.is_signed_integer(type_) or types.is_floating(type_) or types.is_decimal(type_):
        kind = {"type": "integer" if types.is_signed_integer(type_) else "number"}
        size = next((name for name, one in _SIZES.items() if one == type_), None)
        return kind if size is None else {**kind, "connect.type": size}
    if types.is_boolean(type_):
        return {"type": "boolean"}
    if types.is_binary(type_) or types.is_large_binary(type_):
        return {"type": "string", "contentEncoding": "base64"}
    if types.is_date32(type_):
        return {"type": "string", "format": "date"}
    is_instant = types.is_timestamp(type_) and type_.tz is not None
    return {"type": "string", "format": "date-time"} if is_instant else {"type": "string"}


def check_column(schema: JsonSchema, type_: pa.DataType) -> None:
    """Raises BadConfigurationError if objects written from a column of ``type_`` are not of the schema's types."""
    _check("", type_, schema.column_type())
    names = {field.name for field in type_}
    lacking = [name for name in schema.required() if name not in names]
    if lacking:
        raise BadConfigurationError(f"format json: the column lacks the field '{lacking[0]}', which is required")


def _check(path: str, type_: pa.DataType, own: pa.DataType) -> None:
    types = pa.types
    if types.is_struct(type_) and types.is_struct(own):
        given = {field.name: field.type for field in own}
        for field in type_:
            where = f"{path}.{field.name}" if path else field.name
            if field.name not in given:
                raise BadConfigurationError(f"format json: the schema has no field '{where}': leave it out")
            _check(where, field.type, given[field.name])
    elif types.is_map(type_) and types.is_map(own):
        _check(f"{path}.*", type_.item_type, own.item_type)
    elif types.is_list(type_) and types.is_list(own):
        _check(f"{path}[]", type_.value_type, own.value_type)
    elif not _fits(type_, own):
        raise BadConfigurationError(
            f"format json: {path} is {shown_type(type_, own)}, and the schema has {shown_type(own, type_)}: cast it"
        )


def _fits(type_: pa.DataType, own: pa.DataType) -> bool:
    types = pa.types
    whole = types.is_signed_integer(type_)
    if types.is_signed_integer(own):
        return bool(whole and type_.bit_width <= own.bit_width)
    if types.is_floating(own):
        return bool(whole or types.is_decimal(type_) or (types.is_floating(type_) and type_.bit_width <= own.bit_width))
    if is_text(own):
        return bool(is_text(type_) or types.is_date32(type_) or types.is_timestamp(type_) or types.is_binary(type_))
    if types.is_timestamp(own):
        return bool(types.is_timestamp(type_) and type_.tz is not None)
    return bool(type_ == own)
