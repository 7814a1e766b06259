"""Both consumers read exactly what was asked for, as what was written."""

from __future__ import annotations

import shutil
import threading
import time

import pyarrow as pa
import pytest

from penstock_kafka.client import RECORD_SCHEMA, PartitionRange, native_problem, open_consumer


@pytest.fixture(params=["protocol", "librdkafka"])
def implementation(request):
    if request.param == "protocol" and native_problem() and not shutil.which("cc"):
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
def consumer(kafka, implementation):
    opened = open_consumer({"bootstrap.servers": kafka.address}, implementation)
    yield opened
    opened.close()


def read(consumer, ranges, *, headers=False, seconds=60, max_rows=50_000):
    """Rows by range as lists of dicts, once every range is finished."""
    consumer.assign(ranges, headers=headers)
    return collect(consumer, ranges, seconds=seconds, max_rows=max_rows)


def collect(consumer, ranges, *, seconds=60, max_rows=50_000):
    rows = [[] for _ in ranges]
    finished = set()
    deadline = time.monotonic() + seconds
    while len(finished) < len(ranges):
        assert time.monotonic() < deadline, f"only {sorted(finished)} of {len(ranges)} ranges finished"
        for fetched in consumer.poll(500, max_rows):
            assert fetched.range_index not in finished, "a finished range goes on"
            if fetched.records is not None:
                fetched.records.validate(full=True)
                assert 0 < fetched.records.num_rows <= max_rows
                rows[fetched.range_index] += fetched.records.to_pylist()
            if fetched.finished:
                finished.add(fetched.range_index)
    return rows


def offsets(rows):
    return [row["offset"] for row in rows]


def numbered(count, partition=0, prefix=""):
    return [{"value": f"{prefix}{i}", "key": f"k{i}", "partition": partition} for i in range(count)]


def test_exact_ranges_of_several_partitions(kafka, consumer):
    topic = kafka.create_topic(partitions=3)
    other = kafka.create_topic()
    for partition in range(3):
        kafka.produce(topic, numbered(100, partition, f"{partition}-"))
    kafka.produce(other, numbered(50, prefix="other-"))
    ranges = [
        PartitionRange(topic, 0, 0, 100),
        PartitionRange(topic, 2, 10, 11),
        PartitionRange(other, 0, 20, 50),
        PartitionRange(topic, 1, 7, 93),
    ]
    rows = read(consumer, ranges)
    assert [offsets(found) for found in rows] == [list(range(one.start, one.end)) for one in ranges]
    assert rows[1] == [{**rows[1][0], "key": b"k10", "value": b"2-10", "offset": 10, "timestampType": 0}]
    assert {row["value"] for row in rows[2]} == {b"other-%d" % i for i in range(20, 50)}


def test_empty_ranges_finish_at_once_and_need_no_broker(implementation):
    consumer = open_consumer({"bootstrap.servers": "127.0.0.1:1"}, implementation)
    try:
        assert read(consumer, [PartitionRange("t", 0, 5, 5), PartitionRange("t", 1, 0, 0)]) == [[], []]
        assert consumer.poll(0) == []
    finally:
        consumer.close()


def test_a_range_that_runs_backwards_is_refused(consumer):
    with pytest.raises(ValueError, match="not a range"):
        consumer.assign([PartitionRange("t", 0, 5, 4)], headers=False)


def test_several_ranges_of_one_partition(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(300))
    ranges = [PartitionRange(topic, 0, *one) for one in [(100, 200), (0, 100), (200, 200), (250, 300), (50, 60)]]
    rows = read(consumer, ranges)
    assert [offsets(found) for found in rows] == [list(range(one.start, one.end)) for one in ranges]


def test_the_schema_has_headers_only_if_asked_for(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, [{"value": "v", "headers": [("h", b"1")]}])
    for headers in (False, True):
        consumer.assign([PartitionRange(topic, 0, 0, 1)], headers=headers)
        (fetched,) = consumer.poll(60_000)
        names = RECORD_SCHEMA.names if headers else RECORD_SCHEMA.names[:-1]
        assert fetched.records.schema == pa.schema([RECORD_SCHEMA.field(name) for name in names])


def test_headers_keep_order_duplicates_nulls_and_empty_values(kafka, consumer):
    topic = kafka.create_topic()
    written = [
        [("a", b"1"), ("b", None), ("a", b"2"), ("", b""), ("ключ", b"\x00\xff")],
        [],
        None,
        [("last", b"x" * 1000)],
    ]
    kafka.produce(topic, [{"value": str(i), **({"headers": h} if h else {})} for i, h in enumerate(written)])
    (rows,) = read(consumer, [PartitionRange(topic, 0, 0, 4)], headers=True)
    found = [row["headers"] and [(one["key"], one["value"]) for one in row["headers"]] for row in rows]
    assert found == [written[0], None, None, written[3]]


def test_null_and_empty_keys_and_values_differ(kafka, consumer):
    topic = kafka.create_topic()
    pairs = [(None, b"v"), (b"k", None), (b"", b""), (None, None), (b"\x00", b"\xff")]
    kafka.produce(topic, [{"key": key, "value": value} for key, value in pairs])
    (rows,) = read(consumer, [PartitionRange(topic, 0, 0, len(pairs))])
    assert [(row["key"], row["value"]) for row in rows] == pairs


@pytest.mark.parametrize(("kind", "code"), [("CreateTime", 0), ("LogAppendTime", 1)])
def test_timestamps_and_their_type(kafka, consumer, kind, code):
    topic = kafka.create_topic(message_timestamp_type=kind)
    before = int(time.time() * 1000) - 60_000
    kafka.produce(topic, [{"value": "v", "timestamp": before}])
    (rows,) = read(consumer, [PartitionRange(topic, 0, 0, 1)])
    assert rows[0]["timestampType"] == code
    age_ms = rows[0]["timestamp"].timestamp() * 1000 - before
    assert age_ms == pytest.approx(0, abs=1) if kind == "CreateTime" else age_ms > 30_000


def test_committed_reads_skip_aborted_records_and_end_behind_control_records(kafka, implementation):
    topic = kafka.create_topic()
    kafka.produce_transaction(topic, numbered(5, prefix="first-"))
    kafka.produce_transaction(topic, numbered(5, prefix="aborted-"), commit=False)
    kafka.produce_transaction(topic, numbered(5, prefix="second-"))
    kafka.produce_transaction(topic, numbered(5, prefix="late-aborted-"), commit=False)
    end = kafka.end_offsets(topic)[0]
    assert end == 24
    committed = [0, 1, 2, 3, 4, *range(12, 17)]
    everything = [*range(0, 5), *range(6, 11), *range(12, 17), *range(18, 23)]
    for isolation, expected in [("read_committed", committed), ("read_uncommitted", everything)]:
        consumer = open_consumer({"bootstrap.servers": kafka.address, "isolation.level": isolation}, implementation)
        # Ends: behind the last control record, on one, behind records that are aborted, in the gap only.
        for start, stop in [(0, end), (0, 12), (0, 11), (5, 6), (17, end)]:
            (rows,) = read(consumer, [PartitionRange(topic, 0, start, stop)])
            assert offsets(rows) == [offset for offset in expected if start <= offset < stop], (isolation, start, stop)
        consumer.close()


@only_native_by_default
def test_assigning_anew_leaves_nothing_of_before(kafka, consumer):
    topics = [kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)]
    for topic in topics:
        for partition in range(2):
            kafka.produce(topic, numbered(2_000, partition, f"{topic}/{partition}/"))
    for turn in range(12):
        topic, start = topics[turn % 3 > 0], 100 * turn
        wanted = [PartitionRange(topic, partition, start, start + 900) for partition in range(2)]
        if turn % 2:
            # Left in the middle, with much in the client's queue.
            consumer.assign([PartitionRange(topic, p, 0, 2_000) for p in range(2)], headers=False)
            consumer.poll(5_000, 10)
        rows = read(consumer, wanted)
        for one, found in zip(wanted, rows, strict=True):
            assert offsets(found) == list(range(one.start, one.end))
            assert found[0]["value"] == f"{topic}/{one.partition}/{start}".encode()
    consumer.assign([], headers=False)
    assert consumer.poll(200) == []


@only_native_by_default
def test_reading_again_soon_after_does_not_stall(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(5_000))
    read(consumer, [PartitionRange(topic, 0, 0, 10)])
    took = []
    for turn in range(15):
        started = time.monotonic()
        read(consumer, [PartitionRange(topic, 0, turn, turn + 10)])
        took.append(time.monotonic() - started)
    assert min(took) < 0.8, took  # a stall takes a second, and comes every time


def test_a_range_waits_for_records_that_are_not_there_yet(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(3))
    consumer.assign([PartitionRange(topic, 0, 0, 5)], headers=False)
    (first,) = consumer.poll(60_000)
    assert (first.finished, first.records["offset"].to_pylist()) == (False, [0, 1, 2])
    assert consumer.poll(100) == []
    kafka.produce(topic, numbered(2))
    (fetched,) = consumer.poll(60_000)
    assert (fetched.finished, fetched.records["offset"].to_pylist()) in [(False, [3]), (True, [3, 4])]


def test_wake_up_ends_a_poll_from_another_thread(kafka, consumer):
    topic = kafka.create_topic()
    consumer.assign([PartitionRange(topic, 0, 0, 1)], headers=False)
    for delay in (0.1, 0.0):
        waker = threading.Timer(delay, consumer.wake_up)
        waker.start()
        if delay == 0:
            waker.join()
        started = time.monotonic()
        assert consumer.poll(120_000) == []
        assert time.monotonic() - started < 119
    kafka.produce(topic, [b"v"])
    assert offsets(collect(consumer, [0])[0]) == [0]


def test_large_records_and_batches_cut_by_bytes(kafka, implementation):
    topic = kafka.create_topic(max_message_bytes=8_000_000)
    values = [bytes([i]) * (3 << 20) for i in range(3)]
    kafka.produce(topic, values, message_max_bytes=8_000_000)
    kafka.produce(topic, [b"y" * 100_000] * 60)
    consumer = open_consumer({"bootstrap.servers": kafka.address}, implementation)
    wanted = [PartitionRange(topic, 0, 0, 63)]
    consumer.assign(wanted, headers=False)
    sizes, found, finished = [], [], False
    while not finished:
        for fetched in consumer.poll(60_000):
            sizes.append(sum(map(len, fetched.records["value"].to_pylist())))
            found += fetched.records["value"].to_pylist()
            finished = fetched.finished
    consumer.close()
    assert found == values + [b"y" * 100_000] * 60
    # 1.75 MiB and the record that went over it (or, in Python, the few that were taken together with it).
    assert max(sizes) <= (12 << 20) and len(sizes) >= 2


def test_batches_are_cut_by_rows(kafka, consumer):
    topic = kafka.create_topic(partitions=2)
    for partition in range(2):
        kafka.produce(topic, numbered(500, partition))
    rows = read(consumer, [PartitionRange(topic, p, 0, 500) for p in range(2)], max_rows=64)
    assert [offsets(found) for found in rows] == [list(range(500))] * 2


@only_native_by_default
def test_memory_stays_when_polling_again_and_again(kafka, consumer):
    topic = kafka.create_topic()
    kafka.produce(topic, [{"value": b"x" * 2_000, "headers": [("h", b"v" * 100)]} for _ in range(2_000)])

    def resident_mb():
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * 4096 / 1e6

    for turn in range(40):
        consumer.assign([PartitionRange(topic, 0, 0, 2_000)], headers=turn % 2 == 0)
        count, finished = 0, False
        while not finished:
            for fetched in consumer.poll(60_000):
                count += fetched.records.num_rows
                finished = fetched.finished
        assert count == 2_000
        if turn == 10:
            before = resident_mb()
    # Each turn hands over 4 MB: what is kept would show as 120.
    assert resident_mb() - before < 50


def test_batches_outlive_their_consumer(kafka, implementation):
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(100))
    consumer = open_consumer({"bootstrap.servers": kafka.address}, implementation)
    consumer.assign([PartitionRange(topic, 0, 0, 100)], headers=False)
    (fetched,) = consumer.poll(60_000)
    column = fetched.records.column(1)
    del fetched
    consumer.assign([], headers=False)
    consumer.close()
    consumer.close()
    consumer.wake_up()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll(0)
    assert column.to_pylist() == [b"%d" % i for i in range(100)]
