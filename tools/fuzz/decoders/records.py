"""Formats of records, and schemas."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import fastavro
import pyarrow as pa
from google.protobuf.message_factory import GetMessageClass

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.avro import AvroSchema, avro_to_arrow, load
from penstock.serialization.ddl import parse_type
from penstock.serialization.formats import create_decoder, find_format
from penstock.serialization.formats._apicurio import ApicurioClient
from penstock.serialization.formats._avro import AvroLanguage
from penstock.serialization.formats._avro_decoder import AvroDecoder, AvroDecoders
from penstock.serialization.formats._debezium._avro import DebeziumAvroDecoders
from penstock.serialization.formats._debezium._encodings import Encodings
from penstock.serialization.formats._debezium._rows import EnvelopeRows
from penstock.serialization.formats._framing import Framing, GlueFraming, NumberFraming
from penstock.serialization.formats._json_schema import load_json_schema
from penstock.serialization.formats._protobuf._decoder import ProtobufDecoder, ProtobufDecoders
from penstock.serialization.formats._protobuf._schema import ProtobufLanguage, ProtobufSchema
from penstock.serialization.formats._registered_decoder import RegisteredDecoder
from penstock.serialization.formats._schema_registry import SchemaRegistry
from penstock.serialization.formats._schemas import StoredSchema
from penstock_filesystem.source.discovery import objects_of
from suite.debezium_records import COLUMNS, EXAMPLE, avro_schema, compact, connect_schema, envelope, written
from suite.protobuf_records import ORDER, compiled

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": "a", "type": "long"},
        {"name": "t", "type": ["null", "string"], "default": None},
        {"name": "l", "type": {"type": "array", "items": "int"}},
        {"name": "m", "type": {"type": "map", "values": "double"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "e", "type": {"type": "enum", "name": "e", "symbols": ["X", "Y"]}},
        {"name": "x", "type": {"type": "fixed", "name": "x", "size": 4}},
    ],
}
_RECORD = {
    "a": 5,
    "t": "text",
    "l": [1, 2, 3],
    "m": {"k": 1.5},
    "d": b"\x01\x00",
    "at": 1_700_000_000_000_000,
    "day": 19_000,
    "e": "Y",
    "x": b"abcd",
}


def _plain(schema: AvroSchema) -> AvroSchema:
    return fastavro.parse_schema(json.loads(json.dumps(schema)))


def _bytes(record: Any) -> bytes:
    out = io.BytesIO()
    fields = [
        {**field, "type": field["type"]["type"]}
        if isinstance(field["type"], dict) and "logicalType" in field["type"]
        else field
        for field in SCHEMA["fields"]
    ]
    fastavro.schemaless_writer(out, _plain({**SCHEMA, "fields": fields}), record)
    return out.getvalue()


def avro_seeds() -> list[bytes]:
    """Returns records of the schema."""
    return [_bytes(_RECORD), _bytes({**_RECORD, "t": None, "l": [], "m": {}})]


def registered_seeds() -> list[bytes]:
    """Returns the same with a schema's id before them."""
    return [b"\0" + (7).to_bytes(4, "big") + one for one in avro_seeds()]


_TREE = {"type": "record", "name": "r", "fields": [{"name": "next", "type": ["null", "r"]}]}
_NULLS = {"type": "record", "name": "r", "fields": [{"name": "n", "type": {"type": "array", "items": "null"}}]}


class _Registry:
    """Knows a schema of each id: 8 holds arrays of nulls, 9 contains itself."""

    framing: Framing = NumberFraming()

    def schema(self, schema_id: int) -> AvroSchema:
        return load("a schema", json.dumps({8: _NULLS, 9: _TREE}.get(schema_id, SCHEMA)))


def refused_registered() -> list[bytes]:
    """Returns records of few bytes that stand for many values, and one that is nested 60,000 times."""
    nulls = b"\0\0\0\0\x08" + b"\x80\x80\x80\x80\x80\x80\x01" + b"\0"
    return [nulls, b"\0\0\0\0\x09" + b"\x02" * 60_000 + b"\0", b"\1\0\0\0\7", b""]


@cache
def _avro() -> AvroDecoder:
    return AvroDecoder(load("a schema", json.dumps(SCHEMA)), None)


@cache
def _registered() -> Any:
    reader = json.loads(json.dumps(SCHEMA))
    given = [{**field, "default": 0} if field["name"] == "a" else field for field in reader["fields"][:2]]
    reader["fields"] = [*given, {"name": "new", "type": "int", "default": 3}]
    return RegisteredDecoder(_Registry(), AvroDecoders(load("a schema", json.dumps(reader)), None))


def _checked(decoder: Any, data: bytes) -> int:
    """Decodes one record; raises BadDataError with the reason, as a connector does."""
    decoded = decoder.decode(pa.array([data, None], pa.binary()))
    assert len(decoded.column) == 2 and decoded.column.type == decoder.type
    decoded.column.validate(full=True)
    if decoded.errors is not None:
        assert decoded.errors[0].as_py()
        raise BadDataError(f"offset 0: {decoded.errors[0].as_py()}")
    return 1


def read_avro(data: bytes) -> int:
    """Decodes a record of Avro."""
    return _checked(_avro(), data)


def read_registered(data: bytes) -> int:
    """Decodes a record of Avro that names its schema, as another one."""
    return _checked(_registered(), data)


@cache
def _json() -> Any:
    type_ = pa.struct(
        [
            ("a", pa.int64()),
            ("t", pa.string()),
            ("d", pa.decimal128(9, 2)),
            ("at", pa.timestamp("us", "UTC")),
            ("l", pa.list_(pa.int32())),
            ("m", pa.map_(pa.string(), pa.float64())),
            ("b", pa.binary()),
        ]
    )
    flat = pa.struct([field for field in type_ if field.name not in ("m", "b")])
    return create_decoder("json", {}, type_), create_decoder("json", {}, flat)


def json_seeds() -> list[bytes]:
    """Returns records of JSON."""
    whole = {"a": 1, "t": "x", "d": 1.25, "at": "2024-01-01T00:00:00Z", "l": [1, None], "m": {"k": 1}, "b": "YWJj"}
    return [json.dumps(whole).encode(), b'{"a": null, "t": {"x": [1]}}', b"{}"]


def odd_json() -> list[bytes]:
    """Returns numbers that are none, and values that are nested as deeply as the parser takes them."""
    nested = [b'{"%s": %s%s}' % (name, b"[" * deep, b"]" * deep) for name in (b"t", b"a", b"l") for deep in (300, 900)]
    return [
        *nested,
        b'{"a": 1e9999999999999999999999}',
        b'{"d": 1e999999999, "a": 1e999999999}',
        b"9e99999999999999999999",
        b'{"a": 1e%s7}' % (b"0" * 60),
        b'{"a": 007, "t": 1e%s1}' % (b"0" * 60),
        b"{" * 50_000 + b"'" * 50_000 + b"/*" * 50_000,
        b",a" * 100_000 + b" " * 100_000,
        b'{"a": ' + b"0" * 100_000 + b"1}",
    ]


def read_json(data: bytes) -> int:
    """Decodes a record of JSON in both ways: Arrow's parser reads the types of the second."""
    one, other = _json()
    _checked(other, data)
    return _checked(one, data)


_ENVELOPES = {"decimal.handling.mode": "precise", "binary.handling.mode": "bytes", "timestamp.unit": "us"}


def debezium_seeds() -> list[bytes]:
    """Returns envelopes with and without a schema, and the mark of a transaction."""
    plain = envelope("u", written(EXAMPLE), written({**EXAMPLE, "name": "__debezium_unavailable_value"}))
    mark = {"status": "END", "id": "571:5", "data_collections": [{"data_collection": "a.b", "event_count": 1}]}
    with_schema = {"schema": connect_schema(), "payload": plain}
    return [compact(plain), compact(with_schema), compact(mark), b'{"schema":null,"payload":null}']


@cache
def _envelope_type() -> pa.DataType:
    return find_format("debezium").column_type(parse_type(COLUMNS))


def read_debezium(data: bytes) -> int:
    """Decodes an envelope of JSON: next to none, and next to those of both layouts."""
    alone = create_decoder("debezium", _ENVELOPES, _envelope_type()).decode(pa.array([data], pa.binary()))
    for seed in debezium_seeds()[:2]:
        decoder = create_decoder("debezium", _ENVELOPES, _envelope_type())
        decoder.decode(pa.array([seed] * 3, pa.binary()))
        together = decoder.decode(pa.array([seed, data], pa.binary()))
        assert together.column.slice(1).equals(alone.column), "a record's neighbours change it"
    return _checked(create_decoder("debezium", _ENVELOPES, _envelope_type()), data)


class _Envelopes:
    """Knows the schema of envelopes."""

    framing = NumberFraming()

    def schema(self, schema_id: int) -> AvroSchema:
        return load("a schema", json.dumps(avro_schema()))


def debezium_avro_seeds() -> list[bytes]:
    """Returns an envelope in Avro."""
    text = json.dumps(avro_schema()).replace('"logicalType": "decimal"', '"was": "decimal"')
    out = io.BytesIO()
    row = written(EXAMPLE, in_json=False)
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), envelope("u", row, row))
    return [b"\0\0\0\0\1" + out.getvalue()]


@cache
def _debezium_avro() -> Any:
    options = find_format("debezium").options.parse({}, owner="format debezium")
    rows = EnvelopeRows(_envelope_type(), options["timeZone"], options["unavailable.value.placeholder"])
    return RegisteredDecoder(_Envelopes(), DebeziumAvroDecoders(rows, Encodings(options)))


def read_debezium_avro(data: bytes) -> int:
    """Decodes an envelope of Avro."""
    return _checked(_debezium_avro(), data)


class _Protobuf:
    """Knows the schema of :data:`ORDER` by 7, of another message by 8, and one with other types by 9."""

    framing = NumberFraming()

    def schema(self, schema_id: int) -> ProtobufSchema:
        texts = {8: _OTHER, 9: ORDER.replace("int32 i32 = 1", "int64 i32 = 1")}
        return ProtobufLanguage().load(texts.get(schema_id, ORDER), ())


_OTHER = 'syntax = "proto3"; package shop; message Line { string sku = 1; message Inner { Line line = 1; } }'


@cache
def _protobuf() -> ProtobufDecoder:
    return ProtobufDecoder(_Protobuf().schema(7), "shop.Order", None)


@cache
def _protobuf_registered() -> Any:
    return RegisteredDecoder(_Protobuf(), ProtobufDecoders(_protobuf()))


def protobuf_seeds() -> list[bytes]:
    """Returns messages of the schema."""
    order = GetMessageClass(_protobuf().message)
    lines = [{"sku": "a", "quantity": 2}, {}]
    full = order(
        i32=-1, u64=2**64 - 1, note="é", raw=b"\0", color=1, numbers=[1, 2], lines=lines, names={1: "a"}, card="c"
    )
    full.at.seconds, full.took.nanos, full.wrapped.value = 5, 7, 0
    full.by_sku["k"].quantity = 3
    return [full.SerializeToString(), order(voucher={}).SerializeToString(), b""]


def protobuf_registered_seeds() -> list[bytes]:
    """Returns the same with a schema's id and the message's place before them."""
    return [b"\0\0\0\0\7\2\2" + one for one in protobuf_seeds()]


def odd_protobuf() -> list[bytes]:
    """Returns messages that stand for many values, and times that do not fit."""
    lines = b"\xa2\x01\0" * 20_000
    return [lines, b"\xc2\x01\x0a\x08" + b"\xff" * 9 + b"\x01", b"\x9a\x01\xff\xff\xff\xff\x0f", b"\x0b" * 50_000]


def read_protobuf(data: bytes) -> int:
    """Decodes a message."""
    return _checked(_protobuf(), data)


def read_protobuf_registered(data: bytes) -> int:
    """Decodes a message that names its schema."""
    return _checked(_protobuf_registered(), data)


def protobuf_schema_seeds() -> list[bytes]:
    """Returns descriptors as a registry has them, by way of bytes."""
    files = [compiled({"main.proto": text}).file[-1] for text in (ORDER, _OTHER)]
    return [one.SerializeToString() for one in files]


def read_protobuf_schema(data: bytes) -> object:
    """Reads a descriptor, and which column its first message is."""
    registry = SchemaRegistry(find_format("protobuf").options.parse(_ADDRESS, owner="format"), ProtobufLanguage())
    schema = registry._loaded("schema 7", StoredSchema("PROTOBUF", base64.b64encode(data).decode()))
    name = next(iter(schema.file().message_types_by_name.values()), None)
    return None if name is None else ProtobufDecoder(schema, name.full_name, None).type


_ADDRESS = {"schema.registry.url": "http://127.0.0.1:9"}


def json_schema_seeds() -> list[bytes]:
    """Returns JSON schemas."""
    text = {"type": ["string", "null"]}
    part = {"type": "array", "items": {"oneOf": [{"type": "null"}, text]}}
    fields = {"x": {"$ref": "#/definitions/a"}, "y": text}
    whole = {"type": "object", "properties": fields, "definitions": {"a": part}}
    return [json.dumps(one).encode() for one in (text, whole)]


def odd_json_schemas() -> list[bytes]:
    """Returns schemas that refer to themselves, or are nested deeply."""
    itself = {"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#/properties/b"}}}
    deep = '{"properties": {"a": ' * 5_000 + '{"type": "string"}' + "}}" * 5_000
    return [json.dumps(itself).encode(), deep.encode(), b'{"properties": {"a": {"$ref": "#/x/y"}}}', b'{"$ref": 5}']


def read_json_schema(data: bytes) -> object:
    """Reads a JSON schema, and which column it is."""
    return load_json_schema(data.decode("utf-8", "replace")).column_type()


class _Glue(_Registry):
    """Knows a schema of each UUID."""

    framing: Framing = GlueFraming()


@cache
def _glue() -> Any:
    return RegisteredDecoder(_Glue(), AvroDecoders(_avro_schema(), None))


def _avro_schema() -> AvroSchema:
    return load("a schema", json.dumps(SCHEMA))


def glue_seeds() -> list[bytes]:
    """Returns records of Glue, the second one compressed."""
    plain, other = avro_seeds()
    return [b"\3\0" + bytes(16) + plain, b"\3\5" + bytes(16) + zlib.compress(other)]


def refused_glue() -> list[bytes]:
    """Returns a record that becomes a large one, and some without a header."""
    return [b"\3\5" + bytes(16) + zlib.compress(bytes(1 << 27)), b"\3\7" + bytes(16), b"\3\0", b""]


def read_glue(data: bytes) -> int:
    """Decodes a record of Glue."""
    return _checked(_glue(), data)


def apicurio_seeds() -> list[bytes]:
    """Returns answers of Apicurio."""
    version = {"artifactType": "AVRO", "globalId": 1, "contentId": 1, "version": "1", "artifactId": "a", "name": "n"}
    answers: list[Any] = [version, {"version": version}, {"count": 1, "versions": [version]}, []]
    return [json.dumps(one).encode() for one in answers]


def odd_answers() -> list[bytes]:
    """Returns answers of other shapes."""
    return [
        b"[" * 100_000,
        b"<html>",
        b'{"versions": 5}',
        b'{"versions": [1]}',
        b'{"version": {"contentId": []}}',
        b"\xff",
    ]


def read_apicurio(data: bytes) -> int:
    """Reads the same answer to everything that Apicurio is asked."""
    given = {"schema.registry.type": "apicurio", **_ADDRESS}
    client = ApicurioClient(find_format("avro").options.parse(given, owner="format"))
    client._ask = lambda what, method, path, body=None: data if "/n/" not in path else None  # type: ignore[method-assign]
    language = AvroLanguage()
    for ask in (
        lambda: client.get(1, language),
        lambda: client.latest("s", language),
        lambda: client.identify("s", language, "{}", (), register=True),
    ):
        with suppress(BadConfigurationError):
            ask()
    return 1


def string_reader(charset: str) -> Callable[[bytes], int]:
    """Returns what decodes a text."""
    decoder = create_decoder("string", {"charset": charset})
    return lambda data: _checked(decoder, data)


def schema_seeds() -> list[bytes]:
    """Returns schemas as a registry has them."""
    tree = {"type": "record", "name": "n.tree", "fields": [{"name": "c", "type": {"type": "array", "items": "long"}}]}
    return [json.dumps(SCHEMA).encode(), json.dumps(tree).encode(), b'["null", "string"]']


def refused_schemas() -> list[bytes]:
    """Returns what is no schema, or has no column type."""
    decimal = b'{"type": "bytes", "logicalType": "decimal"}'
    return [
        b"[" * 100_000,
        b"{}",
        b'{"type": 5}',
        decimal,
        decimal[:-1] + b', "precision": "x"}',
        b'"nothing"',
        b"\xff",
    ]


def read_schema(data: bytes) -> object:
    """Reads a schema of Avro, and what column it is."""
    schema = load("schema 7", data.decode("utf-8", "replace"))
    return AvroDecoder(schema, None).type if isinstance(schema, dict) else avro_to_arrow(schema)


def notifications() -> list[bytes]:
    """Returns what comes through a queue of SQS."""
    record = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": "in/a+b%C3%BC"}}}
    bridged = {
        "source": "aws.s3",
        "detail-type": "Object Created",
        "detail": {"bucket": {"name": "b"}, "object": {"key": "in/a"}},
    }
    events = [{"Records": [record, record]}, bridged, {"Event": "s3:TestEvent"}]
    bodies = [json.dumps(event) for event in events]
    return [body.encode() for body in [*bodies, json.dumps({"Type": "Notification", "Message": bodies[0]})]]


def read_notification(data: bytes) -> None:
    """Reads what a message is about; whatever it is, that is paths or none."""
    paths = objects_of(data.decode("utf-8", "replace"))
    assert paths is None or all(isinstance(path, str) for path in paths)
