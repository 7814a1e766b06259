"""JSON with JSON schemas, of an option or a registry. Confluent's own classes and jsonschema say what is right."""

from __future__ import annotations

import json
import pickle
from datetime import date, datetime, timezone
from decimal import Decimal

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.serialization.formats import create_decoder, create_encoder
from penstock.serialization.formats._json_schema import arrow_to_json_schema, load_json_schema
from suite.confluent_registry import Registry

confluent = pytest.importorskip("confluent_kafka.schema_registry")
theirs = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
serialization = pytest.importorskip("confluent_kafka.serialization")

UTC = timezone.utc
CONTEXT = serialization.SerializationContext("orders", serialization.MessageField.VALUE)
TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("small", pa.int32()),
        ("ratio", pa.float64()),
        ("single", pa.float32()),
        ("flag", pa.bool_()),
        ("note", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("counts", pa.map_(pa.string(), pa.int64())),
        ("place", pa.struct([("lat", pa.float64()), ("names", pa.list_(pa.field("element", pa.int64())))])),
    ]
)
ROW = {
    "id": 2**62,
    "small": -1,
    "ratio": 0.1,
    "single": 0.5,
    "flag": True,
    "note": "é",
    "day": date(2024, 2, 29),
    "at": datetime(2024, 1, 1, 12, tzinfo=UTC),
    "raw": b"\0\xff",
    "tags": ["a", None],
    "counts": [("k", 3)],
    "place": {"lat": None, "names": [1]},
}
NOTHING = dict.fromkeys(ROW)


@pytest.fixture
def registry():
    server = Registry()
    yield server
    server.close()


@pytest.fixture
def options(registry):
    return {"schema.registry.url": registry.url, "topic": "orders", "max.retries": "0"}


def binary(values):
    return pa.array(values, pa.binary())


def test_round_trip_with_a_derived_schema_that_is_the_type(registry, options):
    encoder = pickle.loads(pickle.dumps(create_encoder("json", options, TYPE)))
    decoder = pickle.loads(pickle.dumps(create_decoder("json", options)))
    assert decoder.type == TYPE
    registry.requests.clear()
    records = encoder.encode(pa.array([ROW, None, NOTHING], TYPE))
    assert [one and one[:5] for one in records.to_pylist()] == [b"\0\0\0\0\1", None, b"\0\0\0\0\1"]
    decoded = decoder.decode(records)
    assert decoded.errors is None and decoded.column.to_pylist() == [ROW, None, NOTHING]
    assert registry.requests == []


def test_confluents_own_classes_read_what_is_written_and_the_reverse(registry, options):
    client = confluent.SchemaRegistryClient({"url": registry.url})
    records = create_encoder("json", options, TYPE).encode(pa.array([ROW, NOTHING], TYPE)).to_pylist()
    schema = client.get_latest_version("orders-value").schema.schema_str
    read = [theirs.JSONDeserializer(schema, schema_registry_client=client)(one, CONTEXT) for one in records]
    assert read == [json.loads(one[5:]) for one in records]  # they check it by the schema
    written = [theirs.JSONSerializer(schema, client)(one, CONTEXT) for one in read]
    decoded = create_decoder("json", options).decode(binary(written))
    assert decoded.errors is None and decoded.column.to_pylist() == [ROW, NOTHING]


@st.composite
def types(draw, depth=0):
    plain = st.sampled_from([pa.int8(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.bool_(), pa.string()])
    plain |= st.sampled_from([pa.date32(), pa.timestamp("us", "UTC"), pa.binary()])
    if depth == 0 or (depth < 3 and draw(st.integers(0, 3)) == 0):
        names = draw(st.lists(st.sampled_from("abcdé $/~#%"), min_size=1, max_size=3, unique=True))
        return pa.struct([(name, draw(types(depth + 1))) for name in names])
    if depth < 3 and draw(st.integers(0, 2)) == 0:
        inner = draw(types(depth + 1))
        return draw(st.sampled_from([pa.list_(pa.field("element", inner)), pa.map_(pa.string(), inner)]))
    return draw(plain)


@settings(max_examples=80)
@given(types())
def test_the_schema_of_any_column_gives_the_column_again(type_):
    schema = load_json_schema(json.dumps(arrow_to_json_schema(type_)))
    assert schema.column_type() == type_
    jsonschema.Draft7Validator.check_schema(schema.document)
    create_encoder("json", {"schema": json.dumps(schema.document)}, type_)


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "id": st.integers(-(2**63), 2**63 - 1),
                "ratio": st.floats(allow_nan=False, allow_infinity=False),
                "note": st.text(st.characters(codec="utf-8"), max_size=3),
                "flag": st.booleans(),
                "day": st.dates(date(1, 1, 1)),
                "tags": st.lists(st.none() | st.just("x"), max_size=2),
                "counts": st.dictionaries(st.just("k"), st.integers(0, 3)).map(lambda one: list(one.items())),
                "place": st.none() | st.just({"lat": 1.5}),
            },
        ),
        min_size=1,
        max_size=4,
    ),
    ignore=st.booleans(),
)
def test_what_is_written_is_valid_by_the_derived_schema(rows, ignore):
    encoder = create_encoder("json", {"ignoreNullFields": str(ignore)}, TYPE)
    schema = arrow_to_json_schema(TYPE)
    for record in encoder.encode(pa.array(rows, TYPE)).to_pylist():
        jsonschema.validate(json.loads(record), schema)


def of(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "type_"),
    [
        ({"type": ["string", "null"]}, pa.string()),
        ({"type": ["integer", "number"]}, pa.float64()),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, pa.int64()),
        ({"allOf": [{"type": "boolean"}]}, pa.bool_()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"const": 5}, pa.int64()),
        ({"type": "string", "format": "uuid"}, pa.string()),
        ({"type": "integer", "connect.type": "int16"}, pa.int16()),
        ({"type": "number", "connect.type": "int16"}, pa.float64()),
        ({"$ref": "#/definitions/a~1b"}, pa.list_(pa.field("element", pa.date32()))),
        ({"properties": {"y": {"type": "string"}}}, pa.struct([("y", pa.string())])),
    ],
)
def test_what_a_field_becomes(schema, type_):
    definitions = {"a/b": {"type": "array", "items": {"type": "string", "format": "date"}}}
    text = json.dumps({**of(x=schema), "definitions": definitions})
    assert create_decoder("json", {"schema": text}).type == pa.struct([("x", type_)])


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "string"}, "is not of an object with properties, but of string"),
        ({"type": "object"}, "no column for 'the record', which is an object of unknown fields"),
        (of(x={}), "no column for 'x', which has no type"),
        (of(x=True), "no column for 'x', which has no type"),
        (of(x={"type": ["string", "integer"]}), "'x', which may be one of several types"),
        (of(x={"oneOf": [{"type": "string"}, {"type": "integer"}]}), "'x', which may be one of several types"),
        (of(x=of(y={"type": "array"})), "'x.y', which is an array without one type of items"),
        (of(x={"type": "array", "items": [{"type": "string"}]}), "'x', which is an array without one type"),
        (of(x={"type": "object", "additionalProperties": True}), "'x', which is an object of unknown fields"),
        (of(x={"$ref": "#"}), "'x', which contains itself"),
        (of(x={"$ref": "#/properties/x"}), "'x', which refers to itself"),
        (of(x={"$ref": "#/nowhere"}), "can't be read: KeyError"),
        (
            of(x={"$ref": "http://other/schema"}),
            "http://other/schema, which the registry does not have",
        ),
        (of(x={"type": "null"}), "'x', which has no type"),
        (of(x={"type": 5}), "can't be read"),
    ],
)
def test_what_has_no_column_is_named(schema, reason):
    with pytest.raises(BadConfigurationError) as caught:
        create_decoder("json", {"schema": json.dumps(schema)})
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300
    assert create_decoder("json", {"schema": json.dumps(schema)}, pa.struct([("x", pa.string())])) is not None


def test_schemas_that_refer_to_others(registry, options):
    money = {"$id": "http://shop/money.json", **of(amount={"type": "integer"})}
    line = of(price={"$ref": "money.json"})
    order = {"$id": "http://shop/order.json", **of(total={"$ref": "money.json"}, lines={"$ref": "#/definitions/lines"})}
    order["definitions"] = {"lines": {"type": "array", "items": {"$ref": "line.json"}}}
    registry.register("money", money, schemaType="JSON")
    to_money = {"name": "money.json", "subject": "money", "version": 1}
    registry.register("line", line, schemaType="JSON", references=[to_money])
    to_line = {"name": "http://shop/line.json", "subject": "line", "version": 1}
    to_money = {**to_money, "name": "http://shop/money.json"}
    registry.register("orders-value", order, schemaType="JSON", references=[to_line, to_money])
    one = pa.struct([("amount", pa.int64())])
    lines = pa.list_(pa.field("element", pa.struct([("price", one)])))
    decoder = create_decoder("json", options)
    assert decoder.type == pa.struct([("total", one), ("lines", lines)])


def test_records_of_several_schemas_in_one_batch_and_bad_ones(registry, options):
    first = registry.register("orders-value", of(id={"type": "integer"}), schemaType="JSON")
    second = registry.register("orders-value", of(id={"type": "integer"}, note={"type": "string"}), schemaType="JSON")
    avro = registry.register("other", '"long"')
    decoder = create_decoder("json", options)

    def framed(key, **fields):
        return b"\0" + key.to_bytes(4, "big") + json.dumps(fields).encode()

    records = [
        framed(first, id=1),
        framed(second, id=2, note="n"),
        None,
        framed(99, id=3),
        framed(avro, id=3),
        b'{"id": 4}',
        framed(second, id="x"),
        framed(first, id=5),
    ]
    decoded = decoder.decode(binary(records))
    rows = [row and (row["id"], row["note"]) for row in decoded.column.to_pylist()]
    assert rows == [(1, None), (2, "n"), None, None, None, None, None, (5, None)]
    errors = decoded.errors.to_pylist()
    assert errors[3:6] == [
        "the schema registry has no JSON schema 99",
        f"the schema registry has no JSON schema {avro}",
        "does not begin with a zero byte and a schema's id (4 bytes)",
    ]
    assert errors[6] is not None and errors[:3] == [None] * 3 and errors[7] is None


@pytest.mark.parametrize(
    ("schema", "type_", "reason"),
    [
        (of(id={"type": "integer"}), pa.struct([("x", pa.int64())]), "the schema has no field 'x': leave it out"),
        (of(id={"type": "integer"}), pa.struct([("id", pa.string())]), "id is string, and the schema has bigint: cast"),
        (
            of(id={"type": "string"}),
            pa.struct([("id", pa.int64())]),
            "id is bigint, and the schema has string: cast it",
        ),
        (
            {**of(id={"type": "integer"}, n={"type": "string"}), "required": ["id"]},
            pa.struct([("n", pa.string())]),
            "'id'",
        ),
        (of(a={"type": "array", "items": of(b={"type": "boolean"})}), None, "a[].b is int, and the schema has boolean"),
    ],
)
def test_a_column_that_does_not_fit_the_schema(registry, options, schema, type_, reason):
    type_ = type_ or pa.struct([("a", pa.list_(pa.struct([("b", pa.int32())])))])
    with pytest.raises(BadConfigurationError) as caught:
        create_encoder("json", {**options, "schema": json.dumps(schema)}, type_)
    assert reason in str(caught.value) and registry.requests == []


def test_schemas_to_write_with(registry, options):
    type_ = pa.struct([("id", pa.int64())])
    schema = json.dumps({"title": "Order", **of(id={"type": "number"}, note={"type": "string"})})
    create_encoder("json", {**options, "schema": schema, "subject.name.strategy": "record"}, type_)
    assert registry.subjects == {"Order": [1]} and registry.schemas[0] == {"schema": schema, "schemaType": "JSON"}
    with pytest.raises(BadConfigurationError, match="does not have this schema in subject 'orders-value'"):
        create_encoder("json", {**options, "auto.register.schemas": "false"}, type_)
    registry.register("orders-value", json.loads(schema), schemaType="JSON")
    encoder = create_encoder("json", {**options, "use.latest.version": "true"}, type_)
    assert encoder.encode(pa.array([{"id": 1}], type_)).to_pylist()[0][5:] == b'{"id":1}'
    with pytest.raises(BadConfigurationError, match=r"goes with 'schema.registry.url', without 'schema'"):
        create_encoder("json", {"use.latest.version": "true"}, type_)
    with pytest.raises(BadConfigurationError, match="there is no name: set 'subject'"):
        create_encoder("json", {**options, "subject.name.strategy": "record"}, type_)


def test_decimals_are_numbers_to_the_schema():
    type_ = pa.struct([("price", pa.decimal128(10, 2))])
    schema = arrow_to_json_schema(type_)
    (record,) = create_encoder("json", {}, type_).encode(pa.array([{"price": Decimal("1.50")}], type_)).to_pylist()
    jsonschema.validate(json.loads(record), schema)
    assert load_json_schema(json.dumps(schema)).column_type() == pa.struct([("price", pa.float64())])


@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
def test_a_text_that_is_no_schema(text):
    with pytest.raises(BadConfigurationError, match="option 'schema' is not a JSON schema"):
        create_decoder("json", {"schema": text})
