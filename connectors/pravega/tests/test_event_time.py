"""Segments kept together in event time: on generated segments, and on a real server."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.source import ReadLimits
from penstock.source.event_time import BoundedOutOfOrderness, ColumnTimestamps, EventTimeSettings
from penstock_pravega.source._alignment import SegmentAlignment
from penstock_pravega.source._emitter import event_schema
from penstock_pravega.source._read_ahead import EventEnds, Share
from penstock_pravega.source._watermarks import NEVER

DRIFT_MS = 60_000
IDLE_MS = 60_000
EVENT_BYTES = 10


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def alignment(disorder=0, drift=DRIFT_MS, clock=None):
    event_time = EventTimeSettings(drift, IDLE_MS, ColumnTimestamps("value"), BoundedOutOfOrderness(disorder))
    return SegmentAlignment(event_time, clock or Clock())


def marks_of(times, read, most, disorder=0):
    """Of the ``most`` events behind the first ``read`` ones; each has ``EVENT_BYTES``."""
    part = np.array([NEVER if ms is None else ms for ms in times[read : read + most]], np.int64)
    numbers = np.arange(1, len(part) + 1, dtype=np.int64)
    watermarks = np.where(part == NEVER, NEVER, part - disorder)
    latest = [np.maximum.accumulate(each) for each in (part, watermarks)]
    return EventEnds(read * EVENT_BYTES, (read + numbers) * EVENT_BYTES, numbers, *latest)


def batches(segments, most, disorder=0):
    """The times of each micro-batch, until everything is read."""
    aligned, read = alignment(disorder), dict.fromkeys(segments, 0)
    while any(read[p] < len(times) for p, times in segments.items()):
        waiting = {p: marks_of(times, read[p], most, disorder) for p, times in segments.items() if read[p] < len(times)}
        ends = {p: len(times) * EVENT_BYTES for p, times in segments.items()}
        chosen = aligned.choose(waiting, ends, more_may_come=False)
        assert chosen, "it stands still"
        yield [ms for p, end in chosen.items() for ms in segments[p][read[p] : end // EVENT_BYTES]]
        read.update({p: end // EVENT_BYTES for p, end in chosen.items()})


def late(found, delay):
    """How many rows Spark would drop: those before its watermark, the latest time of all batches before less delay."""
    latest, dropped = None, 0
    for times in found:
        told = [ms for ms in times if ms is not None]
        dropped += sum(latest is not None and ms < latest - delay for ms in told)
        latest = max([*told, *([] if latest is None else [latest])], default=None)
    return dropped


def segments(disorder=0):
    steps = st.lists(st.one_of(st.none(), st.integers(0, 200_000)), max_size=60)

    def times(start, found):
        at, each = start, []
        for number, step in enumerate(found):
            at += step or 0
            each.append(None if step is None else at - (number * 7919 % (disorder + 1)))
        return each

    one = st.builds(times, st.integers(0, 5_000_000), steps)
    return st.lists(one, min_size=1, max_size=4).map(lambda all_: {("s/t", n): each for n, each in enumerate(all_)})


@settings(max_examples=150)
@given(segments(), st.integers(1, 20))
def test_no_row_is_late(found, most):
    read = list(batches(found, most))
    assert sum(map(len, read)) == sum(map(len, found.values()))
    assert late(read, DRIFT_MS) == 0


@settings(max_examples=150)
@given(segments(disorder=30_000), st.integers(1, 20))
def test_no_row_is_late_where_times_are_out_of_order(found, most):
    assert late(batches(found, most, disorder=30_000), DRIFT_MS + 2 * 30_000) == 0


def test_a_segment_without_data_holds_the_others_until_it_is_idle():
    clock = Clock()
    aligned = alignment(clock=clock)
    times = [n * 50_000 for n in range(10)]
    waiting, ends = {("s/t", 0): marks_of(times, 0, 10)}, {("s/t", 0): 100, ("s/t", 1): 0}
    assert aligned.choose(waiting, ends, more_may_come=True) == {}
    assert aligned.describe() == {"frontiers": {}, "held": ["s/t/0.#epoch.0"], "idle": []}
    clock.now = IDLE_MS / 1000
    assert aligned.choose(waiting, ends, more_may_come=True) == {("s/t", 0): 100}
    assert aligned.describe()["idle"] == ["s/t/1.#epoch.0"]
    # It has something again: it counts at once, and the other one waits for it.
    waiting = {("s/t", 0): marks_of([times[-1] + n * 50_000 for n in range(10)], 0, 10)}
    waiting[("s/t", 1)] = marks_of([times[-1]], 0, 1)
    chosen = aligned.choose(waiting, {("s/t", 0): 200, ("s/t", 1): 10}, more_may_come=True)
    assert chosen == {("s/t", 0): 20, ("s/t", 1): 10}
    assert aligned.describe()["frontiers"] == {
        "s/t/0.#epoch.0": "1970-01-01T00:08:20.000Z",
        "s/t/1.#epoch.0": "1970-01-01T00:07:30.000Z",
    }


def test_what_replaces_segments_goes_on_where_they_ended():
    aligned = alignment()
    chosen = aligned.choose({("s/t", 0): marks_of([100_000], 0, 1)}, {("s/t", 0): 10}, more_may_come=True)
    assert chosen == {("s/t", 0): 10}
    new = {("s/t", 1): marks_of([100_000, 400_000], 0, 2)}
    # The other one of the two has nothing yet; its time is that of what it replaced, not unknown.
    assert aligned.choose(new, {("s/t", 1): 20, ("s/t", 2): 0}, more_may_come=True) == {("s/t", 1): 10}


def test_marks_go_on_behind_one_of_them():
    marks = marks_of([1, 2, 3, 4], 0, 4)
    share = Share("s/t", 0, 0, 100, None, 2)
    assert marks.until(share).offsets.tolist() == [10, 20]
    assert marks.until(replace(share, max_rows=8)).offsets.tolist() == [10, 20, 30, 40]  # that is half of it
    assert marks.until(replace(share, max_rows=9)) is None  # it does not reach so far
    behind = marks.after(20)
    assert (behind.start, behind.offsets.tolist(), behind.counts.tolist()) == (20, [30, 40], [1, 2])
    assert behind.until(replace(share, start=20, max_rows=1)).offsets.tolist() == [30]
    assert marks.after(15) is None and marks.after(40) is None and marks.after(0) is marks


# --- on a server ------------------------------------------------------------------------------------------------------

VALUE = pa.struct([("at", pa.int64()), ("n", pa.int64())])
ALIGNED = {
    "value_format": "json",
    "watermark_timestamps": "value.at",
    "watermark_alignment_maxDrift": "1m",
    "watermark_idleTimeout": "2s",
}


def write(pravega, stream, times):
    """Events of one key, so of one segment."""
    pravega.write(stream, [("k", json.dumps({"at": at, "n": n}).encode()) for n, at in enumerate(times)])


@pytest.fixture
def streams(pravega):
    """A day in two streams: one with an event a minute, one with ten, but only in its second half."""
    dense, sparse = pravega.create_stream(segments=1), pravega.create_stream(segments=1)
    write(pravega, dense, range(43_200_000, 86_400_000, 6_000))
    write(pravega, sparse, range(0, 86_400_000, 60_000))
    return dense, sparse


def read_all(harness, enumerator, limits, patience_s=240):
    """The times of each micro-batch until nothing is left."""
    found, deadline = [], time.monotonic() + patience_s
    while sum(map(len, found)) < 7_200 + 1_440:
        assert time.monotonic() < deadline, f"{sum(map(len, found))} rows came"
        if splits := enumerator.take_batch(limits):
            found.append([row["value"]["at"] for row in harness.read(splits, event_schema(VALUE))])
        else:
            harness.coordinator.await_handlers(lambda: False, 20)
    return found


@pytest.mark.parametrize("rows", [1_000, None])
def test_no_row_of_a_day_is_late(pravega_source, streams, rows):
    limits = ReadLimits(max_records=rows)

    def run(**options):
        harness = pravega_source(stream=",".join(streams), startingStreamCut="head", **options)
        harness.source.validate_schema(event_schema(VALUE))
        with harness.enumerator() as enumerator:
            return read_all(harness, enumerator, limits), enumerator.describe_event_time()

    found, described = run(**ALIGNED)
    assert late(found, 60_000) == 0
    assert set(described) == {"frontiers", "held", "idle"} and len(described["frontiers"]) == 2
    assert rows is None or max(map(len, found)) <= rows
    if rows is not None:
        assert late(run(value_format="json")[0], 60_000) > 500, "nothing would have been late anyhow"


def test_a_stream_that_is_behind_holds_the_other_back(pravega, pravega_source):
    ahead, behind = pravega.create_stream(segments=1), pravega.create_stream(segments=1)
    write(pravega, ahead, range(0, 36_000_000, 60_000))
    write(pravega, behind, range(0, 600_000, 60_000))
    harness = pravega_source(stream=f"{ahead},{behind}", startingStreamCut="head", **ALIGNED)
    harness.source.validate_schema(event_schema(VALUE))
    with harness.enumerator() as enumerator:
        clock = enumerator._batch_ends._alignment._idle._clock = Clock()
        rows = harness.read(enumerator.take_batch(ReadLimits()), event_schema(VALUE))
        assert max(row["value"]["at"] for row in rows) < 540_000 + 60_000
        held = enumerator.take_batch(ReadLimits())
        assert held == [] and len(enumerator.describe_event_time()["held"]) == 1
        write(pravega, behind, [1_200_000])
        rows = harness.read(enumerator.take_batch(ReadLimits()), event_schema(VALUE))
        assert max(row["value"]["at"] for row in rows) < 1_200_000 + 60_000
        clock.now = 2.0  # the idle timeout: then nobody waits for it any more
        rows = harness.read(enumerator.take_batch(ReadLimits()), event_schema(VALUE))
        assert max(row["value"]["at"] for row in rows) == 36_000_000 - 60_000


def test_events_have_no_time_of_their_own(pravega_source):
    with pytest.raises(BadConfigurationError, match=r"needs the option 'watermark\.timestamps'"):
        pravega_source(stream="s", watermark_alignment_maxDrift="1m")
    harness = pravega_source(
        stream="s", watermark_alignment_maxDrift="1m", watermark_timestamps="value.when", value_format="json"
    )
    with pytest.raises(BadConfigurationError, match=r"no column 'value\.when'"):
        harness.source.validate_schema(event_schema(VALUE))
