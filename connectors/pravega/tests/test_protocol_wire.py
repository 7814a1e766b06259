"""Reading and appending against made-up answers of a segment store: a socket that plays its part."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, FatalError, RetriableError, RetriesExhaustedError
from penstock.metrics import Metrics
from penstock.retry import Retries, RetryPolicy
from penstock_pravega.client import (
    ControllerSettings,
    Credentials,
    NoSuchSegment,
    RangeReader,
    SegmentAppender,
    SegmentSealed,
    SegmentStores,
    SegmentTruncated,
    frame_events,
)

pytestmark = pytest.mark.usefixtures("no_pauses")

NAME = "s/t/0.#epoch.0"


def text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def message(kind: int, *parts: bytes) -> bytes:
    payload = b"".join(parts)
    return struct.pack(">ii", kind, len(payload)) + payload


HELLO = message(-127, struct.pack(">ii", 16, 5))
NUMBER = struct.pack(">q", 7)
NO_SUCH_SEGMENT = message(53, NUMBER, text(NAME), text(""), NUMBER)
SEALED = message(51, NUMBER, text(NAME), text(""), NUMBER)
TRUNCATED = message(56, NUMBER, text(NAME), struct.pack(">q", 640), text(""), NUMBER)
WRONG_HOST = message(50, NUMBER, text(NAME), text("elsewhere"), text(""))
TOKEN_EXPIRED = message(60, NUMBER, text(""), struct.pack(">i", 1))
TOKEN_WRONG = message(60, NUMBER, text(""), struct.pack(">i", 0))
INVALID_EVENT = message(55, bytes(16), NUMBER, text(""), NUMBER)
IS_THERE = message(12, NUMBER, text(NAME), struct.pack(">???qqq", True, False, False, 0, 640, 0))
IS_GONE = message(12, NUMBER, text(NAME), struct.pack(">???qqq", True, True, True, 0, 640, 0))
UNSUPPORTED = message(57, NUMBER, text("readSegment"), text(""))


class Peer:
    """A segment store of one's own. ``script`` answers each message: bytes to send back, those in a tuple
    with hanging up behind them, None to hang up at once, or a function of the connection that gives one of these."""

    def __init__(self, script):
        self.script = script
        self.connections = 0
        self.received: list[tuple[int, bytes]] = []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = self.server.getsockname()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.server.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with connection, contextlib.suppress(OSError, ConnectionError):
            while True:
                kind, length = struct.unpack(">ii", self._exactly(connection, 8))
                payload = self._exactly(connection, length)
                if kind == -127:
                    connection.sendall(HELLO)
                    continue
                self.received.append((kind, payload))
                answer = self.script(kind, payload, self)
                answer = answer(connection) if callable(answer) else answer
                if isinstance(answer, tuple):
                    connection.sendall(answer[0])
                if answer is None or isinstance(answer, tuple):
                    return
                connection.sendall(answer)

    @staticmethod
    def _exactly(connection, length):
        data = b""
        while len(data) < length:
            got = connection.recv(length - len(data))
            if not got:
                raise ConnectionError
            data += got
        return data

    def close(self):
        self.server.close()


class OneStore(SegmentStores):
    """Finds every segment at the peer; counts how often it is asked."""

    def __init__(self, address, **settings):
        super().__init__(ControllerSettings("tcp://127.0.0.1:1", **{"timeout_s": 30.0, **settings}))
        self.where, self.asked, self.tokens = address, 0, 0

    def address(self, stream, segment):
        if (stream, segment) not in self._addresses:
            self.asked += 1
            self._addresses[stream, segment] = self.where
        return self._addresses[stream, segment]

    def token(self, stream):
        if self.settings.credentials is None:
            return ""
        if stream not in self._tokens:
            self.tokens += 1
            self._tokens[stream] = f"token-{self.tokens}"
        return self._tokens[stream]


@pytest.fixture
def peer():
    peers = []

    def make(script):
        peers.append(Peer(script))
        return peers[-1]

    yield make
    for one in peers:
        one.close()


DATA = bytes(range(256)) * 20


def asked_for(payload):
    (length,) = struct.unpack_from(">H", payload)
    return struct.unpack_from(">qi", payload, 2 + length)


def segment_read(offset: int, data: bytes) -> bytes:
    return message(10, text(NAME), struct.pack(">q??i", offset, False, False, len(data)), data, NUMBER)


def honest(kind, payload, peer):
    offset, length = asked_for(payload)
    return segment_read(offset, DATA[offset : offset + length])


def read_all(stores, start=0, end=5120, chunk=1000):
    reader, data = RangeReader(stores, "s/t", 0, start, end, chunk=chunk), b""
    while (piece := reader.read()) is not None:
        data += piece
    return data


def test_a_range_is_read_exactly(peer):
    assert read_all(OneStore(peer(honest).address), 100, 4321) == DATA[100:4321]


def test_short_answers_are_completed(peer):
    def short(kind, payload, one):
        offset, length = asked_for(payload)
        return segment_read(offset, DATA[offset : offset + min(length, 77)])

    assert read_all(OneStore(peer(short).address)) == DATA


def test_more_bytes_than_asked_for_are_cut_off(peer):
    def long(kind, payload, one):
        offset, length = asked_for(payload)
        return segment_read(offset, DATA[offset : offset + max(length, 8) + 5])

    assert read_all(OneStore(peer(long).address), 3, 10, chunk=8) == DATA[3:10]


def test_answers_in_another_order(peer):
    held = []

    def swapped(kind, payload, one):
        held.append(honest(kind, payload, one))
        offset, _ = asked_for(payload)
        if len(held) == 1 and offset + 1000 < len(DATA):
            return b""
        answers = b"".join(reversed(held))
        held.clear()
        return answers

    assert read_all(OneStore(peer(swapped).address), 0, 4000) == DATA[:4000]


def test_who_stops_early_leaves_no_answers_to_the_next(peer):
    """A short first answer, and two more under way: what reading ahead does when it has seen enough."""

    def short(kind, payload, one):
        offset, length = asked_for(payload)
        return segment_read(offset, DATA[offset : offset + min(length, 77)])

    stores = OneStore(peer(short).address)
    first = RangeReader(stores, "s/t", 0, 0, 5120, chunk=1000)
    assert bytes(first.read()) == DATA[:77]
    first.close()
    assert read_all(stores, 3000, 5120) == DATA[3000:5120]


def test_a_broken_connection_goes_on_where_it_was(peer):
    def flaky(kind, payload, one):
        return None if len(one.received) in (3, 5) else honest(kind, payload, one)

    one = peer(flaky)
    stores = OneStore(one.address)
    assert read_all(stores) == DATA
    assert one.connections == 3 and stores.asked == 3


def test_half_an_answer_is_not_taken_for_one(peer):
    def half(kind, payload, one):
        answer = honest(kind, payload, one)
        return (answer[: len(answer) // 2],) if len(one.received) == 2 else answer

    assert read_all(OneStore(peer(half).address)) == DATA


def test_another_host_is_asked_for(peer):
    def moved(kind, payload, one):
        return WRONG_HOST if len(one.received) == 1 else honest(kind, payload, one)

    stores = OneStore(peer(moved).address)
    assert read_all(stores) == DATA
    assert stores.asked == 2


def test_an_expired_token_is_renewed(peer):
    def expiring(kind, payload, one):
        return honest(kind, payload, one) if b"token-2" in payload else TOKEN_EXPIRED

    stores = OneStore(peer(expiring).address, credentials=Credentials("Bearer", "x"))
    assert read_all(stores) == DATA
    assert stores.tokens == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (NO_SUCH_SEGMENT, NoSuchSegment),
        (TRUNCATED, SegmentTruncated),
        (TOKEN_WRONG, BadConfigurationError),
        (UNSUPPORTED, FatalError),
        (WRONG_HOST, RetriableError),
        (None, RetriableError),
    ],
)
def test_refusals(peer, answer, error):
    with pytest.raises(error) as raised:
        read_all(OneStore(peer(lambda kind, payload, one: answer).address, tries=2))
    if error is SegmentTruncated:
        assert raised.value.start == 640


def test_silence_ends(peer):
    silent = peer(lambda kind, payload, one: b"")
    with pytest.raises(RetriableError, match="timed out"):
        read_all(OneStore(silent.address, timeout_s=0.2, tries=2))


def test_closing_wakes_a_reader_up(peer):
    def close(kind, payload, one):
        threading.Thread(target=stores.close).start()
        return b""  # and the reader goes on waiting for an answer

    stores = OneStore(peer(close).address, timeout_s=600)
    started = time.monotonic()
    with pytest.raises(RetriableError, match="the reader was closed"):
        read_all(stores)
    assert time.monotonic() - started < 300


# --- appending --------------------------------------------------------------------------------------------------------


class Segment:
    """What a segment store does with appends: it takes every block, also one that came before."""

    def __init__(self, *, fail_at=(), answer=None, drop=False, info=IS_THERE):
        self.info = info
        self.events, self.last, self.blocks = [], {}, 0
        self.fail_at, self.answer, self.drop = fail_at, answer, drop

    def __call__(self, kind, payload, peer):
        if kind == 11:
            return self.info
        if kind == 1:
            writer = payload[8:24]
            last = self.last.get(writer, -(1 << 63))
            return message(2, NUMBER, text(NAME), writer, struct.pack(">q", last))
        writer = payload[:16]
        (size,) = struct.unpack_from(">i", payload, 20)
        _, last, _ = struct.unpack_from(">iqq", payload, 24 + size)
        self.blocks += 1
        failing = self.blocks in self.fail_at
        if not (failing and self.drop):
            self.events.append(payload[24 : 24 + size])
            self.last[writer] = last
        if failing:
            return self.answer
        return message(7, writer, struct.pack(">qqqq", last, 0, 0, 0))


def block(*events: bytes):
    return frame_events(pa.array(events, pa.large_binary()))


def append_all(appender, blocks):
    for events in blocks:
        appender.append(block(*events), len(events))
    appender.flush()
    appender.close()
    return appender


BLOCKS = [[b"a", b"b"], [b"c"], [b"d", b"e", b"f"], [b"g"]]
WHOLE = b"".join(bytes(block(*events)) for events in BLOCKS)


@pytest.mark.parametrize("drop", [True, False], ids=["before it was taken", "after it was taken"])
@pytest.mark.parametrize("fail_at", [(1,), (2,), (4,), (1, 2, 3)])
def test_every_block_is_there_once_though_connections_break(peer, fail_at, drop):
    segment = Segment(fail_at=fail_at, drop=drop)
    appender = append_all(SegmentAppender(OneStore(peer(segment).address), "s/t", 0, NAME), BLOCKS)
    assert b"".join(segment.events) == WHOLE
    assert (appender.bytes, appender.events) == (len(WHOLE), 7)


def test_a_writer_waits_for_a_segment_store_that_is_away(peer):
    """Its own tries are over within seconds; the policy makes more."""
    metrics = Metrics()
    segment = Segment(fail_at=(2, 3, 4, 5, 6), drop=True)
    stores = OneStore(peer(segment).address, tries=1)
    with pytest.raises(RetriableError, match=NAME):
        append_all(SegmentAppender(stores, "s/t", 0, NAME), BLOCKS)
    segment = Segment(fail_at=(2, 3, 4, 5, 6), drop=True)
    stores = OneStore(peer(segment).address, tries=1)
    append_all(SegmentAppender(stores, "s/t", 0, NAME, Retries(RetryPolicy(60), "appending", metrics)), BLOCKS)
    assert b"".join(segment.events) == WHOLE
    assert metrics.snapshot()["retries"] == 5
    stores = OneStore(("127.0.0.1", 1), tries=1)
    with pytest.raises(RetriesExhaustedError, match=rf"appending: {NAME}: .*refused; tried \d+ times in 20\dms"):
        append_all(SegmentAppender(stores, "s/t", 0, NAME, Retries(RetryPolicy(0.2), "appending")), BLOCKS)


def test_a_writer_waits_for_a_controller_that_is_away(peer, monkeypatch):
    segment = Segment()
    stores = OneStore(peer(segment).address)
    failures = [RetriableError("no answer from the controller"), RetriableError("no answer from the controller")]
    found = stores.address

    def address(*asked):
        if failures:
            raise failures.pop()
        return found(*asked)

    monkeypatch.setattr(stores, "address", address)
    append_all(SegmentAppender(stores, "s/t", 0, NAME, Retries(RetryPolicy(60))), BLOCKS)
    assert b"".join(segment.events) == WHOLE and not failures


def test_an_older_connection_that_was_late_is_caught_up_with(peer):
    segment = Segment(fail_at=(2,), answer=INVALID_EVENT)
    append_all(SegmentAppender(OneStore(peer(segment).address), "s/t", 0, NAME), BLOCKS)
    assert b"".join(segment.events) == WHOLE


def test_a_sealed_segment_says_what_is_not_there(peer):
    segment = Segment(fail_at=(3, 4), answer=SEALED, drop=True)
    appender = SegmentAppender(OneStore(peer(segment).address), "s/t", 0, NAME)
    with pytest.raises(SegmentSealed):
        append_all(appender, BLOCKS)
    assert bytes(appender.unacknowledged()[0].data) == bytes(block(*BLOCKS[2]))


def sealed_unless_more_comes(connection):
    """As Pravega: it hangs up on a block behind one that was refused, and the refusal is lost with the connection."""
    connection.settimeout(0.3)
    with contextlib.suppress(TimeoutError):
        connection.recv(1, socket.MSG_PEEK)
        return None
    return SEALED


def test_a_refusal_that_is_lost_is_asked_for_again(peer):
    segment = Segment(fail_at=range(3, 1000), answer=sealed_unless_more_comes, drop=True)
    appender = SegmentAppender(OneStore(peer(segment).address), "s/t", 0, NAME)
    with pytest.raises(SegmentSealed):
        append_all(appender, BLOCKS * 3)
    left = [bytes(one.data) for one in appender.unacknowledged()]
    assert left and left == [bytes(block(*events)) for events in (BLOCKS * 3)[2 : 2 + len(left)]]


@pytest.mark.parametrize("info", [NO_SUCH_SEGMENT, IS_GONE], ids=["unknown", "deleted"])
def test_a_segment_that_is_gone_is_told_from_a_connection_that_broke(peer, info):
    """As Pravega: what is left of a transaction takes a writer, and hangs up on every block."""
    segment = Segment(fail_at=range(1, 1000), drop=True, info=info)
    with pytest.raises(NoSuchSegment):
        append_all(SegmentAppender(OneStore(peer(segment).address), "s/t", 0, NAME), BLOCKS)
    assert segment.blocks == 1 and not segment.events


@pytest.mark.parametrize(("answer", "error"), [(NO_SUCH_SEGMENT, NoSuchSegment), (None, RetriableError)])
def test_appends_that_are_refused(peer, answer, error):
    stores = OneStore(peer(lambda kind, payload, one: answer).address, tries=2)
    with pytest.raises(error):
        append_all(SegmentAppender(stores, "s/t", 0, NAME), BLOCKS)
