"""The sink's options, and settings that contradict the delivery."""

from __future__ import annotations

import pickle

import pytest

from penstock.errors import BadConfigurationError
from penstock_kafka.config import check_transaction_timeout
from penstock_kafka.options import SINK_OPTIONS, SinkOptions
from penstock_kafka.sink._sink import _Delivery


def sink(**given):
    options = {"kafka.bootstrap.servers": "h:1", **{name.replace("__", "."): str(v) for name, v in given.items()}}
    return SinkOptions.from_values(SINK_OPTIONS.parse(options, owner="sink penstock.kafka"))


def test_defaults():
    made = sink()
    assert (made.topic, made.delivery, made.partitioner, made.client) == (None, "at-least-once", "murmur2", "auto")
    assert (made.transactional_id_prefix, made.transaction_timeout_ms, made.log_failures_only) == (None, None, False)
    assert made.key_format.is_raw and made.value_format.is_raw


def test_every_option_arrives():
    made = sink(
        topic=" t ", delivery="Exactly-Once", partitioner="Round-Robin", client="protocol", transactionTimeout="5m",
        transactionalIdPrefix="mine-", includeHeaders="true", value__format="avro",
        value__schema='"long"', key__format="json", kafka__acks="all", kafka__enable__idempotence="true",
    )  # fmt: skip
    assert (made.topic, made.delivery, made.partitioner, made.client) == (
        "t",
        "exactly-once",
        "round-robin",
        "protocol",
    )
    assert (made.transactional_id_prefix, made.transaction_timeout_ms) == ("mine-", 300_000)
    assert made.key_format.name == "json"
    assert dict(made.value_format.options) == {"schema": '"long"'}
    assert made.producer.librdkafka()["acks"] == "all" and "acks" not in made.admin.librdkafka()
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("given", "plain", "in_transactions"),
    [
        ({}, "120000", "90000"),
        ({"retryTimeout": "80s"}, "80000", "80000"),
        ({"retryTimeout": "10m"}, "600000", "90000"),
        # librdkafka would take the last 32 bits: a ms, here.
        ({"retryTimeout": "4294967297"}, "2147483647", "90000"),
        ({"retryTimeout": "30d"}, "2147483647", "90000"),
        ({"retryTimeout": "1s"}, "30000", "30000"),  # one request may take as long
        ({"retryTimeout": "0", "kafka.request.timeout.ms": "4000"}, "4000", "4000"),
        ({"kafka.delivery.timeout.ms": "7000"}, "7000", "7000"),
    ],
)
def test_a_record_is_sent_again_for_as_long_as_calls_are_made_again(given, plain, in_transactions):
    options = sink(**given)
    delivery = _Delivery(options, {})
    assert delivery.producer_config()["delivery.timeout.ms"] == plain
    config = delivery.producer_config(90_000)
    assert (config["delivery.timeout.ms"], config["transaction.timeout.ms"]) == (in_transactions, "90000")


def test_formats():
    made = sink(key__format="avro", key__schema='"long"', key__format__recordName="K", value__format="json",
                value__format__ignoreNullFields="false")  # fmt: skip
    assert dict(made.key_format.options) == {"schema": '"long"', "recordname": "K"}
    assert dict(made.value_format.options) == {"ignorenullfields": "false"}


@pytest.mark.parametrize(
    ("text", "partitioner"),
    [("default", "murmur2"), ("Murmur2", "murmur2"), ("task", "task"), ("my.own:choose", "my.own:choose")],
)
def test_partitioners(text, partitioner):
    assert sink(partitioner=text).partitioner == partitioner


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topics": "t"}, "sink penstock.kafka has no option 'topics'; did you mean 'topic'?"),
        ({"topic": "a b"}, "'a b' can't be a topic"),
        ({"delivery": "exactly_once"}, "did you mean 'exactly-once'?"),
        ({"partitioner": "murmur3"}, "'murmur3' is not one of murmur2, round-robin, task, nor a function"),
        ({"logFailuresOnly": "true"}, "only with delivery=none, and delivery is at-least-once: a record that is only"),
        (
            {"logFailuresOnly": "true", "delivery": "exactly-once"},
            "only with delivery=none, and delivery is exactly-once",
        ),
        ({"transactionTimeout": "5m"}, "'transactionTimeout' takes effect only with delivery=exactly-once"),
        ({"transactionalIdPrefix": "p", "delivery": "none"}, "only with delivery=exactly-once, and delivery is none"),
        ({"transactionTimeout": "5", "delivery": "exactly-once"}, "below the least value 1000"),
        ({"transactionalIdPrefix": " ", "delivery": "exactly-once"}, "needs 1 to 200 printable characters"),
        ({"transactionalIdPrefix": "a\n", "delivery": "exactly-once"}, "needs 1 to 200 printable characters"),
        ({"kafka__key__serializer": "x"}, "'key.format'"),
        ({"kafka__transactional__id": "x"}, "'transactionalIdPrefix'"),
        (
            {"value__format": "protobuf", "value__schema": "id long"},
            "'value.schema' takes effect only with value.format=avro or json",
        ),
        ({"badRecords": "fail"}, "has no option 'badRecords'"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(BadConfigurationError) as caught:
        sink(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize("text", ["true", "false"])
def test_include_headers_is_one_warning(text, caplog, monkeypatch):
    monkeypatch.setattr("penstock.options._set._warned", set())
    for _ in range(2):
        sink(includeHeaders=text)
    said = "sink penstock.kafka ignores 'includeHeaders': a column headers is always written, as by Spark"
    assert [record.getMessage() for record in caplog.records] == [said] * (text == "true")


CONTRADICTIONS = {
    "acks": ("1", "at-least-once exactly-once"),
    "request.required.acks": ("0", "at-least-once exactly-once"),
    "retries": ("0", "at-least-once exactly-once"),
    "enable.idempotence": ("false", "exactly-once"),
    "max.in.flight.requests.per.connection": ("6", "at-least-once exactly-once"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
@pytest.mark.parametrize("delivery", ["none", "at-least-once", "exactly-once"])
def test_settings_must_not_contradict_the_delivery(name, delivery):
    value, refused_by = CONTRADICTIONS[name]
    given = {"delivery": delivery, f"kafka__{name.replace('.', '__')}": value}
    if delivery not in refused_by.split():
        assert sink(**given).delivery == delivery
    else:
        with pytest.raises(BadConfigurationError, match=r"option 'kafka\.\S+' must"):
            sink(**given)


def test_many_requests_in_flight_without_idempotence():
    sink(kafka__enable__idempotence="false", kafka__max__in__flight="9")


def test_records_do_not_outlive_their_transaction():
    message = "must not be longer than a transaction may last, 60000 ms"
    for given in ("120000", "0"):
        with pytest.raises(BadConfigurationError, match=message):
            sink(delivery="exactly-once", transactionTimeout="1m", kafka__delivery__timeout__ms=given)
    made = sink(delivery="exactly-once", kafka__message__timeout__ms="120000")
    check_transaction_timeout(made.producer, 120_000)
    with pytest.raises(BadConfigurationError, match=message):
        check_transaction_timeout(made.producer, 60_000)
