"""The protocol under crashes at every step, zombies, two drivers and lost committables."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock import DataLostError, FatalError, RetriableError

BATCHES = [[[1, 2], [3, 4]], [[5], [6, 7, 8], [9]], [[10], []], [[11, 12], [13]]]
EVERYTHING = sorted(i for shares in BATCHES for ids in shares for i in ids)


def run_all(query, first=0):
    for batch_id, shares in enumerate(BATCHES[first:], first):
        query.run(batch_id, shares)
    while query.protocol.roll(finish=True) is not None:
        pass


def test_everything_is_visible_once_after_finish(new_query):
    query = new_query()
    run_all(query)
    assert query.visible() == EVERYTHING
    query.protocol.clean_up()
    assert query.hidden() == []


def test_carried_rows_are_hidden_until_rolled(new_query):
    query = new_query()
    query.run(0, [[1], [2]])
    assert query.visible() == [1]
    assert query.protocol.roll(finish=False) is None
    assert query.protocol.roll(finish=True) is not None
    assert query.visible() == [1, 2]


def test_crash_at_every_step_loses_and_doubles_nothing(tmp_path, new_query, fuse_type, crash_type):
    """Ends the driver at each step, restarts it, and replays the batch that the engine had not committed."""
    Query = type(new_query())
    dry = fuse_type()
    run_all(Query(tmp_path / "dry", dry))
    assert len(dry.steps) > 30
    for at, what in enumerate(dry.steps):
        root = tmp_path / f"crash{at}"
        committed = 0
        query = Query(root, fuse_type(at))
        try:
            for batch_id, shares in enumerate(BATCHES):
                query.run(batch_id, shares)
                committed = batch_id + 1  # the engine's own commit log
            query.protocol.roll(finish=True)
        except crash_type:
            pass
        visible = query.visible()
        assert len(set(visible)) == len(visible), f"doubled after a crash at {what}"
        restarted = Query(root)
        run_all(restarted, committed)
        assert restarted.visible() == EVERYTHING, f"after a crash at step {at}: {what}"
        restarted.run(len(BATCHES), [[]])  # a clean-up leaves alone what may belong to the batch to come
        restarted.protocol.clean_up()
        assert restarted.hidden() == [], f"something lingers after a crash at step {at}: {what}"


def test_two_crashes_in_a_row(tmp_path, new_query, fuse_type, crash_type):
    Query = type(new_query())
    dry = fuse_type()
    run_all(Query(tmp_path / "dry", dry))
    for first in range(0, len(dry.steps), 3):
        for second in range(4):
            root = tmp_path / f"c{first}-{second}"
            committed = 0
            for at in (first, second, None):
                query = Query(root, fuse_type(at))
                try:
                    for batch_id, shares in enumerate(BATCHES[committed:], committed):
                        query.run(batch_id, shares)
                        committed = batch_id + 1
                    query.protocol.roll(finish=True)
                except crash_type:
                    continue
            assert query.visible() == EVERYTHING, (first, second)


def test_replayed_batch_writes_nothing_but_reads_its_input(new_query):
    query = new_query()
    query.run(0, [[1], [2]])
    results = query.tasks(0, [[1], [2]])
    assert all(result.skipped and not result.outputs for result in results)
    query.protocol.commit(0, results)
    assert query.log.head().number == 0
    assert query.visible() == [1]


def test_a_skipped_task_consumes_its_input(new_query):
    from penstock.sink import WriterContext
    from penstock.sink.two_phase import run_task

    query = new_query()
    query.run(0, [[1]])
    consumed = []
    run_task(query.sink, query.plan(), WriterContext("q", None, batch_id=0), (consumed.append(i) for i in range(3)))
    assert len(consumed) == 3


def test_decided_is_decided(new_query, fuse_type, crash_type, tmp_path):
    """An abort after the decision, with the very same messages, touches nothing."""
    Query = type(new_query())
    query = Query(tmp_path / "d", fuse_type(2))  # blows after the decision, before publishing
    results = query.tasks(0, [[1], [2]])
    with pytest.raises(crash_type):
        query.protocol.commit(0, results)
    query.fuse.at = None
    query.protocol.abort(0, results)
    restarted = Query(tmp_path / "d")
    restarted.run(0, [[1], [2]])
    restarted.protocol.roll(finish=True)
    assert restarted.visible() == [1, 2]


def test_abort_throws_away_what_was_not_decided(new_query):
    query = new_query()
    results = query.tasks(0, [[1], [2]])
    assert len(query.hidden()) == 2
    query.protocol.abort(0, [*results, None])
    assert query.hidden() == []
    query.run(0, [[1], [2]])
    assert query.visible() == [1]


@pytest.fixture
def lingering(monkeypatch, new_query):
    """What the log's head was each time that lingering work was thrown away."""
    query, heads = new_query(), []
    committer = type(query.sink.create_committer(None))
    monkeypatch.setattr(committer, "abort_lingering", lambda _: heads.append(query.log.head()) or 0)
    return query, heads


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only by sleeping."""

    class Clock:
        slept = 0.0

        def monotonic(self):
            return self.slept

        def sleep(self, seconds):
            self.slept += seconds

        def __getattr__(self, name):
            return getattr(time, name)

    clock = Clock()
    monkeypatch.setattr("penstock.sink.two_phase.time", clock)
    return clock


def test_lingering_work_is_thrown_away_before_and_after_each_batch(lingering):
    query, heads = lingering
    query.run(0, [[1], [2]])
    assert [head.last_batch for head in heads] == [-1, 0]
    results = query.tasks(1, [[3], [4]])
    query.protocol.abort(1, [*results, None])
    assert [head.last_batch for head in heads] == [-1, 0, 0, 0], "tasks that did not report may have left some, too"
    query.run(1, [[3], [4]])
    query.protocol.abort(0, results)
    assert len(heads) == 6, "a batch that is decided has nothing to throw away"
    assert all(head.done for head in heads)


@pytest.mark.parametrize(("ends", "holds_back", "looks_again"), [(True, False, 1), (False, True, 1), (False, False, 0)])
def test_tasks_that_go_on_after_the_batch_failed_leave_nothing(
    lingering, monkeypatch, clock, ends, holds_back, looks_again
):
    """Engines report a failure while other tasks still run: what those leave is found a moment later."""
    query, heads = lingering
    monkeypatch.setattr(type(query.sink), "holds_back_readers", holds_back)
    results = query.tasks(0, [[1], [2]])
    looked_before = len(heads)
    query.protocol.abort(0, [*results, None], ends=ends)
    assert (len(heads) > looked_before + 1) == bool(looks_again)
    assert clock.slept > 2 if looks_again else clock.slept == 0, "Spark kills workers 2 s after they were told to stop"
    looked_before, clock.slept = len(heads), 0.0
    query.protocol.abort(0, results, ends=ends)
    assert len(heads) == looked_before + 1 and clock.slept == 0, "every task had reported"


def test_lingering_work_is_let_alone_while_a_decision_is_pending(lingering, fuse_type, crash_type):
    """It may be what was decided."""
    query, heads = lingering
    results = query.tasks(0, [[1], [2]])
    query.fuse.at = len(query.fuse.steps) + 2  # after the decision, before publishing
    with pytest.raises(crash_type):
        query.protocol.commit(0, results)
    query.protocol.abort(0, results)
    assert len(heads) == 1 and not query.log.head().done
    query.fuse.at = None
    query.plan()
    assert len(heads) == 2 and heads[1].last_batch == 0 and heads[1].done


def test_what_fails_behind_a_batch_does_not_fail_the_batch(lingering, monkeypatch):
    query, _ = lingering
    results = query.tasks(0, [[1], [2]])

    def fail(_):
        raise RetriableError("the broker is away")

    monkeypatch.setattr(type(query.sink.create_committer(None)), "abort_lingering", fail)
    query.protocol.commit(0, results)
    assert query.visible() == [1] and query.log.head().done
    with pytest.raises(RetriableError):
        query.plan()


def test_zombie_attempt_never_becomes_visible(new_query):
    query = new_query()
    plan = query.plan()
    zombie = query.attempt(plan, 0, 0, [1])
    winner = query.attempt(plan, 0, 0, [1])
    query.protocol.commit(0, [winner])
    assert query.visible() == [1]
    query.attempt(plan, 0, 0, [1])  # goes on after it has lost, with the old plan
    query.run(1, [[2]])
    assert query.visible() == [1, 2]
    query.protocol.clean_up()
    assert zombie.outputs and query.hidden() == []


def test_two_drivers_cannot_both_decide(new_query, tmp_path):
    Query = type(new_query())
    first, second = Query(tmp_path / "t"), Query(tmp_path / "t")
    of_first, of_second = first.tasks(0, [[1], [2]]), second.tasks(0, [[1], [2]])
    second.protocol.commit(0, of_second)
    with pytest.raises(FatalError, match="another driver"):
        first.protocol.commit(0, of_first)
    first.protocol.abort(0, of_first)
    second.run(1, [[3], [4]])
    second.protocol.roll(finish=True)
    assert second.visible() == [1, 2, 3, 4]


def test_driver_that_slept_for_long_is_refused(new_query, tmp_path, monkeypatch):
    """Its number had been deleted meanwhile, so the conditional put succeeds; the log notices."""
    from penstock.sink.decision_log import DecisionLog

    Query = type(new_query())
    sleeper, other = Query(tmp_path / "s"), Query(tmp_path / "s")
    sleeper.run(0, [[0]])
    slept = sleeper.tasks(1, [[1]])
    old_head = sleeper.log.head()
    for batch_id in range(1, 90):
        other.run(batch_id, [[batch_id]])
    assert len(other.log.entries()) < 60
    monkeypatch.setattr(DecisionLog, "head", lambda self: old_head)
    with pytest.raises(FatalError, match="another driver"):
        sleeper.protocol.commit(1, slept)
    monkeypatch.undo()
    assert sleeper.visible() == list(range(90))
    assert sleeper.log.head().last_batch == 89


def test_roll_gives_way_to_a_batch(new_query):
    """State rolled by two at once: the decision that comes second is made without it."""
    query = new_query()
    query.run(0, [[0], [1, 2, 3, 4, 5]])
    results = query.tasks(1, [[6], [7]])  # its tasks have rolled the five carried rows
    assert any(output.consumed for result in results for output in result.outputs)
    assert query.protocol.roll(finish=True) is not None  # an idle roll was quicker
    query.protocol.commit(1, results)
    query.protocol.roll(finish=True)
    assert query.visible() == list(range(8))


def test_lost_before_anything_was_published_is_written_again(new_query, fuse_type, crash_type, tmp_path):
    Query = type(new_query())
    query = Query(tmp_path / "l", fuse_type(1))
    with pytest.raises(crash_type):  # right after the decision
        query.run(0, [[1], [2]])
    for name in query.hidden():
        os.unlink(tmp_path / "l" / "out" / ".hidden" / name)
    restarted = Query(tmp_path / "l")
    restarted.run(0, [[1], [2]])  # the engine's replay
    restarted.protocol.roll(finish=True)
    assert restarted.visible() == [1, 2]
    assert [entry.kind for entry in restarted.log.entries()][:2] == ["batch", "withdrawal"]


def test_loss_noticed_while_committing_asks_for_a_restart(new_query):
    query = new_query()
    results = query.tasks(0, [[1]])
    for name in query.hidden():
        os.unlink(Path(query.sink.root) / ".hidden" / name)
    with pytest.raises(RetriableError, match="restart the query"):
        query.protocol.commit(0, results)
    query.run(0, [[1]])
    assert query.visible() == [1]


def lose_second_writer(query, crash_type):
    """Publishes writer 0 of three, loses writer 2, in one decision."""
    with pytest.raises(crash_type):
        query.run(0, [[1], [], [2]])
    (left,) = query.hidden()
    os.unlink(Path(query.sink.root) / ".hidden" / left)


def test_partly_lost_stops_with_an_error(new_query, fuse_type, crash_type, tmp_path):
    Query = type(new_query())
    lose_second_writer(Query(tmp_path / "p", fuse_type(3)), crash_type)
    with pytest.raises(DataLostError, match="Restore it, or start with a new checkpoint"):
        Query(tmp_path / "p").plan()


def test_partly_lost_is_redone_where_the_plan_is_deterministic(new_query, fuse_type, crash_type, tmp_path):
    Query = type(new_query())
    lose_second_writer(Query(tmp_path / "p", fuse_type(3), deterministic=True), crash_type)
    restarted = Query(tmp_path / "p", deterministic=True)
    results = restarted.tasks(0, [[1], [], [2]])
    assert [result.skipped for result in results] == [True, True, False]
    restarted.protocol.commit(0, results)
    restarted.run(1, [[3]])
    assert restarted.visible() == [1, 2, 3]


def test_rescaling_carries_state_of_writers_that_are_gone(new_query):
    query = new_query()
    query.run(0, [[0], [1], [2], [3], [4], [5]])
    query.run(1, [[6]])
    query.run(2, [[7], [8]])
    query.protocol.roll(finish=True)
    assert query.visible() == list(range(9))


def test_sequence_never_goes_back(new_query):
    query = new_query()
    query.run(0, [[1], [2]])
    first = query.log.head().sequence
    query.run(1, [[3], [4]])
    assert 0 < first < query.log.head().sequence
