"""Avro, plain or with a schema registry."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from penstock.errors import BadConfigurationError

try:
    import fastavro  # noqa: F401
except ImportError:
    raise BadConfigurationError("format avro needs the package fastavro: pip install 'penstock[avro]'") from None

import pyarrow as pa

from penstock.options import OptionSet, OptionValues
from penstock.serialization.avro import AvroSchema, arrow_to_avro, load, standalone
from penstock.serialization.formats._avro_decoder import AvroDecoder, AvroDecoders
from penstock.serialization.formats._avro_encoder import AvroEncoder
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._options import AVRO_OPTIONS
from penstock.serialization.formats._registered_decoder import RegisteredDecoder
from penstock.serialization.formats._schema_registry import SchemaRegistry, subject_of, uses_registry
from penstock.serialization.formats._schemas import SchemaLanguage

__all__ = ["AvroFormat", "AvroLanguage"]


class AvroFormat(RecordFormat):
    """One value of an Avro schema a record, without a container.

    With ``schema.registry.url`` a record begins with a zero byte and the id of the schema it was written with (four
    bytes, the most significant first), as Confluent's serializers write it. The registry is asked on the driver, when a
    decoder or an encoder is made; tasks ask it only for ids that they have not met.
    """

    options: ClassVar[OptionSet] = AVRO_OPTIONS

    def create_decoder(self, options: OptionValues, type: pa.DataType | None) -> RecordDecoder:
        """The column's type is that of the schema; ``type``, if given, is what it is cast to."""
        own = _given(options, "schema")
        reader = _given(options, "readerSchema") or own
        if not uses_registry(options):
            if own is None:
                raise BadConfigurationError(
                    "format avro needs the option 'schema' (what the records were written with) or "
                    "'schema.registry.url' (if they name their schemas)"
                )
            return AvroDecoder(reader, type, writer=own)
        registry = SchemaRegistry(options, AvroLanguage())
        if reader is None:
            _, reader = registry.latest(subject_of(options, None))
        return RegisteredDecoder(registry, AvroDecoders(reader, type))

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is None:
            raise BadConfigurationError("format avro needs the type of the column to write")
        latest = options["use.latest.version"]
        if latest and (options["schema"] is not None or not uses_registry(options)):
            raise BadConfigurationError("option 'use.latest.version' goes with 'schema.registry.url', without 'schema'")
        if latest:
            registry = SchemaRegistry(options, AvroLanguage())
            key, schema = registry.latest(subject_of(options, None))
            return AvroEncoder(schema, type, header=registry.framing.header(key))
        text = options["schema"]
        if text is None:
            text = json.dumps(arrow_to_avro(type, options["recordName"], options["recordNamespace"]))
        schema = load("option 'schema'", text)
        if not uses_registry(options):
            return AvroEncoder(schema, type)
        AvroEncoder(schema, type)  # checks the type before anything is registered
        registry = SchemaRegistry(options, AvroLanguage())
        subject = subject_of(options, _name(schema))
        key = registry.identify(subject, text, register=options["auto.register.schemas"])
        return AvroEncoder(schema, type, header=registry.framing.header(key))


def _given(options: OptionValues, name: str) -> AvroSchema | None:
    return None if options[name] is None else load(f"option '{name}'", options[name])


def _name(schema: AvroSchema) -> str | None:
    return schema.get("name") if isinstance(schema, dict) else None


class AvroLanguage(SchemaLanguage[AvroSchema]):
    """Avro in a registry."""

    name = "AVRO"
    label = "Avro"

    def load(self, text: str, references: Sequence[tuple[str, str]]) -> AvroSchema:
        named: dict[str, Any] = {}
        for _, one in references:
            standalone(json.loads(one), named)
        return standalone(json.loads(text), named)
