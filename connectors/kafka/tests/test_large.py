"""Records, partitions and topics of unusual size: memory stays within what docs/kafka.md says, and nothing is lost."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from penstock.dev import LocalServer
from penstock.source import ReaderContext, ReadLimits, SourceReader
from penstock.testing._memory import peak_growth_bytes
from penstock_kafka.client import open_producer
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox

pytestmark = pytest.mark.exhaustive("hundreds of megabytes; the kit's bounded memory stays, on small ones")

CLIENTS = ["protocol", "librdkafka"]
MB = 1 << 20
#: The client's queue, one answer as large again, and some Arrow batches; twice that much, as memory is not given back
#: to the system at once.
MOST_MB = 160


def read(harness, columns=("value",)):
    """Returns the number of rows and their bytes, of a batch read in one task that keeps nothing."""
    schema = pa.schema([harness.schema().field(name) for name in columns])
    context = ReaderContext(schema, harness.metrics, harness.retry)
    batches = SourceReader(harness.source, context).read(harness.list_splits())
    sizes = [(batch.num_rows, batch.nbytes) for batch in batches]
    return sum(rows for rows, _ in sizes), sum(size for _, size in sizes)


@pytest.mark.parametrize("client", CLIENTS)
def test_rows_of_ten_megabytes_are_read(kafka, kafka_source, client):
    topic = kafka.create_topic(max_message_bytes=12 * MB)
    producer = Producer({"bootstrap.servers": kafka.address, "message.max.bytes": 12 * MB})
    for _ in range(40):
        producer.produce(topic, os.urandom(10 * MB))
        producer.flush()
    source = kafka_source(subscribe=topic, client=client)
    found = []
    growth = peak_growth_bytes(lambda: found.append(read(source)))
    assert found[0][0] == 40
    assert found[0][1] >= 400 * MB
    assert growth < MOST_MB * MB, growth // MB


@pytest.mark.parametrize("client", CLIENTS)
def test_rows_of_ten_megabytes_are_written(kafka, client):
    """One Arrow batch of them, the producer's queue, and what is being encoded."""
    topic = kafka.create_topic(max_message_bytes=12 * MB)
    producer = open_producer({"bootstrap.servers": kafka.address, "message.max.bytes": str(12 * MB)}, client)
    value = os.urandom(10 * MB)

    def write():
        for _ in range(40):
            producer.produce(pa.record_batch({"value": [value], "topic": [topic]}))
        producer.flush()

    growth = peak_growth_bytes(write)
    producer.close()
    assert sum(kafka.end_offsets(topic).values()) == 40
    assert growth < 2 * MOST_MB * MB, growth // MB


@pytest.mark.parametrize("client", CLIENTS)
def test_one_partition_a_hundred_times_larger_than_the_others(kafka, kafka_source, client):
    topic = kafka.create_topic(partitions=20)
    kafka.produce(topic, ({"value": b"x" * 1000, "partition": 0} for _ in range(200_000)))
    kafka.produce(topic, ({"value": b"x" * 1000, "partition": 1 + n % 19} for n in range(38_000)))
    source = kafka_source(subscribe=topic, client=client)
    found = []
    growth = peak_growth_bytes(lambda: found.append(read(source)))
    assert found[0][0] == 238_000
    assert growth < MOST_MB * MB, growth // MB


@pytest.mark.timeout(600)
def test_ten_thousand_partitions(tmp_path, kafka_source):
    """The offsets of one micro-batch stay below a megabyte, and there are as many tasks as slots."""
    with LocalServer(KafkaDevServer(quick_start=True), tmp_path) as server:
        kafka = KafkaToolbox(server.address)
        topics = [kafka.create_topic(partitions=1000) for _ in range(10)]
        # Idempotent: a broker that is slow to answer would get some of the records twice.
        producer = Producer({"bootstrap.servers": server.address, "enable.idempotence": True})
        for topic in topics:
            for partition in range(1000):
                producer.produce(topic, b"v", partition=partition)
                producer.poll(0)
        producer.flush()
        source = kafka_source(server.address, subscribePattern="t-.*", startingOffsets="earliest")
        taken = []

        def plan():
            with source.enumerator() as enumerator:
                taken.extend(enumerator.take_batch(ReadLimits()))
                stored = [source.source.enumerator_serializer.serialize(enumerator.snapshot_state())]
                stored += [source.source.split_serializer.serialize(split) for split in taken]
                assert sum(map(len, stored)) < MB
                assert enumerator.take_batch(ReadLimits()) == []

        growth = peak_growth_bytes(plan)
        assert len(taken) == 10_000
        assert growth < 100 * MB, growth // MB
        tasks = source.source.assign_splits(taken, 4)
        assert len(tasks) == 4
        assert sum(len(source.read(task)) for task in tasks) == 10_000
