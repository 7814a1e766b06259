"""Protobuf: a message a record, plain or with a schema registry."""

from __future__ import annotations

from typing import Any, ClassVar

from penstock.errors import BadConfigurationError

try:
    import ptars  # noqa: F401
except ImportError:
    raise BadConfigurationError("format protobuf needs the package ptars: pip install 'penstock[protobuf]'") from None

import pyarrow as pa

from penstock.options import OptionSet, OptionValues
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._options import PROTOBUF_OPTIONS
from penstock.serialization.formats._protobuf._decoder import ProtobufDecoder, ProtobufDecoders
from penstock.serialization.formats._protobuf._encoder import ProtobufEncoder
from penstock.serialization.formats._protobuf._schema import ProtobufLanguage, ProtobufSchema, load_descriptor_file
from penstock.serialization.formats._registered_decoder import RegisteredDecoder
from penstock.serialization.formats._schema_registry import SchemaRegistry, subject_of, uses_registry
from penstock.serialization.formats._schemas import Reference

__all__ = ["ProtobufFormat"]


class ProtobufFormat(RecordFormat):
    """Messages as structs, without a length before them.

    Lists, maps and nested messages are what their names say; enums are texts, 32 unsigned bits a long and 64 a
    decimal; Timestamp, Duration and the wrappers are timestamps, intervals and values that may be null. A field that
    was not set is null if Protobuf can tell, and else its default. Unknown fields are left out, as Protobuf has it.

    With ``schema.registry.url`` a record begins with a zero byte, the id of its schema (four bytes) and the place of
    its message in it, as Confluent's serializers write it.
    """

    options: ClassVar[OptionSet] = PROTOBUF_OPTIONS

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        """``type`` chooses among the message's fields."""
        _check_registry(options)
        if not uses_registry(options):
            schema, name = _from_file(options)
            return ProtobufDecoder(schema, name, type)
        registry = SchemaRegistry(options, ProtobufLanguage())
        if options["descriptorFile"] is not None:
            schema, name = _from_file(options)
        else:
            _, schema = registry.latest(subject_of(options, options["message"]))
            name = options["message"] or _first(schema)
        return RegisteredDecoder(registry, ProtobufDecoders(ProtobufDecoder(schema, name, type)))

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is None:
            raise BadConfigurationError("format protobuf needs the type of the column to write")
        _check_registry(options)
        latest = options["use.latest.version"]
        if latest and (options["descriptorFile"] is not None or not uses_registry(options)):
            raise BadConfigurationError(
                "option 'use.latest.version' goes with 'schema.registry.url', without 'descriptorFile'"
            )
        if latest:
            registry = SchemaRegistry(options, ProtobufLanguage())
            key, schema = registry.latest(subject_of(options, options["message"]))
            name = options["message"] or _first(schema)
            return ProtobufEncoder(schema, name, type, header=_header(registry, key, schema, name))
        schema, name = _from_file(options)
        if not uses_registry(options):
            return ProtobufEncoder(schema, name, type)
        ProtobufEncoder(schema, name, type)  # checks the type before anything is registered
        registry = SchemaRegistry(options, ProtobufLanguage())
        schema = schema.of_message(schema.message(name))
        register = options["auto.register.schemas"]
        file = schema.file().name
        references = _references(registry, schema, file, {}, register)
        key = registry.identify(subject_of(options, name), schema.text(file), references, register=register)
        return ProtobufEncoder(schema, name, type, header=_header(registry, key, schema, name))


def _check_registry(options: OptionValues) -> None:
    type_ = options["schema.registry.type"]
    if type_ != "confluent":
        raise BadConfigurationError(
            f"option 'schema.registry.type': format protobuf reads and writes Confluent's framing only, not {type_}'s"
        )


def _from_file(options: OptionValues) -> tuple[ProtobufSchema, str]:
    if options["descriptorFile"] is None:
        other = "set 'use.latest.version'" if uses_registry(options) else "'schema.registry.url'"
        raise BadConfigurationError(
            "format protobuf needs the option 'descriptorFile' (what protoc --include_imports --descriptor_set_out=… "
            f"writes) with 'message', or {other}"
        )
    schema = load_descriptor_file(options["descriptorFile"])
    messages = schema.file().message_types_by_name
    if options["message"] is None and len(messages) != 1:
        there = ", ".join(one.full_name for one in messages.values()) or "none"
        raise BadConfigurationError(f"format protobuf needs the option 'message', one of: {there}")
    name = options["message"] or next(iter(messages.values())).full_name
    schema.message(name)
    return schema, name


def _first(schema: ProtobufSchema) -> str:
    try:
        return str(schema.at((0,)).full_name)
    except IndexError:
        raise BadConfigurationError("the Protobuf schema in the registry has no message: set 'message'") from None


def _references(
    registry: SchemaRegistry[ProtobufSchema],
    schema: ProtobufSchema,
    file: str,
    known: dict[str, Reference],
    register: bool,
) -> list[Reference]:
    """Returns references to what ``file`` imports, which are registered first, by the names of their files."""
    for name in schema.imports(file):
        if name not in known:
            own = _references(registry, schema, name, known, register)
            known[name] = registry.refer(name, schema.text(name), own, register=register)
    return [known[name] for name in schema.imports(file)]


def _header(registry: SchemaRegistry[ProtobufSchema], key: Any, schema: ProtobufSchema, name: str) -> bytes:
    indexes = schema.indexes(schema.message(name))
    place = b"\0" if indexes == [0] else b"".join(_zigzag(number) for number in (len(indexes), *indexes))
    return registry.framing.header(key) + place


def _zigzag(number: int) -> bytes:
    number *= 2
    found = bytearray()
    while number > 0x7F:
        found.append(0x80 | number & 0x7F)
        number >>= 7
    return bytes(found) + bytes([number])
