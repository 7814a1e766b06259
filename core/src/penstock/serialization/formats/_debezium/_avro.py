"""Debezium's envelopes in Avro to a column, by the schemas of a registry. Needs fastavro."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.options import OptionValues
from penstock.serialization.avro import AvroSchema, avro_to_arrow, without_logical
from penstock.serialization.formats._avro import AvroLanguage
from penstock.serialization.formats._avro_decoder import AvroDecoder
from penstock.serialization.formats._contracts import Decoded, RecordDecoder
from penstock.serialization.formats._debezium._encodings import Encoding, Encodings, Kind, nested
from penstock.serialization.formats._debezium._envelope import check_envelope, envelope_type
from penstock.serialization.formats._debezium._rows import EnvelopeRows
from penstock.serialization.formats._registered_decoder import RegisteredDecoder, WriterDecoders
from penstock.serialization.formats._rows import Misfit, RowErrors, with_nulls
from penstock.serialization.formats._schema_registry import SchemaRegistry, subject_of
from penstock.serialization.formats._schemas import SchemaKey
from penstock.serialization.values import JsonWriter, ValueText

__all__ = ["DebeziumAvroDecoders", "create_avro_decoder"]

_LOGICAL = frozenset({"decimal", "uuid", "date", "time-millis", "time-micros", "timestamp-millis", "timestamp-micros"})
_KINDS: dict[str, Kind] = {
    "boolean": "boolean",
    **dict.fromkeys(("int", "long", "float", "double"), "number"),
    **dict.fromkeys(("string", "enum"), "text"),
    **dict.fromkeys(("bytes", "fixed"), "bytes"),
    **dict.fromkeys(("record", "map"), "object"),
    "array": "list",
    "null": "null",
}
_CONNECT = "org.apache.kafka.connect.data."
#: Names of Connect's types by the logical types that stand for them.
_NAMES = {"date": f"{_CONNECT}Date", "timestamp-millis": f"{_CONNECT}Timestamp", "decimal": f"{_CONNECT}Decimal"}
_NAMES["timestamp-micros"] = "io.debezium.time.MicroTimestamp"
_COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys(("io.debezium.time.Date", "io.debezium.time.IsoDate", f"{_CONNECT}Date"), pa.date32()),
    **dict.fromkeys(("io.debezium.time.Timestamp", f"{_CONNECT}Timestamp"), pa.timestamp("us")),
    **dict.fromkeys((f"io.debezium.time.{kind}Timestamp" for kind in ("Micro", "Nano", "Iso")), pa.timestamp("us")),
    "io.debezium.time.ZonedTimestamp": pa.timestamp("us", "UTC"),
}
_MOST_DIGITS = 38


def create_avro_decoder(options: OptionValues, type_: pa.DataType | None) -> RecordDecoder:
    """Returns a decoder to ``type_``, or to what the subject's latest schema says. Raises as a format does. Driver."""
    registry = SchemaRegistry(options, AvroLanguage())
    if type_ is None:
        _, schema = registry.latest(subject_of(options, None))
        type_ = envelope_type(_columns(schema))
    check_envelope(type_)
    rows = EnvelopeRows(type_, options["timeZone"], options["unavailable.value.placeholder"])
    return RegisteredDecoder(registry, DebeziumAvroDecoders(rows, Encodings(options)))


class DebeziumAvroDecoders(WriterDecoders[AvroSchema]):
    """Decoders of envelopes, each by the schema that wrote them: what a number means may change between two."""

    def __init__(self, rows: EnvelopeRows, encodings: Encodings) -> None:
        self._rows = rows
        self._encodings = encodings

    @property
    def type(self) -> pa.DataType:
        return self._rows.type

    def decoder(self, key: SchemaKey, schema: AvroSchema) -> RecordDecoder:
        encoding = _encoding(self._rows.parsed, schema, _named(schema, {}), self._encodings, "")
        decoder = AvroDecoder(without_logical(schema, _LOGICAL), None)
        if not pa.types.is_struct(decoder.type):
            raise Misfit(f"schema {key} is not a record")
        return _EnvelopeDecoder(self._rows, decoder, encoding)


class _EnvelopeDecoder(RecordDecoder):
    """See :class:`RecordDecoder`. Of envelopes of one schema, without a header."""

    def __init__(self, rows: EnvelopeRows, decoder: AvroDecoder, encoding: Encoding) -> None:
        self._rows = rows
        self._decoder = decoder
        self._encoding = encoding

    @property
    def type(self) -> pa.DataType:
        return self._rows.type

    def decode(self, values: pa.Array) -> Decoded:
        return with_nulls(values, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        errors = RowErrors()
        decoded = self._decoder.decode(values)
        errors.add_all(decoded.errors)
        texts = None
        source = decoded.column.type.get_field_index("source")
        if self._rows.needs_source_text:
            sources = decoded.column.field(source) if source >= 0 else pa.nulls(len(values))
            writer = JsonWriter(ValueText(), ignore_nulls=False)
            texts = writer.values(sources) if source >= 0 else sources.cast(pa.string())
        column = self._rows.column(_with_all(decoded.column, self._rows.parsed), self._encoding, texts, errors)
        if decoded.errors is not None:
            column = pc.if_else(decoded.errors.is_null(), column, pa.scalar(None, self.type))
        return Decoded(column, errors.array(len(values)))


def _with_all(read: pa.StructArray, type_: pa.DataType) -> pa.StructArray:
    """Returns the same with every field of ``type_``, in its order; one that it lacks is null."""
    indices = [read.type.get_field_index(field.name) for field in type_]
    children = [pa.nulls(len(read)) if index < 0 else read.field(index) for index in indices]
    return pa.StructArray.from_arrays(children, names=[field.name for field in type_], mask=read.is_null())


def _named(schema: AvroSchema, found: dict[str, AvroSchema]) -> dict[str, AvroSchema]:
    """Returns every type that has a name, by it."""
    if isinstance(schema, list):
        for branch in schema:
            _named(branch, found)
    elif isinstance(schema, dict):
        if schema.get("type") in ("record", "error", "enum", "fixed"):
            found[schema["name"]] = schema
        for part in (schema.get("type"), schema.get("items"), schema.get("values")):
            _named(part, found)
        for field in schema.get("fields", ()):
            _named(field["type"], found)
    return found


def _resolved(schema: AvroSchema, named: dict[str, AvroSchema]) -> dict[str, Any]:
    """Returns the type that is not null of a schema, as a dictionary."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        return _resolved(branches[0] if branches else "null", named)
    if isinstance(schema, str):
        return named.get(schema) or {"type": schema}
    if isinstance(schema["type"], dict | list) or schema["type"] in named:
        return _resolved(schema["type"], named)
    return dict(schema)


def _meaning(schema: dict[str, Any]) -> str:
    return schema.get("connect.name") or _NAMES.get(schema.get("logicalType") or "", "")


def _encoding(
    type_: pa.DataType, schema: AvroSchema, named: dict[str, AvroSchema], encodings: Encodings, path: str
) -> Encoding:
    own = _resolved(schema, named)
    if pa.types.is_struct(type_) and own["type"] == "record":
        fields = {field["name"]: field["type"] for field in own["fields"]}
        below = f"{path}." if path else ""
        return nested(
            _encoding(one.type, fields[one.name], named, encodings, f"{below}{one.name}")
            if one.name in fields
            else Encoding()
            for one in type_
        )
    if pa.types.is_list(type_) and own["type"] == "array":
        return nested([_encoding(type_.value_type, own["items"], named, encodings, f"{path}[]")])
    scale = (own.get("connect.parameters") or {}).get("scale", own.get("scale"))
    return encodings.of_schema(type_, _KINDS[own["type"]], path, _meaning(own), None if scale is None else int(scale))


def _columns(schema: AvroSchema) -> pa.DataType:
    """Returns the columns of the table that ``schema`` has envelopes of. Raises BadConfigurationError."""
    named = _named(schema, {})
    own = _resolved(schema, named)
    fields = {field["name"]: field["type"] for field in own.get("fields", ())}
    if "after" not in fields or _resolved(fields["after"], named)["type"] != "record":
        raise BadConfigurationError("the schema in the registry is not of an envelope: it has no record 'after'")
    row = _resolved(fields["after"], named)
    return pa.struct([(field["name"], _column_type(field["type"], named)) for field in row["fields"]])


def _column_type(schema: AvroSchema, named: dict[str, AvroSchema]) -> pa.DataType:
    own = _resolved(schema, named)
    name = _meaning(own)
    if name in _COLUMNS:
        return _COLUMNS[name]
    if name == f"{_CONNECT}Decimal" and own["type"] == "bytes":
        parameters = own.get("connect.parameters") or {}
        digits = int(parameters.get("connect.decimal.precision", own.get("precision", _MOST_DIGITS)))
        return pa.decimal128(min(digits, _MOST_DIGITS), int(parameters.get("scale", own.get("scale", 0))))
    if own["type"] == "array":
        return pa.list_(pa.field("element", _column_type(own["items"], named)))
    if own["type"] == "record":
        return pa.struct([(field["name"], _column_type(field["type"], named)) for field in own["fields"]])
    return avro_to_arrow(without_logical(own, _LOGICAL))
