"""The producer that speaks the protocol itself: what it leaves to librdkafka, and what happens on the way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition

from penstock.errors import FatalError
from penstock_kafka.client import DeliveryError, TransientClientError, native_problem, open_producer
from penstock_kafka.dev import KafkaToolbox

if native_problem() and not shutil.which("cc"):
    pytest.skip(native_problem(), allow_module_level=True)

from penstock_kafka.client.broker import _pool
from penstock_kafka.client.producer._settings import ProducerSettings

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def opened(kafka):
    producers = []

    def make(address=None, **settings):
        config = {name.replace("_", "."): str(value) for name, value in settings.items()}
        producers.append(open_producer({"bootstrap.servers": address or kafka.address, **config}, "protocol"))
        assert type(producers[-1]).__name__ == "ProtocolProducer"
        return producers[-1]

    yield make
    for producer in producers:
        producer.close()


def records(topic, values, **columns):
    return pa.record_batch({"value": pa.array(values, pa.binary()), "topic": [topic] * len(values), **columns})


def send(producer, batch):
    producer.produce(batch)
    producer.flush()


def values_of(kafka, topic):
    return [record.value for record in kafka.read(topic)]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {"debug": "all"},
        {"partitioner": "consistent"},
        {"compression.type": "hush"},
        {"batch.size": "many"},
        {"acks": "1", "enable.idempotence": "true"},
        {"acks": "2"},
        {"transactional.id": "t", "enable.idempotence": "false"},
        {"ssl.engine.id": "dynamic"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "default"},
        {"retries": "0"},
    ],
    ids=str,
)
def test_what_only_librdkafka_knows_or_judges_is_left_to_it(config):
    assert ProducerSettings.of({**NOWHERE, **config}) is None


def test_settings_under_either_name():
    settings = ProducerSettings.of(
        {
            "metadata.broker.list": "127.0.0.1:1",
            "message.timeout.ms": "5000",
            "compression.codec": "zstd",
            "compression.level": "3",
            "queue.buffering.max.kbytes": "100",
            "request.required.acks": "1",
            "max.in.flight": "9",
            "linger.ms": "5",
            "client.id": "me",
        }
    )
    assert settings is not None
    assert settings.connection == (("bootstrap.servers", "127.0.0.1:1"), ("client.id", "me"))
    assert (settings.delivery_timeout_ms, settings.request_timeout_ms) == (5_000, 5_000)
    assert (settings.compression, settings.compression_level) == ("zstd", 3)
    assert (settings.queue_bytes, settings.acks, settings.idempotent, settings.in_flight) == (102_400, 1, False, 9)


def test_defaults_and_what_a_transaction_changes():
    plain, transactional = (ProducerSettings.of({**NOWHERE, **more}) for more in ({}, {"transactional.id": "t"}))
    assert plain is not None and transactional is not None
    assert (plain.acks, plain.idempotent, plain.in_flight, plain.compression) == (-1, True, 5, "none")
    assert (plain.delivery_timeout_ms, transactional.delivery_timeout_ms) == (300_000, 60_000)


def test_secrets_do_not_show():
    config = {**NOWHERE, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "me"}
    settings = ProducerSettings.of({**config, "sasl.password": "hush"})
    assert settings is not None and "hush" not in repr(settings)


def test_another_setting_gets_the_producer_in_python(kafka):
    producer = open_producer({"bootstrap.servers": kafka.address, "retries": "7", "socket.max.fails": "3"}, "protocol")
    try:
        assert type(producer).__name__ == "LibrdkafkaProducer"
        topic = kafka.create_topic()
        send(producer, records(topic, [b"v"]))
        assert values_of(kafka, topic) == [b"v"]
    finally:
        producer.close()


# --- batches ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read_by_broker_and_clients(kafka, opened, compression):
    """A broker that has to compress anew reads every record, in Java."""
    random = os.urandom(1 << 20)
    values = [b"again and again " * (i % 40) for i in range(3_000)] + [
        random[i : i + 900] for i in range(0, 1 << 20, 900)
    ]
    for theirs in ("producer", "uncompressed"):
        topic = kafka.create_topic(**{"compression.type": theirs})
        send(opened(compression_type=compression), records(topic, values))
        assert values_of(kafka, topic) == values


def test_a_level_is_the_users_choice(kafka, opened):
    topic = kafka.create_topic()
    send(opened(compression_type="gzip", compression_level=9), records(topic, [b"v" * 1_000]))
    assert values_of(kafka, topic) == [b"v" * 1_000]


OTHER_CODECS = pytest.mark.exhaustive("batches of every codec are divided; none and zstd are the witnesses")


@pytest.mark.parametrize(
    "compression", ["none", "zstd", *(pytest.param(one, marks=OTHER_CODECS) for one in ("gzip", "snappy", "lz4"))]
)
def test_a_topic_that_takes_less_gets_smaller_batches(kafka, opened, compression):
    topic, count = kafka.create_topic(partitions=2, max_message_bytes=20_000), 12_000
    producer = opened(compression_type=compression)
    values = [b"%06d" % i + os.urandom(94) for i in range(count)]
    for start in range(0, count, 4_000):
        partitions = pa.array([i % 2 for i in range(4_000)], pa.int32())
        producer.produce(records(topic, values[start : start + 4_000], partition=partitions))
    producer.flush()
    assert producer.failed == 0
    found = kafka.read(topic)
    for partition in range(2):
        assert [record.value for record in found if record.partition == partition] == values[partition::2]


def test_a_transaction_gets_smaller_batches_too(kafka, opened):
    topic, producer = kafka.create_topic(max_message_bytes=20_000), opened(transactional_id=f"less-{os.getpid()}")
    producer.init_transactions(30_000)
    producer.begin_transaction()
    send(producer, records(topic, [b"%06d" % i + b"x" * 100 for i in range(10_000)]))
    assert [int(record.value[:6]) for record in kafka.read(topic, "read_uncommitted")] == list(range(10_000))
    producer.abort_transaction(30_000)


def test_a_refused_batch_does_not_keep_back_those_behind_it(kafka, opened):
    topic = kafka.create_topic(max_message_bytes=50_000)
    values = [b"%d" % i * 500 for i in range(2_000)]
    values[700] = values[1_400] = b"x" * 200_000
    producer = opened(batch_size=10_000)
    with pytest.raises(DeliveryError, match="200000 bytes"):
        send(producer, records(topic, values))
    assert producer.failed == 2
    assert values_of(kafka, topic) == [value for value in values if len(value) != 200_000]


def test_many_partitions_through_a_small_queue(kafka, opened):
    topic, count = kafka.create_topic(partitions=60), 30_000
    producer = opened(queue_buffering_max_kbytes=256)
    columns = {"partition": pa.array([i * 7 % 60 for i in range(count)], pa.int32())}
    for _ in range(2):
        producer.produce(records(topic, [b"%06d" % i + b"x" * 100 for i in range(count)], **columns))
    producer.flush()
    found = kafka.read(topic)
    assert len(found) == 2 * count
    for partition in range(60):
        numbers = [int(record.value[:6]) for record in found if record.partition == partition]
        half = len(numbers) // 2
        assert numbers[:half] == numbers[half:] == sorted(numbers[:half])


def test_what_is_not_flushed_is_sent_all_the_same(kafka, opened):
    topic, producer = kafka.create_topic(), opened()
    for i in range(50):
        producer.produce(records(topic, [b"%d" % i] * 10))
    deadline = time.monotonic() + 60
    while len(values_of(kafka, topic)) < 500:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_partitions_that_are_added_meanwhile_are_written_to(kafka, opened):
    topic, producer = kafka.create_topic(), opened()
    send(producer, records(topic, [b"before"]))
    kafka.add_partitions(topic, 3)
    send(producer, records(topic, [b"after"], partition=pa.array([2], pa.int32())))
    assert {(record.partition, record.value) for record in kafka.read(topic)} == {(0, b"before"), (2, b"after")}


def test_numbers_that_the_broker_does_not_expect_cost_nothing(kafka, opened):
    """As when a broker has forgotten the producer, or a batch was lost with a broker: another identity is asked for."""
    topic, producer = kafka.create_topic(), opened(batch_size=2_000)
    send(producer, records(topic, [b"%04d" % i for i in range(500)]))
    identity = producer._sender._identity
    for queue in producer._sender._queues.values():
        queue.next_sequence += 1_000
    send(producer, records(topic, [b"%04d" % i for i in range(500, 3_000)]))
    assert producer._sender._identity != identity
    assert values_of(kafka, topic) == [b"%04d" % i for i in range(3_000)]


def test_numbers_begin_again_behind_the_last(kafka, opened):
    topic, producer = kafka.create_topic(), opened(batch_size=2_000)
    send(producer, records(topic, [b"first"]))
    # A broker takes any number from a producer that it has not seen in a partition.
    fresh = kafka.create_topic()
    producer.produce(records(fresh, []))
    producer._sender._queues[fresh, 0] = type(producer._sender._queues[topic, 0])(fresh, 0, next_sequence=2**31 - 150)
    send(producer, records(fresh, [b"%04d" % i for i in range(1_000)]))
    assert producer._sender._queues[fresh, 0].next_sequence == 850
    assert values_of(kafka, fresh) == [b"%04d" % i for i in range(1_000)]


# --- brokers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.exhaustive("kills in a row; one is enough"))])
@pytest.mark.budget(10)
def test_a_broker_that_is_restarted_gets_every_record_once_and_in_order(breakable, kills):
    topic = KafkaToolbox(breakable.address).create_topic(partitions=2)
    producer = open_producer({"bootstrap.servers": breakable.address, "batch.size": "20000"}, "protocol")
    stop, written, errors = threading.Event(), threading.Condition(), []
    number = 0

    def write():
        nonlocal number
        try:
            while not stop.is_set():
                some = range(number, number + 500)
                columns = {"partition": pa.array([i % 2 for i in some], pa.int32())}
                producer.produce(records(topic, [b"%d" % i for i in some], **columns))
                with written:
                    number += 500
                    written.notify_all()
                stop.wait(0.005)  # else the queue, and what is to be read in the end, would be all that memory takes
            producer.flush()
        except BaseException as error:
            errors.append(error)

    def await_more():
        with written:
            wanted = number + 10_000
            assert written.wait_for(lambda: number >= wanted or errors, 60)

    writer = threading.Thread(target=write)
    writer.start()
    for _ in range(kills):
        await_more()
        breakable.kill()
        await_more()  # into the queue
        breakable.start()
    await_more()
    stop.set()
    writer.join(120)
    producer.close()
    assert not errors and not writer.is_alive()
    found = KafkaToolbox(breakable.address).read(topic)
    for partition in range(2):
        numbers = [int(record.value) for record in found if record.partition == partition]
        assert numbers == list(range(partition, number, 2))


def test_producers_share_connections_and_the_last_one_ends_them(kafka, opened):
    def serving():
        return {thread for thread in threading.enumerate() if thread.name.startswith("kafka-io-sharing")}

    topic = kafka.create_topic()
    first, second = opened(client_id="sharing"), opened(client_id="sharing", compression_type="zstd")
    send(first, records(topic, [b"1"]))
    send(second, records(topic, [b"2"]))
    assert len(serving()) == 1
    first.close()
    send(second, records(topic, [b"3"]))
    second.close()
    assert not serving()
    assert all(entry.users for entry in _pool._shared._entries.values()), "the last user closes them"
    send(opened(client_id="sharing"), records(topic, [b"4"]))
    assert values_of(kafka, topic) == [b"1", b"2", b"3", b"4"]


QUIET = """
import pyarrow as pa
from penstock.errors import PenstockError
from penstock_kafka.client import PartitionRange, open_consumer, open_producer
from penstock_kafka.client.consumer import _fetcher

_fetcher._CONNECT_S = 0.2
servers = {"bootstrap.servers": "127.0.0.1:1"}
producer = open_producer({**servers, "delivery.timeout.ms": "200"}, "protocol")
try:
    producer.produce(pa.record_batch({"value": [b"v"], "topic": ["t"]}))
except PenstockError as error:
    print(type(error).__name__)
producer.close()
consumer = open_consumer({**servers, "client.id": "reading"}, "protocol")
consumer.assign([PartitionRange("t", 0, 0, 1)], headers=False)
try:
    while True:
        consumer.poll(500)
except PenstockError as error:
    print(type(error).__name__)
consumer.close()
"""


def test_brokers_that_are_away_are_an_error_and_no_noise():
    """In a process without handlers, where Python writes warnings to the standard error. The consumer as well."""
    done = subprocess.run([sys.executable, "-c", QUIET], capture_output=True, text=True, timeout=120, check=True)
    assert (done.stdout.split(), done.stderr) == ([TransientClientError.__name__] * 2, "")


def test_after_an_abort_nothing_is_dropped_in_silence(kafka, opened):
    producer = opened(transactional_id=f"aborted-{os.getpid()}")
    producer.init_transactions(30_000)
    producer.begin_transaction()
    topic = kafka.create_topic()
    send(producer, records(topic, [b"1"]))
    producer.abort_transaction(30_000)
    with pytest.raises(FatalError, match="not sent"):
        producer.produce(records(topic, [b"2"]))
    with pytest.raises(FatalError, match="not sent"):
        producer.flush()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_connections_whose_thread_has_ended_are_an_error_and_replaced(kafka, opened):
    topic, producer = kafka.create_topic(), opened(client_id="ending")
    send(producer, records(topic, [b"1"]))
    net = producer._connections.client._admin._net
    net._poll_once = lambda *_: 1 // 0
    net.wakeup()
    net._io_thread.join(30)
    with pytest.raises((FatalError, ZeroDivisionError)):
        send(producer, records(topic, [b"2"]))
    producer.close()
    send(opened(client_id="ending"), records(topic, [b"3"]))
    assert values_of(kafka, topic) == [b"1", b"3"]


@pytest.mark.parametrize(
    "turns", [30, pytest.param(150, marks=pytest.mark.exhaustive("a race, looked for five times as long"))]
)
def test_flush_leaves_nothing_behind_and_order_holds_whoever_sends(kafka, opened, turns):
    """The connections' thread sends what is open when nothing is on its way, beside the thread that produces."""
    topic, producer = kafka.create_topic(), opened(compression_type="gzip", compression_level=9)
    looking, count = Consumer({"bootstrap.servers": kafka.address, "group.id": "ends"}), 0
    for turn in range(turns):
        for _ in range(1 + turn % 4):
            rows = 1 + turn * 37 % 3_000
            producer.produce(records(topic, [b"%07d" % i for i in range(count, count + rows)]))
            count += rows
            if turn % 3:
                time.sleep(turn % 5 / 1_000)  # for the other thread to come between
        producer.flush()
        assert looking.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1] == count
    looking.close()
    assert values_of(kafka, topic) == [b"%07d" % i for i in range(count)]
