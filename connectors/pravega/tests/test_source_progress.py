"""What a cut says when its stream was truncated: what was to be read is lost, what comes after the end is not."""

from __future__ import annotations

import pytest

from penstock.errors import DataLostError
from penstock.metrics import Metrics
from penstock.source.log import LossPolicy
from penstock_pravega.client import KeyRange, SegmentInfo
from penstock_pravega.source._progress import StreamProgress

HEAD = 1 << 32


class Truncated:
    """A stream of two segments: one begins at byte 15 now, the other is gone, and one with its keys replaces it."""

    def infos(self, stream, segments):
        known = {0: SegmentInfo(15, 30, False), HEAD: SegmentInfo(0, 10, False)}
        return {segment: known.get(segment) for segment in segments}

    def key_range(self, stream, segment):
        return KeyRange(0.0, 0.5) if segment == 0 else KeyRange(0.5, 1.0)

    def head(self, stream):
        return {0: 15, HEAD: 0}


def progress(cut, *, fail=True):
    metrics = Metrics()
    return StreamProgress("scope/stream", cut, Truncated(), LossPolicy(fail=fail, metrics=metrics)), metrics


@pytest.mark.parametrize("cut", [{0: 12}, {1: 7}, {0: 20, 1: 7}])
def test_what_is_after_the_end_of_a_bounded_stream_is_no_loss(cut):
    one, _ = progress(cut)
    one.refresh({0: 12, 1: 7})
    assert one.cut == cut


@pytest.mark.parametrize(
    ("cut", "stops", "message", "after"),
    [
        ({0: 3}, {}, "its bytes 3 to 14 were truncated", {0: 15}),
        ({0: 3}, {0: 12}, "its bytes 3 to 11 were truncated", {0: 12}),
        ({0: 20, 1: 7}, {}, r"after the cut in 1.#epoch.0 was truncated", {0: 20, HEAD: 0}),
        ({0: 20, 1: 7}, {1: 8}, r"after the cut in 1.#epoch.0 was truncated", {0: 20, HEAD: 0}),
    ],
)
def test_what_was_to_be_read_is_a_loss(cut, stops, message, after):
    with pytest.raises(DataLostError, match=message):
        progress(cut)[0].refresh(stops)
    one, metrics = progress(cut, fail=False)
    one.refresh(stops)
    assert one.cut == after and metrics.snapshot()["data_losses"] == 1
