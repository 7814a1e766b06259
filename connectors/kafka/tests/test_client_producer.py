"""Both producers write what they were given, where it was meant to go, and say what was refused."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock_kafka.client import (
    HEADERS_TYPE,
    DeliveryError,
    TransientClientError,
    native_problem,
    open_producer,
)
from penstock_kafka.dev import KafkaToolbox

HAS_NATIVE = not native_problem() or shutil.which("cc")
IMPLEMENTATIONS = ["protocol", "librdkafka"] if HAS_NATIVE else ["librdkafka"]


@pytest.fixture(params=["protocol", "librdkafka"])
def implementation(request):
    if request.param not in IMPLEMENTATIONS:
        pytest.skip(native_problem())
    return request.param


#: Waits, or memory, of the other library: its own affair.
only_native_by_default = pytest.mark.parametrize(
    "implementation",
    [
        "protocol",
        pytest.param("librdkafka", marks=pytest.mark.exhaustive("seconds for librdkafka's own affair")),
    ],
    indirect=True,
)


@pytest.fixture
def opened(kafka, implementation):
    """Makes a producer with more settings."""
    producers = []

    def make(**settings):
        config = {"bootstrap.servers": kafka.address, "linger.ms": "5"}
        config.update({name.replace("_", "."): str(value) for name, value in settings.items()})
        producers.append(open_producer(config, implementation))
        return producers[-1]

    yield make
    for producer in producers:
        producer.close()
        producer.close()


def records(topic, values, **columns):
    count = len(values)
    return pa.record_batch(
        {"value": pa.array(values, pa.binary()), "topic": pa.array([topic] * count, pa.string()), **columns}
    )


def send(producer, batch):
    producer.produce(batch)
    producer.flush()


STAMP = datetime(2024, 2, 29, 12, 30, 15, 250_000, tzinfo=timezone.utc)
STAMP_MS = int(STAMP.timestamp() * 1000)
HEADERS = [[("a", b"1"), ("a", None), ("", b"")], None, [], [("ü", b"\x00")]]


def test_every_combination_of_columns(kafka, opened):
    topic = kafka.create_topic(partitions=2)
    pairs = [one and [{"key": k, "value": v} for k, v in one] for one in HEADERS]
    optional = {
        "key": pa.array([b"k", None, b"", b"k"], pa.binary()),
        "partition": pa.array([1, None, -1, 0], pa.int32()),
        "timestamp": pa.array([STAMP, None, STAMP, STAMP], pa.timestamp("ms", tz="UTC")),
        "headers": pa.array(pairs, HEADERS_TYPE),
    }
    combinations = [names for count in range(5) for names in itertools.combinations(optional, count)]
    producer = opened()
    started = time.time() * 1000
    for names in combinations:
        values = ["/".join([*names, str(i)]).encode() for i in range(4)]
        send(producer, records(topic, values, **{name: optional[name] for name in names}))
    assert producer.failed == 0
    found = {record.value: record for record in kafka.read(topic)}
    assert len(found) == 4 * len(combinations)
    for names, i in itertools.product(combinations, range(4)):
        record = found["/".join([*names, str(i)]).encode()]
        assert record.key == ([b"k", None, b"", b"k"][i] if "key" in names else None)
        if "partition" in names and i in (0, 3):
            assert record.partition == (1 if i == 0 else 0)
        if "timestamp" in names and i != 1:
            assert record.timestamp == STAMP_MS
        else:
            assert started - 60_000 < record.timestamp < started + 60_000
        assert list(record.headers or []) == ((HEADERS[i] or []) if "headers" in names else [])


def test_null_and_empty_values(kafka, opened):
    topic = kafka.create_topic()
    values = [None, b"", b"v", None]
    producer = opened()
    producer.produce(records(topic, values))
    producer.produce(records(topic, [b"", b""]))
    send(producer, records(topic, [None, None]))
    assert [record.value for record in kafka.read(topic)] == [*values, b"", b"", None, None]


@pytest.mark.parametrize("kind", [pa.binary(), pa.string(), pa.large_binary(), pa.large_string()])
def test_slices_and_types_of_bytes(kafka, opened, kind):
    topic = kafka.create_topic()
    texts = [f"value-{i}" if i % 7 else None for i in range(100)]
    headers = [[{"key": f"h{i}", "value": b"%d" % i}] * (i % 3) for i in range(100)]
    batch = pa.record_batch(
        {
            "headers": pa.array(headers, HEADERS_TYPE),
            "extra": pa.array(range(100)),
            "topic": pa.array(["not-me"] * 50 + [topic] * 50, pa.large_string()),
            "key": pa.array(texts, pa.string()).cast(kind),
            "value": pa.array(texts, pa.string()).cast(kind),
            "timestamp": pa.array([None] * 60 + [STAMP_MS * 1000] * 40, pa.timestamp("us")),
        }
    )
    producer = opened()
    producer.produce(batch.slice(50, 20))
    producer.produce(batch.slice(50, 0))
    send(producer, batch.slice(90, 10))
    found = kafka.read(topic)
    expected = [*range(50, 70), *range(90, 100)]
    assert [record.value for record in found] == [texts[i] and texts[i].encode() for i in expected]
    assert [record.key for record in found] == [record.value for record in found]
    assert [list(record.headers or []) for record in found] == [[(f"h{i}", b"%d" % i)] * (i % 3) for i in expected]
    assert [record.timestamp == STAMP_MS for record in found] == [i >= 60 for i in expected]


def test_a_topic_per_row_keeps_the_order_within_each(kafka, opened):
    topics = [kafka.create_topic() for _ in range(3)]
    chosen = [topics[(i * i) % 3 if i < 5_000 else i // 2_000 % 3] for i in range(12_000)]
    batch = pa.record_batch({"value": [b"%d" % i for i in range(12_000)], "topic": chosen})
    producer = opened()
    send(producer, batch)
    for topic in topics:
        expected = [b"%d" % i for i, one in enumerate(chosen) if one == topic]
        assert [record.value for record in kafka.read(topic)] == expected


def test_murmur2_agrees_with_the_java_client(kafka, opened):
    hashes = {
        "21": -973932308,
        "foobar": -790332482,
        "a-little-bit-long-string": -985981536,
        "a-little-bit-longer-string": -1486304829,
        "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        "abc": 479470107,
    }
    topic = kafka.create_topic(partitions=7)
    producer = opened(partitioner="murmur2_random")
    send(producer, records(topic, [b"v"] * len(hashes), key=pa.array(list(hashes), pa.string())))
    found = {record.key.decode(): record.partition for record in kafka.read(topic)}
    assert found == {key: (hashed & 0x7FFFFFFF) % 7 for key, hashed in hashes.items()}


def test_missing_columns_and_null_topics_are_refused(opened):
    producer = opened()
    with pytest.raises(ValueError, match="topic"):
        producer.produce(pa.record_batch({"value": [b"v"]}))
    with pytest.raises(ValueError, match="null topic"):
        producer.produce(pa.record_batch({"value": [b"v"], "topic": pa.array([None], pa.string())}))


@pytest.mark.parametrize("refused_by", ["client", "broker"])
@pytest.mark.parametrize("with_headers", [False, True])
def test_a_record_that_is_too_large_is_named_and_counted(kafka, opened, implementation, refused_by, with_headers):
    topic = kafka.create_topic(max_message_bytes=50_000)
    size = 200_000 if refused_by == "broker" else 2_000_000
    columns = {"headers": pa.array([[{"key": "h", "value": b"v"}]] * 3, HEADERS_TYPE)} if with_headers else {}
    producer = opened()
    with pytest.raises(DeliveryError, match=f"{size} bytes.*{topic}") as raised:
        send(producer, records(topic, [b"first", b"x" * size, b"last"], **columns))
    assert raised.value.code == "MESSAGE_TOO_LARGE"
    # It is told again, so that it can't be overlooked; the others are not lost.
    with pytest.raises(DeliveryError, match=topic):
        producer.flush()
    assert producer.failed >= 1
    values = [record.value for record in kafka.read(topic)]
    # librdkafka gives up a batch of which the broker refuses one record.
    assert values == [b"first", b"last"] or (refused_by, implementation) == ("broker", "librdkafka")


def test_a_missing_partition_and_an_impossible_topic_are_refused(kafka, opened):
    topic = kafka.create_topic()
    missing = [{"partition": pa.array([number], pa.int32())} for number in (9, -7)]
    for target, columns in [*((topic, one) for one in missing), ("no spaces!", {})]:
        producer = opened()
        with pytest.raises(DeliveryError, match=target):
            send(producer, records(target, [b"v"], **columns))
        assert producer.failed == 1


@pytest.mark.parametrize("with_timestamps", [False, True])
def test_a_queue_smaller_than_the_batch_loses_nothing_and_keeps_order(kafka, opened, with_timestamps):
    topic = kafka.create_topic()
    count = 3_000
    columns = {"timestamp": pa.array([STAMP_MS] * count, pa.timestamp("ms", tz="UTC"))} if with_timestamps else {}
    producer = opened(queue_buffering_max_messages=100, linger_ms=0)
    send(producer, records(topic, [b"%d" % i for i in range(count)], **columns))
    assert [record.value for record in kafka.read(topic)] == [b"%d" % i for i in range(count)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks_are_the_users_choice(kafka, opened, acks):
    topic = kafka.create_topic()
    producer = opened(acks=acks)
    send(producer, records(topic, [b"v"]))
    deadline = time.monotonic() + 60
    while not kafka.read(topic):
        assert time.monotonic() < deadline


def test_unreachable_brokers_are_a_transient_error(implementation):
    producer = open_producer(
        {"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": "300", "queue.buffering.max.messages": "10"},
        implementation,
    )
    with pytest.raises(TransientClientError, match=r"delivery\.timeout\.ms"):
        # Far more than the queue holds: waiting for room must end, too.
        send(producer, records("t", [b"v"] * 5_000))
    producer.close()


def test_closing_drops_what_is_unsent_at_once(breakable):
    """Both clients at once: the broker is killed for it."""
    topic = KafkaToolbox(breakable.address).create_topic()
    patient = {"bootstrap.servers": breakable.address, "delivery.timeout.ms": "3600000"}
    producers = [open_producer(patient, one) for one in IMPLEMENTATIONS]
    for producer in producers:
        send(producer, records(topic, [b"v"]))
    breakable.kill()
    for producer in producers:
        producer.produce(records(topic, [b"v"] * 10_000))
        closing = threading.Thread(target=producer.close, daemon=True)
        closing.start()
        closing.join(60)
        assert not closing.is_alive()


def test_a_bad_setting_is_named_and_its_value_is_not(implementation):
    with pytest.raises(BadConfigurationError, match=r"compression\.") as raised:
        open_producer({"bootstrap.servers": "127.0.0.1:1", "compression.type": "hush"}, implementation)
    assert "hush" not in str(raised.value)


@only_native_by_default
def test_memory_stays_when_producing_again_and_again(kafka, opened):
    topic = kafka.create_topic(partitions=2)
    headers = pa.array([[{"key": "h", "value": b"v" * 100}]] * 1_000, HEADERS_TYPE)
    plain, full = records(topic, [b"x" * 2_000] * 1_000), records(topic, [b"x" * 2_000] * 1_000, headers=headers)

    def resident_mb():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096 / 1e6

    producer = opened(queue_buffering_max_kbytes=4096)
    for turn in range(100):
        producer.produce(full if turn % 3 == 0 else plain)
        if turn == 30:
            producer.flush()
            before = resident_mb()
    producer.flush()
    # 2 MB a turn: what is kept would show as 140.
    assert resident_mb() - before < 50
