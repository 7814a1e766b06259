"""A sink's topic that is deleted and re-created: the query continues with the new one."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from penstock_kafka import KafkaConnector
from suite.over_network import sink_query

SCHEMA = pa.schema([("value", pa.string())])


def rows(batch_id):
    return [[pa.record_batch([[f"{batch_id}.{i}" for i in range(20)]], schema=SCHEMA)]]


def expected(batch_id):
    return Counter(rows(batch_id)[0][0][0].to_pylist())


@pytest.fixture
def topic(kafka):
    return kafka.create_topic()


@pytest.fixture
def query(kafka, topic, tmp_path, request):
    def start(client, delivery):
        options = {"kafka.bootstrap.servers": kafka.address, "topic": topic, "delivery": delivery, "client": client}
        return sink_query(KafkaConnector(), options, SCHEMA, tmp_path / "checkpoint")

    return start


def replace(kafka, topic):
    kafka.delete_topic(topic)
    kafka.create_topic(topic)


def seen(kafka, topic):
    return Counter(record.value.decode() for record in kafka.read(topic))


@pytest.mark.parametrize("client", ["protocol", "librdkafka"])
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_it_is_replaced_between_batches(kafka, topic, query, client, delivery):
    one = query(client, delivery)
    one.run(0, rows(0))
    replace(kafka, topic)
    one.run_all([rows(0), rows(1), rows(2)])
    assert seen(kafka, topic) == expected(1) + expected(2)


@pytest.mark.parametrize("client", ["protocol", "librdkafka"])
def test_it_is_replaced_before_the_commit(kafka, topic, query, client):
    one = query(client, "exactly-once")
    one.run(0, rows(0))
    results = one.tasks(1, rows(1))
    replace(kafka, topic)
    one.commit(1, results)
    one.run(2, rows(2))
    assert seen(kafka, topic) == expected(2)  # the old topic had the rows of batch 1
