"""Protobuf with a schema registry. Confluent's own classes say what the bytes mean."""

from __future__ import annotations

import base64
import pickle

import pyarrow as pa
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.serialization.formats import create_decoder, create_encoder
from suite.confluent_registry import Registry
from suite.protobuf_records import compiled, descriptor_file

confluent = pytest.importorskip("confluent_kafka.schema_registry")
protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
serialization = pytest.importorskip("confluent_kafka.serialization")

MONEY = 'syntax = "proto3"; package shop; message Money { int64 amount = 1; }'
LINE = 'syntax = "proto3"; package shop; import "lib/money.proto"; message Line { Money price = 1; }'
ORDER = """
syntax = "proto3"; package shop;
import "lib/line.proto"; import "lib/money.proto"; import "google/protobuf/timestamp.proto";
message First { int32 x = 1; message Inner { string y = 1; } }
message Order { int64 id = 1; repeated Line lines = 2; Money total = 3; google.protobuf.Timestamp at = 4; }
"""
FILES = {"lib/money.proto": MONEY, "lib/line.proto": LINE, "order.proto": ORDER}
ROW = {"id": 5, "lines": [{"price": {"amount": 1}}, {"price": None}], "total": {"amount": 3}, "at": None}
CONTEXT = serialization.SerializationContext("orders", serialization.MessageField.VALUE)


@pytest.fixture
def registry():
    server = Registry()
    yield server
    server.close()


@pytest.fixture
def options(registry):
    return {"schema.registry.url": registry.url, "topic": "orders", "max.retries": "0"}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return descriptor_file(tmp_path_factory.mktemp("descriptors"), FILES)


def binary(values):
    return pa.array(values, pa.binary())


def classes(pool, *names):
    return [GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]


def test_confluents_own_classes_read_what_is_written_and_the_reverse(registry, options, files):
    pool, path = files
    (order,) = classes(pool, "shop.Order")
    client = confluent.SchemaRegistryClient({"url": registry.url})
    message = order(id=5, total={"amount": 3})
    message.lines.add(price={"amount": 1})
    message.lines.add()
    theirs = protobuf.ProtobufSerializer(order, client, {"use.deprecated.format": False})(message, CONTEXT)
    assert set(registry.subjects) == {"lib/money.proto", "lib/line.proto", "orders-value"}
    decoder = pickle.loads(pickle.dumps(create_decoder("protobuf", {**options, "message": "shop.Order"})))
    registry.requests.clear()
    decoded = decoder.decode(binary([theirs, None]))
    assert decoded.errors is None and decoded.column.to_pylist() == [ROW, None]
    assert registry.requests == []  # the driver has asked
    known = list(registry.schemas)
    encoder = create_encoder("protobuf", {**options, "descriptorFile": path, "message": "shop.Order"}, decoder.type)
    assert registry.schemas == known  # the same schemas as Confluent's
    ours = pickle.loads(pickle.dumps(encoder)).encode(decoded.column).to_pylist()
    assert ours == [theirs, None]
    read = protobuf.ProtobufDeserializer(order, {"use.deprecated.format": False}, client)(ours[0], CONTEXT)
    assert read == message


@pytest.mark.parametrize(
    ("name", "place"), [("shop.First", b"\0"), ("shop.Order", b"\2\2"), ("shop.First.Inner", b"\4\0\0")]
)
def test_the_place_of_the_message(registry, options, files, name, place):
    pool, path = files
    (cls,) = classes(pool, name)
    client = confluent.SchemaRegistryClient({"url": registry.url})
    own = {**options, "descriptorFile": path, "message": name}
    type_ = create_decoder("protobuf", {"descriptorFile": path, "message": name}).type
    (record,) = create_encoder("protobuf", own, type_).encode(pa.array([{}], type_)).to_pylist()
    theirs = protobuf.ProtobufSerializer(cls, client, {"use.deprecated.format": False})(cls(), CONTEXT)
    assert record == theirs and record[5:] == place
    decoded = create_decoder("protobuf", own).decode(binary([record, record]))
    assert decoded.errors is None and len(decoded.column) == 2


def test_without_a_name_the_first_message_is_read(registry, options, files):
    pool, _ = files
    first, order = classes(pool, "shop.First", "shop.Order")
    client = confluent.SchemaRegistryClient({"url": registry.url})
    records = [
        protobuf.ProtobufSerializer(cls, client, {"use.deprecated.format": False})(message, CONTEXT)
        for cls, message in ((first, first(x=3)), (order, order(id=1)))
    ]
    decoded = create_decoder("protobuf", options).decode(binary([*records, records[0]]))
    assert decoded.column.to_pylist() == [{"x": 3}, None, {"x": 3}]
    assert decoded.errors.to_pylist() == [None, "is a shop.Order, not a shop.First", None]


def test_bad_records_do_not_harm_their_neighbours(registry, options, files):
    _, path = files
    type_ = pa.struct([("id", pa.int64())])
    named = {**options, "descriptorFile": path, "message": "shop.Order"}
    (good,) = create_encoder("protobuf", named, type_).encode(pa.array([{"id": 7}], type_)).to_pylist()
    avro = registry.register("other", '"long"')
    bad = {
        b"": "does not begin with a zero byte",
        b"\1" + good[1:]: "does not begin with a zero byte",
        b"\0\0\0\xff\xff" + good[5:]: "the schema registry has no Protobuf schema 65535",
        b"\0\0\0\0" + bytes([avro]) + good[5:]: f"the schema registry has no Protobuf schema {avro}",
        good[:5]: "does not name its message after the schema's id",
        good[:5] + b"\x80": "does not name its message",
        good[:5] + b"\2\x14": "has no message at 10",
        good[:5] + b"\2\1": "has no message at -1",
        good[:5] + b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff": "does not name its message",
        good[:5] + b"\0": "is a shop.First, not a shop.Order",
        good[:-1]: "not a shop.Order: ValueError: failed to decode",
    }
    decoded = create_decoder("protobuf", named).decode(binary([row for one in bad for row in (good, one, None)]))
    rows = decoded.column.to_pylist()
    assert [row and row["id"] for row in rows] == [7, None, None] * len(bad)
    for reason, found in zip(bad.values(), decoded.errors.to_pylist()[1::3], strict=True):
        assert found is not None and reason in found


def test_writing_with_the_latest_version(registry, options, files):
    pool, _ = files
    (first,) = classes(pool, "shop.First")
    client = confluent.SchemaRegistryClient({"url": registry.url})
    theirs = protobuf.ProtobufSerializer(first, client, {"use.deprecated.format": False})(first(x=1), CONTEXT)
    type_ = pa.struct([("x", pa.int32())])
    encoder = create_encoder("protobuf", {**options, "use.latest.version": "true"}, type_)
    assert encoder.encode(pa.array([{"x": 1}], type_)).to_pylist() == [theirs]
    with pytest.raises(BadConfigurationError, match="without 'descriptorFile'"):
        create_encoder("protobuf", {**options, "use.latest.version": "true", "descriptorFile": "x"}, type_)
    with pytest.raises(BadConfigurationError, match=r"with 'message', or set 'use.latest.version'"):
        create_encoder("protobuf", options, type_)


def test_nothing_is_registered_unless_it_may_be(registry, options, files):
    _, path = files
    named = {**options, "descriptorFile": path, "message": "shop.Order"}
    with pytest.raises(BadConfigurationError, match="cast it"):
        create_encoder("protobuf", named, pa.struct([("id", pa.string())]))
    type_ = pa.struct([("id", pa.int64())])
    with pytest.raises(BadConfigurationError, match="does not have this schema in subject 'lib/"):
        create_encoder("protobuf", {**named, "auto.register.schemas": "false"}, type_)
    assert registry.schemas == []
    create_encoder("protobuf", named, type_)
    create_encoder("protobuf", {**named, "auto.register.schemas": "false"}, type_)
    strategy = {**named, "subject.name.strategy": "topic-record"}
    create_encoder("protobuf", strategy, type_)
    assert "orders-shop.Order" in registry.subjects


def test_schemas_as_source_text(registry, options):
    """As registries give them that have no other form."""
    money = registry.register("money", MONEY, schemaType="PROTOBUF")
    to_money = {"name": "lib/money.proto", "subject": "money", "version": 1}
    registry.register("line", LINE, schemaType="PROTOBUF", references=[to_money])
    to_line = {"name": "lib/line.proto", "subject": "line", "version": 1}
    registry.register("orders-value", ORDER, schemaType="PROTOBUF", references=[to_line, to_money])
    decoder = create_decoder("protobuf", {**options, "message": "shop.Order"})
    assert decoder.type.field("total").type == pa.struct([("amount", pa.int64())])
    assert money == 1
    registry.register("wrong-value", "message { no", schemaType="PROTOBUF")
    with pytest.raises(BadConfigurationError, match=r"'wrong-value' in the schema registry: it does not compile"):
        create_decoder("protobuf", {**options, "topic": "wrong"})
    away = {"name": "../away.proto", "subject": "money", "version": 1}
    registry.register("away-value", ORDER, schemaType="PROTOBUF", references=[away])
    with pytest.raises(BadConfigurationError, match=r"'\.\./away.proto', which is not a path"):
        create_decoder("protobuf", {**options, "topic": "away"})
    registry.register("avro-value", '"long"')
    with pytest.raises(BadConfigurationError, match="subject 'avro-value' holds AVRO, not Protobuf"):
        create_decoder("protobuf", {**options, "topic": "avro"})


def test_the_registry_compiles_source_text_if_it_can(registry, options, monkeypatch):
    registry.register("money", MONEY, schemaType="PROTOBUF")
    to_money = {"name": "lib/money.proto", "subject": "money", "version": 1}
    registry.register("orders-value", LINE, schemaType="PROTOBUF", references=[to_money])
    files = {one.name: one for one in compiled({"lib/money.proto": MONEY, "line.proto": LINE}).file}
    for text, name in ((MONEY, "lib/money.proto"), (LINE, "line.proto")):
        registry.serialized[text] = base64.b64encode(files[name].SerializeToString()).decode()
    monkeypatch.setattr("sys.executable", "/nowhere")
    decoder = create_decoder("protobuf", options)
    price = pa.struct([("price", pa.struct([("amount", pa.int64())]))])
    assert decoder.type == price
    record = b"\0\0\0\0\2\0\x0a\2\x08\7"
    fresh = create_decoder("protobuf", options)
    fresh._registry._schemas.clear()
    assert fresh.decode(binary([record])).column.to_pylist() == [{"price": {"amount": 7}}]


def test_source_text_without_a_compiler_says_what_to_do(registry, options, monkeypatch):
    registry.register("orders-value", MONEY, schemaType="PROTOBUF")
    monkeypatch.setattr("sys.executable", "/usr/bin/python3")
    with pytest.raises(BadConfigurationError, match=r"pip install grpcio-tools, or set 'descriptorFile'"):
        create_decoder("protobuf", options)


def test_a_schema_that_can_not_be_read_as_the_columns_makes_bad_records(registry, options, tmp_path):
    """Without this, numbers would be cut off, and what is of another type would count as not set."""
    reader = 'syntax = "proto3"; message M { int32 a = 1; string b = 2; repeated int32 c = 3; }'
    _, path = descriptor_file(tmp_path, {"m.proto": reader})
    decoder = create_decoder("protobuf", {**options, "descriptorFile": path})
    writers = {
        "message M { int64 a = 1; }": "'a' (number 1) was of another type",
        "message M { int32 x = 1; int64 b = 2; }": "'b' (number 2) was of another type",
        "message M { sint32 a = 1; }": "'a' (number 1) was of another type",
        "message M { repeated int32 a = 1; }": "'a' was a list",
        "message M { bool a = 1; bytes b = 2; int32 c = 3; int32 d = 4; }": None,
    }
    for number, (text, reason) in enumerate(writers.items()):
        (file,) = compiled({"m.proto": f'syntax = "proto3"; {text}'}).file
        pool = DescriptorPool()
        pool.AddSerializedFile(file.SerializeToString())
        (cls,) = classes(pool, "M")
        client = confluent.SchemaRegistryClient({"url": registry.url})
        context = serialization.SerializationContext(f"t{number}", serialization.MessageField.VALUE)
        record = protobuf.ProtobufSerializer(cls, client, {"use.deprecated.format": False})(cls(), context)
        decoded = decoder.decode(binary([record]))
        if reason is None:
            assert decoded.errors is None
        else:
            assert decoded.errors[0].as_py() == f"schema {number + 1} can't be read as the column's: {reason}"


KINDS = ("int32", "int64", "uint32", "sint64", "bool", "string", "bytes", "double")
VALUES = {
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "sint64": st.integers(-(2**63), 2**63 - 1),
    "bool": st.booleans(),
    "string": st.text(st.characters(codec="utf-8"), max_size=3),
    "bytes": st.binary(max_size=3),
    "double": st.floats(allow_nan=False),
}


def version(fields):
    """A class for a message with fields of these kinds, by their numbers."""
    file = FileDescriptorProto(name="v.proto", package="p", syntax="proto3")
    message = file.message_type.add(name="M")
    for number, kind in sorted(fields.items()):
        type_ = getattr(FieldDescriptorProto, f"TYPE_{kind.upper()}")
        message.field.add(name=f"f{number}", number=number, type=type_, label=1)
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName("p.M"))


VERSIONS = st.dictionaries(st.integers(1, 4), st.sampled_from(KINDS), min_size=1)


@settings(max_examples=12)
@given(data=st.data(), reader=VERSIONS, writers=st.lists(VERSIONS, min_size=1, max_size=4))
def test_records_of_many_versions_in_one_batch_keep_their_values_or_are_bad(data, reader, writers):
    server = Registry()
    try:
        client = confluent.SchemaRegistryClient({"url": server.url})
        records, written = [], []
        for number in data.draw(st.lists(st.integers(0, len(writers) - 1), min_size=1, max_size=8)):
            fields = writers[number]
            values = {f"f{one}": data.draw(VALUES[kind]) for one, kind in fields.items()}
            cls = version(fields)
            context = serialization.SerializationContext("w", serialization.MessageField.VALUE)
            settings_ = {"use.deprecated.format": False}
            records.append(protobuf.ProtobufSerializer(cls, client, settings_)(cls(**values), context))
            written.append((fields, values))
        own = version(reader)
        context = serialization.SerializationContext("r", serialization.MessageField.VALUE)
        protobuf.ProtobufSerializer(own, client, {"use.deprecated.format": False})(own(), context)
        decoder = create_decoder("protobuf", {"schema.registry.url": server.url, "topic": "r", "max.retries": "0"})
        decoded = decoder.decode(binary(records))
    finally:
        server.close()
    errors = decoded.errors.to_pylist() if decoded.errors is not None else [None] * len(records)
    for (fields, values), row, error in zip(written, decoded.column.to_pylist(), errors, strict=True):
        if error is not None:
            assert any(fields[one] != reader[one] for one in fields.keys() & reader.keys())
            continue
        for one in reader:
            own = row[f"f{one}"]
            if one in fields:
                value = values[f"f{one}"]
                texts = isinstance(own, str | bytes) and isinstance(value, str | bytes)
                as_bytes = [part.encode() if isinstance(part, str) else part for part in (own, value)] if texts else []
                assert as_bytes[0] == as_bytes[1] if texts else own == value
            else:
                assert not own  # the default
