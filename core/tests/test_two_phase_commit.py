"""The protocol under crashes at every step, zombies, two drivers, replays and lost committables.

The simulator (``test_simulation.py``) searches for what goes wrong between processes; here is one example of each.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from penstock._commit import Chain, DisplacedError, GaveWayError, LinkKind, RunMemory, TwoPhaseCommit
from penstock.checkpoint import SparkLog
from penstock.errors import DataLostError, FatalError, RetriableError
from penstock.sink import SinkContext
from penstock.storage import MemoryStorage

SCHEMA = pa.schema([("id", pa.int64())])

BATCHES = [[[1, 2], [3, 4]], [[5], [6, 7, 8], [9]], [[10], []], [[11, 12], [13]]]
EVERYTHING = sorted(i for shares in BATCHES for ids in shares for i in ids)


def run_all(query, first=0):
    for batch_id, shares in enumerate(BATCHES[first:], first):
        query.run(batch_id, shares)
    query.protocol.take_over()


def kinds(query):
    return [link.kind.value for link in query.chain.links()]


def lose(query, but=()):
    """What is hidden is gone."""
    for name in set(query.hidden()) - set(but):
        os.unlink(Path(query.sink.root) / ".hidden" / name)


def ended_at(query, crash_type, what, work, *arguments):
    """The driver is killed at the first step that begins so."""
    real = query.fuse.step

    def step(done):
        real(done)
        if done.startswith(what):
            raise crash_type(done)

    query.fuse.step = step
    with pytest.raises(crash_type):
        work(*arguments)
    query.fuse.step = real


def test_everything_is_visible_once_after_finish(new_query):
    query = new_query()
    run_all(query)
    assert query.visible() == EVERYTHING and query.hidden() == []


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
            query.protocol.take_over()
        except crash_type:
            pass
        visible = query.visible()
        assert len(set(visible)) == len(visible), f"doubled after a crash at {what}"
        restarted = Query(root, engine=query.engine)
        run_all(restarted, committed)
        assert restarted.visible() == EVERYTHING, f"after a crash at step {at}: {what}"
        assert restarted.hidden() == [], f"something lingers after a crash at step {at}: {what}"


def test_two_crashes_in_a_row(tmp_path, new_query, fuse_type, crash_type):
    Query = type(new_query())
    dry = fuse_type()
    run_all(Query(tmp_path / "dry", dry))
    for first in range(0, len(dry.steps), 3):
        for second in range(4):
            root = tmp_path / f"c{first}-{second}"
            committed, engine = 0, {}
            for at in (first, second, None):
                query = Query(root, fuse_type(at), engine)
                try:
                    for batch_id, shares in enumerate(BATCHES[committed:], committed):
                        query.run(batch_id, shares)
                        committed = batch_id + 1
                    query.protocol.take_over()
                except crash_type:
                    engine = query.engine
            assert query.visible() == EVERYTHING, (first, second)


# --- who may plan without a claim -------------------------------------------------------------------------------------


def test_a_run_claims_once(new_query):
    query = new_query()
    for batch_id in range(3):
        query.run(batch_id, [[batch_id]])
    assert kinds(query) == ["claim", "batch", "batch", "batch"]


def test_a_restart_claims(new_query, tmp_path):
    Query = type(new_query())
    first = Query(tmp_path / "r")
    first.run(0, [[0]])
    second = Query(tmp_path / "r", engine=first.engine)
    second.run(1, [[1]])
    assert kinds(second) == ["claim", "batch", "claim", "batch"]
    generations = [link.generation for link in second.chain.links()]
    assert generations == [0, 0, 2, 2]


def test_a_start_after_an_orderly_end_keeps_the_generation(new_query, tmp_path):
    Query = type(new_query())
    first = Query(tmp_path / "r")
    first.run(0, [[0]])
    first.protocol.close(first.chain.head().link)
    second = Query(tmp_path / "r", engine=first.engine)
    second.run(1, [[1]])
    assert [link.generation for link in second.chain.links()] == [0, 0, 0, 0, 0]


# --- replays ----------------------------------------------------------------------------------------------------------


def test_replayed_batch_writes_nothing_but_reads_its_input(new_query):
    query = new_query()
    query.run(0, [[1], [2]])
    before = len(query.chain.links())
    results = query.tasks(0, [[1], [2]])
    assert all(result.planned.is_decided and not result.outputs for result in results)
    query.protocol.commit(0, results)
    assert query.chain.head().link.batch == 0
    assert kinds(query)[before:] == ["claim"], "a replay is a restart, and appends nothing else"
    assert query.visible() == [1]


def test_a_skipped_task_consumes_its_input(new_query):
    from penstock._commit import run_task
    from penstock.sink import WriterContext

    query = new_query()
    query.run(0, [[1]])
    consumed = []
    run_task(query.sink, query.plan(0), WriterContext("q", None, batch_id=0), (consumed.append(i) for i in range(3)))
    assert len(consumed) == 3


def test_a_replay_that_another_run_has_gone_past_decides_nothing(new_query, crash_type, tmp_path):
    """Its tasks have dropped their input: deciding the batch now would lose it."""
    Query = type(new_query())
    query = Query(tmp_path / "r")
    query.run(0, [[1], [2]])
    replay = Query(tmp_path / "r", engine=query.engine)
    skipped = replay.tasks(0, [[1], [2]])
    other = Query(tmp_path / "r", engine=query.engine)
    other.plan(0)
    before = kinds(query)
    with pytest.raises(DisplacedError):
        replay.protocol.commit(0, skipped)
    assert kinds(query) == before and query.chain.head().link.batch == 0


def test_another_batch_of_the_same_number_is_refused(new_query):
    query = new_query()
    query.run(0, [[1]])
    query.engine[0] = b"v1 something else"
    with pytest.raises(FatalError, match=r"decided with other offsets.*restore-offsets"):
        query.plan(0)


def test_offsets_that_were_put_back_are_refused(new_query):
    query = new_query()
    query.run(0, [[1]])
    query.run(1, [[2]])
    with pytest.raises(FatalError, match=r"batch 1 is decided.*were deleted or put back"):
        query.plan(0)


def test_a_decision_log_that_was_put_back_is_refused(new_query):
    query = new_query()
    query.run(0, [[1]])
    with pytest.raises(FatalError, match=r"the last batch decided in .* is 0.*part of the decision log was deleted"):
        query.plan(2)


# --- decided is decided, aborted is aborted ---------------------------------------------------------------------------


def test_decided_is_decided(new_query, crash_type, tmp_path):
    """An abort after the decision, with the very same messages, touches nothing."""
    Query = type(new_query())
    query = Query(tmp_path / "d")
    results = query.tasks(0, [[1], [2]])
    ended_at(query, crash_type, "after create", query.protocol.commit, 0, results)
    query.protocol.abort(0, results)
    restarted = Query(tmp_path / "d", engine=query.engine)
    restarted.run(0, [[1], [2]])
    restarted.protocol.take_over()
    assert restarted.visible() == [1, 2]


def test_abort_throws_away_what_was_not_decided(new_query):
    query = new_query()
    results = query.tasks(0, [[1], [2]])
    assert len(query.hidden()) == 2
    query.protocol.abort(0, [*results, None])
    assert query.hidden() == [] and kinds(query) == ["claim", "claim"]
    query.run(0, [[1], [2]])
    assert query.visible() == [1]


def test_a_decision_that_comes_after_the_abort_is_refused(new_query):
    query = new_query()
    results = query.tasks(0, [[1], [2]])
    query.protocol.abort(0, results)
    with pytest.raises(DisplacedError):
        query.protocol.commit(0, results)
    query.run(0, [[1], [2]])
    assert query.visible() == [1]


@pytest.fixture
def clock(monkeypatch):
    """Time that passes only by sleeping."""
    from penstock import system

    class Clock(system.System):
        slept = 0.0

        def monotonic(self):
            return self.slept

        def sleep(self, seconds):
            self.slept += seconds

    clock = Clock()
    system.use(clock)
    yield clock
    system.use(None)


@pytest.mark.parametrize("holds_back", [True, False])
def test_tasks_that_go_on_after_the_batch_failed_leave_nothing(new_query, monkeypatch, clock, holds_back):
    """Engines report a failure while other tasks still run: what those leave is found a moment later."""
    query, cleared = new_query(), []
    monkeypatch.setattr(type(query.sink), "holds_back_readers", holds_back)
    committer = type(query.sink.create_committer(None))
    monkeypatch.setattr(committer, "clear", lambda self, kept: cleared.append(kept.base) or 0)
    results = query.tasks(0, [[1], [2]])
    cleared.clear()
    query.protocol.abort(0, [*results, None])
    assert (len(cleared) > 1) == holds_back
    assert clock.slept > 2 if holds_back else clock.slept == 0, "Spark kills workers 2 s after they were told to stop"
    results = query.tasks(0, [[1], [2]])
    cleared.clear()
    clock.slept = 0.0
    query.protocol.abort(0, results)
    assert len(cleared) == holds_back and clock.slept == 0, "every task had reported"


def test_what_fails_behind_a_batch_does_not_fail_the_batch(new_query, monkeypatch):
    query = new_query()
    results = query.tasks(0, [[1], [2]])

    def fail(self, kept):
        raise RetriableError("the broker is away")

    monkeypatch.setattr(type(query.sink.create_committer(None)), "clear", fail)
    query.protocol.commit(0, results)
    assert query.visible() == [1] and query.chain.head().pending is None


def test_zombie_attempt_never_becomes_visible(new_query):
    query = new_query()
    plan = query.plan(0)
    zombie = query.attempt(plan, 0, 0, [1])
    winner = query.attempt(plan, 0, 0, [1])
    query.protocol.commit(0, [winner])
    assert query.visible() == [1]
    query.attempt(plan, 0, 0, [1])  # goes on after it has lost, with the old plan
    query.run(1, [[2]])
    assert query.visible() == [1, 2]
    query.protocol.take_over()
    assert zombie.outputs and query.hidden() == []


# --- several processes ------------------------------------------------------------------------------------------------


def test_two_drivers_cannot_both_decide(new_query, tmp_path):
    Query = type(new_query())
    first = Query(tmp_path / "t")
    of_first = first.tasks(0, [[1], [2]])
    second = Query(tmp_path / "t", engine=first.engine)
    of_second = second.tasks(0, [[1], [2]])
    with pytest.raises(DisplacedError, match="another run"):
        first.protocol.commit(0, of_first)
    first.protocol.abort(0, of_first)
    second.protocol.commit(0, of_second)
    second.run(1, [[3], [4]])
    with pytest.raises(DisplacedError):
        first.plan(1)
    second.protocol.take_over()
    assert second.visible() == [1, 2, 3, 4]


def test_a_driver_that_slept_for_long_is_refused(new_query, tmp_path, monkeypatch):
    """Its number had been deleted meanwhile, so that creating it succeeds; the log notices."""
    Query = type(new_query())
    sleeper = Query(tmp_path / "s")
    sleeper.run(0, [[0]])
    slept = sleeper.tasks(1, [[1]])
    other = Query(tmp_path / "s", engine=sleeper.engine)
    for batch_id in range(1, 90):
        other.run(batch_id, [[batch_id]])
    assert len(other.chain.links()) < 60
    planned = slept[0].planned
    known = Chain(sleeper.storage, sleeper.chain.directory)
    known._last = type(other.chain.head().link)(number=planned.head, kind=LinkKind.BATCH, base=planned.base, batch=0)
    monkeypatch.setattr(
        "penstock._commit._two_phase.Publishing.carry_out", lambda *_, **__: pytest.fail("it published")
    )
    protocol = sleeper.protocol
    protocol._chain = known
    with pytest.raises(DisplacedError):
        protocol.commit(1, slept)
    assert sleeper.visible() == list(range(90))
    assert Chain(sleeper.storage, sleeper.chain.directory).head().link.batch == 89


def test_a_batch_leaves_out_merges_that_a_roll_has_made(new_query):
    query = new_query()
    query.run(0, [[0], [1, 2, 3, 4, 5]])
    results = query.tasks(1, [[6], [7]])  # its tasks have merged the five carried rows
    assert any(output.consumed for result in results for output in result.outputs)
    assert query.protocol.roll(finish=True) is not None  # an idle roll was quicker
    query.protocol.commit(1, results)
    query.protocol.take_over()
    assert query.visible() == list(range(8))


def test_a_roll_beside_a_running_batch_leaves_its_inputs_where_they_are(new_query):
    query = new_query()
    query.run(0, [[0], [1, 2, 3, 4, 5]])
    plan = query.plan(1)
    assert query.protocol.roll(finish=True) is not None
    results = [query.attempt(plan, 1, writer, [6 + writer]) for writer in range(2)]
    query.protocol.commit(1, results)
    query.protocol.take_over()
    assert query.visible() == list(range(8))


def test_a_roll_gives_way_to_a_batch_that_is_not_published(new_query, crash_type):
    query = new_query()
    query.run(0, [[0], [1]])
    results = query.tasks(1, [[2], [3]])
    ended_at(query, crash_type, "after create", query.protocol.commit, 1, results)
    with pytest.raises(GaveWayError, match="batch 1 is decided and not published"):
        query.protocol.roll(finish=True)


# --- what is lost -----------------------------------------------------------------------------------------------------


def test_lost_before_anything_was_published_is_written_again(new_query, crash_type, tmp_path):
    Query = type(new_query())
    query = Query(tmp_path / "l")
    results = query.tasks(0, [[1], [2]])
    ended_at(query, crash_type, "after create", query.protocol.commit, 0, results)
    lose(query)
    restarted = Query(tmp_path / "l", engine=query.engine)
    restarted.run(0, [[1], [2]])  # the engine's replay
    restarted.protocol.take_over()
    assert restarted.visible() == [1, 2]
    assert kinds(restarted)[:5] == ["claim", "batch", "claim", "lost", "batch"]


def test_loss_noticed_while_committing_asks_for_a_restart(new_query):
    query = new_query()
    results = query.tasks(0, [[1], [], [2]])
    os.unlink(Path(query.sink.root) / ".hidden" / query.hidden()[0])
    with pytest.raises(RetriableError, match="restart the query"):
        query.protocol.commit(0, results)
    assert query.visible() == [], "nothing is published where a part is lost"
    query.run(0, [[1], [], [2]])
    assert query.visible() == [1, 2]


@pytest.mark.parametrize("beside", ["before the replay", "while the tasks of the replay run"])
def test_a_roll_beside_a_batch_that_is_written_again_takes_nothing_from_it(new_query, crash_type, tmp_path, beside):
    """The listener or ``penstock finish``, between giving a batch up and its second decision."""
    Query = type(new_query())
    query = Query(tmp_path / "l")
    query.run(0, [[0], [100]])
    carried = query.hidden()
    results = query.tasks(1, [[1], [], [2]])
    ended_at(query, crash_type, "after create", query.protocol.commit, 1, results)
    lose(query, but=carried)
    restarted = Query(tmp_path / "l", engine=query.engine)
    if beside == "before the replay":
        restarted.plan(1)  # gives the batch up, and ends
        assert kinds(restarted)[-1] == "lost" and restarted.protocol.roll(finish=True) is not None
        restarted = Query(tmp_path / "l", engine=query.engine)
        results = restarted.tasks(1, [[1], [], [2]])
    else:
        results = restarted.tasks(1, [[1], [], [2]])
        assert restarted.protocol.roll(finish=True) is not None
    restarted.protocol.commit(1, results)
    restarted.run(2, [[3]])
    restarted.protocol.take_over()
    assert restarted.visible() == [0, 1, 2, 3, 100]


def test_a_loss_that_is_none_any_more_gives_nothing_up(new_query, crash_type, tmp_path):
    """While a run looks at its batch, another one publishes it, marks it done, and a reader takes it away."""
    Query = type(new_query())
    slow = Query(tmp_path / "s")
    results = slow.tasks(0, [[1], [2]])
    ended_at(slow, crash_type, "after create", slow.protocol.commit, 0, results)
    slow.memory.batch = None  # starts again
    read, committer = [], type(slow.sink.create_committer(None))
    real = committer.look

    def look(self, committables):
        if self.sink is slow.sink and not read:
            other = Query(tmp_path / "s", engine=slow.engine)
            other.run(0, [[1], [2]])
            other.run(1, [[3], []])
            read.extend(other.visible())
            for path in Path(slow.sink.root).glob("*-*"):
                path.unlink()
        return real(self, committables)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "look", look)
        with pytest.raises(DisplacedError):
            slow.plan(0)
    last = Query(tmp_path / "s", engine=slow.engine)
    last.run(1, [[3], []])
    last.protocol.take_over()
    assert sorted(read + last.visible()) == [1, 2, 3] and "lost" not in kinds(last)


@pytest.fixture
def partly_lost(new_query, crash_type, tmp_path):
    """Writer 0 of three is published, writer 2 is lost, in one decision; and a driver that comes after that."""
    Query = type(new_query())
    query = Query(tmp_path / "p")
    results = query.tasks(0, [[1], [], [2]])
    ended_at(query, crash_type, "after publish", query.protocol.commit, 0, results)
    lose(query)
    return Query(tmp_path / "p", engine=query.engine)


def test_partly_lost_stops_with_an_error(partly_lost):
    with pytest.raises(DataLostError, match=f"penstock resolve {partly_lost.protocol._chain.checkpoint} --drop-lost"):
        partly_lost.plan(0)


def test_a_person_drops_what_is_lost(partly_lost):
    partly_lost.protocol.resolve(write_all_again=False)
    partly_lost.run(0, [[1], [], [2]])
    partly_lost.run(1, [[3]])
    assert partly_lost.visible() == [1, 3]


def test_a_person_has_it_written_again(partly_lost):
    partly_lost.protocol.resolve(write_all_again=True)
    partly_lost.run(0, [[1], [], [2]])
    partly_lost.run(1, [[3]])
    assert partly_lost.visible() == [1, 1, 2, 3]


def test_a_carried_state_that_is_gone_stops_the_query(new_query, tmp_path):
    Query = type(new_query())
    query = Query(tmp_path / "g")
    query.run(0, [[0], [1]])
    lose(query)
    with pytest.raises(DataLostError, match="is gone"):
        Query(tmp_path / "g", engine=query.engine).plan(1)


# --- state ------------------------------------------------------------------------------------------------------------


def test_rescaling_carries_state_of_writers_that_are_gone(new_query):
    query = new_query()
    query.run(0, [[0], [1], [2], [3], [4], [5]])
    query.run(1, [[6]])
    query.run(2, [[7], [8]])
    query.protocol.take_over()
    assert query.visible() == list(range(9))


def test_sequence_never_goes_back(new_query):
    query = new_query()
    query.run(0, [[1], [2]])
    first = query.chain.head().link.sequence
    query.run(1, [[3], [4]])
    assert 0 < first < query.chain.head().link.sequence


def test_a_done_mark_that_was_lost_costs_a_look(new_query, tmp_path):
    Query = type(new_query())
    query = Query(tmp_path / "m")
    query.run(0, [[1]])
    for mark in Path(query.chain.directory).glob("*.done"):
        mark.unlink()
    restarted = Query(tmp_path / "m", engine=query.engine)
    restarted.run(1, [[2]])
    assert restarted.visible() == [1, 2]


def test_what_killed_writes_left_in_the_decision_log_is_removed_as_it_is_shortened(new_query, leave_killed_writes):
    query = new_query()
    left = leave_killed_writes(Path(query.chain.directory), f"{3:020d}.json")
    for batch_id in range(20):
        query.run(batch_id, [[batch_id]])
    assert left.swept and query.visible() == list(range(20))


# --- what a batch costs -----------------------------------------------------------------------------------------------


class CountedStorage(MemoryStorage):
    """Notes every call, as a request to a store would be."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def read(self, path):
        self.calls.append("read")
        return super().read(path)

    def size(self, path):
        self.calls.append("exists")
        return super().size(path)

    def list_names(self, directory):
        self.calls.append("list")
        return super().list_names(directory)

    def create(self, path, data):
        self.calls.append("create")
        return super().create(path, data)

    def put(self, path, data, *, durable=True):
        self.calls.append("put")
        super().put(path, data, durable=durable)

    def delete(self, paths):
        if paths := list(paths):
            self.calls.append("delete")
            super().delete(paths)


def test_a_task_unpacks_no_state_but_its_own(new_query, monkeypatch):
    """Thousands of pieces may be carried; each is looked at once by the driver, and once by the task that owns it."""
    query = new_query()
    query.run(0, [[i] for i in range(20)])
    plan, unpacked = query.plan(1), []
    serializer = type(query.sink).state_serializer.fget(query.sink)
    monkeypatch.setattr(type(query.sink), "state_serializer", serializer)
    monkeypatch.setattr(
        serializer, "unpack", lambda stored: unpacked.append(stored) or type(serializer).unpack(serializer, stored)
    )
    owned = [len(plan.states_of(writer)) for writer in range(20)]
    assert sum(owned) == 10 and unpacked == []
    for writer in range(20):
        query.attempt(plan, 1, writer, [100 + writer])
        assert len(unpacked) == sum(owned[: writer + 1])


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        ([[1], []], {"list": 2, "read": 2, "create": 1, "put": 1}),  # published
        ([[], []], {"list": 1, "read": 2, "create": 1}),  # empty
        ([[], [1]], {"list": 1, "read": 2, "create": 1}),  # carried
    ],
)
def test_calls_to_the_store_of_the_decision_log(new_query, shares, expected):
    """Of a batch in the middle of a run, with Spark's own log in the same store: planning and committing together.

    Links are shortened at every sixteenth: one listing and one deletion more.
    """
    query, storage = new_query(), CountedStorage()
    spark_log = SparkLog(storage, "/ck")
    processes = [(Chain(storage, "/ck/penstock/decisions"), RunMemory()) for _ in range(2)]

    def run(batch_id):
        storage.files[f"/ck/offsets/{batch_id}"] = b"v1 %d" % batch_id
        planning, committing = (
            TwoPhaseCommit(query.sink, SinkContext("q", SCHEMA), chain, memory) for chain, memory in processes
        )
        plan = planning.plan(spark_log)
        committing.commit(batch_id, [query.attempt(plan, batch_id, writer, ids) for writer, ids in enumerate(shares)])

    for batch_id in range(3):
        run(batch_id)
    storage.calls.clear()
    run(3)
    assert Counter(storage.calls) == expected
