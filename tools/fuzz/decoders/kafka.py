"""Kafka: what brokers answer, and record batches."""

from __future__ import annotations

import gzip
import ssl
import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import cache
from unittest import mock

import pyarrow as pa
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from penstock.errors import BadDataError
from penstock_kafka.client import HEADERS_TYPE
from penstock_kafka.client.broker import BrokerConnection
from penstock_kafka.client.codec import (
    Aborted,
    BatchChunks,
    RecordEncoder,
    Rows,
    Scan,
    Stop,
    Stopped,
    compress,
    decode,
    modernized,
    scan,
    stamp,
)
from penstock_kafka.client.consumer._fetch_protocol import BY_ID, fetched_parts, held_back_ms
from penstock_kafka.client.consumer._position import FetchedBatches, FetchPosition
from penstock_kafka.client.login import _oidc
from penstock_kafka.client.login._oidc import OidcTokenProvider, by_client_secret

_VERSION = 11
_RECORDS_AT = 61
_OFFSETS = range(1 << 40)
_ROWS = [
    {"key": b"k", "value": b"v" * 20, "headers": [{"key": "a", "value": b"1"}, {"key": "b", "value": None}]},
    {"key": None, "value": b"", "headers": None},
    {"key": b"", "value": None, "headers": [{"key": "", "value": b""}]},
    {"key": b"long" * 50, "value": b"x" * 300, "headers": None},
]


def batches() -> list[bytearray]:
    """Returns a plain batch, and one with many small records."""
    schema = pa.schema([("key", pa.binary()), ("value", pa.binary()), ("headers", HEADERS_TYPE)])
    found = []
    for rows in (_ROWS, [{"key": None, "value": b"%d" % n, "headers": None} for n in range(100)]):
        encoder, stopped = RecordEncoder(1 << 20, 1 << 20, 1 << 20), Stopped()
        encoder.set_topic("t", 1)
        columns = pa.RecordBatch.from_pylist(rows, schema)
        columns = columns.append_column("topic", pa.array(["t"] * len(rows)))
        times = pa.array([1_700_000_000_000 + n for n in range(len(rows))], pa.timestamp("ms", "UTC"))
        given = Rows(columns.append_column("timestamp", times))
        assert encoder.encode(given, 0, stopped) is Stop.DONE
        given.close()
        sealed = encoder.take()
        assert sealed is not None
        found.append(sealed.data)
        encoder.close()
    return found


def _stamped(data: bytearray, attributes: int, offset: int, producer: int = -1) -> bytes:
    stamp(data, attributes=attributes, producer_id=producer, epoch=0, sequence=0)
    struct.pack_into(">q", data, 0, offset)
    return bytes(data)


def control_batch(offset: int, producer: int, kind: int) -> bytes:
    """Returns the end of a transaction: ``kind`` 0 aborted it, 1 committed it."""
    key, value = struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 0)
    record = bytes([0, 0, 0, 2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    head = struct.pack(">qiibIhiqqqhii", offset, 0, 0, 2, 0, 0, 0, 0, 0, producer, 0, -1, 1)
    return _stamped(bytearray(head + bytes([2 * len(record)]) + record), 0x30, offset, producer)


def batch_seeds() -> list[bytes]:
    """Returns batches of every compression, in and after each other, some of transactions."""
    plain, many = batches()
    found = [_stamped(bytearray(plain), 0, 0), _stamped(bytearray(many), 0x08, 7)]
    for name in ("gzip", "snappy", "lz4", "zstd"):
        packed, attributes = compress(bytearray(many), name, None)
        found.append(_stamped(packed, attributes, 0))
    xerial = bytearray(many[:_RECORDS_AT] + b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1))
    block = pa.compress(bytes(many[_RECORDS_AT:]), "snappy", asbytes=True)
    found.append(_stamped(xerial + struct.pack(">i", len(block)) + block, 2, 0))
    of_transaction = _stamped(bytearray(plain), 0x10, 100, 5)
    found.append(of_transaction + control_batch(104, 5, 0) + _stamped(bytearray(plain), 0x10, 105, 5))
    return [*found, b"".join(found[:6])]


def _changed(at: int, layout: str, *values: int) -> bytes:
    """Returns a plain batch with other bytes from ``at`` on, and the checksum that fits."""
    data = bytearray(batch_seeds()[0])
    struct.pack_into(layout, data, at, *values)
    return repaired(bytes(data))


def _with_records(records: bytes, count: int, attributes: int = 0) -> bytes:
    head = bytearray(batches()[0][:_RECORDS_AT])
    struct.pack_into(">i", head, _RECORDS_AT - 4, count)
    return _stamped(head + records, attributes, 0)


def _record(*, offset: int = 0, headers: bytes = b"\0") -> bytes:
    body = bytes([0, 0, 2 * offset, 2, 107, 2, 118]) + headers
    return bytes([2 * len(body)]) + body


def batches_with_odd_headers() -> list[bytes]:
    """Returns a batch with a header whose key is not UTF-8: any client may write it."""
    return [_with_records(_record(headers=bytes([2, 4, 0xFF, 0xFE, 1])), 1)]


def refused_batches() -> list[bytes]:
    """Returns batches that no client writes."""
    snappy, framed = b"\xff\xff\xff\xff\x07ab", b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, -4)
    return [
        _changed(0, ">q", (1 << 63) - 2),  # an offset that overflows
        _changed(0, ">q", -5),
        _changed(23, ">i", -1),  # the last offset is before the first
        _changed(57, ">i", -1),  # a negative number of records
        _changed(57, ">i", 1),  # fewer records than there are
        _changed(57, ">i", 1 << 30),
        _with_records(_record(offset=1) + _record(offset=0), 2),  # offsets that descend
        _with_records(_record(offset=60), 1),  # an offset after the batch's last
        _with_records(_record(headers=b"\x01"), 1),  # a negative number of headers
        _with_records(_record(headers=b"\0\0"), 1),  # bytes after the last header
        _with_records(b"\x80" * 10, 1),  # a number that does not end
        _with_records(b"\x80" * 10 + b"\x01" + bytes(40), 1),
        _with_records(pa.compress(bytes(64 << 20), "zstd", asbytes=True), 1, 4),  # some kilobytes that become many
        _with_records(snappy, 1, 2),
        _with_records(framed, 1, 2),  # a block of a negative length, again and again
        _with_records(b"abc", 1, 7),
    ]


def repaired(data: bytes) -> bytes:
    """Makes lengths and checksums fit, of the first batches: most damage would be found by them, and nothing else."""
    fixed, at = bytearray(data), 0
    while at + _RECORDS_AT <= len(fixed):
        (length,) = struct.unpack_from(">i", fixed, at + 8)
        size = length + 12 if _RECORDS_AT <= length + 12 <= len(fixed) - at else len(fixed) - at
        fixed[at + 16] = 2
        batch = fixed[at : at + size]
        attributes, producer, epoch, sequence = (
            *struct.unpack_from(">h", batch, 21),
            *struct.unpack_from(">qhi", batch, 43),
        )
        stamp(batch, attributes=attributes, producer_id=producer, epoch=epoch, sequence=sequence)
        fixed[at : at + size] = batch
        at += size
    return bytes(fixed)


def read_batches(data: bytes) -> int:
    """Reads what was fetched of one partition, as the consumer does. Returns the number of records."""
    # The last byte says with what limits; the first ones are the batches.
    limits = data[-1] if data else 0
    with_headers, max_rows = bool(limits & 1), (1, 7, 1000, 16_384)[limits >> 1 & 3]
    status, length, _ = scan(data)
    if status not in (Scan.PLAIN, Scan.PACKED):
        raise BadDataError(f"topic 'topic' partition 0 can't be read from offset 0 on: {status.name}")
    if not length:
        return 0
    batches = FetchedBatches(
        memoryview(data)[:length], [(5, 100), (5, 90)], is_compressed=status is Scan.PACKED, most_bytes=8 << 20
    )
    position = FetchPosition(0, "topic", "", 0, _OFFSETS.stop, 0, _OFFSETS.start)
    position.fetched.append(batches)
    rows = 0
    for records in _all_of(position, with_headers, max_rows):
        records.validate(full=True)
        rows += records.num_rows
        records.drop_columns(["timestamp"]).to_pylist()  # Python has no year 10000
    return rows


def old_message_seeds() -> list[bytes]:
    """Returns messages of formats 0 and 1, plain and compressed."""
    found = []
    for form in (0, 1):
        for compression in (0, 1):
            builder = LegacyRecordBatchBuilder(magic=form, compression_type=compression, batch_size=1 << 20)
            for offset in range(5):
                builder.append(offset=offset, timestamp=1000 + offset, key=b"k" if offset % 2 else None, value=b"v")
            found.append(struct.pack(">q", 4 * compression) + bytes(builder.build())[8:])
    return found


def refused_old_messages() -> list[bytes]:
    """Returns messages that no client writes: compressed with what is not known, and with offsets that go back."""
    plain = old_message_seeds()[0]
    size = 12 + int.from_bytes(plain[8:12], "big")
    inner = b"".join(struct.pack(">q", offset) + plain[8:size] for offset in (1, 0))
    packed = gzip.compress(inner)
    body = bytes([0, 1]) + struct.pack(">ii", -1, len(packed)) + packed
    unknown = bytearray(plain[:size])
    unknown[17] = 7
    backwards = struct.pack(">qiI", 1, len(body) + 4, zlib.crc32(body)) + body
    return [repaired_messages(bytes(unknown)), backwards]


def repaired_messages(data: bytes) -> bytes:
    """Returns the messages with checksums that fit."""
    found, at = bytearray(data), 0
    while at + 18 <= len(found):
        end = at + 12 + int.from_bytes(found[at + 8 : at + 12], "big", signed=True)
        if not at + 18 <= end <= len(found):
            break
        struct.pack_into(">I", found, at + 12, zlib.crc32(found[at + 16 : end]))
        at = end
    return bytes(found)


def read_old_messages(data: bytes) -> int:
    """Reads messages of old formats, as the consumer does. Returns the number of records."""
    batches, length, _ = modernized(memoryview(data), 8 << 20)
    assert 0 <= length <= len(data)
    chunks, rows = BatchChunks(memoryview(batches)), 0
    while not chunks.is_done:
        chunk = chunks.next()
        decoded = decode(chunk, Aborted([]), 0, 1 << 62, headers=True, max_rows=1 << 20, max_bytes=1 << 28)
        if decoded.records is not None:
            decoded.records.validate(full=True)
            rows += decoded.records.num_rows
    return rows


def _all_of(position: FetchPosition, with_headers: bool, max_rows: int) -> Iterator[pa.RecordBatch]:
    while position.fetched:
        decoded, is_through = position.read_on(headers=with_headers, max_rows=max_rows, max_bytes=1 << 20)
        if decoded.records is not None:
            yield decoded.records
        if is_through:
            position.fetched.popleft()


def fetch_seeds() -> list[bytes]:
    """Returns answers to a fetch of three partitions, one with aborted transactions, one with an error."""
    records = batch_seeds()[0]
    parts = b"".join(
        struct.pack(">ihqqqi", number, code, 9, 9, 0, len(aborted))
        + b"".join(struct.pack(">qq", *one) for one in aborted)
        + struct.pack(">ii", -1, len(found))
        + found
        for number, code, aborted, found in ((0, 0, [(5, 1), (6, 2)], records), (1, 3, [], b""), (2, 0, [], records))
    )
    head = struct.pack(">ihi", 0, 0, 0)
    return [head + struct.pack(">ih", 1, 5) + b"topic" + struct.pack(">i", 3) + parts, head + struct.pack(">i", 0)]


def refused_fetches() -> list[bytes]:
    """Returns answers whose lengths are not theirs."""
    head = struct.pack(">ihi", 0, 0, 0)
    part = struct.pack(">ihqqq", 0, 0, 9, 9, 0)
    topic = head + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 1)
    return [
        head + struct.pack(">i", (1 << 31) - 1),
        head + struct.pack(">ih", (1 << 31) - 1, -32768) + bytes(100),  # backwards, again and again
        topic + part + struct.pack(">i", (1 << 31) - 1),
        topic + part + struct.pack(">iii", 0, -1, (1 << 31) - 1) + b"cut off",
    ]


def read_fetch(data: bytes) -> int:
    """Reads an answer to a fetch."""
    return sum(len(part.records) for part in fetched_parts(memoryview(data), _VERSION))


def fetch_by_id_seeds() -> list[bytes]:
    """Returns the answers of :func:`fetch_seeds` with topics' ids and tagged fields."""
    records = batch_seeds()[0]
    parts = b"".join(
        struct.pack(">ihqqqB", number, code, 9, 9, 0, 1 + len(aborted))
        + b"".join(struct.pack(">qq", *one) + tags for one, tags in aborted)
        + struct.pack(">i", -1)
        + _varint(len(found) + 1)
        + found
        + b"\0"
        for number, code, aborted, found in (
            (0, 0, [((5, 1), b"\0"), ((6, 2), b"\0")], records),
            (1, 100, [], b""),
            (2, 0, [((5, 1), b"\1\7\2ab"), ((6, 2), b"\0")], records),
        )
    )
    head = b"\0" + struct.pack(">ihi", 0, 0, 0)
    return [head + b"\2" + bytes(range(16)) + b"\4" + parts + b"\0\0", head + b"\1\0"]


def refused_fetches_by_id() -> list[bytes]:
    """Returns answers whose lengths are not theirs."""
    head, most = b"\0" + struct.pack(">ihi", 0, 0, 0), b"\xff\xff\xff\xff\x7f"
    part = struct.pack(">ihqqq", 0, 0, 9, 9, 0)
    topic = head + b"\2" + bytes(16) + b"\2"
    return [
        b"",
        b"\xff" * 20,  # a number that does not end
        most + bytes(100),  # tagged fields of the header, again and again
        b"\1\1" + most + bytes(20),
        head + most + bytes(100),
        topic + part + most + bytes(100),
        topic + part + b"\1" + struct.pack(">i", -1) + most + b"cut off",
    ]


def read_fetch_by_id(data: bytes) -> int:
    """Reads an answer to a fetch by topics' ids."""
    answer = memoryview(data)
    held_back_ms(answer, BY_ID)
    return sum(len(part.records) for part in fetched_parts(answer, BY_ID))


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _answers() -> Sequence[tuple[type, bytes]]:
    mechanisms = struct.pack(">hih5sh13s", 0, 2, 5, b"PLAIN", 13, b"SCRAM-SHA-256")
    token = struct.pack(">hhi3sq", 0, -1, 3, b"abc", 60_000)
    return (SaslHandshakeRequest, mechanisms), (SaslAuthenticateRequest, token)


def answer_seeds() -> list[bytes]:
    """Returns answers to what is asked when a connection is authenticated; the first byte says which."""
    return [bytes([number]) + answer for number, (_, answer) in enumerate(_answers())]


def refused_answers() -> list[bytes]:
    """Returns answers with more mechanisms than bytes, and with one that is not a text."""
    return [b"\0" + struct.pack(">hi", 0, (1 << 31) - 1), b"\0" + struct.pack(">hih2s", 0, 1, 2, b"\xff\xff"), b"\1\0"]


def read_answer(data: bytes) -> object:
    """Reads an answer that kafka-python's classes decode."""
    kinds = [SaslHandshakeRequest(mechanism="PLAIN", version=1), SaslAuthenticateRequest(auth_bytes=b"", version=1)]
    request = kinds[(data[0] if data else 0) % len(kinds)]
    request.with_header(correlation_id=1, client_id="penstock")
    return BrokerConnection.decoded(request, memoryview(data)[1:])


def token_seeds() -> list[bytes]:
    """Returns an answer with a token."""
    return [b'{"access_token": "abc", "expires_in": 60}']


def refused_tokens() -> list[bytes]:
    """Returns answers without a token, or with a time that is none."""
    return [b"[" * 100_000, b"[]", b"{}", b"5", b'{"access_token": "a", "expires_in": "soon"}']


@cache
def _context() -> ssl.SSLContext:
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def read_token(data: bytes) -> str:
    """Reads what a token address answers."""
    request = by_client_secret("http://localhost/token", "client", "secret", None)
    provider = OidcTokenProvider("http://localhost/token", request, context=_context())
    with mock.patch.object(_oidc, "ask_for_token", return_value=data):
        return provider.token().value
