"""The log template on a log in memory: where it starts and stops, what a batch takes, what it finds, what it loses."""

from __future__ import annotations

import itertools
import logging
from types import SimpleNamespace

import pytest

from penstock.errors import BadConfigurationError, DataLostError, FatalError, RetriableError
from penstock.source import ReadLimits
from penstock.source.log import (
    EARLIEST_OFFSET,
    LATEST_OFFSET,
    STATE_SERIALIZER,
    Earliest,
    FirstAnswer,
    GroupOffsets,
    Latest,
    LogPartition,
    LogSplit,
    LogState,
    SpecificOffsets,
    Timestamp,
    TimestampsByPartition,
)
from penstock.source.log._group_commits import GroupCommits

A0, A1, A2, B0 = (LogPartition(*p) for p in (("a", 0), ("a", 1), ("a", 2), ("b", 0)))
ALL = ReadLimits()


def ranges(splits):
    return [(str(split.log_partition), split.start, split.end) for split in splits]


# --- where it starts and stops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (Earliest(), {"a-0": 5, "a-1": 0, "b-0": 0}),
        (Latest(), {"a-0": 20, "a-1": 10, "b-0": 0}),
        (GroupOffsets("g", "earliest"), {"a-0": 7, "a-1": 0, "b-0": 0}),
        (GroupOffsets("g", "latest"), {"a-0": 7, "a-1": 10, "b-0": 0}),
        (Timestamp(8_000), {"a-0": 8, "a-1": 8, "b-0": 0}),
        (TimestampsByPartition({A0: 9_000, A1: 99_000, B0: 1}), {"a-0": 9, "a-1": 10, "b-0": 0}),
        (SpecificOffsets({A0: 11, A1: EARLIEST_OFFSET}, {"b": LATEST_OFFSET}), {"a-0": 11, "a-1": 0, "b-0": 0}),
        (SpecificOffsets({A0: LATEST_OFFSET, A1: 0, B0: 0}), {"a-0": 20, "a-1": 0, "b-0": 0}),
    ],
)
def test_starts_where_the_options_say(log, start, expected):
    log.make("a", 20, 10)
    log.drop(A0, before=5)
    log.make("b", 0)
    log.groups["g"] = {A0: 7}
    enumerator = log.enumerate(start=start)
    splits = enumerator.take_batch(ALL)
    state = enumerator.snapshot_state()
    assert {**{str(p): at for p, at in state.positions.items()}, **{p: at for p, at, _ in ranges(splits)}} == expected


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (GroupOffsets("g"), "group 'g' has committed nothing for a-0"),
        (Timestamp(99_000, "error"), "no record of a-0 is at or after 99000"),
        (TimestampsByPartition({A0: 1}), "must name every partition, and a-1 is missing"),
        (SpecificOffsets({A0: 1, A1: 1, A2: 1}), "names a-2, which does not exist"),
    ],
)
def test_start_without_an_answer_is_an_error(log, start, message):
    log.make("a", 10, 10)
    with pytest.raises(BadConfigurationError, match=message):
        log.enumerate(start=start).take_batch(ALL)


def test_stream_that_is_named_and_not_there_is_an_error_at_the_first_start(log):
    log.make("a", 3)
    log.named = ["a", "missing"]
    with pytest.raises(BadConfigurationError, match="missing"):
        log.enumerate().take_batch(ALL)
    with pytest.raises(BadConfigurationError, match="missing"):
        log.batch()


def test_batch_reads_from_start_to_stop(log):
    log.make("a", 20, 10)
    assert ranges(log.batch()) == [("a-0", 0, 20), ("a-1", 0, 10)]
    stop = SpecificOffsets({A0: 15, A1: LATEST_OFFSET})
    assert ranges(log.batch(batch_start=Timestamp(5_000), stop=stop)) == [("a-0", 5, 15), ("a-1", 5, 10)]
    assert ranges(log.batch(batch_start=Timestamp(5_000), stop=Timestamp(7_000))) == [("a-0", 5, 7), ("a-1", 5, 7)]
    assert log.batch(batch_start=Latest()) == []


def test_an_end_that_was_changed_at_a_restart_is_ignored(log, caplog):
    log.make("a", 20)
    first = log.enumerate(start=Earliest(), stop=SpecificOffsets({A0: 5}))
    assert ranges(first.take_batch(ALL)) == [("a-0", 0, 5)]
    state = first.snapshot_state()
    assert log.enumerate(state, start=Earliest(), stop=SpecificOffsets({A0: 5})).take_batch(ALL) == []
    again = log.enumerate(state, start=Earliest(), stop=SpecificOffsets({A0: 10}))
    assert again.take_batch(ALL) == [] and again.has_ended()
    assert not caplog.records, "the engine compares options"
    assert ranges(log.enumerate(state, start=Earliest()).take_batch(ALL)) == [("a-0", 5, 20)]


def test_what_the_options_do_not_name_any_more_at_a_restart_is_forgotten_and_not_missed(log, caplog):
    log.make("a", 5, 5)
    log.make("b", 5)
    first = log.enumerate(start=Earliest())
    assert len(first.take_batch(ALL)) == 3
    state = first.snapshot_state()
    log.append(A0, 2)
    log.append(B0, 2)
    log.selected = {A0}
    again = log.enumerate(state)
    log.discover(again)
    log.discover(again)
    assert "a-1, b-0 is not read any more" in caplog.text and again.wants_checkpoint()
    assert ranges(again.take_batch(ALL)) == [("a-0", 5, 7)]
    assert set(again.snapshot_state().positions) == {A0}


def test_what_is_added_after_the_end_of_a_stream_was_fixed_is_said_once(log, caplog):
    log.make("a", 5)
    first = log.enumerate(start=Earliest(), stop=Latest())
    first.take_batch(ALL)
    log.make("b", 5)
    again = log.enumerate(first.snapshot_state(), start=Earliest(), stop=Latest())
    log.discover(again)
    assert again.take_batch(ALL) == [] and again.has_ended()
    assert caplog.text.count("b-0 is not read: the end of this stream was fixed") == 1


def test_batch_beyond_the_end_is_an_error_unless_loss_is_taken(log):
    log.make("a", 10)
    with pytest.raises(BadConfigurationError, match="a-0 can be read up to offset 10 now, not to 12"):
        log.batch(stop=SpecificOffsets({A0: 12}))
    assert ranges(log.batch(stop=SpecificOffsets({A0: 12}), fail_on_data_loss=False)) == [("a-0", 0, 10)]


@pytest.mark.parametrize("fail", [True, False])
def test_start_after_the_end_is_an_error(log, fail):
    """Nothing would be read of that partition, which must not look like a partition without records."""
    log.make("a", 10, 10)
    for start, stop in [
        (SpecificOffsets({A0: 0, A1: 12}), None),
        (SpecificOffsets({A0: 0, A1: 12}), Latest()),
        (Timestamp(9_000), SpecificOffsets({A0: 10, A1: 5})),
    ]:
        options = {"stop": stop, "fail_on_data_loss": fail}
        with pytest.raises(BadConfigurationError, match=r"start: a-1 would start at \d+, after its end at \d+"):
            log.batch(batch_start=start, **options)
        if stop is not None:
            with pytest.raises(BadConfigurationError, match="start: a-1 would start at"):
                log.enumerate(start=start, **options)


def test_a_group_may_be_beyond_the_end(log):
    log.make("a", 10, 10)
    log.groups["g"] = {A0: 3, A1: 8}
    found = log.batch(batch_start=GroupOffsets("g"), stop=SpecificOffsets({A0: 5, A1: 5}))
    assert ranges(found) == [("a-0", 3, 5)]


def test_start_before_what_is_kept_is_a_loss(log):
    log.make("a", 10)
    log.drop(A0, before=4)
    with pytest.raises(DataLostError, match="a-0: offsets 2 to 3 were dropped"):
        log.batch(batch_start=SpecificOffsets({A0: 2}))


def test_bounded_stream_ends_also_after_a_restart(log):
    log.make("a", 20, 10)
    enumerator = log.enumerate(start=Earliest(), stop=Latest())
    first = enumerator.take_batch(ReadLimits(max_records=15))
    state = enumerator.snapshot_state()
    assert ranges(first) == [("a-0", 0, 10), ("a-1", 0, 5)] and not enumerator.is_exhausted()
    log.append(A0, 100)
    log.make("b", 5)
    enumerator = log.enumerate(state, start=Earliest(), stop=Latest())
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 10, 20), ("a-1", 5, 10)]
    assert enumerator.is_exhausted() and enumerator.take_batch(ALL) == []


def test_stop_that_the_options_no_longer_hold_is_forgotten(log):
    log.make("a", 20)
    enumerator = log.enumerate(start=Earliest(), stop=SpecificOffsets({A0: 5}))
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 0, 5)] and enumerator.is_exhausted()
    assert enumerator.has_ended()
    enumerator = log.enumerate(enumerator.snapshot_state())
    assert enumerator.wants_checkpoint() and not enumerator.has_ended()
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 5, 20)] and not enumerator.is_exhausted()


def test_available_now_ends_where_it_began(log):
    log.make("a", 20, 10)
    enumerator = log.enumerate(start=Earliest(), discover=False)
    enumerator.prepare_for_available_now()
    assert not enumerator.is_exhausted()
    first = enumerator.take_batch(ReadLimits(max_records=10))
    log.append(A0, 50)
    log.grow("a", 3, records=5)
    log.discover(enumerator)
    second = enumerator.take_batch(ALL)
    assert ranges([*first, *second]) == [("a-0", 0, 6), ("a-1", 0, 3), ("a-0", 6, 20), ("a-1", 3, 10)]
    assert enumerator.is_exhausted() and enumerator.take_batch(ALL) == []
    following = log.enumerate(enumerator.snapshot_state())
    assert ranges(following.take_batch(ALL)) == [("a-0", 20, 70), ("a-2", 0, 5)]


# --- what a batch takes -----------------------------------------------------------------------------------------------


def test_limit_is_shared_in_proportion_and_none_starves(log):
    log.make("a", 100, 10, 0)
    log.make("b", 1)
    enumerator = log.enumerate(start=Earliest())
    assert ranges(enumerator.take_batch(ReadLimits(max_records=11))) == [("a-0", 0, 9), ("a-1", 0, 1), ("b-0", 0, 1)]
    assert ranges(enumerator.take_batch(ReadLimits(max_records=1))) == [("a-0", 9, 10), ("a-1", 1, 2)]


def test_small_batch_waits_for_more_but_not_for_ever(log, clock):
    log.make("a", 10)
    limits = ReadLimits(min_records=5, max_trigger_delay_ms=1_000)
    enumerator = log.enumerate(start=Earliest())
    assert len(enumerator.take_batch(limits)) == 1  # the first does not wait
    log.append(A0, 4)
    assert enumerator.take_batch(limits) == []
    clock.now += 0.9
    assert enumerator.take_batch(limits) == []
    clock.now += 0.2
    assert ranges(enumerator.take_batch(limits)) == [("a-0", 10, 14)]
    log.append(A0, 5)
    assert ranges(enumerator.take_batch(limits)) == [("a-0", 14, 19)]


@pytest.mark.parametrize("way", ["bounded", "available now"])
def test_what_is_left_at_the_end_does_not_wait(log, way):
    limits = ReadLimits(max_records=8, min_records=5, max_trigger_delay_ms=900_000)
    log.make("a", 10)
    stop = Latest() if way == "bounded" else None
    enumerator = log.enumerate(start=Earliest(), stop=stop)
    if way == "available now":
        enumerator.prepare_for_available_now()
    assert ranges([*enumerator.take_batch(limits), *enumerator.take_batch(limits)]) == [("a-0", 0, 8), ("a-0", 8, 10)]
    assert enumerator.is_exhausted()


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [20, 10]),
        ({"min_partitions": 3}, [10, 10, 10]),
        ({"min_partitions": 2}, [20, 10]),
        ({"min_partitions": 1000}, [1] * 30),
        ({"max_records_per_partition": 8}, [6, 7, 7, 5, 5]),
        ({"max_records_per_partition": 15, "min_partitions": 6}, [5, 5, 5, 5, 5, 5]),
    ],
)
def test_ranges_are_cut_for_tasks_without_gaps(log, options, sizes):
    log.make("a", 20, 10)
    splits = log.batch(**options)
    assert [split.records for split in splits] == sizes
    assert len({split.split_id for split in splits}) == len(splits)
    for one, other in itertools.pairwise(splits):
        assert other.start == (one.end if one.partition == other.partition else 0)
    assert splits[-1].end == 10


def test_small_ranges_share_tasks_and_min_partitions_holds(log):
    log.make("a", *[3] * 100)
    log.make("b", 50_000)
    source = log.source()
    splits = log.batch()
    shares = source.assign_splits(splits, parallelism=4)
    assert [split for share in shares for split in share] == splits
    assert 4 <= len(shares) < 20 and shares[-1] == splits[-1:]
    assert len(log.source(min_partitions=40).assign_splits(splits, parallelism=4)) >= 40
    assert source.assign_splits(splits[:3], parallelism=4) == [[split] for split in splits[:3]]


def test_small_ranges_are_not_joined_beyond_what_a_task_may_read(log):
    splits = [LogSplit("a", 0, start, start + 100) for start in range(0, 1000, 100)]
    for most, tasks in ((None, 1), (200, 5), (100, 10)):
        shares = log.source(max_records_per_partition=most).assign_splits(splits, parallelism=1)
        assert len(shares) == tasks and [split for share in shares for split in share] == splits
        assert most is None or max(sum(split.records for split in share) for share in shares) <= most


def test_split_requested_alone_leaves_the_rest(log):
    log.make("a", 5, 5)
    enumerator = log.enumerate(start=Earliest())
    assert enumerator.handle_split_request() == LogSplit("a", 0, 0, 5, "a/1")
    assert enumerator.snapshot_state().positions == {A0: 5, A1: 0}
    assert enumerator.handle_split_request() == LogSplit("a", 1, 0, 5, "a/1")
    assert enumerator.handle_split_request() is None


def test_splits_that_nobody_reads_are_handed_out_again(log):
    log.make("a", 10, 10)
    enumerator = log.enumerate(start=Earliest(), max_records_per_partition=5)
    splits = enumerator.take_batch(ALL)
    enumerator.add_splits_back(splits)
    assert enumerator.wants_checkpoint()
    assert enumerator.take_batch(ALL) == splits


def test_start_at_the_latest_is_kept_before_anything_is_read(log):
    log.make("a", 10)
    enumerator = log.enumerate()
    assert enumerator.take_batch(ALL) == [] and enumerator.wants_checkpoint()
    state = enumerator.snapshot_state()
    assert not enumerator.wants_checkpoint()
    log.append(A0, 3)  # the query is down
    assert ranges(log.enumerate(state).take_batch(ALL)) == [("a-0", 10, 13)]


# --- what it finds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("policy", "expected"), [(Earliest(), [("a-1", 0, 4), ("b-0", 0, 4)]), (Latest(), [])])
def test_new_partitions_and_streams_start_by_their_policy(log, policy, expected):
    log.make("a", 10)
    enumerator = log.enumerate(new_partitions_start=policy, new_streams_start=policy)
    enumerator.take_batch(ALL)
    state = enumerator.snapshot_state()
    log.grow("a", 2, records=4)
    log.make("b", 4)
    assert enumerator.take_batch(ALL) == []  # not found yet
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == expected
    assert enumerator.wants_checkpoint() == isinstance(policy, Latest)
    assert enumerator.snapshot_state().incarnations == {"a": "a/1", "b": "b/1"}
    restarted = log.enumerate(state, new_partitions_start=policy, new_streams_start=policy)
    assert ranges(restarted.take_batch(ALL)) == expected


def test_partitions_that_are_not_selected_are_left_out(log):
    log.make("a", 5, 5)
    log.selected = {A1}
    assert ranges(log.batch()) == [("a-1", 0, 5)]


def test_failing_discovery_is_an_error_only_at_first(log, caplog):
    log.make("a", 5)
    log.broken = RetriableError("away")
    with pytest.raises(RetriableError, match="away"):
        log.enumerate().take_batch(ALL)
    log.broken = None
    enumerator = log.enumerate(start=Earliest())
    enumerator.take_batch(ALL)
    log.broken = RetriableError("away")
    log.discover(enumerator)
    assert "away" in caplog.text
    log.broken = None
    assert enumerator.take_batch(ALL) == []


@pytest.mark.parametrize("available_now", [False, True])
def test_failing_discovery_that_nobody_asked_about_is_forgotten_by_the_next_one(log, available_now):
    log.make("a", 5)
    log.broken = RetriableError("away")
    enumerator = log.enumerate(start=Earliest())
    log.broken = None
    enumerator.prepare_for_available_now() if available_now else log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 0, 5)]


@pytest.mark.parametrize("failures", [1, 2, 3])
def test_a_question_that_fails_leaves_everything_as_it_was(log, failures):
    log.make("a", 5)
    enumerator = log.enumerate(start=Earliest())
    enumerator.take_batch(ALL)
    log.append(A0, 1)
    log.fail_next = failures
    for _ in range(failures):
        with pytest.raises(RetriableError):
            enumerator.take_batch(ALL)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 5, 6)]


# --- what it loses ----------------------------------------------------------------------------------------------------


def lossy(log, **options):
    """An enumerator over ten records of a-0 and of b-0 that it has handed out."""
    log.make("a", 10)
    log.make("b", 10)
    enumerator = log.enumerate(start=Earliest(), retries=1, **options)
    enumerator.take_batch(ALL)
    return enumerator


def test_recreated_stream_is_a_loss(log):
    enumerator = lossy(log)
    log.delete("a")
    log.make("a", 30)
    with pytest.raises(DataLostError, match=r"'a' was deleted and re-created \(id a/1 is now a/2\).*a-0 offset 10"):
        log.discover(enumerator)


def test_recreated_stream_is_read_anew_if_loss_is_taken(log, caplog):
    enumerator = lossy(log, fail_on_data_loss=False)
    log.delete("a")
    log.make("a", 3)
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 0, 3)]
    assert "re-created" in caplog.text and log.context.metrics.snapshot() == {"data_losses": 1}
    assert enumerator.snapshot_state().incarnations["a"] == "a/2"


def test_recreated_stream_is_not_read_up_to_an_end_of_old(log):
    log.make("a", 10)
    enumerator = log.enumerate(start=Earliest(), fail_on_data_loss=False)
    enumerator.prepare_for_available_now()
    log.delete("a")
    log.make("a", 3)
    log.discover(enumerator)
    assert enumerator.take_batch(ALL) == [] and enumerator.is_exhausted()
    assert ranges(log.enumerate(enumerator.snapshot_state()).take_batch(ALL)) == [("a-0", 0, 3)]


def test_recreated_while_the_query_was_down_is_a_loss(log):
    state = (enumerator := lossy(log)).snapshot_state()
    del enumerator
    log.delete("a")
    log.make("a", 30)
    with pytest.raises(DataLostError, match="re-created"):
        log.enumerate(state).take_batch(ALL)


def test_disappearance_counts_once_it_is_seen_twice(log):
    enumerator = lossy(log)
    log.delete("a")
    log.discover(enumerator)
    assert enumerator.take_batch(ALL) == []
    with pytest.raises(DataLostError, match="a-0 can't be found any more: 'a' was deleted"):
        log.discover(enumerator)


def test_disappearance_that_passes_is_nothing(log):
    enumerator = lossy(log)
    kept = log.streams.pop("a")
    log.discover(enumerator)
    log.streams["a"] = kept
    log.append(A0, 2)
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 10, 12)]
    del log.streams["a"]
    log.discover(enumerator)  # the first time again


def test_disappeared_stream_is_dropped_if_loss_is_taken(log):
    enumerator = lossy(log, fail_on_data_loss=False)
    log.delete("a")
    log.discover(enumerator)
    log.discover(enumerator)
    log.append(B0, 1)
    assert ranges(enumerator.take_batch(ALL)) == [("b-0", 10, 11)]
    assert set(enumerator.snapshot_state().positions) == {B0}
    log.make("a", 2)
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 0, 2)]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("looks", [1, 2, 5])
def test_a_stream_that_was_away_is_gone_on_with_where_it_was_left(log, looks, restarted):
    enumerator = lossy(log, fail_on_data_loss=False)
    away = log.streams.pop("a")
    for _ in range(looks):
        log.discover(enumerator)
        assert ranges(enumerator.take_batch(ALL)) == []
    if restarted:
        state = STATE_SERIALIZER.unpack(STATE_SERIALIZER.pack(enumerator.snapshot_state()))
        enumerator = log.enumerate(state, start=Earliest(), fail_on_data_loss=False)
        log.discover(enumerator)
    log.streams["a"] = away
    log.append(A0, 5)
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 10, 15)]
    assert not enumerator.snapshot_state().gone


def test_a_stream_that_came_back_without_some_records_has_lost_them(log):
    enumerator = lossy(log, fail_on_data_loss=False)
    away = log.streams.pop("a")
    log.discover(enumerator)
    log.discover(enumerator)
    log.streams["a"] = away
    log.append(A0, 10)
    log.drop(A0, before=15)
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 15, 20)]
    assert log.context.metrics.snapshot() == {"data_losses": 2, "records_lost": 5}


def test_streams_that_are_gone_for_good_are_forgotten_in_the_end(log, monkeypatch):
    monkeypatch.setattr("penstock.source.log._tracking._MOST_GONE", 1)
    enumerator = lossy(log, fail_on_data_loss=False)
    for name in ("a", "b"):
        log.delete(name)
        log.discover(enumerator)
        log.discover(enumerator)
    state = enumerator.snapshot_state()
    assert not state.positions and set(state.gone) == {B0} and set(state.incarnations) == {"b"}


def test_retention_that_overtakes_the_query_is_a_loss(log):
    enumerator = lossy(log)
    log.append(A0, 10)
    log.drop(A0, before=10)
    log.discover(enumerator)  # what was read may go
    log.drop(A0, before=15)
    with pytest.raises(DataLostError, match=r"a-0: offsets 10 to 14 were dropped.*failOnDataLoss"):
        log.discover(enumerator)


def test_retention_is_skipped_and_counted_if_loss_is_taken(log):
    enumerator = lossy(log, fail_on_data_loss=False)
    log.append(A0, 10)
    log.drop(A0, before=15)
    log.discover(enumerator)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 15, 20)]
    assert log.context.metrics.snapshot() == {"data_losses": 1, "records_lost": 5}


@pytest.mark.parametrize("bounded", [True, False])
def test_what_a_bounded_read_was_not_going_to_read_is_no_loss(log, bounded):
    log.make("a", 20)
    log.make("b", 5)
    log.drop(A0, before=15)
    positions = SpecificOffsets({A0: 12, B0: 0})
    ends = SpecificOffsets({A0: 12, B0: 5})
    if bounded:
        assert ranges(log.batch(batch_start=positions, stop=ends)) == [("b-0", 0, 5)]
        return
    enumerator = log.enumerate(start=positions, stop=ends)
    assert ranges(enumerator.take_batch(ALL)) == [("b-0", 0, 5)]
    log.append(B0, 20)
    log.drop(B0, before=10)
    log.discover(enumerator)
    again = log.enumerate(enumerator.snapshot_state(), start=positions, stop=ends)
    log.discover(again)
    log.delete("a")
    log.delete("b")
    log.make("b", 3)
    for _ in range(3):
        log.discover(again)
        assert again.take_batch(ALL) == [] and again.has_ended()
    assert again.describe_backlog() == {"records": 0, "a-0": 0, "b-0": 0}
    assert "data_losses" not in log.context.metrics.snapshot()


def test_what_a_bounded_read_was_going_to_read_is_a_loss(log):
    log.make("a", 20)
    log.drop(A0, before=15)
    stop = SpecificOffsets({A0: 12})
    with pytest.raises(DataLostError, match="a-0: offsets 3 to 11 were dropped"):
        log.batch(batch_start=SpecificOffsets({A0: 3}), stop=stop)
    assert log.batch(batch_start=SpecificOffsets({A0: 3}), stop=stop, fail_on_data_loss=False) == []
    assert log.context.metrics.snapshot() == {"data_losses": 1, "records_lost": 9}


def test_log_that_ends_before_the_position_is_a_loss_after_asking_again(log):
    enumerator = lossy(log)
    log.truncate(A0, end=7)
    asked = log.asked_latest
    with pytest.raises(DataLostError, match="a-0 ends at 7, before offset 10 that was reached"):
        enumerator.take_batch(ALL)
    assert log.asked_latest == asked + 2


def test_log_that_catches_up_in_time_is_no_loss(log):
    enumerator = lossy(log)
    log.truncate(A0, end=7)
    log.on_latest = lambda: log.truncate(A0, end=12)  # in the moment after the answer
    assert enumerator.take_batch(ALL) == []
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 10, 12)]


def test_log_that_ends_before_the_position_is_gone_on_with_if_loss_is_taken(log):
    enumerator = lossy(log, fail_on_data_loss=False)
    log.truncate(A0, end=7)
    assert enumerator.take_batch(ALL) == []
    log.append(A0, 2)
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 7, 9)]


def test_records_that_are_there_but_not_readable_yet_are_no_loss(log):
    enumerator = lossy(log)
    log.unreadable_from[A0] = 7  # a transaction is open; another isolation has read beyond it
    assert enumerator.take_batch(ALL) == []
    log.append(A0, 5)
    del log.unreadable_from[A0]
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 10, 15)]


def test_discovery_that_was_overtaken_by_a_younger_one_counts_for_nothing(log):
    enumerator = lossy(log, fail_on_data_loss=False)
    old = log.look()
    log.delete("a")
    log.make("a", 3)
    log.discover(enumerator)
    enumerator._on_discovery(old, None)
    assert enumerator.snapshot_state().incarnations["a"] == "a/2"
    assert log.context.metrics.snapshot() == {"data_losses": 1}


# --- consumer groups, progress, other connectors' offsets -------------------------------------------------------------


def test_finished_batches_are_committed_to_the_group_in_order(log):
    log.make("a", 10, 10)
    enumerator = log.enumerate(start=Earliest(), commit_group="g", max_records_per_partition=4)
    first = enumerator.take_batch(ReadLimits(max_records=10))
    enumerator.notify_checkpoint_complete(first)
    enumerator.notify_checkpoint_complete(enumerator.take_batch(ALL))
    enumerator.notify_checkpoint_complete([])
    enumerator.close()
    assert log.groups["g"] == {A0: 10, A1: 10}
    assert sorted(log.commits, key=lambda commit: commit[A0]) == log.commits


def test_last_commit_of_a_run_is_there_when_the_run_ends(log, monkeypatch):
    log.make("a", 10)
    log.may_commit.clear()
    finish = GroupCommits.finish

    def finish_at_last(commits):
        log.may_commit.set()
        finish(commits)

    monkeypatch.setattr(GroupCommits, "finish", finish_at_last)
    enumerator = log.enumerate(start=Earliest(), commit_group="g")
    enumerator.prepare_for_available_now()
    first = enumerator.take_batch(ReadLimits(max_records=4))
    enumerator.notify_checkpoint_complete(first)
    assert not log.groups  # off the trigger's path
    enumerator.notify_checkpoint_complete(enumerator.take_batch(ALL))
    assert log.groups["g"] == {A0: 10}


def test_group_commit_that_fails_is_made_up_for_and_no_error(log, caplog):
    log.make("a", 10)
    enumerator = log.enumerate(start=Earliest(), commit_group="g")
    log.broken_commit = RetriableError("no coordinator")
    enumerator.notify_checkpoint_complete(enumerator.take_batch(ALL))
    enumerator._group_commits.finish()
    assert "no coordinator" in caplog.text and not log.groups
    log.broken_commit = None
    log.grow("a", 2, records=1)
    log.discover(enumerator)
    enumerator.notify_checkpoint_complete(enumerator.take_batch(ALL))
    enumerator.close()
    assert log.groups["g"] == {A0: 10, A1: 1}


def test_without_a_group_nothing_is_committed(log):
    log.make("a", 10)
    enumerator = log.enumerate(start=Earliest())
    enumerator.notify_checkpoint_complete(enumerator.take_batch(ALL))
    enumerator.close()
    assert not log.groups


def test_backlog_by_partition(log):
    log.make("a", 100, 10)
    enumerator = log.enumerate(start=Earliest())
    assert enumerator.describe_backlog() == {"records": 0}
    enumerator.take_batch(ReadLimits(max_records=11))
    assert enumerator.describe_backlog() == {"records": 99, "a-0": 90, "a-1": 9}


def test_adopts_offsets_in_the_form_of_sparks_kafka_source(log):
    source = log.source(max_records_per_partition=6)
    assert source.adopt_offset({"a": {"0": 5, "1": 7}}) == LogState({A0: 5, A1: 7})
    for strange in ({"a": 3}, {"a": {"x": 3}}, {"a": {"0": "3"}}, {"logOffset": 5}):
        assert source.adopt_offset(strange) is None
    start, end = LogState({A0: 5, A1: 7}), LogState({A0: 17, A1: 7, B0: 3})
    assert ranges(source.splits_between(start, end)) == [("a-0", 5, 11), ("a-0", 11, 17), ("b-0", 0, 3)]
    with pytest.raises(FatalError, match="first batch that another connector planned"):
        source.splits_between(None, end)


def test_adopted_positions_are_gone_on_from(log):
    log.make("a", 20)
    log.make("b", 4)
    enumerator = log.enumerate(log.source().adopt_offset({"a": {"0": 5}}))
    assert ranges(enumerator.take_batch(ALL)) == [("a-0", 5, 20), ("b-0", 0, 4)]
    assert enumerator.snapshot_state().incarnations == {"a": "a/1", "b": "b/1"}


@pytest.fixture(autouse=True)
def _log_everything(caplog):
    caplog.set_level(logging.INFO, logger="penstock")


def test_a_first_answer_is_waited_for_as_long_as_its_source_says():
    waited = []
    context = SimpleNamespace(await_handlers=lambda until, timeout_ms: waited.append(timeout_ms))
    with pytest.raises(RetriableError, match="no answer about the table within 600 s"):
        FirstAnswer(context, "the table", timeout_s=600).wait()
    assert waited == [600_000]
