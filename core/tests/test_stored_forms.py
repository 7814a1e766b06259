"""Everything that is stored has a version, and what an earlier release stored opens."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock._commit import Link, LinkKind, StateItem, TaskOutput
from penstock.errors import FatalError
from penstock.serialization import JsonSerializer, Versioned
from penstock.source.log import SPLIT_SERIALIZER, STATE_SERIALIZER, LogPartition, LogSplit, LogState
from penstock.spark._offsets import StreamOffset, is_last_batch, pack_splits

GOLDEN = Path(__file__).parent / "golden"
TEXT = JsonSerializer(1, lambda value: value, lambda _, value: value)

LINK = Link(
    number=7,
    kind=LinkKind.BATCH,
    base=7,
    generation=3,
    id="d" * 32,
    run="c" * 32,
    session="s",
    plan="p" * 32,
    time_ms=1_700_000_000_000,
    batch=5,
    fingerprint="f" * 64,
    offsets=b"v1\n{}\n{}",
    outputs=(
        TaskOutput(0, "a" * 32, (), (Versioned(1, b'{"path":"x"}'),), (), 1),
        TaskOutput(1, "b" * 32, ("s1",), (), (StateItem("s2", Versioned(1, b'"two"')),), 2),
    ),
    states=(StateItem("s2", Versioned(1, b'"two"')), StateItem("s0", Versioned(1, b'"zero"'))),
    pending=7,
    sequence=12,
    writers=2,
    floor_us=10,
    ceiling_us=20,
    query="q",
    place="x",
    targets={"": "/out"},
    metrics={"rows_written": 10},
)
OFFSET = StreamOffset(
    seq=3,
    enumerator=Versioned(1, b'{"position":9}'),
    splits=pack_splits(["one", "zwei", "três"], TEXT),
    count=3,
    size_bytes=99,
    end=True,
)
LOG_STATE = LogState(
    {LogPartition("orders", 0): 7, LogPartition("orders", 10): 0, LogPartition("ørders", 2): 1 << 40},
    {"orders": "xvQmYUTvRAiFsXUrRPS0/g"},
    {LogPartition("orders", 0): 100},
    {LogPartition("away", 3): 12},
)


@pytest.mark.parametrize("version", [2, 3])
def test_links_open(version):
    stored = (GOLDEN / f"link-v{version}.json").read_bytes()
    assert Link.from_bytes(stored, done=False, where="golden") == LINK


@pytest.mark.parametrize("done", [True, False])
def test_decision_of_format_1_opens(done):
    stored = json.dumps({**json.loads((GOLDEN / "decision-v1.json").read_bytes()), "redo": []}).encode()
    link = Link.from_bytes(stored, done=done, where="golden")
    assert (link.number, link.kind, link.base, link.batch, link.fingerprint) == (7, LinkKind.BATCH, 7, 5, "")
    assert (link.outputs, link.states, link.sequence, link.writers) == (LINK.outputs, LINK.states, 12, 2)
    assert link.pending == (None if done else 7)


def test_decision_of_format_1_that_is_to_be_written_again_in_part_is_refused():
    with pytest.raises(FatalError, match="only the first edition"):
        Link.from_bytes((GOLDEN / "decision-v1.json").read_bytes(), done=True, where="golden")


def test_link_round_trip():
    assert Link.from_bytes(LINK.to_bytes(), done=False, where="x") == LINK


def test_newer_link_is_refused_with_advice():
    newer = json.dumps({**json.loads(LINK.to_bytes()), "format": 99}).encode()
    with pytest.raises(FatalError, match="newer penstock"):
        Link.from_bytes(newer, done=False, where="x")


def test_offset_of_format_1_opens():
    stored = StreamOffset.from_json(json.loads((GOLDEN / "offset-v1.json").read_text()))
    assert stored.unpack_splits(TEXT) == ["one", "zwei", "três"]
    assert (stored.seq, stored.enumerator, stored.count, stored.size_bytes, stored.end) == (
        3,
        OFFSET.enumerator,
        3,
        99,
        True,
    )


def test_offset_round_trip_and_newer_ones():
    assert StreamOffset.from_json(json.loads(json.dumps(OFFSET.to_json()))) == OFFSET
    with pytest.raises(FatalError, match="newer penstock"):
        StreamOffset.from_json({"penstock": 2, "seq": 0})


def test_log_positions_of_format_1_open():
    for name, expected in (("log-state-v1", replace(LOG_STATE, gone={})), ("log-state-v1-gone", LOG_STATE)):
        assert STATE_SERIALIZER.deserialize(1, (GOLDEN / f"{name}.json").read_bytes()) == expected
        assert STATE_SERIALIZER.deserialize(1, STATE_SERIALIZER.serialize(expected)) == expected
    unbounded = LogState({LogPartition("a", 1): 5})
    assert STATE_SERIALIZER.deserialize(1, STATE_SERIALIZER.serialize(unbounded)) == unbounded


def test_log_splits_of_format_1_open():
    assert SPLIT_SERIALIZER.deserialize(1, b'["orders",3,10,25]') == LogSplit("orders", 3, 10, 25)


def test_log_splits_of_format_2_open():
    split = LogSplit("orders", 3, 10, 25, "an id")
    assert SPLIT_SERIALIZER.serialize(split) == b'["orders",3,10,25,"an id"]'
    assert SPLIT_SERIALIZER.unpack(SPLIT_SERIALIZER.pack(split)) == split


def test_serializer_refuses_versions_from_the_future():
    with pytest.raises(FatalError, match="version 2"):
        TEXT.deserialize(2, b"1")


def test_last_batch_needs_every_source_at_its_end():
    end, going_on = json.dumps(OFFSET.to_json()), json.dumps(StreamOffset(1, None).to_json())
    head = 'v1\n{"batchWatermarkMs":0}\n'
    assert is_last_batch(f"{head}{end}".encode())
    assert is_last_batch(f"{head}{end}\n-\n{end}".encode())
    assert not is_last_batch(f"{head}{end}\n{going_on}".encode())
    assert not is_last_batch(f"{head}{end}\n42".encode())
    assert not is_last_batch(head.encode())


def test_a_source_of_sparks_may_be_at_its_end_in_a_run_that_ends():
    end, going_on = json.dumps(OFFSET.to_json()), json.dumps(StreamOffset(1, None).to_json())
    head = 'v1\n{"batchWatermarkMs":0}\n'
    assert is_last_batch(f'{head}{{"logOffset":1}}\n{end}\n42'.encode(), run_ends=True)
    assert is_last_batch(head.encode(), run_ends=True), "nothing is known of its sources"
    assert not is_last_batch(f"{head}42\n{going_on}".encode(), run_ends=True)
