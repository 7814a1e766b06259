"""Records of the message formats before Kafka 0.11, as brokers before 4.0 may hold them."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa
import pytest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from penstock_kafka.client import PartitionRange, open_consumer
from penstock_kafka.client.codec import Aborted, BatchChunks, decode, modernized, scan

MOST = 1 << 20
FORMATS = {"0.9.0": 0, "0.10.2": 1}
OLD_BROKER = pytest.mark.exhaustive("a broker of Kafka 2.8; without one, test_messages_of_another_library is there")


def built(form, compression, records):
    builder = LegacyRecordBatchBuilder(magic=form, compression_type=compression, batch_size=1 << 20)
    for offset, (time_ms, key, value) in enumerate(records):
        builder.append(offset=offset, timestamp=time_ms, key=key, value=value)
    return bytes(builder.build())


def rows_of(data, start=0):
    chunks, found = BatchChunks(memoryview(data)), []
    while not chunks.is_done:
        decoded = decode(chunks.next(), Aborted([]), start, 1 << 60, headers=False, max_rows=1 << 20, max_bytes=1 << 30)
        found += [] if decoded.records is None else decoded.records.to_pylist()
    return [(row["offset"], row["key"], row["value"], row["timestamp"]) for row in found]


RECORDS = [(1000 + 7 * number, b"k%d" % number if number % 3 else None, b"v" * number) for number in range(200)]
RECORDS[5] = (900, b"k", None)


@pytest.mark.parametrize("compression", [0, 1])
@pytest.mark.parametrize("form", [0, 1])
def test_messages_of_another_library(form, compression):
    data = built(form, compression, RECORDS)
    if compression:  # the library leaves a compressed message's own offset to the broker
        data = with_offset(data, 199)
    batches, length, following = modernized(memoryview(data), MOST)
    assert length == len(data)
    rows = rows_of(batches)
    assert [row[1:3] for row in rows] == [record[1:] for record in RECORDS]
    times = [pa.scalar(record[0], pa.timestamp("ms", "UTC")).as_py() if form else None for record in RECORDS]
    assert [row[3] for row in rows] == times
    assert [row[0] for row in rows] == list(range(200)) and following == 200
    assert rows_of(batches, start=150) == rows[150:]


def with_offset(data, offset):
    return struct.pack(">q", offset) + data[8:]


def test_offsets_of_compressed_messages():
    old, new = (with_offset(built(form, 1, RECORDS[:10]), 109) for form in (0, 1))
    assert [row[0] for row in rows_of(modernized(memoryview(old), MOST)[0])] == list(range(10)), "their own"
    assert [row[0] for row in rows_of(modernized(memoryview(new), MOST)[0])] == list(range(100, 110))
    assert modernized(memoryview(new), MOST)[2] == 110


def test_a_message_that_is_cut_off_is_left_for_the_next_fetch():
    data = built(1, 0, RECORDS[:3])
    for cut in range(1, 30):
        batches, length, following = modernized(memoryview(data)[:-cut], MOST)
        assert following == 2 and len(rows_of(batches)) == 2 and length < len(data)


def test_what_is_damaged_is_refused():
    data = bytearray(built(1, 1, RECORDS[:3]))
    data[-1] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        modernized(memoryview(bytes(data)), MOST)
    (size,) = struct.unpack_from(">i", data, 8)
    nested = data[:16] + data[16:18]
    body = bytes(nested[16:18]) + struct.pack(">qii", 0, -1, 4) + b"abcd"
    message = struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body
    with pytest.raises(ValueError, match="decompress"):
        modernized(memoryview(message), MOST)
    assert size > 0


@OLD_BROKER
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("version", FORMATS)
@pytest.mark.parametrize("stamps", ["CreateTime", "LogAppendTime"])
def test_a_topic_of_an_old_format(old_kafka, version, compression, stamps):
    """Through both clients, beside what confluent-kafka's consumer reads; and again from the middle."""
    topic = old_kafka.create_topic(message_format_version=version, message_timestamp_type=stamps)
    records = [{"key": f"k{n}", "value": f"value {n} " * 20, "timestamp": 10_000 + n} for n in range(300)]
    records[7] = {"value": "without a key"}
    old_kafka.produce(topic, records, compression_type=compression, linger_ms=50)
    expected = [(one.offset, one.key, one.value) for one in old_kafka.read(topic)]
    assert len(expected) == 300
    for start in (0, 137):
        wanted = PartitionRange(topic, 0, start, 300)
        mine, other = (read(old_kafka.address, client, wanted) for client in ("protocol", "librdkafka"))
        assert [(row["offset"], row["key"], row["value"]) for row in mine] == expected[start:]
        assert mine == other


def read(address, client, wanted):
    consumer, rows, is_finished = open_consumer({"bootstrap.servers": address}, client), [], False
    consumer.assign([wanted], headers=False)
    while not is_finished:
        for fetched in consumer.poll(10_000):
            rows += [] if fetched.records is None else fetched.records.to_pylist()
            is_finished = fetched.finished
    consumer.close()
    return rows


def test_the_fetched_bytes_of_a_new_batch_are_told_from_an_old_one():
    assert scan(built(1, 0, RECORDS[:3]))[0].name == "OLD_FORMAT"
