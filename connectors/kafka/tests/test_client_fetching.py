"""The consumer that speaks the protocol itself: what it leaves to librdkafka, and what happens on the way."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import struct
import threading
import time
import uuid

import pyarrow as pa
import pytest

from penstock.errors import DataLostError, FatalError
from penstock_kafka.client import (
    PartitionRange,
    TransientClientError,
    _range_consumer,
    native_problem,
    open_consumer,
    open_producer,
)
from penstock_kafka.client.consumer._fetch_protocol import BY_ID, fetched_parts, held_back_ms
from penstock_kafka.client.consumer._fetch_settings import FetchSettings
from penstock_kafka.dev import KafkaToolbox

if native_problem() and not shutil.which("cc"):
    pytest.skip(native_problem(), allow_module_level=True)

from penstock_kafka.client.broker import _pool
from penstock_kafka.client.consumer import _channel, _fetcher

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def opened(kafka):
    consumers = []

    def make(address=None, **settings):
        config = {name.replace("_", "."): str(value) for name, value in settings.items()}
        consumers.append(open_consumer({"bootstrap.servers": address or kafka.address, **config}, "protocol"))
        assert type(consumers[-1]).__name__ == "ProtocolConsumer"
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close()


def read(consumer, topic, end, *, start=0, partition=0, seconds=60):
    """Values and headers of a range."""
    consumer.assign([PartitionRange(topic, partition, start, end)], headers=True)
    rows, deadline = [], time.monotonic() + seconds
    while True:
        assert time.monotonic() < deadline, f"{len(rows)} records within {seconds} s"
        for one in consumer.poll(500):
            rows += one.records.to_pylist() if one.records is not None else []
            if one.finished:
                return rows


def values(consumer, topic, end, **more):
    return [row["value"] for row in read(consumer, topic, end, **more)]


def links(consumer):
    return [channel._connection for channel in consumer._fetcher._channels.values()]


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config",
    [
        {"debug": "all"},
        {"client.rack": "a"},
        {"allow.auto.create.topics": "true"},
        {"isolation.level": "hush"},
        {"fetch.min.bytes": "many"},
        {"fetch.min.bytes": "-1"},
        {"group.instance.id": "1"},
        {"security.protocol": "hush"},
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "default"},
    ],
    ids=str,
)
def test_what_only_librdkafka_knows_or_judges_is_left_to_it(config):
    assert FetchSettings.of({**NOWHERE, **config}) is None


def test_settings_and_their_defaults():
    plain = FetchSettings.of(NOWHERE)
    assert (plain.is_committed, plain.min_bytes, plain.queue_bytes, plain.servers) == (True, 1, 16 << 20, "127.0.0.1:1")
    assert plain.most_batch_bytes == 100_000_000
    assert FetchSettings.of({**NOWHERE, "receive.message.max.bytes": "200000000"}).most_batch_bytes == 200_000_000
    chosen = FetchSettings.of(
        {
            **NOWHERE,
            "isolation.level": "read_uncommitted",
            "fetch.message.max.bytes": "1000",
            "fetch.max.bytes": "9000000",
            "queued.max.messages.kbytes": "4096",
            "fetch.wait.max.ms": "7",
        }
    )
    assert (chosen.is_committed, chosen.partition_bytes, chosen.wait_ms) == (False, 1_000, 7)
    assert chosen.answer_bytes == chosen.queue_bytes == 4 << 20
    secret = FetchSettings.of(
        {
            **NOWHERE,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "hush",
        }
    )
    assert "hush" not in repr(secret)


def test_another_setting_gets_the_consumer_in_python(kafka):
    consumer = open_consumer({"bootstrap.servers": kafka.address, "client.rack": "a"}, "protocol")
    try:
        assert type(consumer).__name__ == "LibrdkafkaConsumer"
        topic = kafka.create_topic()
        kafka.produce(topic, [b"v"])
        assert values(consumer, topic, 1) == [b"v"]
    finally:
        consumer.close()


# --- what brokers answer ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [*range(_channel.BY_NAME[0], _channel.BY_NAME[1] + 1), _channel.BY_ID])
def test_every_version_of_the_request(kafka, opened, monkeypatch, version):
    """As older brokers know it: 4 is Kafka 0.11's."""
    if version != _channel.BY_ID:
        monkeypatch.setattr(_channel, "BY_NAME", (version, version))
        monkeypatch.setattr(_channel.BrokerConnection, "newest_version", lambda *_: version)
    topic = kafka.create_topic()
    for name, end in (("aborted", "abort"), ("open", "stay"), ("plain", "")):
        settings = {"bootstrap.servers": kafka.address}
        if end:
            settings["transactional.id"] = f"{name}-{uuid.uuid4().hex}"
        producer = open_producer(settings, "protocol")
        if end:
            producer.init_transactions(30_000)
            producer.begin_transaction()
        columns = {"value": [name.encode()] * 3, "topic": [topic] * 3}
        if end != "stay":
            producer.produce(pa.record_batch({**columns, "headers": HEADERS}))
            producer.flush()
        if end == "abort":
            producer.abort_transaction(30_000)
        producer.close()
    # Three aborted ones, and the mark behind them.
    expected = [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert [(row["value"], row["headers"]) for row in read(opened(), topic, 7)] == [(b"plain", expected)] * 3
    uncommitted = values(opened(isolation_level="read_uncommitted"), topic, 7)
    assert uncommitted == [b"aborted"] * 3 + [b"plain"] * 3


HEADERS = pa.array(
    [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}]] * 3,
    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("by", ["librdkafka", "the broker"])
def test_compressed_records(kafka, opened, compression, by):
    """librdkafka's and Java's: the latter has a framing of its own for snappy."""
    topic = kafka.create_topic(**({"compression.type": compression} if by == "the broker" else {}))
    random = os.urandom(1 << 20)
    sent = [b"again and again " * (i % 40) for i in range(3_000)] + [
        random[i : i + 900] for i in range(0, 1 << 20, 900)
    ]
    kafka.produce(topic, sent, **({"compression_type": compression} if by == "librdkafka" else {}))
    assert values(opened(), topic, len(sent)) == sent
    assert values(opened(), topic, 3_500, start=2_900) == sent[2_900:3_500]


def test_batches_larger_than_what_is_asked_for_are_answered_all_the_same(kafka, opened):
    topic = kafka.create_topic(partitions=1, max_message_bytes=8_000_000)
    sent = [bytes([i]) * 3_000_000 for i in range(4)]
    kafka.produce(topic, sent, message_max_bytes=8_000_000)
    consumer = opened(fetch_message_max_bytes=1_000, fetch_max_bytes=1_000, queued_max_messages_kbytes=1_000)
    assert values(consumer, topic, 4) == sent


def test_many_partitions_through_a_small_queue(kafka, opened):
    topic = kafka.create_topic(partitions=40)
    records = [{"value": b"%d" % i * 100, "partition": i % 40} for i in range(20_000)]
    kafka.produce(topic, records)
    consumer = opened(queued_max_messages_kbytes=64, fetch_message_max_bytes=20_000)
    consumer.assign([PartitionRange(topic, partition, 0, 500) for partition in range(40)], headers=False)
    found, finished = {partition: [] for partition in range(40)}, 0
    while finished < 40:
        for one in consumer.poll(10_000, max_rows=70):
            found[one.range_index] += one.records["value"].to_pylist()
            finished += one.finished
    for partition in range(40):
        assert found[partition] == [b"%d" % i * 100 for i in range(partition, 20_000, 40)]


# --- connections ------------------------------------------------------------------------------------------------------


def test_a_connection_that_the_broker_has_closed_is_opened_anew(kafka, opened):
    """Brokers close those that nobody uses for ten minutes."""
    topic, consumer = kafka.create_topic(), opened()
    kafka.produce(topic, [b"%d" % i for i in range(10)])
    for i in range(10):
        assert values(consumer, topic, i + 1, start=i) == [b"%d" % i]
        (link,) = links(consumer)
        if link is not None:
            link._socket.shutdown(2)


def poll_until_it_is_told(consumer):
    def poll():
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            consumer.poll(500)

    with pytest.raises(TransientClientError):
        poll()


@pytest.mark.budget(10)
def test_a_broker_that_is_restarted_is_read_on(breakable, opened):
    toolbox = KafkaToolbox(breakable.address)
    topic, consumer = toolbox.create_topic(), opened(breakable.address)
    toolbox.produce(topic, [b"%d" % i for i in range(1_000)])
    consumer.assign([PartitionRange(topic, 0, 0, 2_000)], headers=False)
    found = []

    def go_on(count):
        deadline = time.monotonic() + 60
        while len(found) < count and time.monotonic() < deadline:
            # Told as well while it starts.
            with contextlib.suppress(TransientClientError):
                found.extend(value for one in consumer.poll(500) for value in one.records["value"].to_pylist())

    go_on(1_000)
    breakable.kill()
    poll_until_it_is_told(consumer)
    breakable.start()
    toolbox.produce(topic, [b"%d" % i for i in range(1_000, 2_000)])
    go_on(2_000)
    assert found == [b"%d" % i for i in range(2_000)]


def test_every_time_and_size_arrives():
    """Also those that the connection has as well."""
    given = {"socket.timeout.ms": "1000", "receive.message.max.bytes": "2000000", "fetch.wait.max.ms": "7"}
    settings = FetchSettings.of({"bootstrap.servers": "127.0.0.1:1", **given}, asked_for=True)
    assert (settings.request_timeout_ms, settings.most_batch_bytes, settings.wait_ms) == (1_000, 2_000_000, 7)


@pytest.mark.budget(10)
def test_a_broker_that_does_not_answer_is_asked_again(breakable, opened):
    toolbox = KafkaToolbox(breakable.address)
    topic, consumer = toolbox.create_topic(), opened(breakable.address, socket_timeout_ms=1_000)
    toolbox.produce(topic, [b"1"])
    assert values(consumer, topic, 1) == [b"1"]
    consumer.assign([PartitionRange(topic, 0, 0, 2)], headers=False)
    assert [one.records.num_rows for one in consumer.poll(60_000)] == [1]
    os.kill(breakable.pid, signal.SIGSTOP)
    try:
        poll_until_it_is_told(consumer)
    finally:
        os.kill(breakable.pid, signal.SIGCONT)
    toolbox.produce(topic, [b"2"])
    assert values(consumer, topic, 2, start=1) == [b"2"]


def test_a_leader_that_can_not_be_reached_is_named(kafka, opened, monkeypatch):
    """As where the brokers advertise an address that leads nowhere from here."""
    topic, consumer = kafka.create_topic(), opened(client_id="nowhere")
    kafka.produce(topic, [b"v"])
    address = _pool.Connections.address
    monkeypatch.setattr(_pool.Connections, "address", lambda *_: ("127.0.0.1", 1))
    monkeypatch.setattr(_range_consumer, "BROKERS_DOWN_GRACE_SECONDS", 0.1)
    for _ in range(2):
        with pytest.raises(TransientClientError, match=r"broker \d+ at 127.0.0.1:1: .*refused"):
            read(consumer, topic, 1)
    monkeypatch.setattr(_pool.Connections, "address", address)
    assert values(consumer, topic, 1) == [b"v"]


def test_clients_share_what_they_ask_and_the_last_one_ends_it(kafka, opened):
    before = set(threading.enumerate())  # of other tests' clients, some of which are ending

    def threads():
        new = (thread for thread in threading.enumerate() if thread not in before)
        return {thread.name: thread for thread in new if "kafka" in thread.name}  # the process has others

    topic = kafka.create_topic()
    producer = open_producer({"bootstrap.servers": kafka.address, "client.id": "shared"}, "protocol")
    producer.produce(pa.record_batch({"value": [b"v"], "topic": [topic]}))
    producer.flush()
    consumer = opened(client_id="shared")
    assert values(consumer, topic, 1) == [b"v"]
    ours = threads()
    fetching = [name for name in ours if name.startswith("penstock-kafka-fetch")]
    assert sorted(ours) == ["kafka-io-shared", *fetching, "penstock-kafka-find"] and len(fetching) == 1
    producer.close()
    assert values(consumer, topic, 1) == [b"v"]
    consumer.close()
    for thread in ours.values():
        thread.join(60)
    assert not threads()
    assert all(entry.users for entry in _pool._shared._entries.values()), "the last user closes them"


def test_closing_does_not_wait_for_brokers(opened):
    consumer = opened("127.0.0.1:1")
    consumer.assign([PartitionRange("t", 0, 0, 1)], headers=False)
    finder = consumer._fetcher._finder
    consumer.close()
    assert finder.is_alive(), "it has been waited for"
    finder.join(60)
    assert not finder.is_alive()


@pytest.mark.parametrize(("owner", "method"), [(_channel.Channel, "_accept"), (_fetcher.Fetcher, "_find_leader")])
def test_an_error_of_ours_is_told_again_and_again(kafka, opened, monkeypatch, owner, method):
    monkeypatch.setattr(owner, method, lambda *_: 1 // 0)
    topic, consumer = kafka.create_topic(), opened(client_id=f"error-{method}")
    kafka.produce(topic, [b"v"])
    for _ in range(2):
        with pytest.raises(FatalError, match="ZeroDivisionError"):
            read(consumer, topic, 1)


def by_id(parts, tags=b"\0"):
    """An answer of version 13 for one topic; ``parts`` are (partition, error code, aborted, records)."""
    written = b"".join(
        struct.pack(">ihqqqB", partition, code, 9, 9, 0, 1 + len(aborted))
        + b"".join(struct.pack(">qq", *one) + tags for one in aborted)
        + struct.pack(">iB", -1, 1 + len(records))
        + records
        + tags
        for partition, code, aborted, records in parts
    )
    head = tags + struct.pack(">ihi", 250, 0, 0)
    return memoryview(head + b"\2" + bytes(range(16)) + bytes([1 + len(parts)]) + written + tags + tags)


@pytest.mark.parametrize("tags", [b"\0", b"\1\x81\1\3abc", b"\2\0\1x\1\0"])
def test_answers_to_fetches_by_id(tags):
    parts = [(0, 0, [(5, 1), (6, 2)], b"records"), (3, 100, [], b""), (4, 0, [(7, 1 << 40)], b"r")]
    found = fetched_parts(by_id(parts, tags), BY_ID)
    assert [(one.partition, one.error_code, list(one.aborted), bytes(one.records)) for one in found] == parts
    assert {one.topic for one in found} == {"AAECAwQFBgcICQoLDA0ODw"}
    assert held_back_ms(by_id(parts, tags), BY_ID) == 250


@pytest.mark.parametrize("newest", [11, 12, 13, 17])
def test_brokers_that_know_no_ids_are_asked_by_name(kafka, opened, monkeypatch, newest):
    asked = []
    request = _channel.fetch_request

    def seen(wanted, settings, version):
        asked.append(version)
        return request(wanted, settings, version)

    monkeypatch.setattr(_channel, "fetch_request", seen)
    monkeypatch.setattr(_channel.BrokerConnection, "newest_version", lambda *_: newest)
    topic = kafka.create_topic()
    kafka.produce(topic, [b"v"])
    assert values(opened(), topic, 1) == [b"v"]
    assert set(asked) == {13 if newest >= 13 else 11}


def test_an_answer_that_is_cut_off_is_told(kafka, opened, monkeypatch):
    topic, consumer = kafka.create_topic(), opened()
    kafka.produce(topic, [b"v"])
    monkeypatch.setattr(_channel, "fetched_parts", lambda answer, version: fetched_parts(answer[:30], version))
    with pytest.raises(FatalError, match="30 bytes"):
        read(consumer, topic, 1)


def test_records_that_do_not_fit_their_checksum_are_not_handed_over(kafka, opened, monkeypatch):
    topic, consumer = kafka.create_topic(), opened()
    kafka.produce(topic, [b"good"])

    def spoiled(answer, version):
        parts = fetched_parts(answer, version)
        for part in parts:
            if part.records:
                part.records[len(part.records) - 2] ^= 1
        return parts

    monkeypatch.setattr(_channel, "fetched_parts", spoiled)
    with pytest.raises((FatalError, DataLostError), match="checksum"):
        read(consumer, topic, 1)
    monkeypatch.undo()
    assert values(consumer, topic, 1) == [b"good"]
