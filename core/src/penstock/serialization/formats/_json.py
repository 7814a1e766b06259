"""JSON: one object a record."""

from __future__ import annotations

import json
from typing import ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet, OptionValues
from penstock.serialization.ddl import shown_type
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._json_decoder import JsonDecoder
from penstock.serialization.formats._json_encoder import JsonEncoder
from penstock.serialization.formats._json_schema import (
    JsonSchema,
    JsonSchemaLanguage,
    arrow_to_json_schema,
    check_column,
    load_json_schema,
)
from penstock.serialization.formats._options import JSON_OPTIONS
from penstock.serialization.formats._registered_decoder import RegisteredDecoder, WriterDecoders
from penstock.serialization.formats._schema_registry import SchemaRegistry, subject_of, uses_registry
from penstock.serialization.formats._schemas import SchemaKey
from penstock.serialization.values import is_text

__all__ = ["JsonFormat"]


class JsonFormat(RecordFormat):
    """Objects as struct columns, with the types of Spark's from_json and to_json.

    Reading: fields by name (case matters), others are ignored, missing ones are null; text takes any value, as its
    JSON; decimals are rounded to their scale; dates and timestamps are ISO texts (a timestamp with a zone may also be
    whole seconds since 1970), binary is base 64. A value that does not fit makes the record a bad one. So do, unlike
    in Spark, anything after the object, and a record without bytes.

    Writing: null fields are left out (in a map or a list they are null), timestamps have their microseconds, those
    with a zone are in UTC with a Z; binary is base 64, NaN and infinity are texts, a null struct is a null record.

    With ``schema.registry.url`` a record begins with a zero byte and the id of its JSON schema (four bytes), as
    Confluent's serializers write it.
    """

    options: ClassVar[OptionSet] = JSON_OPTIONS

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        """Without ``type``, the column is what the schema says: of the option, or the subject's latest."""
        if type is None and options["schema"] is not None:
            type = load_json_schema(options["schema"]).column_type()
        if not uses_registry(options):
            return _decoder(type, options)
        registry = SchemaRegistry(options, JsonSchemaLanguage())
        if type is None:
            _, schema = registry.latest(subject_of(options, None))
            type = schema.column_type()
        return RegisteredDecoder(registry, _JsonDecoders(_decoder(type, options)))

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is None:
            raise BadConfigurationError("format json needs the type of the column to write")
        _check_struct(type)
        given, latest = options["schema"], options["use.latest.version"]
        if latest and (given is not None or not uses_registry(options)):
            raise BadConfigurationError("option 'use.latest.version' goes with 'schema.registry.url', without 'schema'")
        schema = None if given is None else load_json_schema(given)
        if schema is not None:
            check_column(schema, type)
        header = b""
        if uses_registry(options):
            registry = SchemaRegistry(options, JsonSchemaLanguage())
            if latest:
                key, schema = registry.latest(subject_of(options, None))
                check_column(schema, type)
            else:
                text = given or json.dumps(arrow_to_json_schema(type))
                subject = subject_of(options, None if schema is None else schema.title)
                key = registry.identify(subject, text, register=options["auto.register.schemas"])
            header = registry.framing.header(key)
        return JsonEncoder(ignore_nulls=options["ignoreNullFields"], header=header)


class _JsonDecoders(WriterDecoders[JsonSchema]):
    """One decoder for objects of every schema: their fields have names."""

    def __init__(self, decoder: RecordDecoder) -> None:
        self._decoder = decoder

    @property
    def type(self) -> pa.DataType:
        return self._decoder.type

    def decoder(self, key: SchemaKey, schema: JsonSchema) -> RecordDecoder:
        return self._decoder


def _decoder(type_: pa.DataType | None, options: OptionValues) -> RecordDecoder:
    if type_ is None:
        raise BadConfigurationError("format json needs a schema to decode to: name the fields and their types")
    _check_struct(type_)
    return JsonDecoder(type_, options["timeZone"])


def _check_struct(type_: pa.DataType) -> None:
    if not pa.types.is_struct(type_) or not type_.num_fields:
        raise BadConfigurationError(
            f"format json is for struct columns, not {shown_type(type_)}: put the columns into a struct"
        )
    for field in type_:
        _check("", field)


def _check(parent: str, field: pa.Field) -> None:
    path, kind, types = f"{parent}{field.name}", field.type, pa.types
    if types.is_map(kind) and not is_text(kind.key_type):
        raise BadConfigurationError(
            f"format json: keys of the map '{path}' must be strings, not {shown_type(kind.key_type)}"
        )
    if types.is_struct(kind):
        for child in kind:
            _check(f"{path}.", child)
    elif types.is_map(kind):
        _check(f"{path}.", pa.field("value", kind.item_type))
    elif types.is_list(kind) or types.is_large_list(kind):
        _check(f"{path}.", pa.field("element", kind.value_type))
    elif not _is_plain(kind):
        raise BadConfigurationError(
            f"format json has no form for '{path}' of type {shown_type(kind)}: cast it to string"
        )


def _is_plain(kind: pa.DataType) -> bool:
    types = pa.types
    numbers = types.is_signed_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    times = types.is_date32(kind) or types.is_timestamp(kind)
    texts = is_text(kind) or types.is_binary(kind) or types.is_large_binary(kind)
    return bool(numbers or times or texts or types.is_boolean(kind))
