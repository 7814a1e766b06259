"""Messages of Kafka's formats 0 and 1, before 0.11, as batches of format 2, which the compiled part decodes.

Brokers before 4.0 keep them: of topics whose ``message.format.version`` is below 0.11, and in logs from that time. They
are few enough that a loop in Python will do. Fields, big endian: offset (8 bytes), size (4), CRC-32 of the rest (4),
format (1), attributes (1), in format 1 milliseconds since 1970 (8), key and value (each a length of 4 bytes, -1 for
null, and the bytes). A message whose attributes name a compression has others as its value: with their own offsets in
format 0, and in format 1 with offsets that count from the first; there the last one's is the message's own.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

from penstock_kafka.client.codec._compression import decompressed

__all__ = ["modernized"]

_HEAD = struct.Struct(">qiIbb")
_CODEC, _LOG_APPEND_TIME, _LZ4 = 0x07, 0x08, 3
_NO_TIME = -1
#: A batch of format 2 up to its records. Of a producer without an identity; its checksum is not looked at.
_BATCH = struct.Struct(">qiibIhiqqqhii")
#: Records of one batch, at most.
_MOST_RECORDS = 10_000


@dataclass(frozen=True, slots=True)
class _Message:
    offset: int
    format: int
    attributes: int
    time_ms: int
    key: bytes | None
    value: bytes | None


def modernized(data: memoryview, most_bytes: int) -> tuple[bytes, int, int]:
    """Returns batches with the old messages that ``data`` begins with, how long these are, and the offset after them.

    That offset is -1 if there is none. ``most_bytes``: of what a message becomes when it is decompressed. Raises
    ValueError for what is damaged.
    """
    parts: list[bytes] = []
    length, following = 0, -1
    for message, length in _messages(data, partial=True):  # noqa: B007 - it is returned
        inner = _unpacked(message, most_bytes)
        parts += [
            _batch(inner[start : start + _MOST_RECORDS], message) for start in range(0, len(inner), _MOST_RECORDS)
        ]
        following = message.offset + 1
    return b"".join(parts), length, following


def _messages(data: memoryview, *, partial: bool) -> Iterator[tuple[_Message, int]]:
    """Yields messages, and where each ends. ``partial``: the last may be cut off, and newer ones may follow."""
    at = 0
    while at + _HEAD.size <= len(data):
        offset, size, checksum, form, attributes = _HEAD.unpack_from(data, at)
        end = at + 12 + size
        if partial and (form not in (0, 1) or end > len(data)):
            return
        if form not in (0, 1) or size < _HEAD.size - 12 or end > len(data):
            raise ValueError("a message is not what its header says")
        if zlib.crc32(data[at + 16 : end]) != checksum:
            raise ValueError("a message does not fit its checksum")
        body, time_ms = data[at + _HEAD.size : end], _NO_TIME
        try:
            if form == 1:
                (time_ms,) = struct.unpack_from(">q", body)
                body = body[8:]
            key, body = _bytes(body)
            value, _ = _bytes(body)
        except struct.error as error:
            raise ValueError("a message ends before its fields do") from error
        yield _Message(offset, form, attributes, time_ms, key, value), end
        at = end


def _bytes(data: memoryview) -> tuple[bytes | None, memoryview]:
    (length,) = struct.unpack_from(">i", data)
    if length > len(data) - 4:
        raise ValueError("a message ends before its fields do")
    return (None, data[4:]) if length < 0 else (bytes(data[4 : 4 + length]), data[4 + length :])


def _unpacked(message: _Message, most_bytes: int) -> list[_Message]:
    codec = message.attributes & _CODEC
    if not codec:
        return [message]
    packed = message.value or b""
    if codec == _LZ4 and message.format == 0:
        packed = _with_right_checksum(packed)
    plain = memoryview(decompressed(memoryview(packed), codec, most_bytes))
    inner = [one for one, _ in _messages(plain, partial=False)]
    if any(one.attributes & _CODEC for one in inner):
        raise ValueError("a message that is compressed has compressed ones in it")
    if message.format == 0 or not inner:
        return inner
    first = message.offset - inner[-1].offset
    of_broker = message.attributes & _LOG_APPEND_TIME
    return [
        replace(one, offset=first + one.offset, time_ms=message.time_ms if of_broker else one.time_ms) for one in inner
    ]


def _batch(messages: list[_Message], outer: _Message) -> bytes:
    first, last = messages[0], messages[-1]
    offsets = [one.offset for one in messages]
    if first.offset < 0 or offsets != sorted(set(offsets)) or last.offset - first.offset >= 1 << 31:
        raise ValueError("offsets of messages are not in order")
    records = b"".join(_record(one, first) for one in messages)
    times = [one.time_ms for one in messages]
    head = _BATCH.pack(
        *(first.offset, _BATCH.size - 12 + len(records), -1, 2, 0, outer.attributes & _LOG_APPEND_TIME),
        *(last.offset - first.offset, first.time_ms, max(times), -1, -1, -1, len(messages)),
    )
    return head + records


def _record(message: _Message, first: _Message) -> bytes:
    fields = b"".join(
        (
            b"\0",
            _varint(message.time_ms - first.time_ms),
            _varint(message.offset - first.offset),
            *_counted(message.key),
            *_counted(message.value),
            b"\0",
        )
    )
    return _varint(len(fields)) + fields


def _counted(field: bytes | None) -> tuple[bytes, bytes]:
    return (_varint(-1), b"") if field is None else (_varint(len(field)), field)


def _varint(number: int) -> bytes:
    left, found = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    found.append(left)
    return bytes(found)


# --- LZ4 in format 0 --------------------------------------------------------------------------------------------------

_P1, _P2, _P3, _P4, _P5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393
_MASK = 0xFFFFFFFF


def _with_right_checksum(frame: bytes) -> bytes:
    """Kafka took the checksum of a frame's header over one field too many (KIP-57), and still does in format 0."""
    if len(frame) < 7:
        raise ValueError("a frame of LZ4 is cut off")
    end = 6 + (8 if frame[4] & 0x08 else 0)
    return frame[:end] + bytes([_xxh32(frame[4:end]) >> 8 & 0xFF]) + frame[end + 1 :]


def _xxh32(data: bytes) -> int:
    """Returns the hash of fewer than 16 bytes."""
    found, at = (_P5 + len(data)) & _MASK, 0
    while at + 4 <= len(data):
        found = _rotated(found + int.from_bytes(data[at : at + 4], "little") * _P3, 17) * _P4 & _MASK
        at += 4
    for byte in data[at:]:
        found = _rotated(found + byte * _P5, 11) * _P1 & _MASK
    found = (found ^ found >> 15) * _P2 & _MASK
    found = (found ^ found >> 13) * _P3 & _MASK
    return found ^ found >> 16


def _rotated(number: int, bits: int) -> int:
    number &= _MASK
    return (number << bits | number >> 32 - bits) & _MASK
