"""Pravega: messages of segment stores, events, watermarks, cuts, and the log of transactions."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from penstock.metrics import Metrics
from penstock.sink import CheckpointLocation
from penstock.storage import MemoryStorage
from penstock_pravega.client import (
    ControllerSettings,
    event_offsets,
    parse_cut,
    parse_watermark,
    to_array,
)
from penstock_pravega.client._connection import Connection
from penstock_pravega.client._cuts import cut_text
from penstock_pravega.client._keycloak import KeycloakCredentials
from penstock_pravega.client._range_reader import RangeReader
from penstock_pravega.client._wire import SEGMENT_INFO, SegmentInfo, parse_info, refusal
from penstock_pravega.sink._committable import TransactionRef
from penstock_pravega.sink._transaction_log import OpenTransaction, TransactionLog
from penstock_pravega.source._reader import PravegaSplitReader
from penstock_pravega.source._split import SegmentRange

SEGMENT = "scope/stream/0.#epoch.0"
SPLIT = SegmentRange("scope/stream", 0, 0, 4000)


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def _message(kind: int, payload: bytes) -> bytes:
    return struct.pack(">ii", kind, len(payload)) + payload


class _Socket:
    """Gives what came."""

    def __init__(self, came: bytes) -> None:
        self._came = came

    def recv_into(self, target: memoryview) -> int:
        taken = self._came[: min(len(target), 1 << 16)]
        self._came = self._came[len(taken) :]
        target[: len(taken)] = taken
        return len(taken)

    def sendall(self, data: bytes) -> None:
        """Takes everything."""


def connection(came: bytes) -> Connection:
    """Returns a connection that is greeted, and gets these bytes."""
    made = Connection.__new__(Connection)
    made.address, made.closed = ("localhost", 1), False
    made._socket = _Socket(came)  # type: ignore[assignment]
    return made


def message_seeds() -> list[bytes]:
    """Returns one of each message that is understood."""
    infos = [
        struct.pack(">q", 1) + _text(SEGMENT) + struct.pack(">???qqq", True, sealed, False, 5, 9, 3)
        for sealed in (0, 1)
    ]
    found = [_message(SEGMENT_INFO, info) for info in infos]
    found += [_message(100, b"") + found[0]]
    for kind in (50, 51, 53, 57, 61):
        found.append(_message(kind, struct.pack(">q", 1) + _text(SEGMENT) + _text("some trace")))
    found.append(_message(56, struct.pack(">q", 1) + _text(SEGMENT) + struct.pack(">q", 77)))
    found.append(_message(55, struct.pack(">QQq", 1, 2, 3)))
    found.append(_message(60, struct.pack(">q", 1) + _text("trace") + struct.pack(">i", 1)))
    return found


def refused_messages() -> list[bytes]:
    """Returns messages that end before their fields."""
    return [
        _message(SEGMENT_INFO, b""),
        _message(SEGMENT_INFO, struct.pack(">qH", 1, 0xFFFF) + b"abc"),
        struct.pack(">ii", SEGMENT_INFO, -1),
        struct.pack(">ii", SEGMENT_INFO, (1 << 31) - 1),
        _message(56, struct.pack(">q", 1) + _text(SEGMENT)),
    ]


def read_message(data: bytes) -> SegmentInfo | None:
    """Reads an answer to a question about a segment."""
    kind, payload = connection(data).receive()
    if kind == SEGMENT_INFO:
        return parse_info(payload)
    raise refusal(kind, payload)


def events(*sizes: int) -> bytes:
    """Returns events of these sizes."""
    return b"".join(struct.pack(">ii", 0, size) + b"e" * size for size in sizes)


def _segment_read(offset: int, data: bytes) -> bytes:
    return _message(
        10, _text(SEGMENT) + struct.pack(">q??i", offset, False, False, len(data)) + data + struct.pack(">q", 1)
    )


def range_seeds() -> list[bytes]:
    """Returns the answers that make up a range, in one piece and in several."""
    whole = events(10, 0, 3, *[100] * 36)
    whole += events(SPLIT.end - len(whole) - 8)
    assert len(whole) == SPLIT.end
    return [
        _segment_read(0, whole),
        _in_parts(whole),
        _message(56, struct.pack(">q", 1) + _text(SEGMENT) + struct.pack(">q", 77)),
    ]


def refused_ranges() -> list[bytes]:
    """Returns answers whose lengths are not theirs, and an event that never ends."""

    def answer(size: int, name: bytes = _text(SEGMENT)) -> bytes:
        return _message(10, name + struct.pack(">q??i", 0, False, False, size) + bytes(40))

    endless = struct.pack(">ii", 0, (1 << 31) - 1) + bytes(SPLIT.end - 8)
    return [answer(-1), answer((1 << 31) - 1), answer(41), answer(1, struct.pack(">H", 0xFFFF)), _in_parts(endless)]


def _in_parts(whole: bytes) -> bytes:
    return b"".join(_segment_read(at, whole[at : at + 900]) for at in range(0, len(whole), 900))


class _Stores:
    """Segment stores with one connection, and no second try."""

    def __init__(self, came: bytes) -> None:
        self._connection = connection(came)

    def connection(self, stream: str, segment: int) -> Connection:
        return self._connection

    def token(self, stream: str) -> str:
        return ""

    def forget(self, stream: str, segment: int) -> None:
        """Has nothing to forget."""

    def close(self) -> None:
        """Has nothing to close."""

    def retrying(self, call: Any, stream: str, segment: int) -> Any:
        return call()


def read_range(data: bytes) -> int:
    """Reads a split as a task does."""
    reader = PravegaSplitReader(ControllerSettings("tcp://localhost:1"), Metrics(), fail_on_data_loss=True)
    stores: Any = _Stores(data)
    reader._stores = stores
    reader._reader = RangeReader(stores, SPLIT.stream, SPLIT.segment, SPLIT.start, SPLIT.end, chunk=900)
    reader.handle_splits_changes([SPLIT])
    count = 0
    while not (fetched := reader.fetch()).finished_splits:
        for _, block in fetched.records:
            values = block.values()
            values.validate(full=True)
            count += len(values)
    return count


def event_seeds() -> list[bytes]:
    """Returns events of one size, of several, and one that is cut off."""
    return [events(*[16] * 20), events(1, 0, 300, 5), events(8, 8, 8) + events(100)[:50], b""]


def refused_events() -> list[bytes]:
    """Returns what is no event."""
    heads = [(0, (1 << 31) - 1), (0, -1), (1, 5)]
    return [struct.pack(">ii", *head) + bytes(20) for head in heads] + [events(3) + struct.pack(">ii", *heads[0])]


def read_events(data: bytes) -> int:
    """Finds the events in bytes of a segment."""
    offsets = event_offsets(data)
    values = to_array(data, offsets)
    values.validate(full=True)
    return len(values)


def watermark_seeds() -> list[bytes]:
    """Returns watermarks of one segment, and of many."""

    def versioned(fields: bytes) -> bytes:
        return struct.pack(">BBB", 0, 0, 1) + struct.pack(">Bi", 0, len(fields)) + fields

    def of(count: int) -> bytes:
        one = versioned(struct.pack(">qdd", 1, 0.0, 1.0)) + struct.pack(">q", 100)
        size = bytes([count]) if count < 0x80 else struct.pack(">H", 0x8000 | count)
        return versioned(struct.pack(">qq", 1_000, 2_000) + size + one * count)

    return [of(1), of(3), of(200)]


def refused_watermarks() -> list[bytes]:
    """Returns watermarks that go backwards, and one with more segments than bytes."""
    one = watermark_seeds()[0]
    counted = one[:8] + struct.pack(">qqI", 1, 2, 0xFFFFFFFF) + one[25:]
    return [one[:4] + struct.pack(">i", -8) + one[8:], counted, one[:25], b""]


def read_watermark(data: bytes) -> object:
    """Reads an event of a watermark stream."""
    return parse_watermark(data)


def cut_seeds() -> list[bytes]:
    """Returns cuts as text."""
    return [cut_text("scope/stream", cut).encode() for cut in ({0: 5}, {1 << 32 | 3: 7, 2: 1 << 40})]


def read_cut(data: bytes) -> object:
    """Reads a cut."""
    return parse_cut(data.decode("latin-1"))


def note_seeds() -> list[bytes]:
    """Returns entries of the log of transactions."""
    storage = MemoryStorage()
    log = TransactionLog(CheckpointLocation(storage, "c"), "query")
    log.write(OpenTransaction(TransactionRef("scope/stream", 1 << 100), 30_000, 4))
    return list(storage.files.values())


def odd_notes() -> list[bytes]:
    """Returns what is no entry, and is left out."""
    one = note_seeds()[0]
    return [one.replace(b"30000", b"1e999"), b'{"v":' + b"[" * 100_000, one.replace(b"30000", b"null"), b"[]", b"\xff"]


def read_note(data: bytes) -> object:
    """Reads a log of transactions that has this entry."""
    storage = MemoryStorage()
    storage.files[f"c/penstock/pravega-transactions/{1 << 100:032x}.json"] = data
    return TransactionLog(CheckpointLocation(storage, "c"), "query").read()


def keycloak_seeds() -> list[bytes]:
    """Returns an answer with a token."""
    return [b'{"access_token": "abc", "expires_in": 60}']


def refused_keycloak() -> list[bytes]:
    """Returns answers without a token, or with a time that is none."""
    return [b"[" * 100_000, b"[]", b"{}", b'{"access_token": 5}', b'{"access_token": "a", "expires_in": "soon"}']


def read_keycloak(data: bytes) -> object:
    """Reads what answers to the request for a token."""
    account = KeycloakCredentials("http://localhost", "realm", "client", "secret")
    asked = SimpleNamespace(fetch=lambda form, headers: account._checked(data))
    object.__setattr__(account, "_ask", asked.fetch)
    return account.fetch()
