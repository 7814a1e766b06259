"""Pictures of how a measure grows."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.curves import Panel, as_curves
from benchmarks.measuring import OURS, THEIRS, Measurement, Results

AMOUNTS = st.lists(st.integers(1, 10**7), min_size=1, max_size=5, unique=True)
VALUES = st.just(0.0) | st.floats(1e-6, 1e12)


def points(picture):
    found = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}circle")
    return [(float(one.get("cx")), float(one.get("cy"))) for one in found]


@settings(max_examples=40)
@given(data=st.data(), amounts=AMOUNTS, sides=st.sampled_from([["us"], ["us", "them"]]))
def test_points_are_in_their_order_and_inside_the_picture(data, amounts, sides):
    drawn = {side: [(amount, data.draw(VALUES)) for amount in sorted(amounts)] for side in sides}
    picture = as_curves("title & <more>", "files", [Panel("a <batch>", "ms", drawn)])
    _, _, width, height = map(float, ElementTree.fromstring(picture).get("viewBox").split())
    found = points(picture)
    wanted = [value for values in drawn.values() for _, value in values]
    assert len(found) == len(wanted)
    assert all(0 <= x <= width and 0 <= y <= height for x, y in found)
    assert found[: len(amounts)] == sorted(found[: len(amounts)], key=lambda one: one[0])
    for (_, y), value in zip(found, wanted, strict=True):
        for (_, other_y), other in zip(found, wanted, strict=True):
            assert other_y <= y if other > value else True  # more is above, but for rounding


def test_measures_of_a_case_are_panels_of_one_picture(tmp_path):
    results = Results(tmp_path / "growth.json", ("pyarrow",))
    ours = {OURS: [2.0, 4.0], THEIRS: [9.0]}
    results.put(
        "files in a batch",
        [
            Measurement("10 files: a batch", "ms", "less", ours),
            Measurement("1,000 files: a batch", "ms", "less", {OURS: [5.0]}),
            Measurement("10 files: size", "kB", "less", ours),
        ],
    )
    ((name, picture),) = results.pictures("growth").items()
    assert name == "performance-growth-files-in-a-batch.svg"
    described = re.search(r"<desc.*?>(.*)</desc>", picture)[1]
    assert described == (
        "a batch, Penstock: 10 files in a batch 3 ms, 1,000 files in a batch 5 ms; "
        "a batch, Spark&#x27;s own: 10 files in a batch 9 ms; "
        "size, Penstock: 10 files in a batch 3 kB; size, Spark&#x27;s own: 10 files in a batch 9 kB"
    )
    shown = f"![Penstock compared with Spark's own (growth): files in a batch](../pictures/{name})"
    assert shown in results.block("growth")
