"""Requests and answers of each protocol as a proxy sees them: where one begins, what kind it is, what answers it."""

from __future__ import annotations

import re
import struct
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import ClassVar

__all__ = ["CassandraFrames", "Frame", "Frames", "HttpFrames", "KafkaFrames", "PravegaFrames"]


@dataclass(frozen=True)
class Frame:
    """Some bytes to pass on together.

    ``kind`` names the request that they are or, of an answer, that they answer. It is empty for what is neither.
    ``key`` ties an answer to its request.
    """

    data: bytes
    kind: str = ""
    key: Hashable = None


class Frames(ABC):
    """The frames of one connection. What is not whole yet waits for the rest."""

    def __init__(self) -> None:
        self._waiting = {"request": b"", "answer": b""}

    def requests(self, data: bytes) -> Iterator[Frame]:
        """Takes what the client has sent, and yields the frames that are whole."""
        return self._frames("request", data)

    def answers(self, data: bytes) -> Iterator[Frame]:
        """Takes what the server has sent, and yields the frames that are whole."""
        return self._frames("answer", data)

    def _frames(self, side: str, data: bytes) -> Iterator[Frame]:
        waiting = self._waiting[side] + data
        while waiting and (size := self._size(side, waiting)) is not None and size <= len(waiting):
            frame, waiting = waiting[:size], waiting[size:]
            self._waiting[side] = waiting
            yield self._named(side, frame)
        self._waiting[side] = waiting

    @abstractmethod
    def _size(self, side: str, data: bytes) -> int | None:
        """Returns the bytes of the frame at the beginning of ``data``; ``None`` while that is not known."""

    @abstractmethod
    def _named(self, side: str, frame: bytes) -> Frame:
        """Returns the frame with its kind and its key."""


class _ByNumber(Frames):
    """Frames of a length that a fixed head tells, whose requests have a number that their answers repeat."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[Hashable, str] = {}

    def _asked(self, frame: bytes, kind: str, key: Hashable) -> Frame:
        self._kinds[key] = kind
        return Frame(frame, kind, key)

    def _answered(self, frame: bytes, key: Hashable) -> Frame:
        return Frame(frame, self._kinds.pop(key, ""), key)


class KafkaFrames(_ByNumber):
    """Kinds are the names of Kafka's requests, such as ``EndTxn``; a number for those that are not listed here."""

    KINDS: ClassVar = {
        **{0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 9: "OffsetFetch", 10: "FindCoordinator"},
        **{18: "ApiVersions", 22: "InitProducerId", 24: "AddPartitionsToTxn", 25: "AddOffsetsToTxn", 26: "EndTxn"},
        **{28: "TxnOffsetCommit", 32: "DescribeConfigs", 61: "DescribeProducers", 65: "DescribeTransactions"},
        **{66: "ListTransactions", 75: "DescribeTopicPartitions", 60: "DescribeCluster"},
    }

    def _size(self, side: str, data: bytes) -> int | None:
        return 4 + int(struct.unpack_from(">i", data)[0]) if len(data) >= 4 else None

    def _named(self, side: str, frame: bytes) -> Frame:
        if side == "answer":
            return self._answered(frame, struct.unpack_from(">i", frame, 4)[0])
        key, _, number = struct.unpack_from(">hhi", frame, 4)
        return self._asked(frame, self.KINDS.get(key, str(key)), number)


class CassandraFrames(_ByNumber):
    """Version 4 of the native protocol. Kinds: ``QUERY select …`` with the statement's text, ``EXECUTE``, ``BATCH``."""

    _HEAD = struct.Struct(">BBhBi")
    _OPCODES: ClassVar = {1: "STARTUP", 5: "OPTIONS", 7: "QUERY", 9: "PREPARE", 10: "EXECUTE", 11: "REGISTER"}
    _BATCH, _WITH_TEXT = 13, (7, 9)

    def __init__(self) -> None:
        super().__init__()
        self._prepared: dict[bytes, str] = {}

    def _size(self, side: str, data: bytes) -> int | None:
        return 9 + int(self._HEAD.unpack_from(data)[4]) if len(data) >= 9 else None

    def _named(self, side: str, frame: bytes) -> Frame:
        _, _, stream, opcode, _ = self._HEAD.unpack_from(frame)
        if side == "answer":
            return self._answered(frame, stream)
        kind = "BATCH" if opcode == self._BATCH else self._OPCODES.get(opcode, str(opcode))
        if opcode in self._WITH_TEXT:
            (length,) = struct.unpack_from(">i", frame, 9)
            kind += " " + frame[13 : 13 + length].decode("utf-8", "replace")
        return self._asked(frame, kind, stream)


class PravegaFrames(Frames):
    """Messages of a segment store. Kinds: ``SetupAppend``, ``AppendBlockEnd`` and others, or the number of a type.

    An append is answered for a writer, and possibly with others: the next answer that confirms one is its own.
    """

    KINDS: ClassVar = {1: "SetupAppend", 4: "AppendBlockEnd", 9: "ReadSegment", 11: "GetSegmentInfo", -127: "Hello"}
    _ANSWERS: ClassVar = {2: 1, 7: 4, 10: 9, 12: 11, -127: -127}

    def _size(self, side: str, data: bytes) -> int | None:
        return 8 + int(struct.unpack_from(">ii", data)[1]) if len(data) >= 8 else None

    def _named(self, side: str, frame: bytes) -> Frame:
        (number,) = struct.unpack_from(">i", frame)
        number = self._ANSWERS.get(number, number) if side == "answer" else number
        return Frame(frame, self.KINDS.get(number, str(number)), number)


class HttpFrames(Frames):
    """HTTP/1.1. Kinds: ``METHOD /path?query``. The head and the body of a request are passed on one after the other.

    So a client that waits for the server's leave to send the body (``Expect: 100-continue``) gets it.
    """

    _LENGTH = re.compile(rb"^content-length:\s*(\d+)", re.I | re.M)
    _CHUNKED = re.compile(rb"^transfer-encoding:\s*chunked", re.I | re.M)
    _BODILESS = (204, 304)

    def __init__(self) -> None:
        super().__init__()
        self._asked: deque[str] = deque()
        self._body_left = 0
        self._in_chunks = False

    def _size(self, side: str, data: bytes) -> int | None:
        if side == "request":
            if self._in_chunks:
                return _chunks_size(data, 0)
            return min(self._body_left, len(data)) if self._body_left else _head_size(data)
        head_size = _head_size(data)
        if head_size is None:
            return None
        head = data[:head_size]
        status = int(head.split(b" ", 2)[1])
        is_bodiless = status in self._BODILESS or status < 200 or (self._asked and self._asked[0].startswith("HEAD "))
        if is_bodiless:
            return head_size
        if self._CHUNKED.search(head):
            return _chunks_size(data, head_size)
        length = self._LENGTH.search(head)
        return head_size + (int(length[1]) if length else 0)

    def _named(self, side: str, frame: bytes) -> Frame:
        if side == "answer":
            is_final = int(frame.split(b" ", 2)[1]) >= 200
            return Frame(frame, self._asked.popleft()) if is_final and self._asked else Frame(frame)
        if self._in_chunks:
            self._in_chunks = False
            return Frame(frame)
        if self._body_left:
            self._body_left -= len(frame)
            return Frame(frame)
        length = self._LENGTH.search(frame)
        self._in_chunks = bool(self._CHUNKED.search(frame))
        self._body_left = int(length[1]) if length and not self._in_chunks else 0
        method, path, _ = frame.split(b"\r\n", 1)[0].decode("latin-1").split(" ", 2)
        self._asked.append(f"{method} {path}")
        return Frame(frame, self._asked[-1])


def _head_size(data: bytes) -> int | None:
    end = data.find(b"\r\n\r\n")
    return None if end < 0 else end + 4


def _chunks_size(data: bytes, at: int) -> int | None:
    while True:
        line_end = data.find(b"\r\n", at)
        if line_end < 0:
            return None
        length = int(data[at:line_end].split(b";")[0], 16)
        at = line_end + 2 + length + 2
        if at > len(data):
            return None
        if not length:
            return at
