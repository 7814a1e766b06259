"""What rolls, batch writes and the ends of runs append to the chain and ask of the sink, exactly.

Numbers are large and values come as copies, as they do from another process: nothing may be told by its identity.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from penstock._commit import BatchPendingError, DisplacedError, GaveWayError, Link, LinkKind
from penstock.errors import BadConfigurationError, DataLostError, RetriableError
from penstock.sink import Found, Kept, WriterContext
from suite.scripted_log import HEAD, PLANNED, ROLL, SCHEMA, ScriptedLog, fail, followed, result
from suite.scripted_sink import copied, item, output, scripted_system


@pytest.fixture(autouse=True)
def system():
    with scripted_system() as made:
        yield made


@pytest.fixture
def log():
    return ScriptedLog()


# --- between batches --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("finish", [True, False])
def test_a_roll_replaces_state_and_leaves_the_base(log, system, finish):
    log.have(HEAD)
    log.memory.run, log.session = "the listener", "the listener's"
    log.rolls(states=["three"])
    link = log.protocol.roll(finish=finish)
    merged = replace(output(-1, ["merged"], ["three"], ["one", "two"], 5), attempt="id 1")
    merged = replace(merged, states=(replace(item("three"), id="id 2"),))
    expected = followed(
        1001,
        LinkKind.ROLL,
        system,
        ids=3,
        base=1000,
        outputs=(merged,),
        states=merged.states,
        pending=1001,
        sequence=7005,
    )
    assert link == expected and log.appended == [expected] and log.is_done(1001)
    context = WriterContext("q", SCHEMA, base=1000, generation=900, writer_index=-1, attempt_id="id 1", sequence=7000)
    assert log.sink.asked[:3] == [("roller", context), ("roll", ["one", "two"], finish), ("close roller",)]
    assert log.sink.all_asked("publish") == [[["merged"]]]


def test_a_roll_that_only_merges_publishes_nothing(log):
    log.have(HEAD)
    log.rolls(committables=(), states=["three"])
    assert log.protocol.roll(finish=False).pending is None
    assert log.sink.all_asked("look") == [] and not log.is_done(1001)


def test_nothing_to_roll(log):
    log.have(HEAD)
    log.sink.rolled = []
    assert log.protocol.roll(finish=False) is None and log.appended == []


@pytest.mark.parametrize("kind", [LinkKind.BATCH, LinkKind.CLAIM, LinkKind.CLOSE])
def test_a_roll_leaves_what_is_pending_to_its_owner(log, kind):
    log.have(replace(HEAD, pending=1000, kind=kind))
    with pytest.raises(BatchPendingError, match="batch 500 is decided and not published yet"):
        log.protocol.roll(finish=True)
    assert log.sink.asked == []


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_roll_that_is_pending_is_published_by_whoever_comes(log, is_lost):
    log.have(HEAD, replace(HEAD, number=1001, kind=LinkKind.ROLL, pending=1001))
    log.sink.found = {"older": Found.LOST} if is_lost else {}
    link = log.protocol.roll(finish=True)
    assert (link and link.number) == (None if is_lost else 1001)
    assert log.is_done(1001) != is_lost and len(log.appended) == 1


@pytest.mark.parametrize("happens", [{}, {"number": 1033, "base": 1033}])
def test_a_roll_that_comes_too_late_takes_its_merge_away(log, happens):
    log.have(HEAD)
    log.rolls(states=["three"])
    log.before_create(lambda: log.appends(**happens)())
    with pytest.raises(GaveWayError, match="a batch was decided at the same time"):
        log.protocol.roll(finish=True)
    assert log.sink.all_asked("discard") == [[["merged"], ["three"]]] and log.sink.all_asked("publish") == []


@pytest.mark.parametrize("error", [OSError("x"), DataLostError("x"), RetriableError("x")])
@pytest.mark.parametrize("name", ["a link", "z link", None])
def test_a_roll_whose_inputs_a_batch_has_replaced_gives_way(log, error, name):
    log.have(HEAD)
    log.rolls()
    protocol = log.protocol
    happens = protocol._chain.forget if name is None else log.appends(id=name)
    log.sink.on["roll"] = lambda: (happens(), fail(error))
    with pytest.raises(type(error) if name is None else GaveWayError) as caught:
        protocol.roll(finish=True)
    assert (caught.value is error) == (name is None) and ("abort roller",) in log.sink.asked


# --- batch writes -----------------------------------------------------------------------------------------------------

FIRST = Link(
    number=0, kind=LinkKind.CLAIM, base=0, generation=0, id="first", run="m run", query="q", targets={"": "/out"}
)
AT_ONCE = replace(PLANNED, base=0, head=0, generation=0, batch_id=0)


@pytest.fixture
def write(log, system):
    """A batch write with one task that has left something to publish and two pieces of state, and one more."""
    log.have(FIRST)
    log.session = ""
    log.memory.run = "the process that commits"
    log.results = [
        result(output(0, ["a"], ["one", "two"], used=3), planned=AT_ONCE),
        result(output(1, ["b"]), planned=AT_ONCE, writer=1),
    ]
    log.rolls()
    return log


#: What a batch write keeps once it has ended: nothing, of whatever base and generation.
NOTHING = Kept(1 << 62, 1 << 62)


def test_a_batch_write_is_one_decision(write, system):
    write.protocol.commit_at_once(write.results)
    merged = replace(output(-1, ["merged"], used=5), attempt="id 1")
    outputs = (output(0, ["a"], used=3), output(1, ["b"]), merged)
    changes = {"batch": 0, "plan": "the plan", "outputs": outputs, "pending": 1, "sequence": 5}
    assert write.links == [FIRST, followed(1, LinkKind.CLOSE, system, FIRST, 2, **changes)]
    assert write.sink.all_asked("roll") == [[["one", "two"], True]] and write.is_done(1)
    assert write.sink.all_asked("publish") == [[["a"]], [["b", "merged"]]]
    assert write.sink.all_asked("clear") == []
    marks = [call[1:] for call in write.storage.asked if call[0] == "put"]
    assert [durable for _, durable in marks] == [False, True]


def test_what_a_batch_write_has_left_is_removed_after_it(write):
    write.protocol.commit_at_once(write.results)
    write.protocol.clear_at_once()
    assert write.sink.all_asked("clear") == [[NOTHING]]


def test_a_batch_write_that_was_decided_is_published_by_the_next_call(write):
    write.sink.on["publish"] = partial(fail, OSError("away"))
    with pytest.raises(OSError, match="away"):
        write.protocol.commit_at_once(write.results)
    assert not write.is_done(1)
    write.sink.on.clear()
    write.protocol.commit_at_once(write.results)
    assert write.is_done(1) and len(write.links) == 2


def test_a_batch_write_that_was_decided_is_published_by_an_abort(write):
    write.sink.on["publish"] = partial(fail, OSError("away"))
    with pytest.raises(OSError, match="away"):
        write.protocol.commit_at_once(write.results)
    write.sink.on.clear()
    write.protocol.abort_at_once([*write.results, None])
    assert write.is_done(1) and write.sink.all_asked("discard") == []
    assert [link.kind for link in write.links] == [LinkKind.CLAIM, LinkKind.CLOSE, LinkKind.CLAIM]


@pytest.mark.parametrize(("missing", "clears", "slept"), [([], 1, 0), ([None], 13, 3)])
def test_a_batch_write_that_failed_leaves_nothing(write, system, missing, clears, slept):
    write.protocol.abort_at_once([*write.results, *missing])
    assert write.sink.all_asked("discard") == [[["a", "b"], ["one", "two"]]]
    assert write.head == followed(
        1, LinkKind.CLAIM, system, FIRST, generation=1, run="the process that commits", session=""
    )
    assert write.sink.all_asked("clear") == [[NOTHING]] * clears and system.slept_s == slept


def test_a_batch_write_that_another_process_has_voided_is_over(write):
    write.protocol.abort_at_once([])
    with pytest.raises(DisplacedError, match="this write was undone"):
        write.protocol.commit_at_once(write.results)
    with pytest.raises(GaveWayError, match="not decided anything yet"):
        write.protocol.finish_at_once()


def test_a_batch_write_that_is_voided_meanwhile_is_over(write):
    write.before_create(lambda: write.appends(kind=LinkKind.CLAIM)())
    with pytest.raises(DisplacedError):
        write.protocol.commit_at_once(write.results)


def test_a_batch_write_that_is_lost_can_be_run_again(write):
    write.sink.found = {"b": Found.LOST}
    with pytest.raises(DataLostError, match="Nothing of it is visible"):
        write.protocol.commit_at_once(write.results)
    assert write.sink.all_asked("publish") == [] and write.sink.all_asked("seal") == [[["a"]], [["b", "merged"]]]


def test_a_batch_write_that_is_done_is_cleared_up_behind_again(write):
    write.protocol.commit_at_once(write.results)
    write.sink.asked.clear()
    assert write.protocol.finish_at_once().number == 1
    assert write.sink.all_asked("publish") == [] and write.sink.all_asked("clear") == [[NOTHING]]


def test_a_batch_write_whose_log_is_gone_has_ended(write):
    """Somebody else has published it meanwhile, and removed what it was kept by."""
    write.sink.on["look"] = write.storage.files.clear
    write.sink.found = dict.fromkeys(["a", "b", "merged"], Found.LOST)
    write.protocol.commit_at_once(write.results)
    write.protocol.abort_at_once([])
    assert write.links == []


def test_a_batch_write_that_finds_its_log_gone_was_undone_or_published(write):
    """An earlier request of its own may have decided it, whose answer was lost."""
    write.before_create(write.storage.files.clear)
    with pytest.raises(DisplacedError, match=r"ended while it ran.*visible, or nothing\. Look at the target"):
        write.protocol.commit_at_once(write.results)
    assert write.links == [] and write.sink.all_asked("publish") == []


def test_what_was_undone_while_it_was_merged_is_not_decided(write):
    """Whoever undoes a write takes away what the driver is merging."""
    write.sink.on["roll"] = lambda: (write.appends(kind=LinkKind.CLAIM)(), fail(DataLostError("a chunk is gone")))
    with pytest.raises(DisplacedError, match="this write was undone"):
        write.protocol.commit_at_once(write.results)
    assert len(write.links) == 2


def test_the_answer_to_a_decision_may_be_lost(write):
    """An earlier try of this very write has landed meanwhile: the write is decided, with that."""
    decided = {"plan": AT_ONCE.plan_id, "batch": 0, "outputs": (output(0, ["x"]),), "pending": 1}
    write.before_create(write.appends(kind=LinkKind.CLOSE, **decided))
    write.protocol.commit_at_once(write.results)
    assert write.sink.all_asked("publish") == [[["x"]]] and write.is_done(1) and len(write.links) == 2


@pytest.mark.parametrize("meanwhile", [True, False])
@pytest.mark.parametrize("plan", ["a plan", "z plan"])
def test_the_decision_of_another_plan_is_none_of_this_write(write, plan, meanwhile):
    append = write.appends(kind=LinkKind.CLOSE, plan=plan, batch=0)
    if meanwhile:
        write.before_create(append)
    else:
        append()
    with pytest.raises(DisplacedError, match="this write was undone"):
        write.protocol.commit_at_once(write.results)


def test_a_batch_write_whose_log_is_gone_before_it_decides_was_undone(write):
    write.storage.files.clear()
    with pytest.raises(DisplacedError, match="this write was undone"):
        write.protocol.commit_at_once(write.results)
    assert write.links == []


def test_a_batch_write_without_rows_is_decided_as_well(write):
    write.sink.rolled = None
    write.protocol.commit_at_once([result(planned=AT_ONCE)])
    assert write.head.batch == 0 and write.sink.all_asked("look") == []
    assert write.protocol.finish_at_once() == write.head


def test_what_a_claim_stands_above_is_still_the_decision(write):
    write.sink.on["publish"] = partial(fail, OSError("away"))
    for work in (write.protocol.commit_at_once, write.protocol.abort_at_once):
        with pytest.raises(OSError, match="away"):
            work(write.results)
    write.sink.on.clear()
    assert write.protocol.finish_at_once().number == 1 and write.head.number == 2


def test_a_part_that_another_process_has_published_and_cleared_is_not_lost(write):
    """What is left of it looks lost; but the link is done."""
    write.sink.found = {"a": Found.COMMITTED, "b": Found.LOST}
    write.sink.on["look"] = lambda: write.chain.mark_done(1)
    write.protocol.commit_at_once(write.results)
    assert write.sink.all_asked("publish") == [] and write.sink.all_asked("seal") == []


def test_whether_a_batch_write_is_decided_is_told_or_not_known(write):
    write.protocol.commit_at_once(write.results)
    assert write.protocol.settle_at_once() is True
    for error in (OSError("away"), RetriableError("away")):
        write.storage.before["list"] = [partial(fail, error)]
        assert write.protocol.settle_at_once() is None
    write.storage.files.clear()
    assert write.protocol.settle_at_once() is None, "another process has ended it, in one way or the other"
    assert not write.storage.files


def test_a_decision_that_comes_after_it_was_ruled_out_is_refused(write):
    write.storage.has_late_calls = True
    assert write.protocol.settle_at_once() is False
    with pytest.raises(DisplacedError, match="undone"):
        write.protocol.commit_at_once(write.results)
    assert write.head.kind is LinkKind.CLAIM and write.sink.all_asked("publish") == []


def test_a_claim_that_fails_leaves_open_whether_a_batch_write_is_decided(write):
    write.storage.before["create"] = [partial(fail, OSError("away"))]
    assert write.protocol.settle_at_once() is False, "on a disk a call that has failed is over"
    write.storage.has_late_calls = True
    assert write.protocol.settle_at_once() is None


def test_clearing_closes_its_committer(write):
    write.protocol.clear_at_once()
    write.sink.on["clear"] = partial(fail, OSError("away"))
    with pytest.raises(OSError, match="away"):
        write.protocol.clear_at_once()
    assert len(write.sink.all_asked("close")) == 2


def test_a_roller_must_finish_everything(write):
    write.rolls(consumed=[1])
    with pytest.raises(AssertionError, match="a roller must finish everything"):
        write.protocol.commit_at_once(write.results)
    assert write.links == [FIRST]


# --- the end of a run -------------------------------------------------------------------------------------------------


def test_a_close_publishes_what_is_carried(log, system):
    log.have(HEAD)
    log.memory.run = "the process that commits"
    log.rolls()
    link = log.protocol.close(copied(HEAD))
    merged = replace(output(-1, ["merged"], consumed=["one", "two"], used=5), attempt="id 1")
    changes = {"outputs": (merged,), "states": (), "pending": 1001, "sequence": 7005}
    assert link == followed(1001, LinkKind.CLOSE, system, ids=2, **changes) and log.is_done(1001)
    assert log.sink.all_asked("roll") == [[["one", "two"], True]]
    assert log.sink.all_asked("clear") == [[Kept(1001, 900, [], [])]]


def test_a_close_with_nothing_carried_is_a_link_all_the_same(log, system):
    log.have(replace(HEAD, states=()))
    assert log.protocol.close(HEAD) == followed(1001, LinkKind.CLOSE, system, ids=2, states=())
    assert log.sink.all_asked("look") == [] and len(log.sink.all_asked("clear")) == 1


@pytest.mark.parametrize("base", [999, 1001])
def test_a_close_is_for_the_owner(log, base):
    log.have(HEAD)
    with pytest.raises(DisplacedError):
        log.protocol.close(replace(HEAD, base=base))
    assert log.appended == []


def test_a_close_finishes_a_roll_that_is_pending(log):
    log.have(HEAD, replace(HEAD, number=1001, kind=LinkKind.ROLL, states=(), pending=1001))
    assert log.protocol.close(HEAD).number == 1002
    assert log.sink.all_asked("publish") == [[["older"]]] and log.is_done(1001)


def test_a_close_gives_a_roll_up_that_is_lost(log):
    log.have(HEAD, replace(HEAD, number=1001, kind=LinkKind.ROLL, states=(), pending=1001))
    log.sink.found = {"older": Found.LOST}
    log.rolls()
    assert log.protocol.close(HEAD).number == 1003
    assert [link.kind for link in log.appended] == [LinkKind.ROLL, LinkKind.LOST, LinkKind.CLOSE]
    assert log.sink.all_asked("roll") == [[["one", "two"], True]]


def test_a_close_gives_itself_up_if_it_is_lost(log):
    log.have(HEAD)
    log.rolls()
    log.sink.found = {"merged": Found.LOST}
    log.sink.on["seal"] = lambda: log.sink.on.update({"roll": log.sink.found.clear})
    assert log.protocol.close(HEAD).number == 1003
    assert [link.kind for link in log.appended] == [LinkKind.CLOSE, LinkKind.LOST, LinkKind.CLOSE]


def test_a_close_gives_way_to_a_roll(log):
    log.have(HEAD)
    log.rolls()
    log.before_create(lambda: log.appends(**ROLL, states=())())
    assert log.protocol.close(HEAD).number == 1002
    assert log.sink.all_asked("discard") == [[["merged"], []]]


def test_a_close_at_a_number_that_had_been_used_stops(log):
    log.have(HEAD)
    log.rolls()
    log.before_create(lambda: log.appends(number=1033, base=1033)())
    with pytest.raises(DisplacedError, match="link 1033"):
        log.protocol.close(HEAD)
    assert log.sink.all_asked("publish") == []


def test_a_close_is_tried_twenty_times(log):
    log.have(HEAD)
    log.storage.create = lambda path, data: log.storage.asked.append(("create", path)) or log.appends(**ROLL)()
    with pytest.raises(RetriableError, match="under 20 tries"):
        log.protocol.close(HEAD)
    assert [what for what, *_ in log.storage.asked].count("create") == 20


def test_taking_over_is_a_claim_and_a_close(log):
    log.have(replace(HEAD, run="z run", pending=1000))
    log.rolls()
    assert log.protocol.take_over().number == 1002
    assert [(link.kind, link.run) for link in log.appended] == [(LinkKind.CLAIM, "m run"), (LinkKind.CLOSE, "m run")]
    assert log.sink.all_asked("publish") == [[["older"]], [["merged"]]]


# --- what a person decides --------------------------------------------------------------------------------------------


@pytest.fixture
def lost(log):
    return log.lose()


def test_resolving_by_writing_again(lost):
    link = lost.protocol.resolve(write_all_again=True)
    assert [one.kind for one in lost.appended] == [LinkKind.CLAIM, LinkKind.LOST] and link == lost.head
    assert lost.sink.all_asked("seal") == [[["older"]]] and link.batch == 499


def test_resolving_by_dropping(lost):
    link = lost.protocol.resolve(write_all_again=False)
    assert [one.kind for one in lost.appended] == [LinkKind.CLAIM] and link == lost.head
    assert lost.sink.all_asked("publish") == [[["older"]]] and lost.is_done(1000)


def test_there_is_nothing_to_resolve(log):
    log.have(HEAD)
    with pytest.raises(BadConfigurationError, match="nothing is pending"):
        log.protocol.resolve(write_all_again=False)
