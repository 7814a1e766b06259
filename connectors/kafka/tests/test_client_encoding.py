"""Rows as Kafka's record batches, read back with another implementation (kafka-python's), without a broker."""

from __future__ import annotations

import shutil

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from penstock_kafka.client import HEADERS_TYPE, native_problem

if native_problem() and not shutil.which("cc"):
    pytest.skip(native_problem(), allow_module_level=True)

from penstock_kafka.client.direct._packing import packed, unpacked
from penstock_kafka.client.native._encoder import RecordEncoder, Rows, Stop, Stopped, halves, stamp
from penstock_kafka.client.native._library import library

TIMES = st.one_of(st.integers(1, 2**45), st.integers(1_700_000_000_000, 1_700_000_000_100))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=200)), max_size=3)
RECORDS = st.lists(
    st.tuples(st.none() | st.binary(max_size=300), st.none() | st.binary(max_size=300), TIMES, st.none() | HEADERS),
    min_size=1,
    max_size=40,
)


def batch_of(records, topic="t"):
    keys, values, times, headers = zip(*records, strict=True)
    return pa.record_batch(
        {
            "key": pa.array(keys, pa.binary()),
            "value": pa.array(values, pa.binary()),
            "topic": [topic] * len(records),
            "timestamp": pa.array(times, pa.timestamp("ms", tz="UTC")),
            "headers": pa.array(
                [one and [{"key": key, "value": value} for key, value in one] for one in headers], HEADERS_TYPE
            ),
        }
    )


def encoded(encoder, batch):
    """All batches, in the order in which they were taken."""
    rows, stopped, row, taken = Rows(batch), Stopped(), 0, []
    try:
        while (why := encoder.encode(rows, row, stopped)) is not Stop.DONE:
            assert why in (Stop.BATCH_FULL, Stop.ALL_FULL)
            taken.append(encoder.take(stopped.topic, stopped.partition) if why is Stop.BATCH_FULL else encoder.take())
            row = stopped.row
        while sealed := encoder.take():
            taken.append(sealed)
        return taken
    finally:
        rows.close()


def decoded(sealed, compression="none", level=None):
    data, attributes = packed(sealed.data, compression, level)
    stamp(data, attributes=attributes, producer_id=77, epoch=3, sequence=2**31 - 1)
    (batch,) = iter_batches(bytes(data))
    assert batch.validate_crc()
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 3, 2**31 - 1)
    found = list(batch)
    assert [record.offset for record in found] == list(range(sealed.records))
    assert batch.max_timestamp == max(record.timestamp for record in found)
    return [(record.key, record.value, record.timestamp, list(record.headers)) for record in found]


def iter_batches(data):
    records = MemoryRecords(data)
    while batch := records.next_batch():
        yield batch


@pytest.fixture
def encoder():
    made = RecordEncoder(1_000_000, 1_000_000, 8 << 20)
    made.set_topic("t", 1)
    yield made
    made.close()
    made.close()


@given(records=RECORDS, skipped=st.integers(0, 3))
def test_what_is_encoded_is_decoded(records, skipped):
    encoder = RecordEncoder(1_000_000, 1_000_000, 8 << 20)
    encoder.set_topic("t", 1)
    try:
        (sealed,) = encoded(encoder, batch_of([*records[:1] * skipped, *records]).slice(skipped))
        expected = [(key, value, time, headers or []) for key, value, time, headers in records]
        assert decoded(sealed) == expected
        assert sealed.largest == max(len(key or b"") + len(value or b"") for key, value, _, _ in records)
    finally:
        encoder.close()


@given(records=RECORDS.filter(lambda records: len(records) > 1))
def test_two_halves_are_the_whole(records):
    encoder = RecordEncoder(1_000_000, 1_000_000, 8 << 20)
    encoder.set_topic("t", 1)
    try:
        (sealed,) = encoded(encoder, batch_of(records))
        first, second = halves(sealed)
        assert abs(first.records - second.records) < 2
        assert decoded(first) + decoded(second) == decoded(sealed)
        assert max(first.largest, second.largest) == sealed.largest
    finally:
        encoder.close()


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("value", [b"value " * 9, b""])
def test_what_is_packed_is_unpacked(encoder, compression, value):
    (sealed,) = encoded(encoder, batch_of([(b"k%d" % i, value, 1_700_000_000_000 + i, None) for i in range(300)]))
    data, _ = packed(sealed.data, compression, None)
    assert unpacked(data, compression, len(sealed.data)) == sealed.data


def test_a_compressed_batch_is_decoded(encoder):
    """The other codecs are read by a broker, in test_client_direct."""
    records = [(b"k%d" % i, b"value " * i, 1_700_000_000_000 + i, None) for i in range(300)]
    sealed = encoded(encoder, batch_of(records))[0]
    plain = len(sealed.data)
    assert decoded(sealed, "gzip", 5) == [(key, value, time, []) for key, value, time, _ in records]
    assert len(packed(sealed.data, "gzip", None)[0]) < plain / 2


def test_the_checksum_is_castagnolis_both_ways():
    checksum = library().penstock_crc32c
    # RFC 3720, appendix B.4.
    for text, expected in [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)]:
        assert checksum(text, len(text), 0) == checksum(text, len(text), 1) == expected


@given(text=st.binary(max_size=100))
def test_the_checksum_does_not_depend_on_the_processor(text):
    assert library().penstock_crc32c(text, len(text), 0) == library().penstock_crc32c(text, len(text), 1)


def test_batches_stay_below_their_size_and_keep_order(encoder):
    small = RecordEncoder(10_000, 1_000_000, 8 << 20)
    small.set_topic("t", 1)
    records = [(None, b"%05d" % i * (1 + i % 50), 1_700_000_000_000, None) for i in range(3_000)]
    taken = encoded(small, batch_of(records))
    small.close()
    assert max(len(sealed.data) for sealed in taken) <= 10_000
    assert [value for sealed in taken for _, value, _, _ in decoded(sealed)] == [value for _, value, _, _ in records]


def test_a_record_larger_than_a_batch_has_one_of_its_own():
    encoder = RecordEncoder(1_000, 1_000_000, 8 << 20)
    encoder.set_topic("t", 1)
    records = [(None, b"x" * size, 1_700_000_000_000, None) for size in (10, 5_000, 10)]
    assert [sealed.records for sealed in encoded(encoder, batch_of(records))] == [1, 1, 1]
    encoder.close()


def test_open_batches_are_bounded_together():
    encoder = RecordEncoder(1_000_000, 1_000_000, 64 << 10)
    encoder.set_topic("t", 100)
    rows, stopped = Rows(batch_of([(b"%d" % i, b"x" * 1_000, 1, None) for i in range(1_000)])), Stopped()
    assert encoder.encode(rows, 0, stopped) is Stop.ALL_FULL
    assert 0 < encoder.bytes <= 64 << 10
    rows.close()
    while encoder.take():
        pass
    assert encoder.bytes == 0
    encoder.close()


def test_records_without_a_key_are_spread_evenly(encoder):
    encoder.set_topic("wide", 4)
    count = 20_000
    batch = pa.record_batch({"value": [b"x" * 100] * count, "topic": ["wide"] * count})
    per_partition = [0] * 4
    for sealed in encoded(encoder, batch):
        per_partition[sealed.partition] += sealed.records
    assert sum(per_partition) == count
    assert max(per_partition) < 1.2 * min(per_partition)


def test_why_a_row_is_not_encoded(encoder):
    def why(topic, **columns):
        rows, stopped = Rows(pa.record_batch({"value": [b"v" * 10], "topic": [topic], **columns})), Stopped()
        try:
            return encoder.encode(rows, 0, stopped), stopped.topic, stopped.partition, stopped.size
        finally:
            rows.close()

    assert why("new") == (Stop.TOPIC_UNKNOWN, -1, -1, 10)
    encoder.set_topic("bad", 0)
    assert why("bad")[0] is Stop.TOPIC_REFUSED
    assert why("t", partition=pa.array([1], pa.int32())) == (Stop.PARTITION_UNKNOWN, 0, 1, 10)
    encoder.set_topic("t", 2)
    assert why("t", partition=pa.array([1], pa.int32()))[0] is Stop.DONE
    assert why("t", value=[b"v" * 1_000_001])[0] is Stop.RECORD_TOO_LARGE
    assert encoder.name_of(1) == "bad"
