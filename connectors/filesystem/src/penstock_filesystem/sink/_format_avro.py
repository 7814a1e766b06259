"""Avro object container files, with a schema derived from Arrow's."""

from __future__ import annotations

import hashlib
import re
from typing import Any, ClassVar

import fastavro
import fastavro.write
import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.serialization.values import is_text
from penstock_filesystem.sink._format import BinaryOutput, Encoder, Format, unsupported

__all__ = ["AvroFormat", "avro_schema"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class AvroFormat(Format):
    """Avro. Every file of a query has the same sync marker, so that files are joined block by block as bytes."""

    name = "avro"
    codecs: ClassVar[dict[str, str]] = {"deflate": "", "none": ""}
    default_codec = "deflate"

    @property
    def extension(self) -> str:
        """See the base class."""
        return ".avro"

    def validate(self) -> None:
        """See the base class."""
        avro_schema(self.schema)

    def encoder(self, out: BinaryOutput, salt: str) -> Encoder:
        """See the base class."""
        sync = hashlib.sha256(f"{salt}:{self.fingerprint}".encode()).digest()[:16]
        return _AvroEncoder(self.schema, out, "null" if self.codec == "none" else self.codec, sync)


class _AvroEncoder(Encoder):
    def __init__(self, schema: pa.Schema, out: BinaryOutput, codec: str, sync: bytes) -> None:
        self._out = out
        self._writer = fastavro.write.Writer(out, fastavro.parse_schema(avro_schema(schema)), codec, sync_marker=sync)
        self.header_size = out.tell()
        self._integers = {
            index: pa.int32() if pa.types.is_date(field.type) else pa.int64()
            for index, field in enumerate(schema)
            if pa.types.is_date32(field.type) or pa.types.is_timestamp(field.type)
        }

    def write(self, batch: pa.RecordBatch) -> None:
        # Avro puts the fields of a row after each other: a loop over rows is in the format, and fastavro's is in C.
        # Dates and timestamps go in as the integers that Avro stores.
        for index, integer in self._integers.items():
            column = batch.column(index)
            if pa.types.is_timestamp(column.type):
                column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
            batch = batch.set_column(index, batch.schema.names[index], column.cast(integer))
        maps = [field for field in batch.schema if _holds_map(field.type)]
        for row in batch.to_pylist():
            for field in maps:
                row[field.name] = _with_dicts(field.type, row[field.name])
            self._writer.write(row)

    @property
    def size(self) -> int:
        return self._out.tell()

    def finish(self) -> None:
        self._writer.flush()


def _holds_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_holds_map(kind.field(index).type) for index in range(kind.num_fields))


def _with_dicts(kind: pa.DataType, value: Any) -> Any:
    """``value`` with its maps, which Arrow gives as lists of pairs, as dictionaries."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return {key: _with_dicts(kind.item_type, item) for key, item in value}
    if pa.types.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return {field.name: _with_dicts(field.type, value[field.name]) for field in fields}
    return [_with_dicts(kind.value_type, item) for item in value]


def avro_schema(schema: pa.Schema) -> dict[str, Any]:
    """The Avro record schema of ``schema``. Raises BadConfigurationError for names and types that Avro lacks."""
    return {"type": "record", "name": "row", "fields": [_field(field, field, "row") for field in schema]}


def _field(top: pa.Field, field: pa.Field, path: str) -> dict[str, Any]:
    if not _NAME.match(field.name):
        raise BadConfigurationError(
            f"format avro: '{field.name}' is not a name that Avro allows (letters, digits, _): rename the column"
        )
    kind = _type(top, field.type, f"{path}_{field.name}")
    return {"name": field.name, "type": ["null", kind], "default": None}


def _type(top: pa.Field, kind: pa.DataType, path: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        fields = [_field(top, kind.field(index), path) for index in range(kind.num_fields)]
        return {"type": "record", "name": path, "fields": fields}
    if types.is_map(kind):
        if not is_text(kind.key_type):
            raise unsupported("avro", top, "keys of a map must be strings")
        return {"type": "map", "values": ["null", _type(top, kind.item_type, path)]}
    if types.is_list(kind) or types.is_large_list(kind):
        return {"type": "array", "items": ["null", _type(top, kind.value_type, path)]}
    if types.is_decimal(kind):
        logical = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", **logical}
    if types.is_timestamp(kind):
        return {"type": "long", "logicalType": "timestamp-micros" if kind.tz else "local-timestamp-micros"}
    return _primitive(top, kind)


def _primitive(top: pa.Field, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind) and kind != pa.uint64():
        return "int" if kind.bit_width < 32 or kind == pa.int32() else "long"
    if types.is_floating(kind):
        return "double" if kind == pa.float64() else "float"
    if is_text(kind):
        return "string"
    if types.is_binary(kind) or types.is_large_binary(kind):
        return "bytes"
    if types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    raise unsupported("avro", top, "cast it to string")
