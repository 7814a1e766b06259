"""The segment store's messages as bytes: what is sent, what is received, and error messages as exceptions.

A message is int32 type, int32 length, payload; everything is big-endian, a text is uint16 length and UTF-8. Fields at
the end of a message may be missing from older servers.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

__all__ = [
    "APPEND_SETUP",
    "DATA_APPENDED",
    "HELLO",
    "KEEP_ALIVE",
    "OLDEST_VERSION",
    "SEGMENT_INFO",
    "SEGMENT_READ",
    "VERSION",
    "AuthenticationFailed",
    "InvalidEventNumber",
    "NoSuchSegment",
    "Payload",
    "Refused",
    "SegmentInfo",
    "SegmentSealed",
    "SegmentTruncated",
    "WrongHost",
    "append_block",
    "frame",
    "get_info",
    "hello",
    "parse_info",
    "read_segment",
    "refusal",
    "setup_append",
]

VERSION, OLDEST_VERSION = 16, 5

HELLO, KEEP_ALIVE = -127, 100
_SETUP_APPEND, APPEND_SETUP, _APPEND_BLOCK_END, DATA_APPENDED = 1, 2, 4, 7
_READ_SEGMENT, SEGMENT_READ, _GET_INFO, SEGMENT_INFO = 9, 10, 11, 12
_WRONG_HOST, _IS_SEALED, _NO_SUCH_SEGMENT, _INVALID_EVENT_NUMBER, _IS_TRUNCATED = 50, 51, 53, 55, 56
_UNSUPPORTED, _AUTHENTICATION_FAILED, _ERROR_MESSAGE = 57, 60, 61

_TOKEN_EXPIRED = 1


class Refused(Exception):
    """A segment store refused a request. ``segment`` is empty if the refusal names none."""

    def __init__(self, what: str, segment: str = "") -> None:
        super().__init__(f"{segment}: {what}" if segment else what)
        self.segment = segment


class WrongHost(Refused):
    """Another segment store has the segment now."""


class SegmentSealed(Refused):
    """Nothing more can be appended: the stream was scaled, or sealed."""


class NoSuchSegment(Refused):
    """The segment never existed, was truncated away, or belonged to a transaction that is over."""


class SegmentTruncated(Refused):
    """The bytes before ``start`` are gone."""

    def __init__(self, segment: str, start: int) -> None:
        super().__init__(f"its bytes before {start} were truncated", segment)
        self.start = start


class InvalidEventNumber(Refused):
    """An earlier connection of the same writer has appended more than this one knows of."""


class AuthenticationFailed(Refused):
    """The token does not fit; ``expired`` says whether a new one will do."""

    def __init__(self, expired: bool) -> None:
        super().__init__("the segment store refuses the token" + (": it has expired" if expired else ""))
        self.expired = expired


@dataclass(frozen=True)
class SegmentInfo:
    """``start`` is the first offset that can be read, ``end`` the one after the last."""

    start: int
    end: int
    is_sealed: bool


class Payload:
    """Reads the fields of a message in their order. Raises ConnectionError for one that ends before them."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> Any:
        """Returns the fields of a :mod:`struct` layout: one value, or a tuple of several."""
        values = struct.unpack(">" + layout, self.raw(struct.calcsize(">" + layout)))
        return values[0] if len(values) == 1 else values

    def text(self) -> str:
        """Reads a text: uint16 length and UTF-8."""
        return self.raw(self.take("H")).decode("utf-8", "replace")

    def raw(self, length: int) -> bytes:
        """Reads that many bytes."""
        if not 0 <= length <= self.left:
            raise ConnectionError(
                f"not a message of Pravega's: {length} bytes are to be at {self._at} of {len(self._data)}"
            )
        found = bytes(self._data[self._at : self._at + length])
        self._at += length
        return found

    @property
    def left(self) -> int:
        """The number of bytes not read yet."""
        return len(self._data) - self._at


def frame(kind: int, *parts: bytes | memoryview) -> list[bytes | memoryview]:
    """Returns a message as a list of buffers to send in order, so that large ones are not copied."""
    length = sum(len(part) for part in parts)
    return [struct.pack(">ii", kind, length), *parts]


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded


def hello() -> list[bytes | memoryview]:
    """Returns the first message of either side: the newest and the oldest version that it speaks."""
    return frame(HELLO, struct.pack(">ii", VERSION, OLDEST_VERSION))


def get_info(request: int, segment: str, token: str) -> list[bytes | memoryview]:
    """Asks where a segment begins and ends."""
    return frame(_GET_INFO, struct.pack(">q", request), _text(segment), _text(token))


def read_segment(request: int, segment: str, offset: int, length: int, token: str) -> list[bytes | memoryview]:
    """Asks for bytes of a segment. The server gives at most 2 MiB, and at least 8 bytes if they are there."""
    return frame(
        _READ_SEGMENT, _text(segment), struct.pack(">qi", offset, length), _text(token), struct.pack(">q", request)
    )


def setup_append(request: int, writer: bytes, segment: str, token: str) -> list[bytes | memoryview]:
    """Prepares a connection for appends of ``writer`` (16 bytes) to a segment."""
    return frame(_SETUP_APPEND, struct.pack(">q", request), writer, _text(segment), _text(token))


def append_block(
    request: int, writer: bytes, events: int, last_event: int, data: bytes | memoryview
) -> list[bytes | memoryview]:
    """Appends framed events; ``last_event`` is the number of the last of them, counted by the writer."""
    return frame(
        _APPEND_BLOCK_END,
        writer,
        struct.pack(">ii", 0, len(data)),
        data,
        struct.pack(">iqq", events, last_event, request),
    )


def parse_info(payload: Payload) -> SegmentInfo:
    """Parses the answer to :func:`get_info`. Raises NoSuchSegment."""
    payload.take("q")
    segment = payload.text()
    exists, is_sealed, is_deleted, _, end = payload.take("???qq")
    if is_deleted or not exists:
        raise NoSuchSegment("it does not exist", segment)
    return SegmentInfo(payload.take("q") if payload.left >= 8 else 0, end, is_sealed)


def refusal(kind: int, payload: Payload) -> Refused:
    """Maps a server's error message to an exception."""
    if kind == _AUTHENTICATION_FAILED:
        payload.take("q")
        payload.text()
        return AuthenticationFailed(payload.left >= 4 and payload.take("i") == _TOKEN_EXPIRED)
    if kind == _INVALID_EVENT_NUMBER:
        payload.take("QQq")
        return InvalidEventNumber("an earlier connection of the same writer has appended more")
    if kind not in (_WRONG_HOST, _IS_SEALED, _NO_SUCH_SEGMENT, _IS_TRUNCATED, _UNSUPPORTED, _ERROR_MESSAGE):
        return Refused(f"the segment store answered with a message of type {kind}")
    payload.take("q")
    segment = payload.text()
    if kind == _WRONG_HOST:
        return WrongHost("another segment store has it", segment)
    if kind == _IS_SEALED:
        return SegmentSealed("it is sealed", segment)
    if kind == _NO_SUCH_SEGMENT:
        return NoSuchSegment("it does not exist", segment)
    if kind == _IS_TRUNCATED:
        return SegmentTruncated(segment, payload.take("q"))
    if kind == _UNSUPPORTED:
        return Refused(f"the segment store does not support {segment}")
    return Refused(f"the segment store says: {payload.text()[:300]}", segment)
