"""Avro, plain or with a schema registry."""

from __future__ import annotations

import json
from typing import ClassVar

from penstock.errors import BadConfigurationError

try:
    import fastavro  # noqa: F401
except ImportError:
    raise BadConfigurationError("format avro needs the package fastavro: pip install 'penstock[avro]'") from None

import pyarrow as pa

from penstock.options import OptionSet, OptionValues
from penstock.serialization.avro import AvroSchema, arrow_to_avro, load
from penstock.serialization.formats._avro_decoder import AvroDecoder
from penstock.serialization.formats._avro_encoder import AvroEncoder
from penstock.serialization.formats._contracts import RecordDecoder, RecordEncoder, RecordFormat
from penstock.serialization.formats._options import AVRO_OPTIONS
from penstock.serialization.formats._schema_registry import SchemaRegistry

__all__ = ["AvroFormat", "subject_of"]


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
        if options["schema.registry.url"] is None:
            if own is None:
                raise BadConfigurationError(
                    "format avro needs the option 'schema' (what the records were written with) or "
                    "'schema.registry.url' (if they name their schemas)"
                )
            return AvroDecoder(reader, type, writer=own)
        registry = SchemaRegistry(options)
        if reader is None:
            _, reader = registry.latest(subject_of(options, None))
        return AvroDecoder(reader, type, registry=registry)

    def create_encoder(self, options: OptionValues, type: pa.DataType | None) -> RecordEncoder:
        if type is None:
            raise BadConfigurationError("format avro needs the type of the column to write")
        url, latest = options["schema.registry.url"], options["use.latest.version"]
        if latest and (options["schema"] is not None or url is None):
            raise BadConfigurationError("option 'use.latest.version' goes with 'schema.registry.url', without 'schema'")
        if latest:
            registry = SchemaRegistry(options)
            schema_id, schema = registry.latest(subject_of(options, None))
            return AvroEncoder(schema, type, header=_header(schema_id))
        text = options["schema"]
        if text is None:
            text = json.dumps(arrow_to_avro(type, options["recordName"], options["recordNamespace"]))
        schema = load("option 'schema'", text)
        if url is None:
            return AvroEncoder(schema, type)
        AvroEncoder(schema, type)  # checks the type before anything is registered
        registry = SchemaRegistry(options)
        schema_id = registry.identify(subject_of(options, schema), text, register=options["auto.register.schemas"])
        return AvroEncoder(schema, type, header=_header(schema_id))


def _given(options: OptionValues, name: str) -> AvroSchema | None:
    return None if options[name] is None else load(f"option '{name}'", options[name])


def _header(schema_id: int) -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big")


def subject_of(options: OptionValues, schema: AvroSchema | None) -> str:
    """Returns the subject that the options name, or their strategy. Raises BadConfigurationError."""
    if options["subject"] is not None:
        return str(options["subject"])
    strategy, topic = options["subject.name.strategy"], options["topic"]
    if topic is None and strategy != "record":
        raise BadConfigurationError("the subject in the schema registry follows no single topic: set 'subject'")
    if strategy == "topic":
        return f"{topic}-{options['part']}"
    record = schema.get("name") if isinstance(schema, dict) else None
    if record is None:
        raise BadConfigurationError(
            f"'subject.name.strategy' is {strategy}, and without a record's schema there is no name: set 'subject'"
        )
    return record if strategy == "record" else f"{topic}-{record}"
