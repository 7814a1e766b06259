"""Leaders that move, because the broker that led is killed: producer, consumer and source follow them."""

from __future__ import annotations

import contextlib
import shutil
import time

import pyarrow as pa
import pytest

from penstock.source import ReaderContext, ReadLimits, SourceReader
from penstock_kafka.client import (
    Ended,
    PartitionRange,
    TransactionRef,
    TransientClientError,
    native_problem,
    open_consumer,
    open_producer,
)
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.dev import KafkaCluster, KafkaToolbox
from suite.away import standing_still

#: A leader that is killed has a successor when its session has ended.
SESSION = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "250"}

direct = pytest.mark.skipif(bool(native_problem()) and not shutil.which("cc"), reason="no compiler")


@pytest.fixture(scope="module")
def _cluster(tmp_path_factory):
    with KafkaCluster(tmp_path_factory.mktemp("cluster"), SESSION) as cluster:
        yield cluster


@pytest.fixture
def cluster(_cluster):
    """Three brokers, of which a test may leave one dead: all run when a test begins."""
    _cluster.restart()
    return _cluster


@pytest.fixture
def toolbox(cluster):
    return KafkaToolbox(cluster.address)


@direct
@pytest.mark.exhaustive(
    "a leader that is killed under load, in a cluster of its own; the test of all of them writes too"
)
def test_the_producer_follows(cluster, toolbox):
    topic = toolbox.create_topic(partitions=6)
    producer = open_producer({"bootstrap.servers": cluster.address, "batch.size": "20000"}, "protocol")
    count = 0

    def write(batches):
        nonlocal count
        for _ in range(batches):
            some = range(count, count + 600)
            columns = {"partition": pa.array([i % 6 for i in some], pa.int32())}
            producer.produce(pa.record_batch({"value": [b"%d" % i for i in some], "topic": [topic] * 600, **columns}))
            count += 600

    write(50)
    cluster.servers[toolbox.leaders(topic)[0]].kill()
    write(50)
    producer.flush()
    producer.close()
    found = toolbox.read(topic)
    assert len(found) == count
    for partition in range(6):
        numbers = [int(record.value) for record in found if record.partition == partition]
        assert numbers == list(range(partition, count, 6))


@direct
@pytest.mark.exhaustive("the consumer alone; the source follows by it, and has a test here")
def test_the_consumer_follows(cluster, toolbox):
    topic = toolbox.create_topic(partitions=6)
    records = [{"value": b"%d" % i, "partition": i % 6} for i in range(12_000)]
    toolbox.produce(topic, records)
    consumer = open_consumer({"bootstrap.servers": cluster.address, "fetch.message.max.bytes": "2000"}, "protocol")
    consumer.assign([PartitionRange(topic, partition, 0, 2_000) for partition in range(6)], headers=False)
    found, finished = {partition: [] for partition in range(6)}, 0
    killed = False
    deadline = time.monotonic() + 120
    while finished < 6:
        assert time.monotonic() < deadline, {partition: len(rows) for partition, rows in found.items()}
        with contextlib.suppress(TransientClientError):
            for one in consumer.poll(1_000, max_rows=300):
                found[one.range_index] += [int(value) for value in one.records["value"].to_pylist()]
                finished += one.finished
        if not killed and sum(map(len, found.values())) > 2_400:
            cluster.servers[toolbox.leaders(topic)[0]].kill()
            killed = True
    assert killed
    consumer.close()
    for partition in range(6):
        assert found[partition] == list(range(partition, 12_000, 6))


@direct
@pytest.mark.budget(20)
def test_source_producer_and_toolbox_follow(cluster, toolbox, kafka_source):
    topic = toolbox.create_topic()
    producer = open_producer({"bootstrap.servers": cluster.address, "batch.size": "20000"}, "protocol")
    producer.produce(pa.record_batch({"value": [b"x" * 1000] * 10_000, "topic": [topic] * 10_000}))
    producer.flush()
    small = {"kafka_queued_max_messages_kbytes": 200, "kafka_max_partition_fetch_bytes": 100_000}
    source = kafka_source(cluster.address, subscribe=topic, startingOffsets="earliest", **small)
    source.source.validate_schema(source.schema())
    with source.enumerator() as enumerator:
        splits = enumerator.take_batch(ReadLimits())
        batches = SourceReader(source.source, ReaderContext(source.schema(), source.metrics)).read(splits)
        offsets = next(batches)["offset"].to_pylist()
        leader = toolbox.leaders(topic)[0]
        producer.produce(pa.record_batch({"value": [b"meanwhile"] * 500, "topic": [topic] * 500}))
        cluster.servers[leader].kill()
        offsets += [offset for batch in batches for offset in batch["offset"].to_pylist()]
        assert offsets == list(range(10_000))
        producer.flush()
        producer.close()
        toolbox.produce(topic, [b"after"])
        assert toolbox.leaders(topic)[0] not in (leader, -1)
        *_, last = enumerator.take_batch(ReadLimits())
    assert [row["value"] for row in source.read([last])] == [b"meanwhile"] * 500 + [b"after"]
    assert [one.value for one in toolbox.read(topic)] == [b"x" * 1000] * 10_000 + [b"meanwhile"] * 500 + [b"after"]


def led_partition(transactional_id, partitions):
    """The partition of ``__transaction_state`` whose leader coordinates an id: by Java's hash of a text."""
    number = 0
    for character in transactional_id:
        number = (31 * number + ord(character)) & 0xFFFFFFFF
    return abs(number - (1 << 32) if number >> 31 else number) % partitions


@direct
@pytest.mark.budget(100)
@pytest.mark.exhaustive("a minute of waiting for brokers that stand still")
def test_transactions_and_reads_go_on_while_a_broker_stands_still(cluster, toolbox):
    """Its connections stay open, and it answers nothing: its successor is asked as soon as there is one.

    Without that, all wait for as long as the broker stands still, or until the time of a request is over.
    """
    topic = toolbox.create_topic(partitions=6)
    servers = {"bootstrap.servers": cluster.address, "socket.timeout.ms": "300000"}
    times = {"delivery.timeout.ms": "60000", "transaction.timeout.ms": "60000", "request.timeout.ms": "60000"}
    records = pa.record_batch({"value": [b"x"] * 6, "topic": [topic] * 6, "partition": pa.array(range(6), pa.int32())})
    coordinators = Coordinators(servers)
    coordinators.end([TransactionRef("never-heard-of", 1, 0)], commit=False)  # makes the topic of transactions
    reader = open_consumer({**servers, "isolation.level": "read_committed"}, "protocol")
    # A record and the end of its transaction, twice.
    reader.assign([PartitionRange(topic, partition, 0, 4) for partition in range(6)], headers=False)
    read = 0
    for number in (1, 2):
        leaders = toolbox.leaders("__transaction_state")
        name = f"t-{number}"
        server = cluster.servers[leaders[led_partition(name, len(leaders))]]
        with contextlib.closing(open_producer({**servers, **times, "transactional.id": name}, "protocol")) as producer:
            identity = producer.init_transactions(60_000)
            producer.begin_transaction()
            with standing_still(server.address)():
                producer.produce(records)
                producer.flush()
                transaction = TransactionRef(name, identity.producer_id, identity.epoch)
                assert coordinators.end([transaction], commit=True) == [Ended.DONE]
                deadline = time.monotonic() + 60
                while read < 6 * number:
                    assert time.monotonic() < deadline, read
                    with contextlib.suppress(TransientClientError):
                        read += sum(one.records.num_rows for one in reader.poll(1_000))
    deadline = time.monotonic() + 30
    while len(toolbox.read(topic)) < 12:  # the broker that stood still answers as the leader that it was
        assert time.monotonic() < deadline
    assert len(toolbox.read(topic)) == 12
    reader.close()
    coordinators.close()
