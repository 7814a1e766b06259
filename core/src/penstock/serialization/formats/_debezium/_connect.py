"""What the schema in a record says of its values: that of Kafka Connect's converter to JSON."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.serialization._malformed import MALFORMED
from penstock.serialization.formats._debezium._encodings import Encoding, Encodings, Kind, nested, undescribed
from penstock.serialization.formats._rows import Misfit, described, shown

__all__ = ["encoding_of_connect"]

_KINDS: dict[str, Kind] = {
    "boolean": "boolean",
    **dict.fromkeys(("int8", "int16", "int32", "int64", "float", "double", "float32", "float64"), "number"),
    "string": "text",
    "bytes": "bytes",
    "struct": "object",
    "array": "list",
    "map": "object",
}


def encoding_of_connect(type_: pa.DataType, schema: Any, encodings: Encodings) -> Encoding:
    """Returns how ``schema`` says that values of ``type_`` are written. Raises Misfit, also for what is no schema."""
    try:
        return _encoding(type_, schema, encodings, "")
    except MALFORMED as error:
        raise Misfit(f"the record's schema is not one of Kafka Connect: {shown(described(error))}") from None


def _encoding(type_: pa.DataType, schema: Any, encodings: Encodings, path: str) -> Encoding:
    kind = _KINDS[schema["type"]]
    name = schema.get("name") or ""
    if pa.types.is_struct(type_) and kind == "object" and "fields" in schema:
        fields = {field["field"]: field for field in schema["fields"]}
        below = f"{path}." if path else ""
        return nested(
            _encoding(one.type, fields[one.name], encodings, f"{below}{one.name}")
            if one.name in fields
            else undescribed(one.type)
            for one in type_
        )
    if pa.types.is_list(type_) and kind == "list":
        return nested([_encoding(type_.value_type, schema["items"], encodings, f"{path}[]")])
    scale = (schema.get("parameters") or {}).get("scale")
    return encodings.of_schema(type_, kind, path, name, None if scale is None else int(scale))
