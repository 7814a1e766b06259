"""A header whose key is not UTF-8, which any client may write. What our own client makes of it is in
``test_client_batches.py``.
"""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import Producer
from kafka.protocol.producer import ProduceRequest

from fuzz.decoders.kafka import batches_with_odd_headers
from penstock.errors import BadDataError
from penstock_kafka.client import PartitionRange, open_consumer


@pytest.fixture(scope="module")
def address():
    """A broker in this process: librdkafka's own. Partition 0 of the topic "t" has one record, with such a header."""
    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "-", "log_level": 0})
    (broker,) = producer.list_topics(timeout=30).brokers.values()
    producer.list_topics("t", timeout=30)
    topic = ProduceRequest.TopicProduceData
    part = topic.PartitionProduceData(index=0, records=batches_with_odd_headers()[0])
    data = [topic(name="t", partition_data=[part])]
    request = ProduceRequest(transactional_id=None, acks=1, timeout_ms=30_000, topic_data=data, version=7)
    request.with_header(correlation_id=1, client_id="test")
    with socket.create_connection((broker.host, broker.port), timeout=30) as connection:
        connection.sendall(request.encode(framed=True, header=True))
        assert connection.recv(1000)
    yield f"{broker.host}:{broker.port}"
    producer.flush()  # the broker lives as long as the producer


def polled(address, *, headers):
    consumer = open_consumer({"bootstrap.servers": address}, "librdkafka")
    try:
        consumer.assign([PartitionRange("t", 0, 0, 1)], headers=headers)
        for _ in range(60):
            for fetched in consumer.poll(500):
                if fetched.records is not None:
                    return fetched.records.to_pylist()[0]
    finally:
        consumer.close()
    raise AssertionError("no record came")


def test_librdkafka_says_where_it_is(address):
    with pytest.raises(BadDataError, match="topic 't' partition 0 offset 0: the key of a header is not UTF-8"):
        polled(address, headers=True)


def test_without_headers_it_is_no_matter(address):
    assert polled(address, headers=False)["value"] == b"v"
