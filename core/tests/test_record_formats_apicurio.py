"""Records framed as Apicurio's serializers do, against a stand-in for its registry."""

from __future__ import annotations

import json
import pickle

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, RetriableError
from penstock.serialization.formats import create_decoder, create_encoder
from suite.apicurio_registry import Apicurio

TYPE = pa.struct([("id", pa.int64()), ("note", pa.string())])
ROWS = [{"id": 1, "note": "é"}, None, {"id": None, "note": None}]


@pytest.fixture
def registry():
    server = Apicurio()
    yield server
    server.close()


@pytest.fixture
def options(registry):
    own = {"schema.registry.type": "apicurio", "schema.registry.url": registry.url, "schema.registry.group": "shop"}
    return {**own, "topic": "orders", "max.retries": "0"}


def binary(values):
    return pa.array(values, pa.binary())


@pytest.mark.parametrize("name", ["avro", "json"])
@pytest.mark.parametrize(
    ("kind", "size", "header"),
    [
        ("contentId", 4, b"\0\0\0\0\1"),
        ("contentId", 8, b"\0\0\0\0\0\0\0\0\1"),
        ("globalId", 4, b"\0\0\0\0\x65"),
        ("globalId", 8, b"\0\0\0\0\0\0\0\0\x65"),
    ],
)
def test_round_trip_with_tasks_that_ask_nothing(registry, options, name, kind, size, header):
    own = {**options, "schema.registry.id": kind, "schema.registry.id.bytes": str(size)}
    records = pickle.loads(pickle.dumps(create_encoder(name, own, TYPE))).encode(pa.array(ROWS, TYPE))
    assert [one and one[: size + 1] for one in records.to_pylist()] == [header, None, header]
    assert [(one["groupId"], one["artifactId"]) for one in registry.versions] == [("shop", "orders-value")]
    decoder = pickle.loads(pickle.dumps(create_decoder(name, own)))
    registry.requests.clear()
    decoded = decoder.decode(records)
    assert decoder.type == TYPE and decoded.errors is None and decoded.column.to_pylist() == ROWS
    assert registry.requests == []
    again = create_encoder(name, {**own, "auto.register.schemas": "false"}, TYPE)
    assert again.encode(pa.array(ROWS, TYPE)).equals(records)


def test_versions_that_refer_to_others_and_bad_records(registry, options):
    money = {"type": "record", "name": "Money", "namespace": "shop", "fields": [{"name": "amount", "type": "long"}]}
    order = {"type": "record", "name": "Order", "fields": [{"name": "total", "type": "shop.Money"}]}
    registry.register("base", "money", "AVRO", money)
    to_money = {"groupId": "base", "artifactId": "money", "version": "1", "name": "shop.Money"}
    key = registry.register("shop", "orders-value", "AVRO", order, [to_money])["contentId"]
    other = registry.register("shop", "other", "JSON", {"type": "object"})["contentId"]
    decoder = create_decoder("avro", options)
    assert decoder.type == pa.struct([("total", pa.struct([("amount", pa.int64())]))])

    def framed(number, payload=b"\6"):
        return b"\0" + number.to_bytes(4, "big") + payload

    decoded = decoder.decode(
        binary([framed(key), framed(99), None, framed(other), b"\1", framed(key, b""), framed(key)])
    )
    good = {"total": {"amount": 3}}
    assert decoded.column.to_pylist() == [good, None, None, None, None, None, good]
    errors = decoded.errors.to_pylist()
    assert errors[1] == "the schema registry has no Avro schema 99"
    assert errors[3] == f"the schema registry has no Avro schema {other}"
    assert errors[4] == "does not begin with a zero byte and a schema's id (4 bytes)"
    assert errors[5].startswith("not Avro of this schema")
    away = {**to_money, "version": "7"}
    registry.register("shop", "away-value", "AVRO", {**order, "name": "Away"}, [away])
    with pytest.raises(BadConfigurationError, match="refers to version 7 of 'money', which is not there"):
        create_decoder("avro", {**options, "topic": "away"})


def test_what_is_missing_or_refused_says_what_to_do(registry, options):
    with pytest.raises(BadConfigurationError, match="has no subject 'orders-value': register a schema"):
        create_decoder("avro", options)
    with pytest.raises(BadConfigurationError, match="does not have this schema in subject 'orders-value'"):
        create_encoder("avro", {**options, "auto.register.schemas": "false"}, TYPE)
    with pytest.raises(BadConfigurationError, match=r"'schema.registry.url' is needed: …/apis/registry/v3"):
        create_decoder("avro", {"schema.registry.type": "apicurio", "topic": "orders"})
    with pytest.raises(BadConfigurationError, match="reads and writes Confluent's framing only, not apicurio's"):
        create_decoder("protobuf", {name: text for name, text in options.items() if name != "topic"})
    for url in ("mock://here", f"{registry.url},{registry.url}"):
        with pytest.raises(BadConfigurationError, match="is not one http or https address"):
            create_decoder("avro", {**options, "schema.registry.url": url})
    registry.user_info = "me:se:cret"
    for more in ({}, {"basic.auth.user.info": "me:wrong-one"}):
        with pytest.raises(BadConfigurationError, match=r"refuses subject .* \(401\): check 'basic") as caught:
            create_encoder("avro", {**options, **more}, TYPE)
        assert "wrong-one" not in str(caught.value)
    encoder = create_encoder("avro", {**options, "basic.auth.user.info": "me:se:cret"}, TYPE)
    decoder = create_decoder("avro", {**options, "basic.auth.user.info": "me:se:cret"})
    for thing in (encoder, decoder, decoder._registry, decoder._registry._client):
        assert "cret" not in repr(thing)


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (500, RetriableError, "can't be asked for subject 'orders-value'"),
        (429, RetriableError, "can't be asked for subject"),
        (403, BadConfigurationError, "refuses subject"),
        (409, BadConfigurationError, r"does not accept the schema for subject 'orders-value' \(409\)"),
        (404, BadConfigurationError, r"does not answer as one about .*: is it …/apis/registry/v3\?"),
    ],
)
def test_what_a_status_means(registry, options, status, error, message):
    registry.failing = status
    with pytest.raises(error, match=message):
        create_encoder("avro", options, TYPE)


def test_requests_are_tried_again(registry, options, monkeypatch):
    registry.register("shop", "orders-value", "AVRO", {"type": "record", "name": "R", "fields": []})
    failing = [503, 503]
    respond = registry.respond

    def flaky(*arguments):
        registry.failing = failing.pop() if failing else 0
        return respond(*arguments)

    monkeypatch.setattr(registry, "respond", flaky)
    with pytest.raises(RetriableError, match="HTTPError: HTTP Error 503"):
        create_decoder("avro", {**options, "max.retries": "1"})
    failing.append(503)
    assert create_decoder("avro", {**options, "max.retries": "1"}).type == pa.struct([])
    registry.body = b"<html>"
    with pytest.raises(BadConfigurationError, match="does not answer as one about subject"):
        create_decoder("avro", options)


def test_the_password_does_not_follow_a_redirect(options):
    class Elsewhere(Apicurio):
        def respond(self, method, path, query, body, authorization):
            self.seen = [*getattr(self, "seen", []), authorization]
            return super().respond(method, path, query, body, authorization)

    other, first = Elsewhere(), Elsewhere()
    first.redirect = other.url
    try:
        own = {**options, "schema.registry.url": first.url, "basic.auth.user.info": "me:cret"}
        with pytest.raises(BadConfigurationError, match="has no subject"):
            create_decoder("avro", own)
        assert first.seen == ["Basic bWU6Y3JldA=="] and other.seen == [None]
    finally:
        first.close()
        other.close()


def test_the_schema_is_found_by_its_meaning_not_its_text(registry, options):
    text = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}, indent=2)
    registry.register("shop", "orders-value", "JSON", text)
    own = {**options, "auto.register.schemas": "false", "schema": json.dumps(json.loads(text))}
    type_ = pa.struct([("id", pa.int64())])
    assert create_encoder("json", own, type_).encode(pa.array([{"id": 1}], type_))[0].as_py()[:5] == b"\0\0\0\0\1"
