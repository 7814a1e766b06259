"""The sketch that tells late files from read ones after a restart."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock_filesystem.source.seen import SeenFiles
from penstock_filesystem.source.sketch import SetSketch

PRINTS = st.sets(st.integers(0, 2**64 - 1), max_size=60)


@settings(max_examples=60, deadline=None)
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


def test_files_below_the_edge_that_were_never_read_are_named():
    seen = SeenFiles(10**18, 1000)
    for i in range(5000):
        seen.add((i, f"f{i}"))
    assert seen.edge is not None
    below = [f"f{i}" for i in range(5000) if seen.is_below_edge((i, f"f{i}"))]
    again = SeenFiles(10**18, 1000, seen.edge, seen.freeze(), seen.freeze_below_edge())
    assert again.find_late(below) == ([], True)
    assert again.find_late([*below[:-3], "late1", "late2"]) == (["late1", "late2"], True)
    again.add_late(["late1"])
    assert again.find_late([*below, "late1", "late2"]) == (["late2"], True)
    assert again.find_late(["late3"])[1] is False
