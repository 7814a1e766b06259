"""What a user says of the format of a part of a record: one set of options for every connector that moves records."""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet
from penstock.serialization.formats import (
    FORMAT_OPTIONS,
    FormatSettings,
    create_decoder,
    create_encoder,
    format_options,
)

READING, WRITING = OptionSet(format_options("value", reading=True)), OptionSet(format_options("value", reading=False))
SECRET = "basic.auth.user.info bearer.auth.token basicAuthUserInfo ssl.key.password registry.apiKey another"
PUBLIC = "schema.registry.url ssl.ca.location timeZone subject charset"


def made(declared=READING, **given):
    options = {name.replace("__", "."): text for name, text in given.items()}
    return FormatSettings.from_values(declared.parse(options, owner="it"), "value", reading=declared is READING)


def test_bytes_are_taken_as_they_are_unless_a_format_is_named():
    assert made().is_raw and made().create_decoder(None) is None
    assert made(WRITING).create_encoder(pa.schema([])) is None


@pytest.mark.parametrize("name", SECRET.split())
def test_what_no_format_declares_may_be_secret(name):
    values = READING.parse({"value.format": "avro", f"value.format.{name}": "hunter2"}, owner="it")
    assert values.texts(secrets=False) == {"value.format": "avro"} and "hunter2" not in repr(values)
    assert "hunter2" not in repr(FormatSettings.from_values(values, "value", reading=True))


@pytest.mark.parametrize("name", PUBLIC.split())
def test_what_is_declared_is_stored_and_shown(name):
    values = READING.parse({"value.format": "avro", f"value.format.{name}": "it-is"}, owner="it")
    assert "it-is" in repr(values) and f"value.format.{name}" in values.texts(secrets=False)


def test_a_schema_in_ddl_says_what_is_read():
    decoder = made(value__format="JSON", value__schema="id long, at timestamp").create_decoder(None)
    assert decoder.type == pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", "UTC"))])
    assert decoder.decode(pa.array([b'{"id": 3}'])).column.to_pylist() == [{"id": 3, "at": None}]
    same = pa.struct([pa.field("id", pa.int64(), nullable=False)])
    assert made(value__format="json", value__schema="id long").create_decoder(same).type == same
    with pytest.raises(BadConfigurationError, match=r"'value\.schema' is struct<id: bigint>, and \.schema\(…\) says"):
        made(value__format="json", value__schema="id long").create_decoder(pa.struct([("id", pa.string())]))


def test_a_column_is_found_in_any_case():
    encoder = made(WRITING, value__format="json").create_encoder(pa.schema([("Value", pa.struct([("a", pa.int64())]))]))
    assert encoder.encode(pa.array([{"a": 1}])).to_pylist() == [b'{"a":1}']
    with pytest.raises(BadConfigurationError, match=r"'value\.format' is json, but there is no column 'value'"):
        made(WRITING, value__format="json").create_encoder(pa.schema([("data", pa.string())]))


def test_a_subject_is_named_by_the_topic_where_the_format_knows_it(monkeypatch):
    seen = []
    monkeypatch.setattr("penstock.serialization.formats._settings.create_decoder", lambda *given: seen.append(given))
    made(value__format="avro", value__format__subject="s").create_decoder(None, topic="t")
    made(value__format="string").create_decoder(None, topic="t")
    assert [options for _, options, _ in seen] == [{"part": "value", "topic": "t", "subject": "s"}, {}]


@pytest.mark.parametrize(
    ("declared", "given", "words"),
    [
        (READING, {"value__schema": "id long"}, "only with value.format other than binary or string"),
        (READING, {"value__format": "json", "value__schema": "id lung"}, "'lung' is not a type"),
        (READING, {"value__format": "json", "value__schema": '"long"'}, "is an Avro schema"),
        (
            READING,
            {"value__format": "avro", "value__schema": '"long"', "value__format__schema": '"long"'},
            "are the same: write one",
        ),
        (
            WRITING,
            {"value__format": "protobuf", "value__schema": "id long"},
            "'value.schema' takes effect only with value.format=avro or json",
        ),
        (WRITING, {"value__format": "json", "value__schema": "id long"}, "says what is written; for avro and json"),
    ],
)
def test_what_does_not_go_together(declared, given, words):
    with pytest.raises(BadConfigurationError, match=words):
        made(declared, **given)


A_RECORD = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "long"]}]}'
STRUCT = pa.struct([("a", pa.int64())])
REGISTRY = {"schema.registry.url": "http://localhost:1"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "basic.auth.user.info",
            "ssl.ca.location",
            "ssl.certificate.location",
            "ssl.key.location",
            "ssl.key.password",
        ),
        *("request.timeout", "max.retries", "subject"),
    ],
)
@pytest.mark.parametrize("make", [create_decoder, create_encoder])
def test_what_is_for_a_registry_needs_one(make, name):
    with pytest.raises(BadConfigurationError, match=rf"option '{name}' takes effect only with 'schema.registry.url'"):
        make("json", {name: "7"}, STRUCT)
    FORMAT_OPTIONS["json"].parse({name: "7", **REGISTRY}, owner="t")


def test_credentials_are_not_those_of_glue():
    with pytest.raises(BadConfigurationError, match=r"takes effect only with schema.registry.type other than glue"):
        FORMAT_OPTIONS["json"].parse(
            {"basic.auth.user.info": "a:b", "schema.registry.type": "glue", **REGISTRY}, owner="t"
        )


@pytest.mark.parametrize(
    ("make", "format_", "name", "value", "why"),
    [
        (create_decoder, "json", "ignoreNullFields", "false", "it takes effect only in writing, and this is reading"),
        (create_decoder, "json", "auto.register.schemas", "false", "it takes effect only in writing"),
        (create_decoder, "json", "use.latest.version", "true", "it takes effect only in writing"),
        (create_decoder, "avro", "recordName", "x", "it takes effect only in writing"),
        (create_decoder, "avro", "recordNamespace", "x", "it takes effect only in writing"),
        (create_encoder, "json", "timeZone", "Europe/Rome", "it takes effect only in reading, and this is writing"),
        (create_encoder, "json", "auto.register.schemas", "false", "it takes effect only with 'schema.registry.url'"),
        (create_encoder, "json", "subject.name.strategy", "record", "it takes effect only with 'schema.registry.url'"),
        (create_encoder, "avro", "readerSchema", A_RECORD, "it takes effect only in reading"),
        (create_encoder, "avro", "recordName", "x", "it has no effect with 'schema'"),
    ],
)
def test_what_a_format_can_not_use_is_ignored_with_a_warning(caplog, monkeypatch, make, format_, name, value, why):
    monkeypatch.setattr("penstock.options._set._warned", set())
    schema = {"schema": A_RECORD} if format_ == "avro" else {}
    make(format_, {name: value, **schema}, STRUCT)
    assert f"format {format_} ignores '{name}': {why}" in caplog.text
