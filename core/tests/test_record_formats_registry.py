"""Avro with a schema registry."""

from __future__ import annotations

import json
import pickle
import struct
from io import BytesIO

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, RetriableError
from penstock.serialization.formats import create_decoder, create_encoder
from suite.confluent_registry import Registry
from suite.debezium_records import EXAMPLE, avro_schema, envelope, written

confluent = pytest.importorskip("confluent_kafka.schema_registry")
avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
serialization = pytest.importorskip("confluent_kafka.serialization")

TYPE = pa.struct([("id", pa.int64()), ("name", pa.string()), ("at", pa.timestamp("us", "UTC"))])
ROWS = [{"id": 1, "name": "é", "at": None}, None, {"id": None, "name": None, "at": None}]
V1 = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "int"}]}
V2 = {**V1, "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}]}
V3 = {**V2, "fields": [*V2["fields"], {"name": "extra", "type": ["null", "string"], "default": None}]}


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


def framed(schema_id, schema, *values):
    records = []
    for value in values:
        stream = BytesIO(b"\0" + schema_id.to_bytes(4, "big"))
        stream.seek(5)
        fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
        records.append(stream.getvalue())
    return records


def test_round_trip_with_tasks_that_ask_nothing(registry, options):
    encoder = pickle.loads(pickle.dumps(create_encoder("avro", options, TYPE)))
    assert registry.subjects == {"orders-value": [1]}
    decoder = pickle.loads(pickle.dumps(create_decoder("avro", options)))
    registry.requests.clear()
    records = encoder.encode(pa.array(ROWS, TYPE))
    assert [r[:5] if r else r for r in records.to_pylist()] == [b"\0\0\0\0\x01", None, b"\0\0\0\0\x01"]
    decoded = decoder.decode(records)
    assert decoder.type == TYPE and decoded.errors is None and decoded.column.to_pylist() == ROWS
    assert registry.requests == []


@pytest.mark.parametrize("url", ["http", "mock://together"])
def test_confluents_own_classes_read_and_write_the_same_bytes(registry, options, url, monkeypatch):
    if url == "http":
        client = confluent.SchemaRegistryClient({"url": registry.url})
    else:
        client = confluent.SchemaRegistryClient.new_client({"url": url})
        monkeypatch.setattr(confluent.SchemaRegistryClient, "new_client", lambda config: client)
        options = {**options, "schema.registry.url": url}
    context = serialization.SerializationContext("orders", serialization.MessageField.VALUE)
    records = create_encoder("avro", options, TYPE).encode(pa.array(ROWS, TYPE)).to_pylist()
    theirs = avro.AvroDeserializer(client)
    assert [theirs(record, context) for record in records] == ROWS
    schema = client.get_latest_version("orders-value").schema.schema_str
    writer = avro.AvroSerializer(client, schema)
    written = [row and writer(row, context) for row in ROWS]
    assert written == records
    assert create_decoder("avro", options).decode(binary(written)).column.to_pylist() == ROWS


def test_records_of_older_and_newer_schemas_are_read_as_one(registry, options):
    ids = [registry.register("orders-value", schema) for schema in (V1, V2)]
    decoder = pickle.loads(pickle.dumps(create_decoder("avro", options)))
    assert decoder.type == pa.struct([("id", pa.int64()), ("note", pa.string())])
    newer = registry.register("orders-value", V3)
    records = framed(ids[0], V1, {"id": 1}) + framed(ids[1], V2, {"id": 2, "note": "n"})
    records += framed(newer, V3, {"id": 3, "note": "m", "extra": "x"}) * 1000
    registry.requests.clear()
    decoded = decoder.decode(binary(records))
    assert decoded.errors is None
    assert decoded.column.to_pylist()[:3] == [{"id": 1, "note": "-"}, {"id": 2, "note": "n"}, {"id": 3, "note": "m"}]
    assert sorted(registry.requests) == ["GET schemas/ids/1", "GET schemas/ids/3"]
    decoder.decode(binary(records))
    assert len(registry.requests) == 2


WIDER = {"int": {"int", "long", "float", "double"}, "long": {"long", "float", "double"}, "float": {"float", "double"}}
KINDS = {
    "int": st.integers(-(2**20), 2**20),
    "long": st.integers(-(2**52), 2**52),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=3),
    "bytes": st.binary(max_size=3),
    "boolean": st.booleans(),
}
DEFAULTS = {"int": 5, "long": 5, "float": 5.0, "double": 5.0, "string": "d", "bytes": "d", "boolean": True}
VERSIONS = st.dictionaries(st.sampled_from("abc"), st.sampled_from(sorted(KINDS)), min_size=1)


def version(fields):
    parts = [{"name": name, "type": kind, "default": DEFAULTS[kind]} for name, kind in sorted(fields.items())]
    return {"type": "record", "name": "R", "fields": parts}


@settings(max_examples=25)
@given(data=st.data(), reader=VERSIONS, writers=st.lists(VERSIONS, min_size=1, max_size=4))
def test_records_of_many_versions_in_one_batch_are_the_readers_or_bad(data, reader, writers):
    server = Registry()
    try:
        keys = [server.register("w-value", version(one)) for one in writers]
        server.register("orders-value", version(reader))
        order = data.draw(st.lists(st.integers(0, len(writers) - 1), min_size=1, max_size=8))
        values = [{name: data.draw(KINDS[kind]) for name, kind in writers[number].items()} for number in order]
        written = zip(order, values, strict=True)
        records = [framed(keys[number], version(writers[number]), value)[0] for number, value in written]
        decoder = create_decoder("avro", {"schema.registry.url": server.url, "topic": "orders", "max.retries": "0"})
        decoded = decoder.decode(binary(records))
    finally:
        server.close()
    errors = decoded.errors.to_pylist() if decoded.errors is not None else [None] * len(records)
    for number, value, row, error in zip(order, values, decoded.column.to_pylist(), errors, strict=True):
        own = writers[number]
        fits = all(reader[name] in WIDER.get(own[name], {own[name]}) for name in own.keys() & reader.keys())
        texts = {"string", "bytes"}  # Avro takes one for the other
        if not fits and not any({own[name], reader[name]} == texts for name in own.keys() & reader.keys()):
            assert error is not None and row is None
        elif fits:
            assert error is None
            for name, kind in reader.items():
                default = DEFAULTS[kind].encode() if kind == "bytes" else DEFAULTS[kind]
                expected = value.get(name, default)
                if kind == "float":
                    expected = struct.unpack("<f", struct.pack("<f", expected))[0]
                assert row[name] == expected


def test_a_reader_schema_of_ones_own_needs_no_subject(registry, options):
    schema_id = registry.register("elsewhere", V2)
    decoder = create_decoder("avro", {**options, "schema": json.dumps(V1)})
    assert registry.requests == []
    narrower = {**V1, "fields": [{"name": "note", "type": "string"}]}
    decoder = create_decoder("avro", {**options, "schema": json.dumps(narrower)})
    assert decoder.decode(binary(framed(schema_id, V2, {"id": 1, "note": "n"}))).column.to_pylist() == [{"note": "n"}]


def test_bad_records_do_not_harm_their_neighbours(registry, options):
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "boolean"}]}
    own, unrelated = registry.register("orders-value", V2), registry.register("other", other)
    foreign = registry.register("json", "{}", schemaType="JSON")
    decoder = create_decoder("avro", options)
    (good,) = framed(own, V2, {"id": 1, "note": "n"})
    bad = [b"", b"\0\0", b"\x01" + good[1:], good[:5], good[:-1], good + b"x", b"plain text"]
    bad += [
        b"\0\0\0\xff\xff" + good[5:],
        *framed(unrelated, other, {"x": True}),
        b"\0\0\0\0" + bytes([foreign]) + b"\2",
    ]
    rows = [record for value in bad for record in (good, value, None)]
    registry.requests.clear()
    decoded = decoder.decode(binary(rows))
    assert decoded.column.to_pylist() == [{"id": 1, "note": "n"}, None, None] * len(bad)
    errors = decoded.errors.to_pylist()
    assert [error is not None for error in errors] == [False, True, False] * len(bad)
    assert errors[1] == "does not begin with a zero byte and a schema's id (4 bytes)"
    assert errors[3 * 7 + 1] == "the schema registry has no Avro schema 65535"
    assert errors[3 * 9 + 1] == f"the schema registry has no Avro schema {foreign}"
    count = len(registry.requests)
    decoder.decode(binary(rows))
    assert len(registry.requests) == count  # what is unknown is not asked for again at once


def test_an_id_that_was_unknown_is_asked_for_again_later(registry, options, monkeypatch):
    registry.register("orders-value", V2)
    decoder = create_decoder("avro", options)
    record = binary(framed(2, V1, {"id": 1}))
    assert decoder.decode(record).errors is not None
    registry.register("orders-value", V1)
    assert decoder.decode(record).errors is not None
    monkeypatch.setattr("penstock.serialization.formats._schema_registry._UNKNOWN_SECONDS", 0.0)
    assert decoder.decode(record).column.to_pylist() == [{"id": 1, "note": "-"}]


def test_subjects_of_the_strategies(registry, options):
    for strategy, part in [("topic", "key"), ("record", "value"), ("topic-record", "value")]:
        more = {"subject.name.strategy": strategy, "part": part, "recordName": "Order", "recordNamespace": "shop"}
        create_encoder("avro", {**options, **more}, TYPE)
    create_encoder("avro", {**options, "subject": "my own/1"}, TYPE)
    assert set(registry.subjects) == {"orders-key", "shop.Order", "orders-shop.Order", "my own/1"}
    with pytest.raises(BadConfigurationError, match="there is no name: set 'subject'"):
        create_decoder("avro", {**options, "subject.name.strategy": "record"})
    without = {name: text for name, text in options.items() if name != "topic"}
    with pytest.raises(BadConfigurationError, match="no single topic: set 'subject'"):
        create_decoder("avro", without)


def test_without_registering_the_schema_must_be_there(registry, options):
    kept = {**options, "auto.register.schemas": "false", "schema": json.dumps(V1)}
    type_ = pa.struct([("id", pa.int32())])
    with pytest.raises(BadConfigurationError, match="does not have this schema in subject 'orders-value'"):
        create_encoder("avro", kept, type_)
    assert registry.subjects == {}
    registry.register("other", V2)
    registry.register("orders-value", V1)
    (record,) = create_encoder("avro", kept, type_).encode(pa.array([{"id": 1}], type_)).to_pylist()
    assert record == b"\0\0\0\0\2\2"


def test_writing_with_the_latest_version(registry, options):
    for schema in (V1, V2):
        registry.register("orders-value", schema)
    latest = {**options, "use.latest.version": "true"}
    type_ = pa.struct([("id", pa.int64())])
    records = create_encoder("avro", latest, type_).encode(pa.array([{"id": 1}], type_))
    assert records.to_pylist() == [b"\0\0\0\0\2\2\2-"]
    with pytest.raises(BadConfigurationError, match="no field 'x'"):
        create_encoder("avro", latest, pa.struct([("id", pa.int64()), ("x", pa.int8())]))
    with pytest.raises(BadConfigurationError, match="without 'schema'"):
        create_encoder("avro", {**latest, "schema": json.dumps(V1)}, type_)


def test_nothing_is_registered_for_a_column_that_does_not_fit(registry, options):
    with pytest.raises(BadConfigurationError, match="can't hold"):
        create_encoder("avro", {**options, "schema": json.dumps(V1)}, pa.struct([("id", pa.string())]))
    assert registry.requests == []


def test_schemas_that_refer_to_others(registry, options):
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "amount", "type": "long"}]}
    line = {"type": "record", "name": "Line", "namespace": "shop", "fields": [{"name": "price", "type": "Money"}]}
    lines = {"type": "array", "items": "shop.Line"}
    order = {**V1, "fields": [{"name": "total", "type": "Money"}, {"name": "lines", "type": lines}]}
    to_money = {"name": "shop.Money", "subject": "money", "version": 1}
    to_line = {"name": "shop.Line", "subject": "line", "version": 1}
    registry.register("money", money)
    registry.register("line", line, references=[to_money])
    schema_id = registry.register("orders-value", order, references=[to_line, to_money])
    decoder = create_decoder("avro", options)
    value = {"total": {"amount": 3}, "lines": [{"price": {"amount": 1}}, {"price": {"amount": 2}}]}
    inlined = {**line, "fields": [{"name": "price", "type": "Money"}]}
    whole = {
        **V1,
        "fields": [{"name": "total", "type": money}, {"name": "lines", "type": {"type": "array", "items": inlined}}],
    }
    decoded = decoder.decode(binary(framed(schema_id, whole, value)))
    assert decoded.errors is None and decoded.column.to_pylist() == [value]


def test_a_missing_subject_says_what_to_do(options):
    with pytest.raises(BadConfigurationError, match=r"no subject 'orders-value': register a schema, or set 'subject'"):
        create_decoder("avro", options)


def test_users_and_passwords(registry, options):
    registry.user_info = "me:se:cret"
    for more in ({}, {"basic.auth.user.info": "me:wrong-one"}):
        with pytest.raises(BadConfigurationError, match=r"refuses subject .* \(401\): check 'basic") as caught:
            create_encoder("avro", {**options, **more}, TYPE)
        assert "wrong-one" not in str(caught.value)
    encoder = create_encoder("avro", {**options, "basic.auth.user.info": "me:se:cret"}, TYPE)
    decoder = create_decoder("avro", {**options, "basic.auth.user.info": "me:se:cret"})
    for thing in (encoder, decoder, decoder._registry):
        assert "cret" not in repr(thing)
    with pytest.raises(BadConfigurationError, match="settings of the schema registry are wrong") as caught:
        create_decoder("avro", {**options, "basic.auth.user.info": "no-colon"})
    assert "no-colon" not in str(caught.value)
    with pytest.raises(BadConfigurationError, match=r"write them as 'basic.auth.user.info'") as caught:
        create_decoder("avro", {**options, "schema.registry.url": "http://me:cret@127.0.0.1:1"})
    assert "cret" not in str(caught.value)
    for no_scheme in ("//me:cret@127.0.0.1:1", "http://127.0.0.1:1,//me:cret@h", "http://me:se cret@127.0.0.1:1"):
        with pytest.raises(BadConfigurationError, match=r"write it as 'basic.auth.user.info'") as caught:
            create_decoder("avro", {**options, "schema.registry.url": no_scheme})
        assert "cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (500, RetriableError, "can't be asked for subject"),
        (503, RetriableError, "can't be asked for subject"),
        (429, RetriableError, "can't be asked for subject"),
        (403, BadConfigurationError, "refuses"),
        (409, BadConfigurationError, "does not accept the schema"),
        (422, BadConfigurationError, "does not accept the schema"),
    ],
)
def test_what_a_status_means(registry, options, status, error, message):
    registry.failing = status
    with pytest.raises(error, match=message):
        create_encoder("avro", options, TYPE)


def test_a_registry_that_goes_away_is_not_the_records_fault(registry, options):
    schema_id = registry.register("orders-value", V2)
    decoder = create_decoder("avro", options)
    newer = registry.register("orders-value", V3)
    registry.close()
    assert decoder.decode(binary(framed(schema_id, V2, {"id": 1, "note": ""}))).errors is None
    with pytest.raises(RetriableError, match=rf"{registry.url} can't be asked for schema {newer}"):
        decoder.decode(binary(framed(newer, V3, {"id": 1, "note": "", "extra": None})))
    with pytest.raises(RetriableError, match="can't be asked for subject 'orders-value'"):
        create_decoder("avro", options)


def test_something_that_is_no_registry(registry, options):
    registry.body = b"<html>hello</html>"
    with pytest.raises(BadConfigurationError, match="is a path missing"):
        create_decoder("avro", options)
    registry.register("orders-value", V1)
    with pytest.raises(BadConfigurationError, match="does not answer as one"):
        create_decoder("avro", options)
    for url in ("localhost:8081", "http://", "ftp://x"):
        with pytest.raises(BadConfigurationError, match="is not an http or https address"):
            create_decoder("avro", {**options, "schema.registry.url": url})


def test_requests_are_tried_again(registry, options, monkeypatch):
    registry.register("orders-value", V1)
    answers = [503, 0]
    respond = registry.respond

    def flaky(*arguments):
        registry.failing = answers.pop(0) if answers else 0
        return respond(*arguments)

    monkeypatch.setattr(registry, "respond", flaky)
    assert create_decoder("avro", {**options, "max.retries": "2"}).type == pa.struct([("id", pa.int32())])


def test_without_the_packages_the_message_names_the_extra(options, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "confluent_kafka.schema_registry", None)
    with pytest.raises(BadConfigurationError, match=r"pip install 'penstock\[schema-registry\]'"):
        create_decoder("avro", options)


def test_envelopes_of_changes_name_their_schemas(registry, options):
    """Two schemas of one table, of which the second has times in microseconds."""
    records = []
    for precision in ("milliseconds", "microseconds"):
        schema = avro_schema(precision, "string")
        schema_id = registry.register("orders-value", schema)
        row = written(EXAMPLE, precision, "string", in_json=False)
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), envelope("c", None, row))
        records.append(b"\0" + schema_id.to_bytes(4, "big") + out.getvalue())
    decoder = pickle.loads(pickle.dumps(create_decoder("debezium", options)))
    found = decoder.decode(binary([*records, b"\0\0\0\0\x63", None, records[0]]))
    rows = found.column.to_pylist()
    assert [row and row["after"]["at"].microsecond for row in rows] == [945000, 945104, None, None, 945000]
    assert rows[1]["after"] == {**EXAMPLE, "price": "-12.34", "free": "0.482"}
    assert found.errors.to_pylist() == [None, None, "the schema registry has no Avro schema 99", None, None]
