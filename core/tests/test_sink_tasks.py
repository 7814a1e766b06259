"""What tasks do for a batch, by itself."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace

import pytest

from penstock._commit import (
    BatchPlan,
    PlannedBatch,
    TaskResult,
    driver_context,
    grouped_by_owner,
    roll_states,
    run_task,
)
from penstock.errors import DataLostError, FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import (
    CheckpointLocation,
    PreparedCommit,
    SinkContext,
    StateReplacement,
    WriterContext,
    describe_state,
    state_serializer_of,
)
from penstock.storage import MemoryStorage
from suite.scripted_sink import TEXT, PlainScriptedSink, ScriptedSink, copied, item, output, scripted_system

PLANNED = PlannedBatch("q", "run", "plan", 1000, 1001, 900, 501, "fingerprint", is_decided=False, write_timestamp_us=77)
ITEMS = tuple(item(name) for name in ("one", "other", "two", "three"))
CHECKPOINT = CheckpointLocation(MemoryStorage(), "/ck")


@pytest.fixture(autouse=True)
def system():
    with scripted_system() as made:
        yield made


@pytest.fixture
def sink():
    return ScriptedSink(prepared=PreparedCommit(["a"], [], 2))


def context(writer=0, batch=501, metrics=None):
    metrics = metrics or Metrics()
    return WriterContext("q", None, metrics, batch_id=batch, writer_index=writer, attempt_id=f"attempt {writer}")


def plan(sink, states=ITEMS, writers=1, **changes):
    grouped = grouped_by_owner(sink, states, writers)
    return BatchPlan(replace(PLANNED, **changes), 7000, writers, grouped, b"offsets", CHECKPOINT)


def made(sink):
    return [call for call in sink.asked if call[0] not in ("writer", "roller")]


def test_an_attempt_writes_what_it_is_given(sink):
    metrics = Metrics()
    metrics.add("rows", 3)
    result = run_task(sink, plan(sink, ()), context(metrics=metrics), iter("xy"))
    expected = output(0, ["a"], used=2)
    assert result == TaskResult(0, "attempt 0", PLANNED, (expected,), b"offsets", {"rows": 3})
    assert metrics.take() == {}
    complete = replace(
        context(),
        base=1000,
        generation=900,
        plan_id="plan",
        sequence=7000,
        write_timestamp_us=77,
        checkpoint=CHECKPOINT,
    )
    assert sink.asked == [("writer", complete), ("write", "x"), ("write", "y"), ("prepare",), ("close writer",)]


def test_rows_are_flushed_before_they_are_prepared(sink, monkeypatch):
    monkeypatch.setattr("suite.scripted_sink._Writer.flush", lambda writer: writer._sink.ask("flush"))
    run_task(sink, plan(sink, ()), context(), iter("xy"))
    assert made(sink) == [("write", "x"), ("write", "y"), ("flush",), ("prepare",), ("close writer",)]


def test_the_offsets_come_from_the_first_writer_alone(sink):
    assert run_task(sink, plan(sink), context(1), []).offsets == b""
    assert run_task(sink, plan(sink), context(1), []).writer == 1


def test_an_attempt_that_has_nothing_contributes_nothing(sink):
    sink.prepared = PreparedCommit([], [], 3)
    assert run_task(sink, plan(sink, ()), context(), []).outputs == ()


@pytest.mark.parametrize(("committables", "states"), [(["a"], []), ([], ["b"]), (["a"], ["b"])])
def test_an_attempt_contributes_either(sink, committables, states):
    sink.prepared = PreparedCommit(committables, states)
    (found,) = run_task(sink, plan(sink, ()), context(), []).outputs
    assert (len(found.committables), len(found.states)) == (len(committables), len(states))


def test_state_has_an_id_of_its_own(sink):
    sink.prepared = PreparedCommit([], ["b", "b"])
    (found,) = run_task(sink, plan(sink, ()), context(), []).outputs
    assert [state.id for state in found.states] == ["id 1", "id 2"]


@pytest.mark.parametrize("batch", [500, 502])
def test_another_batch_than_the_planned_one_is_refused(sink, batch):
    with pytest.raises(FatalError, match=f"runs batch {batch}, and batch 501 was planned"):
        run_task(sink, plan(sink), context(batch=batch), [])
    assert sink.asked == []


def test_the_planned_batch_is_known_by_its_number(sink):
    run_task(sink, copied(plan(sink)), context(batch=copied(501)), [])


def test_a_replay_reads_its_input_and_drops_it(sink):
    sink.rolled, read = [StateReplacement([0])], []
    result = run_task(sink, plan(sink, is_decided=True), context(1), (read.append(i) for i in range(3)))
    assert len(read) == 3
    assert result == TaskResult(1, "attempt 1", replace(PLANNED, is_decided=True)) and sink.asked == []


def test_rolls_come_before_rows_and_so_do_their_numbers(sink):
    sink.rolled = [StateReplacement([1], ["merged"], [], 5), StateReplacement([0, 2], [], ["left"], 4)]
    result = run_task(sink, plan(sink), context(), iter("x"))
    first, second, third = result.outputs
    assert (first.consumed, second.consumed, third.consumed) == (("other",), ("one", "two"), ())
    assert (first.sequences_used, second.sequences_used, third.sequences_used) == (5, 4, 2)
    assert [what for what, *_ in sink.asked] == [
        "roller", "roll", "close roller", "writer", "write", "prepare", "close writer",
    ]  # fmt: skip
    assert sink.all_asked("roll") == [[[one.id for one in ITEMS], False]]
    assert sink.all_asked("roller")[0][0].sequence == 7000 and sink.all_asked("writer")[0][0].sequence == 7009


def test_a_roll_that_consumes_and_leaves_nothing_counts(sink):
    sink.rolled, sink.prepared = [StateReplacement([0])], PreparedCommit()
    (found,) = run_task(sink, plan(sink), context(), []).outputs
    assert found == output(0, consumed=["one"])


def test_a_sink_may_carry_nothing(sink):
    plain = PlainScriptedSink(prepared=PreparedCommit(["made"], [], 1))
    assert len(run_task(plain, plan(sink), context(), []).outputs) == 1
    assert roll_states(plain, context(), ITEMS, finish=True) == []
    assert grouped_by_owner(plain, ITEMS, 3) == {}


def test_a_roller_is_not_asked_for_nothing(sink):
    sink.rolled = []
    assert roll_states(sink, context(), (), finish=True) == [] and sink.asked == []


def fail(error):
    def fails():
        raise error

    return fails


@pytest.mark.parametrize("at", ["write", "prepare"])
@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_writer_that_fails_throws_away(sink, at, error):
    sink.on[at] = fail(error)
    with pytest.raises(type(error)):
        run_task(sink, plan(sink, ()), context(), iter("x"))
    assert sink.asked[-2:] == [("abort writer",), ("close writer",)]


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt()])
def test_a_roller_that_fails_throws_away(sink, error):
    sink.rolled, sink.on["roll"] = [StateReplacement([0])], fail(error)
    with pytest.raises(type(error)):
        run_task(sink, plan(sink), context(), iter("x"))
    assert [what for what, *_ in sink.asked] == ["roller", "roll", "abort roller", "close roller"]


def test_a_roller_that_consumes_nothing_is_told_so(sink):
    sink.rolled = [StateReplacement([], ["merged"])]
    with pytest.raises(FatalError, match="consumes nothing"):
        roll_states(sink, context(), ITEMS, finish=False)
    assert ("abort roller",) in sink.asked


def test_a_task_cannot_tell_whether_what_it_rolls_was_lost_or_replaced(sink):
    sink.rolled, sink.on["roll"] = [], fail(DataLostError("one is gone"))
    with pytest.raises(RetriableError, match=r"one is gone. Or another run took over"):
        run_task(sink, plan(sink), context(), [])


def test_state_with_one_key_goes_to_one_writer(sink):
    grouped = grouped_by_owner(sink, ITEMS, 7)
    found = [BatchPlan(PLANNED, states=grouped).states_of(writer) for writer in range(8)]
    assert {part for part in found if part} == {ITEMS[:2], ITEMS[2:]}, "by their first letters"


def test_state_is_shared_out_by_what_its_key_hashes_to(sink):
    """The same in every process: a task of the next batch merges what those of this one have left."""
    assert {name: min(grouped_by_owner(sink, [item(name)], 7)) for name in "abcdef"} == {
        "a": 4, "b": 4, "c": 0, "d": 2, "e": 0, "f": 5,
    }  # fmt: skip


@pytest.mark.parametrize("writers", [0, 1])
def test_state_without_writers_goes_to_the_first(sink, writers):
    assert list(grouped_by_owner(sink, [item(name) for name in "abcdef"], writers)) == [0]


def test_what_a_task_is_told_is_packed(sink):
    assert len(grouped_by_owner(sink, [item("long" * 99)] * 50, 1)[0]) < 1000


def test_a_roller_on_the_driver_knows_what_tasks_know(sink):
    given = SinkContext("q", "schema", Metrics(), CHECKPOINT)
    made = driver_context(given, base=1000, generation=900, sequence=7000)
    expected = WriterContext("q", "schema", given.metrics, CHECKPOINT, base=1000, generation=900, sequence=7000)
    assert made == replace(expected, writer_index=-1, attempt_id="id 1") and made.metrics is given.metrics


def test_results_are_values():
    """They are compared, and plans kept in sets."""
    for value, name in ((TaskResult(0, "a", PLANNED), "writer"), (BatchPlan(PLANNED), "sequence")):
        with pytest.raises(FrozenInstanceError):
            setattr(value, name, 7)
    assert TaskResult(0, "a", PLANNED) == copied(TaskResult(0, "a", PLANNED))
    assert {PLANNED} == {copied(PLANNED)} and PlannedBatch("q", "r", "p", 1, 1, 1, 1, "", False).write_timestamp_us == 0
    plan = BatchPlan(PLANNED)
    assert (plan.sequence, plan.writers, plan.states, plan.offsets, plan.checkpoint) == (0, 1, {}, b"", None)


def test_only_a_sink_that_can_roll_state_carries_any(sink):
    """It must not be lost in silence."""
    plain = PlainScriptedSink(prepared=PreparedCommit([], ["carried"], 1))
    nothing = state_serializer_of(plain)
    assert nothing.unpack(nothing.pack(None)) is None and state_serializer_of(sink) is TEXT
    assert (describe_state(sink, "a"), describe_state(plain, "a")) == ("state a", "'a'")
    with pytest.raises(FatalError, match="SupportsStateRolling"):
        run_task(plain, plan(sink, ()), context(), iter("x"))
    with pytest.raises(FatalError, match="this sink carries nothing"):
        nothing.unpack(TEXT.pack("carried"))
