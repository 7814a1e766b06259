"""What checkpoints of the first edition know: an edge, and a sketch that tells late files from read ones."""

from __future__ import annotations

import json
import os
import random
import struct
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.source import ReadLimits
from penstock_filesystem.source._split import Edge
from penstock_filesystem.source.discovery import FoundFile
from penstock_filesystem.source.tracking import files_below_edge
from penstock_filesystem.source.tracking._sketch import SetSketch
from penstock_filesystem.source.tracking._tracked_files import FingerprintRun, fingerprint

PRINTS = st.sets(st.integers(0, 2**64 - 1), max_size=60)


@settings(max_examples=60)
@given(PRINTS, PRINTS, PRINTS)
def test_what_is_read_back_is_true(common, here, there):
    sketch = SetSketch()
    sketch.add(common | here)
    found = SetSketch.from_bytes(sketch.to_bytes()).difference(common | there)
    assert found.only_here <= here - there and found.only_there <= there - here - common
    if found.complete:
        assert found.only_here == here - there - common and found.only_there == there - here - common


@pytest.mark.parametrize(("differing", "complete"), [(0, True), (450, True), (2000, False)])
def test_hundreds_of_differences_among_many(differing, complete):
    rng = random.Random(1)
    common = [rng.getrandbits(64) for _ in range(20_000)]
    new = [rng.getrandbits(64) for _ in range(differing)]
    sketch = SetSketch()
    sketch.add(common)
    found = sketch.difference(common + new)
    assert found.complete is complete and not found.only_here and found.only_there <= set(new)
    if complete:
        assert found.only_there == set(new)


def first_edition(count, forgotten):
    """The edge of a first edition's state: ``count`` files were read, ``forgotten`` of them are below it."""
    sketch = SetSketch()
    sketch.add(fingerprint(f"f{i}") for i in range(forgotten))
    return Edge(forgotten - 1, f"f{forgotten - 1}", sketch.to_bytes()), [FoundFile(i, f"f{i}", 1) for i in range(count)]


def test_files_that_came_late_to_a_checkpoint_of_the_first_edition_are_read():
    edge, files = first_edition(5000, 4000)
    late = [FoundFile(3, "late1", 1), FoundFile(5, "late2", 1)]
    assert files_below_edge(edge, [*files, *late]) == files[:4000]
    assert files_below_edge(edge, [*files[300:], *late]) == files[300:4000], "some were removed"


def test_where_that_cannot_be_told_they_count_as_read_and_a_warning_says_so(caplog):
    edge, files = first_edition(5000, 4000)
    late = FoundFile(3, "late1", 1)
    assert files_below_edge(edge, [*files[3000:], late]) == [*files[3000:4000], late]
    assert "1001 file(s) that are not newer than f3999 are taken as read" in caplog.text


def test_a_stream_goes_on_from_a_checkpoint_of_the_first_edition(tmp_path, source_harness):
    """Through the stored form, as the first edition wrote it."""
    for name, seconds in (("below", 1), ("late", 2), ("edge", 3), ("chunk", 4), ("new", 5)):
        (tmp_path / name).write_text("x\n")
        os.utime(tmp_path / name, (seconds, seconds))
    sketch = SetSketch()
    sketch.add(fingerprint(f"{tmp_path}/{name}") for name in ("below", "edge", "removed"))
    prints = FingerprintRun.of([fingerprint(f"{tmp_path}/chunk")]).fingerprints
    head = {"edge": [3 * 10**9, f"{tmp_path}/edge"], "chunks": [[4 * 10**9, f"{tmp_path}/chunk", 1]]}
    packed = zlib.compress(json.dumps({**head, "rest": None, "returned": [], "late": []}).encode())
    stored = struct.pack("<I", len(packed)) + packed + prints + sketch.to_bytes()

    source = source_harness.source(tmp_path, format="text")
    state = source.enumerator_serializer.deserialize(1, stored)
    for _ in range(2):
        enumerator = source.create_enumerator(source_harness.context(), state)
        enumerator.start()
        splits = source_harness.batch(enumerator, ReadLimits())
        assert [split.path.rsplit("/", 1)[1] for split in splits] == ["late", "new"]
        assert source_harness.batch(enumerator, ReadLimits()) == []
        state_after = enumerator.snapshot_state()
    assert state_after.edge is None
    again = source.create_enumerator(source_harness.context(), state_after)
    again.start()
    assert source_harness.batch(again, ReadLimits()) == []
