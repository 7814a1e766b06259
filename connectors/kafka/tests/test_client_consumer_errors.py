"""Both consumers say what is wrong in the right type of error, and neither hang nor give up too early."""

from __future__ import annotations

import shutil
import time

import pytest

from penstock.errors import BadConfigurationError, DataLostError
from penstock_kafka.client import (
    OffsetOutOfRangeError,
    PartitionRange,
    TransientClientError,
    _range_consumer,
    native_problem,
    open_consumer,
)


@pytest.fixture(params=["protocol", "librdkafka"])
def implementation(request):
    if request.param == "protocol" and native_problem() and not shutil.which("cc"):
        pytest.skip(native_problem())
    return request.param


@pytest.fixture
def consumer(kafka, implementation):
    # How long a topic is looked for before it counts as missing.
    patience = {"topic.metadata.propagation.max.ms": "500", "topic.metadata.refresh.fast.interval.ms": "100"}
    opened = open_consumer({"bootstrap.servers": kafka.address, **patience}, implementation)
    yield opened
    opened.close()


def poll_until(consumer, error, seconds=60):
    def poll():
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            consumer.poll(200)

    with pytest.raises(error) as raised:
        poll()
    return raised.value


def test_deleted_records_are_out_of_range(kafka, consumer):
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [{"value": "v", "partition": p} for p in (0, 1) for _ in range(10)])
    kafka.delete_records(topic, 1, 6)
    consumer.assign([PartitionRange(topic, 0, 0, 11), PartitionRange(topic, 1, 4, 10)], headers=False)
    error = poll_until(consumer, OffsetOutOfRangeError)
    assert (error.topic, error.partition, error.offset) == (topic, 1, 4)
    # What is left can be read with the same client.
    consumer.assign([PartitionRange(topic, 1, 6, 10)], headers=False)
    (fetched,) = consumer.poll(10_000)
    assert fetched.finished and fetched.records["offset"].to_pylist() == [6, 7, 8, 9]


def test_an_offset_behind_the_end_is_out_of_range(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, [b"v"])
    consumer.assign([PartitionRange(topic, 0, 7, 9)], headers=False)
    error = poll_until(consumer, OffsetOutOfRangeError)
    assert (error.topic, error.partition, error.offset) == (topic, 0, 7)


def test_a_missing_partition_is_lost_data(kafka, consumer):
    topic = kafka.create_topic()
    consumer.assign([PartitionRange(topic, 5, 0, 1)], headers=False)
    error = poll_until(consumer, DataLostError)
    assert topic in str(error) and "partition 5" in str(error)


def test_a_missing_topic_is_lost_data(consumer):
    consumer.assign([PartitionRange("penstock-no-such-topic", 0, 0, 1)], headers=False)
    assert "penstock-no-such-topic" in str(poll_until(consumer, DataLostError))


def test_a_topic_deleted_while_reading_is_lost_data(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, [b"v"])
    consumer.assign([PartitionRange(topic, 0, 0, 5)], headers=False)
    assert consumer.poll(10_000)
    kafka.delete_topic(topic)
    poll_until(consumer, DataLostError)


def test_unreachable_brokers_are_reported_again_and_again(implementation, monkeypatch):
    monkeypatch.setattr(_range_consumer, "BROKERS_DOWN_GRACE_SECONDS", 0.1)
    if not native_problem():
        monkeypatch.setattr("penstock_kafka.client.consumer._fetcher._CONNECT_S", 0.2)
    consumer = open_consumer({"bootstrap.servers": "127.0.0.1:1"}, implementation)
    try:
        consumer.assign([PartitionRange("t", 0, 0, 1)], headers=False)
        for _ in range(2):
            assert "127.0.0.1:1" in str(poll_until(consumer, TransientClientError))
    finally:
        consumer.close()


def test_a_bad_setting_is_named_and_its_value_is_not(implementation):
    for name, value in [("no.such.setting", "hush"), ("linger.msx", "hush"), ("security.protocol", "hush")]:
        with pytest.raises(BadConfigurationError, match=name) as raised:
            open_consumer({"bootstrap.servers": "127.0.0.1:1", name: value}, implementation)
        assert "hush" not in str(raised.value)


def test_settings_that_do_not_fit_together_are_explained(implementation):
    with pytest.raises(BadConfigurationError, match="settings"):
        open_consumer(
            {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            implementation,
        )
