"""What users set arrives where it is used; what it does there, the tests of source, sink and client say."""

from __future__ import annotations

import json
import logging
import pickle

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock.source.event_time import BoundedOutOfOrderness, Punctuated
from penstock_pravega.options import SINK_OPTIONS, SOURCE_OPTIONS, SinkOptions, SourceOptions
from penstock_pravega.options._cuts import parse_position
from penstock_pravega.sink._rows import check_schema


def source(**given):
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return SourceOptions.from_values(SOURCE_OPTIONS.parse({"stream": "a/s", **texts}, owner="source"))


def sink(**given):
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return SinkOptions.from_values(SINK_OPTIONS.parse({"stream": "a/s", **texts}, owner="sink"))


@pytest.mark.parametrize("made_of", [source, sink])
def test_how_to_connect(made_of, tmp_path):
    made = made_of(controller="tls://h:1", tls_caFile="ca.pem", tls_checkHostname="false", requestTimeout="4s")
    there = made.connection
    assert (there.ca_file, there.validate_host, there.timeout_s) == ("ca.pem", False, 4)
    assert made_of(token="t-o-k-e-n").connection.credentials.header == "Bearer t-o-k-e-n"
    named = made_of(user="anna", password="hunter2")
    assert named.connection.credentials.header == "Basic YW5uYTpodW50ZXIy"
    assert "hunter2" not in repr(named) and pickle.loads(pickle.dumps(named)) == named
    account = {"realm": "r", "auth-server-url": "http://h:1", "resource": "job", "credentials": {"secret": "hunter2"}}
    (tmp_path / "keycloak.json").write_text(json.dumps(account))
    by_file = made_of(keycloakFile=str(tmp_path / "keycloak.json")).connection.credentials
    assert type(by_file).__name__ == "KeycloakCredentials" and "hunter2" not in repr(by_file)


def test_how_to_read():
    given = {"value_format": "json", "value_schema": "at timestamp, mark boolean"}
    given["value_format_timeZone"] = "Europe/Rome"
    made = source(discoveryInterval="7s", **given)
    assert made.discovery_interval_ms == 7_000
    assert dict(made.format.options) == {"timezone": "Europe/Rome"} and pa.types.is_struct(made.format.type)
    aligned = {**given, "watermark_alignment_maxDrift": "1m", "watermark_timestamps": "value.at"}
    bounded = source(**aligned, watermark_strategy="bounded", watermark_outOfOrderness="5s").event_time
    assert bounded.strategy == BoundedOutOfOrderness(5_000)
    punctuated = source(**aligned, watermark_strategy="punctuated", watermark_punctuation="value.mark").event_time
    assert punctuated.strategy == Punctuated("value.mark")


def test_how_to_write():
    made = sink(value_format="avro", value_schema='"long"', value_format_recordName="K")
    assert made.format.name == "avro" and dict(made.format.options) == {"schema": '"long"', "recordname": "K"}


def test_what_is_created():
    by_events = sink(create="true", create_eventsPerSecond="9", create_retentionTime="1h").create
    assert (by_events.scale_by, by_events.target_rate, by_events.retention_ms) == ("events", 9, 3_600_000)
    by_bytes = sink(create="true", create_kbytesPerSecond="8", create_retentionSize="1mb").create
    assert (by_bytes.scale_by, by_bytes.target_rate, by_bytes.retention_bytes) == ("kbytes", 8, 1 << 20)


def test_former_names_are_accepted(caplog):
    made = sink(credentials_username="anna", credentials_password="p", request_timeout="7s", delivery="best-effort")
    assert (made.connection.timeout_s, made.delivery) == (7, "none")
    for former, name in (("credentials.username", "user"), ("request.timeout", "requestTimeout")):
        assert f"option '{former}' is called '{name}' now" in caplog.text
    assert "delivery=best-effort is called delivery=none now" in caplog.text


def test_columns_that_no_event_has_are_named(caplog):
    columns = [("value", pa.string()), ("amount", pa.int64()), ("stream", pa.string()), ("at", pa.timestamp("us"))]
    with caplog.at_level(logging.WARNING):
        check_schema(pa.schema(columns), sink(delivery="exactly-once", watermark_timestamps="at"))
    (said,) = [record.message for record in caplog.records]
    assert "column amount." in said and "stream" not in said


def test_a_cut_that_is_nested_too_deeply_is_told():
    with pytest.raises(BadConfigurationError, match="option 'startCut': it is not a JSON object of texts"):
        parse_position("startCut", '{"s": ' + "[" * 100_000, ["a/s"], "a")
