"""Rows to Kafka's record batches and back, without a broker. What is written is also read by kafka-python's classes."""

from __future__ import annotations

import contextlib
import random
import shutil
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords

from fuzz.decoders.kafka import control_batch
from penstock_kafka.client import HEADERS_TYPE, RECORD_SCHEMA, native_problem

if native_problem() and not shutil.which("cc"):
    pytest.skip(native_problem(), allow_module_level=True)

from penstock_kafka.client.codec._compression import BatchChunks, compress, decompress
from penstock_kafka.client.codec._decoder import Aborted, Scan, decode, scan
from penstock_kafka.client.codec._encoder import RecordEncoder, Rows, Stop, Stopped, halves, stamp
from penstock_kafka.client.codec._library import library

TIMES = st.one_of(st.integers(1, 2**45), st.integers(1_700_000_000_000, 1_700_000_000_100))
#: Of any length up to 300, repeated: to draw every byte would take most of the time.
BYTES = st.builds(lambda some, times: some * times, st.binary(max_size=6), st.integers(0, 50))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | BYTES), max_size=3)
RECORDS = st.lists(st.tuples(st.none() | BYTES, st.none() | BYTES, TIMES, st.none() | HEADERS), min_size=1, max_size=40)


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
    data, attributes = compress(sealed.data, compression, level)
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
def test_what_is_compressed_can_be_decompressed(encoder, compression, value):
    (sealed,) = encoded(encoder, batch_of([(b"k%d" % i, value, 1_700_000_000_000 + i, None) for i in range(300)]))
    data, _ = compress(sealed.data, compression, None)
    assert decompress(data, compression, len(sealed.data)) == sealed.data


def test_a_compressed_batch_is_decoded(encoder):
    """The other codecs are read by a broker, in test_client_direct."""
    records = [(b"k%d" % i, b"value " * i, 1_700_000_000_000 + i, None) for i in range(300)]
    sealed = encoded(encoder, batch_of(records))[0]
    plain = len(sealed.data)
    assert decoded(sealed, "gzip", 5) == [(key, value, time, []) for key, value, time, _ in records]
    assert len(compress(sealed.data, "gzip", None)[0]) < plain / 2


def test_the_checksum_is_castagnolis_both_ways():
    checksum = library().penstock_crc32c
    # RFC 3720, appendix B.4.
    for text, expected in [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)]:
        assert checksum(text, len(text), 0) == checksum(text, len(text), 1) == expected


@given(text=st.binary(max_size=100), length=st.integers(0, 3_000))
def test_the_checksum_does_not_depend_on_the_processor(text, length):
    text = (text + random.Random(len(text)).randbytes(3_000))[:length]
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


# --- reading ---------------------------------------------------------------------------------------------------------

NOBODY = Aborted([])
TRANSACTIONAL, CONTROL = 0x10, 0x20


def fetched(groups, *, attributes=0, producer=7, first=0, compression="none"):
    """Batches one behind the other, as a leader keeps them."""
    data = b""
    for records in groups:
        encoder = RecordEncoder(1_000_000, 1_000_000, 8 << 20)
        encoder.set_topic("t", 1)
        (sealed,) = encoded(encoder, batch_of(records))
        encoder.close()
        batch, packing = compress(sealed.data, compression, None)
        stamp(batch, attributes=attributes | packing, producer_id=producer, epoch=0, sequence=0)
        struct.pack_into(">q", batch, 0, first)  # not a part of the checksum
        data += bytes(batch)
        first += sealed.records
    return data


def mark(kind, *, producer, offset):
    """The end of a transaction: 0 aborted, 1 committed."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    return fetched([[(key, value, 1, None)]], attributes=TRANSACTIONAL | CONTROL, producer=producer, first=offset)


def everything(data, start=0, end=2**62, aborted=NOBODY, *, headers=True, max_rows=50_000, max_bytes=8 << 20):
    rows, more = [], True
    while more:
        found = decode(data, aborted, start, end, headers=headers, max_rows=max_rows, max_bytes=max_bytes)
        if found.records is not None:
            found.records.validate(full=True)
            assert 0 < found.records.num_rows <= max_rows
            rows += found.records.to_pylist()
        assert found.next > start or not found.more
        start, more = found.next, found.more
    return rows, start


@given(groups=st.lists(RECORDS, min_size=1, max_size=4), data=st.data())
def test_any_range_of_any_batches(groups, data):
    expected = [record for records in groups for record in records]
    start = data.draw(st.integers(0, len(expected)))
    end = data.draw(st.integers(start, len(expected)))
    max_rows = data.draw(st.integers(1, 50))
    rows, following = everything(fetched(groups), start, end, max_rows=max_rows)
    assert [row["offset"] for row in rows] == list(range(start, end))
    assert following >= end
    for row, (key, value, time, headers) in zip(rows, expected[start:end], strict=True):
        assert (row["key"], row["value"], row["timestampType"]) == (key, value, 0)
        assert pa.scalar(row["timestamp"], pa.timestamp("ms", tz="UTC")).value == time
        assert row["headers"] == ([{"key": one, "value": two} for one, two in headers] if headers else None)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_decompressed(compression):
    groups = [[(None, b"value %d " % i * 5, 1, None) for i in range(count)] for count in (100, 1, 1_000)]
    data = fetched(groups, compression=compression)
    status, length, following = scan(data)
    assert (status, length, following) == (Scan.PLAIN if compression == "none" else Scan.PACKED, len(data), 1_101)
    parts = BatchChunks(memoryview(data))
    rows, _ = everything(parts.next(), headers=False)
    assert parts.is_done
    assert [row["value"] for row in rows] == [value for group in groups for _, value, _, _ in group]


def test_blocks_of_snappy_as_java_writes_them():
    (data,) = [fetched([[(None, b"v" * 50_000, 1, None)]])]
    records = data[61:]
    blocks = b"".join(
        struct.pack(">i", len(block)) + block
        for block in (pa.compress(records[at : at + 32_768], "snappy", asbytes=True) for at in range(0, 50_000, 32_768))
    )
    framed = bytearray(data[:61] + b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks)
    stamp(framed, attributes=2, producer_id=-1, epoch=-1, sequence=-1)
    assert scan(bytes(framed))[0] is Scan.PACKED
    assert everything(BatchChunks(memoryview(framed)).next())[0][0]["value"] == b"v" * 50_000


def test_compressed_batches_are_decompressed_a_few_at_a_time():
    groups = [[(None, b"v" * 10_000, 1, None)] * 10] * 5
    parts, sizes, following = BatchChunks(memoryview(fetched(groups, compression="zstd")), 150_000), [], 0
    while not parts.is_done:
        rows, following = everything(parts.next(), following)
        sizes.append(len(rows))
    assert sizes == [20, 20, 10]


def test_what_can_not_be_decompressed_is_said():
    data = bytearray(fetched([[(None, b"v" * 100, 1, None)]], compression="gzip"))
    data[70:] = bytes(len(data) - 70)
    with pytest.raises(ValueError, match="gzip"):
        BatchChunks(memoryview(data)).next()
    struct.pack_into(">h", data, 21, 7)
    with pytest.raises(ValueError, match="not known"):
        BatchChunks(memoryview(data)).next()


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_becomes_too_large_is_refused(compression):
    data = memoryview(fetched([[(None, b"v" * 900_000, 1, None)]], compression=compression))
    assert len(BatchChunks(data, most_bytes=1_100_000).next()) > 900_000
    with pytest.raises(ValueError, match=r"more than 500000 bytes .* set kafka.receive.message.max.bytes"):
        BatchChunks(data, most_bytes=500_000).next()


def test_a_key_of_a_header_that_is_not_utf_8_is_read_as_java_reads_it():
    data = bytearray(fetched([[(b"k", b"v", 1, [("name", b"one"), ("n", None)]), (b"k", b"v", 1, None)]]))
    at = data.index(b"name")
    data[at : at + 2] = b"\xff\xfe"
    stamp(data, attributes=0, producer_id=7, epoch=0, sequence=0)
    assert scan(bytes(data))[0] is Scan.PLAIN
    rows, _ = everything(bytes(data))
    assert rows[0]["headers"] == [{"key": "\ufffd\ufffdme", "value": b"one"}, {"key": "n", "value": None}]
    assert rows[1]["headers"] is None


@given(
    aborted=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 60)), max_size=40),
    batches=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["rows", "abort", "commit"])), max_size=20),
)
def test_transactions_that_were_aborted_are_left_out(aborted, batches):
    """As a list of every transaction does it, one after the other."""
    data, offset, expected, open_now, waiting = b"", 0, [], set(), sorted(aborted, key=lambda one: one[1])
    for producer, kind in batches:
        if kind == "rows":
            data += fetched([[(None, b"v", 1, None)]], attributes=0x10, producer=producer, first=offset)
        else:
            data += control_batch(offset, producer, 0 if kind == "abort" else 1)
        while waiting and waiting[0][1] <= offset:
            open_now.add(waiting.pop(0)[0])
        if kind == "rows" and producer not in open_now:
            expected.append(offset)
        if kind == "abort":
            open_now.discard(producer)
        offset += 1
    rows, following = everything(data, aborted=Aborted(aborted))
    assert [row["offset"] for row in rows] == expected and following == offset


def test_the_last_batch_may_be_cut_off():
    data = fetched([[(None, b"a", 1, None)], [(None, b"b", 1, None)]])
    whole = len(data) // 2
    for cut in (1, 30, whole - 1):
        assert scan(data[:-cut]) == (Scan.PLAIN, whole, 1)
    assert scan(data[: whole - 1])[1:] == (0, -1)


def with_transactions(compression):
    def of(producer, first, *values):
        records = [(None, value, 1, None) for value in values]
        return fetched([records], attributes=TRANSACTIONAL, producer=producer, first=first, compression=compression)

    data = (
        of(1, 0, b"aborted", b"too")
        + of(2, 2, b"committed")
        + fetched([[(None, b"plain", 1, None)]], first=3)
        + of(1, 4, b"aborted as well")
        + mark(0, producer=1, offset=5)
        + mark(1, producer=2, offset=6)
        + of(1, 7, b"committed later")
        + mark(1, producer=1, offset=8)
        + of(1, 9, b"aborted again")
        + mark(0, producer=1, offset=10)
    )
    return data, Aborted([(1, 9), (1, 0)]), [(2, b"committed"), (3, b"plain"), (7, b"committed later")]


def test_aborted_transactions_and_marks_are_left_out():
    data, aborted, expected = with_transactions("none")
    for start in range(11):
        rows, following = everything(data, start, 11, aborted)
        assert [(row["offset"], row["value"]) for row in rows] == [one for one in expected if one[0] >= start]
        assert following == 11
    # Who reads uncommitted records is told of no aborted ones.
    assert [row["offset"] for row in everything(data)[0]] == [0, 1, 2, 3, 4, 7, 9]


@pytest.mark.parametrize("chunk_bytes", [1, 20, 8 << 20])
def test_aborted_transactions_that_began_or_ended_in_an_earlier_part(chunk_bytes):
    data, aborted, expected = with_transactions("gzip")
    for start in range(11):
        parts, rows, following = BatchChunks(memoryview(data), chunk_bytes), [], start
        while not parts.is_done:
            found, following = everything(parts.next(), following, 11, aborted)
            rows += found
        assert [(row["offset"], row["value"]) for row in rows] == [one for one in expected if one[0] >= start]
        assert following == 11


def test_gaps_are_passed_over():
    data = fetched([[(None, b"a", 1, None)]], first=3) + fetched([[(None, b"b", 1, None)]], first=90)
    assert [row["offset"] for row in everything(data, 0, 91)[0]] == [3, 90]
    for end in (4, 10, 90):
        rows, following = everything(data, 0, end)
        assert [row["offset"] for row in rows] == [3]
        assert following >= end


def test_times_of_the_broker_and_none_at_all():
    data = bytearray(fetched([[(None, b"a", 1_000, None), (None, b"b", 2_000, None)]]))
    stamp(data, attributes=0x08, producer_id=-1, epoch=-1, sequence=-1)
    found = [(row["timestampType"], row["timestamp"].timestamp()) for row in everything(bytes(data))[0]]
    assert found == [(1, 2.0), (1, 2.0)]
    (row,) = everything(fetched([[(None, b"a", -1, None)]]))[0]
    assert (row["timestampType"], row["timestamp"]) == (-1, None)


def test_without_headers_there_is_no_column_for_them():
    data = fetched([[(None, b"a", 1, [("h", b"1")])]])
    found = decode(data, NOBODY, 0, 1, headers=False, max_rows=10, max_bytes=1_000)
    assert found.records.schema.names == RECORD_SCHEMA.names[:-1]


def test_batches_are_cut_by_bytes():
    data = fetched([[(None, b"x" * 100, 1, None)] * 50])
    found = decode(data, NOBODY, 0, 50, headers=False, max_rows=1_000, max_bytes=950)
    assert (found.records.num_rows, found.next, found.more) == (10, 10, True)


def test_a_wrong_checksum_and_an_old_format_are_seen():
    data = bytearray(fetched([[(None, b"a", 1, None)]]))
    data[-1] ^= 1
    assert scan(bytes(data))[0] is Scan.CORRUPT
    data[16] = 1
    assert scan(bytes(data))[0] is Scan.OLD_FORMAT
    # A message of theirs may be shorter than a batch's header.
    assert scan(bytes(data[:40]))[0] is Scan.OLD_FORMAT


@given(records=RECORDS, data=st.data())
def test_bytes_that_are_not_what_they_should_be_do_no_harm(records, data):
    spoiled = bytearray(fetched([records]))
    for _ in range(data.draw(st.integers(1, 4))):
        spoiled[data.draw(st.integers(57, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError, pa.ArrowInvalid, UnicodeDecodeError):
        everything(bytes(spoiled))
