"""What ``plan`` appends to the chain and asks of the sink, exactly: claims, replays, what was pending, time stamps.

Numbers are large and values come as copies, as they do from another process: nothing may be told by its identity.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock._commit import Batch, BatchPlan, DisplacedError, Head, LinkKind, RunMemory
from penstock.errors import BadConfigurationError, DataLostError, FatalError, RetriableError
from penstock.sink import Kept
from suite.scripted_log import HEAD, OTHERS, PLANNED, ScriptedLog, followed
from suite.scripted_sink import StampedScriptedSink, copied, item, scripted_system


@pytest.fixture(autouse=True)
def system():
    with scripted_system() as made:
        yield made


@pytest.fixture
def log():
    return ScriptedLog()


# --- who may plan without a claim -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "goes_on"),
    [
        ({"base": 1000}, True),  # nothing but rolls
        ({"base": 1000, "batch": 499, "plan": "another"}, True),
        ({"base": 1001, "batch": 500, "plan": "m plan"}, True),  # decided since
        ({"base": 1000, "run": "a run"}, False),
        ({"base": 1000, "run": "z run"}, False),
        ({"base": 1001, "batch": 500, "plan": "a plan"}, False),
        ({"base": 1001, "batch": 500, "plan": "z plan"}, False),
        ({"base": 1001, "batch": 499, "plan": "m plan"}, False),
        ({"base": 1001, "batch": 501, "plan": "m plan"}, False),
        ({"base": 999, "batch": 500, "plan": "m plan"}, False),
        ({"base": 1001, "batch": 499, "plan": "a plan"}, False),
    ],
)
def test_a_run_goes_on_where_only_itself_and_rolls_have_appended(head, goes_on):
    memory = RunMemory(run="m run", batch=500, plan_id="m plan", base=1000)
    assert copied(memory).goes_on_at(copied(replace(HEAD, **head))) is goes_on
    assert not replace(memory, batch=None).goes_on_at(copied(replace(HEAD, **head)))


def test_a_batch_behind_one_of_this_run_is_planned_without_a_claim(log, system):
    log.have(HEAD)
    log.remember()
    plan = log.plan()
    assert log.expected == [501] and log.appended == [] and log.claimed == 0 and log.sink.asked == []
    planned = replace(PLANNED, plan_id="id 1", fingerprint=Batch(501, b"offsets 501").fingerprint)
    assert plan.planned == planned
    assert (plan.sequence, plan.writers, plan.offsets, plan.checkpoint) == (7000, 3, b"offsets 501", None)
    assert sum((plan.states_of(writer) for writer in range(3)), ()) in [HEAD.states, HEAD.states[::-1]]
    assert log.memory == RunMemory("m run", 501, "id 1", 1000)


def test_what_is_pending_is_published_before_the_next_plan(log):
    log.have(replace(HEAD, pending=1000))
    log.remember()
    log.plan()
    assert log.sink.all_asked("publish") == [[["older"]]] and log.is_done(1000) and log.appended == []


@pytest.mark.parametrize("batch", [500, 502])
def test_a_batch_that_does_not_follow_is_planned_with_a_claim(log, batch):
    log.have(HEAD)
    log.remember()
    log.engine[batch] = b"offsets %d" % batch
    if batch == 500:
        del log.engine[501]
        assert log.plan().planned.is_decided
    else:
        with pytest.raises(FatalError, match="part of the decision log was deleted"):
            log.plan()
    assert [link.kind for link in log.appended] == [LinkKind.CLAIM] and log.claimed == 1


def test_a_new_process_claims(log, system):
    log.have(HEAD)
    log.memory.run, log.session = "a new run", "a new session"
    log.plan()
    assert log.expected == [None] and log.claimed == 1
    changes = {"generation": 1001, "run": "a new run", "session": "a new session"}
    assert log.appended == [followed(1001, LinkKind.CLAIM, system, **changes)]
    kept = Kept(1001, 1002, [], ["one", "two"])
    assert [(call[0], *call[1:]) for call in log.sink.asked] == [
        ("committer",),
        ("are there", ["one", "two"]),
        ("close",),
        ("committer",),
        ("clear", kept),
        ("close",),
    ]


def test_a_run_whose_batch_was_voided_by_itself_claims(log):
    log.have(HEAD, replace(HEAD, number=1001, base=1001, kind=LinkKind.CLAIM))
    log.remember(base=1000, plan="another")
    log.plan()
    assert log.expected == [None] and [link.number for link in log.appended] == [1001, 1002]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("batch", [500, 501])
def test_a_run_that_was_displaced_stops_once(log, other, batch):
    log.have(replace(HEAD, run=other, session="another session", batch=batch))
    log.engine[batch + 1] = b"offsets"
    log.remember(batch=batch)
    with pytest.raises(DisplacedError, match=f"link 1000 of run {other}"):
        log.plan()
    assert log.memory.batch is None and log.appended == []
    log.plan()  # the query was started again
    assert [link.run for link in log.appended] == ["m run"]


@pytest.mark.parametrize("other", OTHERS)
def test_a_run_claims_back_from_another_process_of_its_session(log, other):
    """It has planned, and its batch failed; now this process plans again, which had planned the batch before."""
    log.have(replace(HEAD, run=other))
    log.remember()
    log.plan()
    assert [link.run for link in log.appended] == ["m run"]


@pytest.mark.parametrize("other", OTHERS)
def test_processes_without_a_session_are_not_of_one(log, other):
    log.have(replace(HEAD, run=other, session=""))
    log.session = ""
    log.remember()
    with pytest.raises(DisplacedError):
        log.plan()


@pytest.mark.parametrize(("batch", "other"), [(502, "a run"), (500, "z run"), (502, "z run"), (500, "a run")])
def test_a_run_whose_batches_do_not_follow_does_not_call_itself_displaced(log, batch, other):
    log.have(replace(HEAD, run=other))
    log.remember(batch=501)
    log.engine = {batch: b"offsets %d" % batch}
    if batch == 500:
        assert log.plan().planned.is_decided
    else:
        log.memory.batch = 500
        with pytest.raises(FatalError, match="part of the decision log"):
            log.plan()
    assert log.claimed == 1


# --- which batch it is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [0, 5])
def test_the_first_batch_may_have_any_number(log, batch):
    log.engine = {batch: b"offsets"}
    assert not log.plan().planned.is_decided
    assert log.head.batch == -1 and log.head.number == 0


@pytest.mark.parametrize("fingerprint", ["", HEAD.fingerprint])
def test_a_replay_carries_nothing_to_its_tasks(log, fingerprint):
    log.have(replace(HEAD, fingerprint=fingerprint))
    del log.engine[501]
    plan = log.plan()
    assert plan.planned.is_decided and plan.states == {}


@pytest.mark.parametrize(
    ("offsets", "error", "match"),
    [
        (b"offsets 500", DisplacedError, "another run"),
        (b"others", FatalError, "Spark runs batch 499, and batch 500 is decided"),
        (None, FatalError, "Spark runs batch 499, and batch 500 is decided"),
    ],
)
def test_a_batch_from_before_tells_of_another_run_or_of_a_rewind(log, offsets, error, match):
    log.have(HEAD)
    log.engine = {499: b"offsets 499"}
    log.find = lambda number: None if offsets is None else Batch(number, offsets)
    with pytest.raises(error, match=match) as caught:
        log.plan()
    assert type(caught.value) is error


def test_a_batch_from_before_one_that_the_first_edition_decided(log):
    log.have(replace(HEAD, fingerprint=""))
    log.engine = {499: b"offsets 499"}
    log.find = lambda number: Batch(number, b"others")
    with pytest.raises(DisplacedError):
        log.plan()


# --- owning the log ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "now", "states", "pending", "refused"),
    [
        ("/a", "/b", True, False, True),
        ("/b", "/a", True, False, True),
        ("/a", "/b", False, True, True),
        ("/a", "/b", False, False, False),
        ("/a", "/a", True, True, False),
        ("", "/b", True, True, False),
        ("/a", "", True, True, False),
    ],
)
def test_the_target_may_not_change_while_rows_are_open(log, before, now, states, pending, refused):
    log.sink.target = now
    states = HEAD.states if states else ()
    log.have(replace(HEAD, targets={"": before}, states=states, pending=1000 if pending else None))
    if refused:
        with pytest.raises(BadConfigurationError, match=f"wrote to {before} before and is to write to {now}"):
            log.plan()
        assert log.appended == [] and log.claimed == 0, "the sink that can finish them stays stored"
    else:
        log.plan()
        assert log.appended[0].targets == {"": now}


def test_carried_state_that_is_gone_is_told_by_name_and_number(log):
    log.have(replace(HEAD, states=tuple(item(name) for name in ("one", "two", "three", "four", "five"))))
    log.sink.gone = {"two", "three", "four", "five"}
    with pytest.raises(DataLostError, match=r"^state two is gone, and 3 more"):
        log.plan()
    assert log.sink.asked[-1] == ("close",)


@pytest.mark.parametrize("name", ["a link", "z link"])
def test_carried_state_that_another_run_has_replaced_is_not_lost(log, name):
    log.have(HEAD)
    log.sink.gone = {"two"}
    log.sink.on["are there"] = lambda: log.appends(run="z run", id=name)()
    with pytest.raises(DisplacedError):
        log.plan()


def test_a_sink_that_does_not_answer_for_each_piece_of_state_is_told_so(log):
    log.have(HEAD)
    log.sink.forgets_the_last = True
    with pytest.raises(ValueError, match="shorter"):
        log.plan()


def test_carried_state_is_not_asked_for_if_there_is_none(log):
    log.have(replace(HEAD, states=()))
    log.plan()
    assert log.sink.all_asked("are there") == [] and len(log.sink.all_asked("clear")) == 1


def test_carried_state_is_lost_if_the_head_is_read_anew(log):
    log.have(HEAD)
    log.sink.gone = {"two"}
    protocol = log.protocol
    log.sink.on["are there"] = protocol._chain.forget
    with pytest.raises(DataLostError):
        protocol.plan(log)


def test_a_claim_behind_an_orderly_end_keeps_the_generation(log, system):
    log.have(replace(HEAD, kind=LinkKind.CLOSE))
    log.plan()
    assert log.appended == [followed(1001, LinkKind.CLAIM, system)]


@pytest.mark.parametrize("kind", [LinkKind.CLAIM, LinkKind.LOST, LinkKind.ROLL])
def test_a_claim_behind_anything_else_has_its_own(log, kind):
    log.have(replace(HEAD, kind=kind))
    log.plan()
    assert log.head.generation == 1001


def test_a_claim_whose_number_is_taken_follows_what_has_it(log):
    log.have(HEAD)
    log.before_create(lambda: log.appends(run="z run", sequence=8000)())
    log.plan()
    assert [(link.number, link.run, link.sequence) for link in log.appended] == [
        (1001, "z run", 8000),
        (1002, "m run", 8000),
    ]


@pytest.mark.parametrize("name", ["a link", "z link"])
def test_a_claim_that_is_no_head_any_more_is_made_again(log, name):
    """A process that slept may create a link at a number that had been used."""
    log.have(HEAD)
    log.before_create(lambda: log.appends(number=1007, base=1007, run="z run", id=name)())
    log.plan()
    assert [link.number for link in log.appended] == [1001, 1007, 1008] and log.head.run == "m run"


def test_a_claim_is_tried_twenty_times(log):
    log.have(HEAD)
    log.storage.create = lambda path, data: log.storage.asked.append(("create", path)) or log.appends()()
    with pytest.raises(RetriableError, match="under 20 tries"):
        log.plan()
    assert [what for what, *_ in log.storage.asked].count("create") == 20


def test_a_claim_shortens_the_chain(log):
    first = replace(HEAD, number=900, base=900)
    log.have(first, replace(HEAD, number=1008, base=1008))
    log.plan()
    assert [link.number for link in log.links] == [1008, 1009]


@pytest.mark.parametrize("other", OTHERS)
def test_an_owner_that_is_displaced_while_it_publishes_stops(log, other):
    log.have(replace(HEAD, pending=1000))
    log.sink.on["close"] = lambda: (log.sink.on.clear(), log.appends(run=other)())
    with pytest.raises(DisplacedError):
        log.plan()


# --- giving up --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lost(log):
    return log.lose()


def test_what_is_given_up_leaves_what_held_before(lost, system):
    lost.engine = {500: b"offsets 500"}
    plan = lost.plan()
    assert not plan.planned.is_decided
    claim = followed(1001, LinkKind.CLAIM, system, generation=1001, pending=1000)
    given_up = {"batch": 499, "fingerprint": "499", "states": (item("before"),), "pending": None}
    assert lost.appended == [claim, followed(1002, LinkKind.LOST, system, claim, 2, **given_up)]
    assert lost.sink.all_asked("seal") == [[["older"]]] and not lost.is_done(1000)


def give_up(log, owner=1000):
    return log.protocol._give_up(copied(log.chain.read(1000)), copied(owner))


def test_giving_up_is_for_the_owner_alone(lost):
    assert give_up(lost) == 1001


def test_what_was_carried_out_meanwhile_is_not_given_up(lost):
    lost.chain.mark_done(1000)
    with pytest.raises(DisplacedError):
        give_up(lost)
    assert lost.appended == []


@pytest.mark.parametrize("pending", [999, 1001])
def test_what_is_not_pending_is_not_given_up(lost, pending):
    lost.have(replace(HEAD, number=1001, base=1001, pending=pending, kind=LinkKind.CLAIM))
    with pytest.raises(DisplacedError):
        give_up(lost, owner=1001)


def test_what_another_run_has_claimed_is_not_given_up(lost):
    lost.have(replace(HEAD, number=1001, base=1001, pending=1000, kind=LinkKind.CLAIM))
    with pytest.raises(DisplacedError):
        give_up(lost)
    assert len(lost.appended) == 1


def test_giving_up_too_late_is_being_displaced(lost):
    lost.before_create(lambda: lost.appends(run="z run")())
    with pytest.raises(DisplacedError, match="link 1001 of run z run"):
        give_up(lost)


# --- time stamps ------------------------------------------------------------------------------------------------------


@pytest.fixture
def stamped(log, system):
    log.sink = StampedScriptedSink()
    log.remember()
    return log


@pytest.mark.parametrize(("more", "claims"), [(-1, True), (0, False), (1, False)])
def test_a_batch_has_room_for_its_stamps_below_the_ceiling(stamped, system, more, claims):
    system.us = 1_800_000_005_000_000
    stamped.have(replace(HEAD, ceiling_us=system.us + 10_000 + more))
    assert stamped.plan().planned.write_timestamp_us == (system.us + 10_000 + more if claims else system.us) + (
        1 if claims else 0
    )
    assert len(stamped.appended) == claims


def test_stamps_begin_above_the_floor_where_the_clock_is_behind(stamped, system):
    system.us = 5
    stamped.have(HEAD)
    assert stamped.plan().planned.write_timestamp_us == HEAD.floor_us + 1 and stamped.appended == []


@pytest.mark.parametrize("us", [5, 1_800_000_020_000_000])
def test_a_claim_begins_at_the_ceiling_and_reserves_ten_seconds(stamped, system, us):
    system.us = us
    stamped.memory = RunMemory("m run")
    stamped.have(HEAD)
    stamped.plan()
    floor = HEAD.ceiling_us
    stamps = {"floor_us": floor, "ceiling_us": max(us, floor) + 10_000_000}
    assert stamped.appended == [followed(1001, LinkKind.CLAIM, system, generation=1001, **stamps)]


def test_a_replay_reserves_no_stamps(stamped, system):
    stamped.memory = RunMemory("m run", 499, "another", 1000)
    stamped.have(replace(HEAD, ceiling_us=0))
    del stamped.engine[501]
    assert stamped.plan().planned.is_decided and stamped.appended == []


def test_a_sink_without_stamps_has_none(log):
    log.have(HEAD)
    assert log.plan().planned.write_timestamp_us == 0
    assert (log.head.floor_us, log.head.ceiling_us) == (HEAD.floor_us, HEAD.ceiling_us)


def test_plans_and_batches_are_values():
    """They are compared, and kept in sets."""
    assert len({PLANNED, copied(PLANNED)}) == 1 and len({Batch(1, b"x"), Batch(1, b"x")}) == 1
    assert BatchPlan(PLANNED) == copied(BatchPlan(PLANNED)) and Head(HEAD) == copied(Head(HEAD))
