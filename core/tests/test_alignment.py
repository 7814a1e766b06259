"""The ends of micro-batches by event time: no row is late for a watermark that follows the latest time seen."""

from __future__ import annotations

from bisect import bisect_left

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from penstock.source.log import LogPartition
from penstock.source.log._alignment import Alignment
from penstock.source.log._sampling import Sample

IDLE_MS = 60_000


class Log:
    """Records in memory: a list of times for each partition. Counts what is looked at."""

    def __init__(self, times, disorder=0):
        self.times = {LogPartition("t", number): list(each) for number, each in enumerate(times)}
        self.disorder = disorder
        self.looks = 0

    def sample(self, ranges):
        self.looks += 1
        return {p: self._sample([t for t in self.times[p][a:b] if t is not None]) for p, (a, b) in ranges.items()}

    def _sample(self, times):
        return Sample(max(times), max(times) - self.disorder) if times else Sample(None, None)

    def ends(self):
        return {p: len(times) for p, times in self.times.items()}


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def aligned(log, drift, clock=None):
    return Alignment(
        log, drift_ms=drift, out_of_orderness_ms=log.disorder, idle_timeout_ms=IDLE_MS, clock=clock or Clock()
    )


def batches(log, drift, most=None, more_may_come=False):
    """The ranges of every batch until nothing is left, or nothing more may be read."""
    alignment, positions = aligned(log, drift), dict.fromkeys(log.times, 0)
    while chosen := alignment.choose(positions, log.ends(), most, more_may_come=more_may_come):
        assert all(positions[p] < end <= len(log.times[p]) for p, end in chosen.items())
        yield {p: (positions[p], end) for p, end in chosen.items()}
        positions.update(chosen)


def late(log, ranges, delay):
    """How many rows Spark would drop: those before its watermark, the latest time of all batches before less delay."""
    watermark, dropped = float("-inf"), 0
    for batch in ranges:
        times = [t for p, (a, b) in batch.items() for t in log.times[p][a:b] if t is not None]
        dropped += sum(t < watermark for t in times)
        watermark = max([watermark, *(t - delay for t in times)])
    return dropped


MINUTE = 60_000


def test_partitions_that_are_hours_apart_are_read_side_by_side_in_time():
    log = Log([range(0, 3600_000, 500), range(0, 24 * 3600_000, 10_000), range(7_200_000, 9_000_000, 1_000)])
    done = list(batches(log, 10 * MINUTE, 2000))
    assert late(log, done, 10 * MINUTE) == 0
    assert sum(b - a for batch in done for a, b in batch.values()) == sum(map(len, log.times.values()))
    assert all(sum(b - a for a, b in batch.values()) <= 2000 for batch in done)
    assert len(done) <= 1.4 * sum(map(len, log.times.values())) / 2000
    assert log.looks < 8 * len(done)


def test_the_same_without_alignment_would_drop_rows():
    log = Log([range(0, 3600_000, 500), range(0, 24 * 3600_000, 10_000)])
    in_proportion = [{p: (len(t) * k // 10, len(t) * (k + 1) // 10) for p, t in log.times.items()} for k in range(10)]
    assert late(log, in_proportion, 10 * MINUTE) > 5000


def test_without_a_limit_a_backlog_is_one_batch_up_to_the_slowest():
    log = Log([range(0, 1000), range(0, 100_000, 10)])
    first, *_ = batches(log, 500, more_may_come=True)
    ends = {p.partition: b for p, (_, b) in first.items()}
    assert ends[0] == 1000 and 1_300 <= ends[1] * 10 <= 1_500


def test_what_a_silent_partition_may_still_bring_is_waited_for_until_it_is_idle():
    clock = Clock()
    log = Log([[1000] * 5, range(0, 3600_000, 1000)])
    alignment, positions = aligned(log, 2000, clock), {LogPartition("t", 0): 5, LogPartition("t", 1): 0}
    while chosen := alignment.choose(positions, log.ends(), None, more_may_come=True):
        positions.update(chosen)
    assert positions == {LogPartition("t", 0): 5, LogPartition("t", 1): 3}
    assert alignment.describe()["held"] == ["t-1"] and alignment.describe()["idle"] == []
    clock.now = IDLE_MS / 1000
    assert alignment.choose(positions, log.ends(), None, more_may_come=True) == {LogPartition("t", 1): 3600}
    assert alignment.describe()["idle"] == ["t-0"]


def test_a_partition_that_was_idle_holds_back_again_once_it_has_records():
    clock = Clock()
    slow, fast = LogPartition("t", 0), LogPartition("t", 1)
    log = Log([[1000] * 5, range(0, 10_000, 1000)])
    alignment, positions = aligned(log, 2000, clock), {slow: 5, fast: 0}
    alignment.choose(positions, log.ends(), None, more_may_come=True)
    clock.now = 100.0
    positions.update(alignment.choose(positions, log.ends(), None, more_may_come=True))
    assert positions[fast] == 10
    log.times[slow] += [11_000] * 3
    log.times[fast] += [20_000] * 3
    positions.update(alignment.choose(positions, log.ends(), None, more_may_come=True))
    assert positions == {slow: 8, fast: 10}


def test_an_empty_partition_is_waited_for_and_one_without_times_is_not():
    clock = Clock()
    log = Log([[], range(0, 100, 10)])
    alignment, positions = aligned(log, 2000, clock), dict.fromkeys(log.times, 0)
    assert alignment.choose(positions, log.ends(), None, more_may_come=True) == {}
    clock.now = IDLE_MS / 1000
    assert alignment.choose(positions, log.ends(), None, more_may_come=True) == {LogPartition("t", 1): 10}
    log = Log([[None] * 40, range(0, 1000, 10)])
    first = aligned(log, 2000).choose(dict.fromkeys(log.times, 0), log.ends(), None, more_may_come=True)
    assert {p.partition: end for p, end in first.items()} == {0: 40, 1: 100}


def test_long_stretches_without_times_are_read_over():
    """As of aborted transactions: positions without records."""
    none = [None] * 700
    log = Log([[*none, *range(0, 1000, 10), *none, *range(1000, 3000, 10)], [*range(5000, 9000, 10), *none]])
    for most in (None, 37):
        done = list(batches(log, 500, most))
        assert sum(b - a for batch in done for a, b in batch.values()) == sum(map(len, log.times.values()))
        assert late(log, done, 500) == 0


def test_a_log_that_begins_anew_is_looked_at_anew():
    log = Log([range(0, 100_000, 10), range(0, 1000, 10)])
    alignment, positions = aligned(log, 100), dict.fromkeys(log.times, 0)
    positions.update(alignment.choose(positions, log.ends(), None, more_may_come=True))
    log.times[LogPartition("t", 0)] = list(range(0, 3000, 10))
    positions[LogPartition("t", 0)] = 0
    chosen = alignment.choose(positions, log.ends(), None, more_may_come=True)
    assert bisect_left(log.times[LogPartition("t", 0)], 1090) >= chosen[LogPartition("t", 0)] > 90


def test_many_records_of_one_time_and_a_small_limit():
    log = Log([[5] * 1000, [5] * 3 + [9] * 500])
    done = list(batches(log, 1, 10))
    assert sum(b - a for batch in done for a, b in batch.values()) == 1503
    assert all(sum(b - a for a, b in batch.values()) <= 10 for batch in done) and late(log, done, 1) == 0


@st.composite
def logs(draw):
    """Partitions whose times grow but for a disorder that is known."""
    disorder = draw(st.sampled_from([0, 0, 50, 400]))
    partitions = []
    for _ in range(draw(st.integers(1, 5))):
        start, step = draw(st.integers(0, 50_000)), draw(st.integers(0, 200))
        jumps = draw(st.lists(st.tuples(st.integers(0, 600), st.integers(0, 40_000)), max_size=3))
        noise = draw(st.randoms(use_true_random=True))  # one draw, and not one for each of a thousand numbers
        times, now = [], start
        for number in range(draw(st.integers(0, 600))):
            now += noise.randint(0, step) + sum(far for at, far in jumps if at == number)
            times.append(now - noise.randint(0, disorder))
        partitions.append(times)
    return Log(partitions, disorder)


# Logs shrink badly: it takes minutes, and what fails is shown.
@pytest.mark.parametrize("most", [None, 37, 400])
@given(log=logs(), drift=st.sampled_from([1, 100, 5_000]))
@settings(max_examples=40, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_no_row_is_late_and_all_are_read(most, log, drift):
    done = list(batches(log, drift, most))
    assert sum(b - a for batch in done for a, b in batch.values()) == sum(map(len, log.times.values()))
    assert late(log, done, drift + 2 * log.disorder) == 0
    for batch in done:
        assert most is None or sum(b - a for a, b in batch.values()) <= max(most, len(batch))
