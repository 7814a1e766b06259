"""The protocol part without a server: names, cuts, hashes, events, messages."""

from __future__ import annotations

import base64
import gzip
import struct
from functools import partial
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError, RetriableError
from penstock_pravega.client import (
    BrokenEvents,
    Controller,
    ControllerSettings,
    Credentials,
    KeyRange,
    SegmentRouter,
    Watermark,
    _segment_stores,
    controller_of,
    event_offsets,
    frame_events,
    parse_cut,
    parse_watermark,
    segment_name,
    to_array,
    transaction_segment_name,
)
from penstock_pravega.client._cuts import cut_text
from penstock_pravega.client._events import frames_size
from penstock_pravega.client._routing import key_position

#: Of pravega-client 0.13.0: StreamCut.asText() of a stream that was scaled.
JAVA_TEXT = "H4sIAAAAAAAA/wXBgQkAIAwDwYUebGzQ0nUcofuDd9Hz1rRJNmohgmi7ODbKOuje+sIVgSUoAAAA"


def framed(*events: bytes) -> bytes:
    return bytes(frame_events(pa.array(events, pa.large_binary())))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [(0, True), (2, False), (1, RetriableError), (4, BadConfigurationError)],
    ids=["made", "there", "failed for now", "refused"],
)
@pytest.mark.parametrize("what", ["scope", "stream"])
def test_what_the_controller_says_to_making_something(status, outcome, what):
    controller = Controller(ControllerSettings("tcp://127.0.0.1:1"))
    answer = SimpleNamespace(status=status)
    controller._stubs = {"createScope": lambda *_, **__: answer, "createStream": lambda *_, **__: answer}
    make = partial(controller.create_scope, "s") if what == "scope" else partial(controller.create_stream, "s", "t")
    if isinstance(outcome, bool):
        assert make() is outcome
    else:
        with pytest.raises(outcome, match=r"'s'|s/t"):
            make()


def test_names():
    segment = 1 << 32 | 3
    assert segment_name("s/t", segment) == "s/t/3.#epoch.1"
    wanted = "s/t/3.#epoch.1#transaction." + "0" * 31 + "f"
    assert transaction_segment_name("s/t", segment, 15) == wanted


def test_a_cut_of_the_java_client_is_read():
    epoch = 1 << 32
    assert parse_cut(JAVA_TEXT) == ("sc/s", {epoch | 4: 448, epoch | 3: 644, 2: 1386, 1: 1778})


@given(st.dictionaries(st.integers(0, 2**40), st.integers(0, 2**62), min_size=1, max_size=20))
def test_cuts_come_back(cut):
    cut = {segment: offset for segment, offset in cut.items() if segment & 0xFFFFFFFF < 2**31}
    if cut:
        assert parse_cut(cut_text("a/b", cut)) == ("a/b", cut)
        assert cut_text("a/b", cut) == cut_text("a/b", dict(reversed(cut.items())))


@pytest.mark.parametrize(
    "plain", ["", "1:a/b:0:0:0", "0:a/b:0,1:0:0", "0:a/b:x:0:0", "0:ab:0:0:0", "0:a/b:0:0:-1", "0:a/b:::"]
)
def test_other_texts_are_no_cuts(plain):
    with pytest.raises(ValueError):
        parse_cut(base64.b64encode(gzip.compress(plain.encode())).decode())
    with pytest.raises(ValueError):
        parse_cut(plain)


@pytest.mark.parametrize(
    ("key", "position"),
    # As pravega-client 0.13.0 says (HashHelper.seededWith("EventRouter").hashToRange).
    [
        ("", 0.24117842791623523),
        ("a", 0.9433912753816884),
        ("key-1", 0.3829162539760538),
        ("grüße", 0.3127061686409429),
        ("東京🚀", 0.10113027628999904),
        ("0123456789abcdefghij", 0.43377985214276693),
    ],
)
def test_a_key_hashes_as_in_the_java_client(key, position):
    assert key_position(key) == position


def test_rows_go_where_their_keys_belong():
    ranges = {0: KeyRange(0.0, 0.25), 1: KeyRange(0.25, 0.5), 2: KeyRange(0.5, 1.0)}
    keys = [f"key-{number % 50}" for number in range(1000)]
    found = dict(SegmentRouter(ranges).route(pa.array(keys), len(keys)))
    assert sorted(row for rows in found.values() for row in rows.to_pylist()) == list(range(1000))
    for segment, rows in found.items():
        assert rows.to_pylist() == sorted(rows.to_pylist())
        for row in rows.to_pylist():
            assert ranges[segment].low <= key_position(keys[row]) < ranges[segment].high


def test_rows_without_keys_take_turns():
    router = SegmentRouter({0: KeyRange(0.0, 0.5), 1: KeyRange(0.5, 1.0)})
    assert {router.route(None, 5)[0][0] for _ in range(2)} == {0, 1}


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=30), max_size=40), st.integers(0, 200))
def test_events_come_back_whole(events, cut_off):
    data = framed(*events)
    assert len(data) == frames_size(pa.array(events, pa.large_binary()))
    assert to_array(data, event_offsets(data)).to_pylist() == events
    part = data[: max(0, len(data) - cut_off)]
    offsets = event_offsets(part)
    found = to_array(part, offsets).to_pylist()
    assert found == events[: len(found)]
    # Only the last of what is there may be missing.
    assert len(part) - offsets[-1] < (8 + len(events[len(found)]) if len(found) < len(events) else 1)


@pytest.mark.parametrize("size", [0, 5, 100])
def test_events_of_one_size(size):
    events = [bytes([number % 250]) * size for number in range(1000)]
    data = framed(*events) + framed(b"another") + framed(b"cut off")[:-1]
    assert to_array(data, event_offsets(data)).to_pylist() == [*events, b"another"]


def test_what_is_no_event_is_refused():
    with pytest.raises(BrokenEvents):
        event_offsets(b"\x00\x00\x00\x01\x00\x00\x00\x00")
    with pytest.raises(BrokenEvents):
        event_offsets(framed(b"a", b"b") + b"\xff" * 8)
    assert event_offsets(b"\x00\x00").tolist() == [0]


def test_a_sliced_array_is_framed_as_it_is():
    events = pa.array([b"a", b"bc", b"", b"def"], pa.large_binary()).slice(1, 2)
    assert bytes(frame_events(events)) == framed(b"bc", b"")
    assert np.array_equal(event_offsets(framed(b"bc", b"")), [0, 10, 18])


def looked_at(one):
    return one.addresses, one.is_secure


def test_addresses():
    assert ControllerSettings("tcp://a:1,b:2").addresses == ["a:1", "b:2"]
    assert not ControllerSettings("localhost:9090").is_secure
    assert ControllerSettings("tls://h:9090").is_secure
    for wrong in ("http://h:1", "tcp://h", "tcp://h:x", "tcp://u:p@h:1", "tcp://a:1,tls://b:2"):
        with pytest.raises(BadConfigurationError):
            looked_at(ControllerSettings(wrong))


def test_credentials_are_hidden():
    credentials = Credentials.basic("anna", "s3cr3t")
    assert credentials.header == "Basic " + base64.b64encode(b"anna:s3cr3t").decode()
    assert credentials.token not in repr(ControllerSettings("tcp://h:1", credentials))


#: As a server (0.13.0) wrote them: a stream of two segments, and the same one after a scaling.
MARKS = {
    "000001000000006100000000000017700000000000001770020000010000000018000000000000000000000000000000003fe000000000000"
    "00000000000000012000001000000001800000000000000013fe00000000000003ff00000000000000000000000000024": Watermark(
        6000, 6000, {0: 18, 1: 36}
    ),
    "00000100000000b10000000000003a980000000000004e2004000001000000001800000001000000033fd00000000000003fe0000000000000"
    "0000000000000000000001000000001800000001000000043fe00000000000003fe800000000000000000000000000000000010000000018"
    "00000001000000053fe80000000000003ff000000000000000000000000000120000010000000018000000010000000200000000000000003f"
    "d00000000000000000000000000009": Watermark(
        15000, 20000, {1 << 32 | 3: 0, 1 << 32 | 4: 0, 1 << 32 | 5: 18, 1 << 32 | 2: 9}
    ),
}


@pytest.mark.parametrize("written", MARKS)
def test_a_mark_of_a_server_is_read(written):
    data = bytes.fromhex(written)
    assert parse_watermark(data) == MARKS[written]
    for size in range(len(data)):
        with pytest.raises(ValueError, match="mark"):
            parse_watermark(data[:size])


@pytest.mark.parametrize("segments", [0, 127, 128, 20_000])
def test_a_mark_has_any_number_of_segments(segments):
    size = 1 if segments < 128 else 2 if segments < 1 << 14 else 4
    count = segments | {1: 0, 2: 0x8000, 4: 0xC0000000}[size]
    one = struct.pack(">BBBBiqdd", 0, 0, 1, 0, 24, 7, 0.0, 1.0)
    entries = b"".join(
        one[:8] + struct.pack(">q", number) + one[16:] + struct.pack(">q", 9) for number in range(segments)
    )
    content = struct.pack(">qq", 1, 2) + count.to_bytes(size, "big") + entries
    # A later server may append fields of its own.
    data = struct.pack(">BBBBi", 0, 0, 2, 0, len(content)) + content + struct.pack(">Bi", 1, 3) + b"abc"
    assert parse_watermark(data) == Watermark(1, 2, dict.fromkeys(range(segments), 9))
    with pytest.raises(ValueError, match="no mark that is known"):
        parse_watermark(b"\0\1" + data[2:])


def test_a_process_keeps_a_few_controllers(monkeypatch):
    ended = []
    monkeypatch.setattr(_segment_stores._controllers, "_close", ended.append)
    every = [ControllerSettings(f"tcp://few:{port}") for port in range(1000, 1052)]
    first = controller_of(every[0])
    for one in every:
        controller_of(one)
    assert first in ended and len(ended) >= 52 - 16
    assert controller_of(every[0]) is not first


def test_a_controller_that_was_closed_connects_again():
    controller = Controller(ControllerSettings("tcp://127.0.0.1:1", timeout_s=0.2, tries=1))
    for _ in range(2):
        with pytest.raises(RetriableError, match="no answer from the controller"):
            controller.list_scopes()
        controller.close()
