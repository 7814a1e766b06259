"""Records framed as AWS Glue's serializers do, against moto's registry."""

from __future__ import annotations

import json
import pickle
import zlib
from io import BytesIO
from uuid import UUID, uuid4

import boto3
import fastavro
import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer

from penstock.errors import BadConfigurationError, RetriableError
from penstock.serialization.formats import create_decoder, create_encoder
from penstock.serialization.formats._glue import GlueClient

TYPE = pa.struct([("id", pa.int64()), ("note", pa.string())])
ROWS = [{"id": 1, "note": "é"}, None, {"id": None, "note": None}]
V1 = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
V2 = {**V1, "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": "-"}]}


@pytest.fixture(scope="module")
def server():
    found = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    found.start()
    host, port = found.get_host_and_port()
    yield f"http://{host}:{port}"
    found.stop()


@pytest.fixture
def options(server, monkeypatch):
    for name, value in {"ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "s3cret", "DEFAULT_REGION": "eu-west-1"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    name = f"r{uuid4().hex[:8]}"
    glue(server).create_registry(RegistryName=name)
    own = {"schema.registry.type": "glue", "schema.registry.url": server, "schema.registry.name": name}
    return {**own, "topic": "orders", "max.retries": "0"}


def glue(server):
    return boto3.client("glue", endpoint_url=server, region_name="eu-west-1")


def binary(values):
    return pa.array(values, pa.binary())


def registered(options, schema, data_format="AVRO"):
    client, name = glue(options["schema.registry.url"]), options["schema.registry.name"]
    text = json.dumps(schema)
    try:
        client.get_schema(SchemaId={"RegistryName": name, "SchemaName": "orders"})
    except client.exceptions.EntityNotFoundException:
        one = {"RegistryId": {"RegistryName": name}, "SchemaName": "orders", "DataFormat": data_format}
        return client.create_schema(**one, Compatibility="NONE", SchemaDefinition=text)["SchemaVersionId"]
    own = {"RegistryName": name, "SchemaName": "orders"}
    return client.register_schema_version(SchemaId=own, SchemaDefinition=text)["SchemaVersionId"]


def framed(key, payload, compression=0):
    return bytes([3, compression]) + UUID(key).bytes + (zlib.compress(payload) if compression == 5 else payload)


def avro(schema, value):
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


@pytest.mark.parametrize("name", ["avro", "json"])
def test_round_trip_with_tasks_that_ask_nothing(options, name):
    encoder = pickle.loads(pickle.dumps(create_encoder(name, options, TYPE)))
    records = encoder.encode(pa.array(ROWS, TYPE))
    client = glue(options["schema.registry.url"])
    own = {"RegistryName": options["schema.registry.name"], "SchemaName": "orders"}
    version = client.get_schema_version(SchemaId=own, SchemaVersionNumber={"LatestVersion": True})
    assert version["DataFormat"] == name.upper()
    header = b"\3\0" + UUID(version["SchemaVersionId"]).bytes
    assert [one and one[:18] for one in records.to_pylist()] == [header, None, header]
    decoder = pickle.loads(pickle.dumps(create_decoder(name, options)))
    away = pickle.loads(pickle.dumps(decoder))
    away._registry._client._endpoint = "http://127.0.0.1:9"  # a task asks for no schema that the driver has met
    decoded = away.decode(records)
    assert decoder.type == TYPE and decoded.errors is None and decoded.column.to_pylist() == ROWS
    again = create_encoder(name, {**options, "auto.register.schemas": "false"}, TYPE)
    assert again.encode(pa.array(ROWS, TYPE)).equals(records)


def test_records_of_several_versions_compressed_or_not_are_read_as_one(options):
    first, second = registered(options, V1), registered(options, V2)
    records = [
        framed(first, avro(V1, {"id": 1})),
        framed(second, avro(V2, {"id": 2, "note": "n"}), compression=5),
        None,
        framed(first, avro(V1, {"id": 3}), compression=5),
    ]
    decoded = create_decoder("avro", options).decode(binary(records))
    assert decoded.errors is None
    expected = [{"id": 1, "note": "-"}, {"id": 2, "note": "n"}, None, {"id": 3, "note": "-"}]
    assert decoded.column.to_pylist() == expected


def test_bad_records_do_not_harm_their_neighbours(options):
    key = registered(options, V2)
    good = framed(key, avro(V2, {"id": 1, "note": "n"}), compression=5)
    plain = framed(key, avro(V2, {"id": 1, "note": "n"}))
    unknown = str(uuid4())
    bomb = zlib.compress(bytes(1 << 27))
    bad = {
        b"": "does not begin with the byte 3",
        good[:17]: "does not begin with the byte 3",
        b"\0" + good[1:]: "does not begin with the byte 3",
        good[:1] + b"\7" + good[2:]: "is compressed in a way (7) that Glue does not name",
        good[:-1]: "is not compressed with zlib",
        good[:18] + plain[18:]: "is not compressed with zlib",
        good[:18] + bomb: "or becomes more than 67108864 bytes",
        plain[:-1]: "not Avro of this schema",
        framed(unknown, b""): f"the schema registry has no Avro schema {unknown}",
    }
    rows = [row for one in bad for row in (good, one, None, plain)]
    decoded = create_decoder("avro", options).decode(binary(rows))
    value = {"id": 1, "note": "n"}
    assert decoded.column.to_pylist() == [value, None, None, value] * len(bad)
    for reason, found in zip(bad.values(), decoded.errors.to_pylist()[1::4], strict=True):
        assert found is not None and reason in found


def test_what_is_missing_says_what_to_do(options, monkeypatch):
    with pytest.raises(BadConfigurationError, match=r"AWS Glue's r\w+ has no subject 'orders'"):
        create_decoder("avro", options)
    with pytest.raises(BadConfigurationError, match="does not have this schema in subject 'orders'"):
        create_encoder("avro", {**options, "auto.register.schemas": "false"}, TYPE)
    with pytest.raises(BadConfigurationError, match=r"there is no AWS Glue's nowhere: create it, or set 'schema.regi"):
        create_encoder("avro", {**options, "schema.registry.name": "nowhere"}, TYPE)
    with pytest.raises(BadConfigurationError, match="reads and writes Confluent's framing only, not glue's"):
        create_decoder("protobuf", {name: text for name, text in options.items() if name != "topic"})
    with pytest.raises(RetriableError, match="can't be asked for schema 'orders'"):
        create_decoder("avro", {**options, "schema.registry.url": "http://127.0.0.1:9"})
    with pytest.raises(BadConfigurationError, match=r"only with schema.registry.type=glue"):
        create_decoder("avro", {"schema.registry.region": "eu-west-1"})
    registered(options, {"type": "object"}, "JSON")
    with pytest.raises(BadConfigurationError, match="subject 'orders' holds JSON, not Avro"):
        create_decoder("avro", options)
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(BadConfigurationError, match=r"pip install 'penstock\[glue\]'"):
        create_decoder("avro", options)


@pytest.mark.parametrize("removed", ["AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID"])
def test_credentials_are_boto3s_and_are_not_kept(options, monkeypatch, removed):
    encoder = create_encoder("json", options, TYPE)
    decoder = create_decoder("json", options)
    assert b"s3cret" not in pickle.dumps(encoder) + pickle.dumps(decoder)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nowhere")
    for name in (removed, "AWS_SECRET_ACCESS_KEY" if "KEY" in removed else removed, "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    boto3.DEFAULT_SESSION = None
    hint = "set 'schema.registry.region'" if "REGION" in removed else "without credentials"
    with pytest.raises(BadConfigurationError, match=hint):
        create_decoder("json", options)
    boto3.DEFAULT_SESSION = None


class Pending:
    """Answers as Glue does while it compares a version with the others: moto never does."""

    def __init__(self, statuses):
        self.statuses = list(statuses)

    def get_schema_by_definition(self, **_):
        return {"SchemaVersionId": "other", "Status": "FAILURE"}

    def register_schema_version(self, **_):
        return {"SchemaVersionId": "key", "Status": "PENDING"}

    def get_schema_version(self, **_):
        return {"Status": self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]}


@pytest.mark.parametrize(
    ("statuses", "error", "message"),
    [
        (["PENDING", "AVAILABLE"], None, ""),
        (["PENDING", "FAILURE"], BadConfigurationError, "does not accept the schema for schema 's': it is not compat"),
        (["PENDING"], RetriableError, "has not checked the new version of schema 's' yet"),
    ],
)
def test_a_version_counts_once_glue_has_checked_it(options, monkeypatch, statuses, error, message):
    from penstock.serialization.formats import find_format
    from penstock.serialization.formats._json_schema import JsonSchemaLanguage

    own = {**options, "request.timeout": "1s"}
    client = GlueClient(find_format("json").options.parse(own, owner="it"))
    client._client = Pending(statuses)
    if error is None:
        assert client.identify("s", JsonSchemaLanguage(), "{}", (), register=True) == "key"
        return
    with pytest.raises(error, match=message):
        client.identify("s", JsonSchemaLanguage(), "{}", (), register=True)
