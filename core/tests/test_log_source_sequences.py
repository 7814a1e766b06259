"""Whatever happens to a log and to the query, each position is handed out exactly once."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from penstock.source import ReadLimits
from penstock.source.log import STATE_SERIALIZER, Earliest, LogPartition, LogSplit
from penstock.source.log._limits import cut, take_share

SMALL = st.integers(0, 30)


def machine_of(new_log):
    class Sequences(RuleBasedStateMachine):
        """Rows that committed batches have read, beside what the log holds."""

        def __init__(self):
            super().__init__()
            self.log = new_log()
            self.log.make("s0", 3, 0)
            self.options = {"start": Earliest()}
            self.committed = None  # the state that Spark's checkpoint holds
            self.read = []
            self.enumerator = self.log.enumerate(**self.options)

        @rule(records=SMALL, number=SMALL)
        def append(self, records, number):
            partitions = [LogPartition(s, n) for s, (_, bounds) in self.log.streams.items() for n in range(len(bounds))]
            self.log.append(partitions[number % len(partitions)], records)

        @rule(records=SMALL)
        def add_partition(self, records):
            self.log.grow("s0", len(self.log.streams["s0"][1]) + 1, records)

        @rule(records=SMALL)
        def add_stream(self, records):
            self.log.make(f"s{len(self.log.streams)}", records)

        @rule()
        def discover(self):
            self.log.discover(self.enumerator)

        @rule(most=st.none() | st.integers(1, 20), pieces=st.none() | st.integers(1, 8), fails=st.booleans())
        def batch(self, most, pieces, fails):
            splits = self.enumerator.take_batch(ReadLimits(max_records=most))
            if fails:
                self.enumerator.add_splits_back(splits)
                return
            splits = cut(splits, pieces, None) if splits else splits
            self.read += [(s.log_partition, at) for s in splits for at in range(s.start, s.end)]
            self.committed = self.enumerator.snapshot_state()

        @rule()
        def restart(self):
            state = self.committed and STATE_SERIALIZER.unpack(STATE_SERIALIZER.pack(self.committed))
            self.enumerator = self.log.enumerate(state, **self.options)

        @rule()
        def available_now(self):
            """A run of its own: begins at the checkpoint, ends, and leaves the checkpoint where it ended."""
            self.restart()
            self.enumerator.prepare_for_available_now()
            while not self.enumerator.is_exhausted():
                self.batch(most=7, pieces=None, fails=False)
            self.restart()

        @invariant()
        def never_twice(self):
            assert len(set(self.read)) == len(self.read)

        def teardown(self):
            self.available_now()
            self.restart()
            self.available_now()
            bounds = {LogPartition(s, n): end for s, (_, b) in self.log.streams.items() for n, (_, end) in enumerate(b)}
            there = {(partition, at) for partition, end in bounds.items() for at in range(end)}
            assert set(self.read) == there and len(self.read) == len(there)

    return Sequences


def test_each_position_is_handed_out_exactly_once(new_log):
    run_state_machine_as_test(machine_of(new_log), settings=settings(max_examples=60, stateful_step_count=25))


WAITING = st.dictionaries(
    st.builds(LogPartition, st.sampled_from("ab"), st.integers(0, 20)), st.just(1) | st.integers(0, 10_000)
)


@given(waiting=WAITING, most=st.none() | st.integers(1, 40) | st.integers(1, 20_000))
def test_share_takes_what_the_limit_allows(waiting, most):
    positions = dict.fromkeys(waiting, 5)
    share = take_share(positions, {p: 5 + records for p, records in waiting.items()}, most)
    taken = {p: end - 5 for p, end in share.items()}
    full = [p for p, records in waiting.items() if records]
    assert sorted(taken) == sorted(full) and all(1 <= taken[p] <= waiting[p] for p in full)
    if most is None or sum(waiting.values()) <= most:
        assert sum(taken.values()) == sum(waiting.values())
    else:
        assert max(0, most - len(full)) <= sum(taken.values()) <= max(most, len(full))


def test_a_limit_holds_where_each_share_rounds_up():
    """Two small partitions beside a large one: proportional shares, none below one, would be 1, 2 and 1."""
    ends = {LogPartition("a", 0): 1, LogPartition("a", 1): 4, LogPartition("a", 2): 1}
    assert sorted(take_share(dict.fromkeys(ends, 0), ends, 3).values()) == [1, 1, 1]


def test_what_is_too_much_is_taken_from_several_and_leaves_each_a_record():
    ends = {LogPartition("a", number): 1 if number > 1 else 500 for number in range(20)}
    assert sorted(take_share(dict.fromkeys(ends, 0), ends, 20).values()) == [1] * 20


@given(
    sizes=st.lists(st.integers(1, 10_000), min_size=1, max_size=8),
    least=st.none() | st.integers(1, 60),
    most=st.none() | st.integers(100, 5_000),
)
def test_cut_pieces_cover_each_range_in_order(sizes, least, most):
    ranges = [LogSplit("s", number, 7, 7 + size) for number, size in enumerate(sizes)]
    pieces = cut(ranges, least, most)
    for whole in ranges:
        own = [piece for piece in pieces if piece.partition == whole.partition]
        assert [piece.start for piece in own] == [whole.start, *(piece.end for piece in own[:-1])]
        assert own[-1].end == whole.end and all(piece.records > 0 for piece in own)
    assert most is None or max(piece.records for piece in pieces) <= most
    assert least is None or len(pieces) >= min(least, sum(sizes))
