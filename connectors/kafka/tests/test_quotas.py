"""Quotas of the brokers: obeyed, shown, and no time limit counts the time that they take."""

from __future__ import annotations

import os
import uuid
from contextlib import closing

import pyarrow as pa
import pytest
from kafka import KafkaAdminClient
from kafka.protocol.admin.client_quotas import AlterClientQuotasRequest

from penstock_kafka.client import open_producer
from penstock_kafka.client._held_back import HeldBack

WAITS = pytest.mark.exhaustive("a quarter of a minute of waiting for a quota")


@pytest.fixture
def limited(kafka):
    """Limits a client of its own to so many bytes a second in each direction; returns its client.id."""

    def limit(bytes_per_s):
        client_id = f"limited-{uuid.uuid4().hex[:8]}"
        entry = AlterClientQuotasRequest.EntryData
        quotas = [
            entry.OpData(key=key, value=float(bytes_per_s), remove=False)
            for key in ("producer_byte_rate", "consumer_byte_rate")
        ]
        entity = entry.EntityData(entity_type="client-id", entity_name=client_id)
        request = AlterClientQuotasRequest(entries=[entry(entity=[entity], ops=quotas)], validate_only=False)
        with closing(KafkaAdminClient(bootstrap_servers=kafka.address)) as admin:
            answer = admin._manager.run(admin._manager.send, request)
        assert [one.error_code for one in answer.entries] == [0]
        return client_id

    return limit


def test_it_is_said_once_in_ten_seconds(caplog):
    held_back = HeldBack("reading")
    assert not held_back.is_so
    for _ in range(3):
        held_back.note("broker 1", 4.0)
    assert held_back.ms == 12_000 and held_back.is_so
    said = [record.message for record in caplog.records if record.name == "penstock.kafka"]
    assert said == ["broker 1: reading is held back for 4.0 s, because the quota of this client or its user is used up"]


@WAITS
@pytest.mark.budget(40)
@pytest.mark.timeout(120)
def test_what_is_written_waits_for_the_quota_and_nothing_times_out(kafka, limited, caplog):
    topic = kafka.create_topic(partitions=2)
    times = {"request.timeout.ms": "2000", "delivery.timeout.ms": "3000"}
    config = {"bootstrap.servers": kafka.address, "client.id": limited(300_000), **times}
    batch = pa.record_batch({"value": [os.urandom(1000) for _ in range(1000)], "topic": [topic] * 1000})
    with closing(open_producer(config, "protocol")) as producer:
        for _ in range(6):
            producer.produce(batch)
        producer.flush()
        assert producer.held_back.ms > 2_000
        assert producer.failed == 0
    assert not [record.message for record in caplog.records if "timed out" in record.message]
    assert len(kafka.read(topic)) == 6_000


@WAITS
@pytest.mark.budget(40)
@pytest.mark.timeout(120)
@pytest.mark.parametrize("client", ["protocol", "librdkafka"])
def test_what_is_read_waits_for_the_quota_and_is_counted(kafka, kafka_source, limited, client):
    """No look after five seconds of silence, and no failure to be tried again."""
    topic = kafka.create_topic()
    kafka.produce(topic, [os.urandom(1000) for _ in range(8_000)])
    source = kafka_source(
        subscribe=topic,
        client=client,
        kafka_client_id=limited(600_000),
        kafka_max_partition_fetch_bytes=1_000_000,
    )
    assert len(source.rows()) == 8_000
    found = source.metrics.snapshot()
    assert found["held_back_ms"] > 1_000
    assert "retries" not in found
