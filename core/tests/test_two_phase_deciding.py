"""What ``commit`` and ``abort`` append to the chain and ask of the sink, exactly.

Numbers are large and values come as copies, as they do from another process: nothing may be told by its identity.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from penstock._commit import DisplacedError, LinkKind
from penstock.errors import FatalError, RetriableError
from penstock.sink import Found, Kept
from suite.scripted_log import DIRECTORY, HEAD, PLANNED, ROLL, ScriptedLog, fail, followed, result
from suite.scripted_sink import StampedScriptedSink, item, output, scripted_system


@pytest.fixture(autouse=True)
def system():
    with scripted_system() as made:
        yield made


@pytest.fixture
def log():
    return ScriptedLog()


# --- deciding ---------------------------------------------------------------------------------------------------------


def decided(system, *outputs, ids=1, number=1001, **changes):
    return followed(
        number,
        LinkKind.BATCH,
        system,
        ids=ids,
        **{
            "plan": "the plan",
            "batch": 501,
            "fingerprint": "fingerprint 501",
            "outputs": outputs,
            "states": HEAD.state_after(outputs),
            "pending": number if any(one.committables for one in outputs) else None,
            "writers": 1,
            **changes,
        },
    )


def test_a_batch_is_one_link_then_published_then_done(log, system):
    outputs = [
        output(0, ["a", "b"], used=3),
        output(0, ["c"], used=5),
        output(1, states=["three"], consumed=["one"], used=5),
    ]
    log.have(HEAD)
    log.memory.run = "the process that commits"
    link = log.protocol.commit(
        501,
        [
            result(*outputs[:2], metrics={"rows": 3, "bytes": 9}),
            result(outputs[2], writer=1, offsets=b"offsets 501", metrics={"rows": 5}),
        ],
    )
    expected = decided(
        system,
        *outputs,
        offsets=b"offsets 501",
        sequence=7008,
        writers=2,
        metrics={"rows": 8, "bytes": 9},
        states=(item("two"), item("three")),
    )
    assert log.appended == [expected] and link == expected and log.is_done(1001) and log.memory.run == "m run"
    assert [call for call in log.sink.asked if call != ("committer",)] == [
        ("look", ["a", "b", "c"]),
        ("publish", ["a"]),  # decides
        ("publish", ["b", "c"]),
        ("close",),
        ("clear", Kept(1001, 901, ["a", "b", "c"], ["two", "three"])),  # something was consumed
        ("close",),
    ]
    marks = [call[1:] for call in log.storage.asked if call[0] == "put"]
    assert marks == [(f"{DIRECTORY}/{1001:020d}.done", False)]


def test_a_batch_without_outputs_is_done_as_it_is_decided(log, system):
    log.have(HEAD)
    assert log.protocol.commit(501, [result()]) == decided(system)
    assert log.sink.asked == [] and log.storage.asked == [
        ("read", f"{DIRECTORY}/{1000:020d}.json"),
        ("create", f"{DIRECTORY}/{1001:020d}.json"),
    ]


def test_a_batch_that_only_carries_publishes_nothing(log, system):
    log.have(HEAD)
    made = output(states=["three"])
    assert log.protocol.commit(501, [result(made)]) == decided(system, made)
    assert log.sink.asked == [] and not log.is_done(1001)


def test_a_batch_is_decided_on_a_head_whose_link_was_carried_out(log, system):
    log.have(replace(HEAD, pending=1000))
    log.chain.mark_done(1000)
    assert log.protocol.commit(501, [result()]).pending is None


@pytest.mark.parametrize(
    ("planned", "match"),
    [
        ([500, 500], "batch 501 is to be committed, and 500 was planned"),
        ([502, 502], "batch 501 is to be committed, and 502 was planned"),
        ([501, 500], "planned 2 times"),
        ([], "planned 0 times"),
    ],
)
def test_results_of_another_plan_are_refused(log, planned, match):
    log.have(HEAD)
    with pytest.raises(FatalError, match=match):
        log.protocol.commit(501, [result(planned=replace(PLANNED, batch_id=batch)) for batch in planned])
    assert log.appended == []


@pytest.mark.parametrize(
    ("head", "is_ours"),
    [({}, True), ({"batch": 502}, True), ({"batch": 500}, False), ({"base": 999}, False), ({"base": 1001}, False)],
)
def test_a_replay_needs_the_link_that_it_was_judged_by(log, head, is_ours):
    log.have(replace(HEAD, **{"batch": 501, **head}))
    results = [result(planned=replace(PLANNED, is_decided=True))]
    if is_ours:
        assert log.protocol.commit(501, results).number == 1000
    else:
        with pytest.raises(DisplacedError):
            log.protocol.commit(501, results)
    assert log.appended == []


def test_a_batch_waits_for_a_roll_and_leaves_out_what_it_has_merged(log, system):
    log.have(HEAD)
    merged = output(-1, ["merged"], consumed=["one"])
    log.before_create(lambda: log.appends(**ROLL, outputs=(merged,), states=(item("two"),), pending=1001, batch=500)())
    stale, counted = output(0, ["x"], ["y"], consumed=["one"]), output(0, ["z"], consumed=["two"])
    link = log.protocol.commit(501, [result(stale, counted)])
    assert (link.number, link.outputs, link.states, link.pending) == (1002, (counted,), (), 1002)
    assert log.sink.all_asked("publish") == [[["merged"]], [["z"]]]
    assert log.sink.all_asked("discard") == [[["x"], ["y"]]]
    assert log.is_done(1001) and log.is_done(1002)


def test_a_roll_that_was_published_by_whoever_made_it_is_left_alone(log):
    log.have(HEAD)

    def roll():
        log.appends(**ROLL, pending=1001)()
        log.chain.mark_done(1001)

    log.before_create(roll)
    assert log.protocol.commit(501, [result()]).number == 1002
    assert log.sink.all_asked("publish") == []


def test_a_batch_behind_a_roll_that_is_lost_is_tried_again(log):
    log.have(HEAD)
    log.sink.found = {"merged": Found.LOST}
    log.before_create(lambda: log.appends(**ROLL, outputs=(output(-1, ["merged"]),), pending=1001)())
    with pytest.raises(RetriableError, match="a merge of carried rows was lost"):
        log.protocol.commit(501, [result()])
    assert log.sink.all_asked("seal") == [], "only the owner gives up"


@pytest.mark.parametrize("base", [999, 1001])
def test_a_batch_is_not_decided_on_another_base(log, base):
    log.have(HEAD)
    log.before_create(lambda: log.appends(kind=LinkKind.CLAIM, base=base)())
    with pytest.raises(DisplacedError):
        log.protocol.commit(501, [result()])
    assert len(log.appended) == 1


@pytest.mark.parametrize("base", [999, 1002])
def test_a_batch_is_not_decided_on_a_base_that_came_while_a_roll_was_published(log, base):
    log.have(HEAD)
    log.before_create(lambda: log.appends(**ROLL, outputs=(output(-1, ["merged"]),), pending=1001)())
    log.sink.on["close"] = lambda: log.appends(kind=LinkKind.CLAIM, base=base, pending=None)()
    with pytest.raises(DisplacedError):
        log.protocol.commit(501, [result()])
    assert len(log.appended) == 2


def test_a_batch_is_tried_twenty_times(log):
    log.have(HEAD)
    log.storage.create = lambda path, data: log.storage.asked.append(("create", path)) or log.appends(**ROLL)()
    with pytest.raises(RetriableError, match="under 20 tries"):
        log.protocol.commit(501, [result()])
    assert [what for what, *_ in log.storage.asked].count("create") == 20


def test_a_batch_shortens_the_chain(log):
    planned = replace(PLANNED, base=1008, head=1008)
    log.have(replace(HEAD, number=900), replace(HEAD, number=1008, base=1008))
    log.protocol.commit(501, [result(planned=planned)])
    assert [link.number for link in log.links] == [1008, 1009]


def test_a_batch_at_a_number_that_had_been_used_publishes_nothing(log):
    log.have(HEAD)
    log.before_create(lambda: log.appends(number=1033, base=1033)())
    with pytest.raises(DisplacedError, match="link 1033"):
        log.protocol.commit(501, [result(output(committables=["a"]))])
    assert log.sink.all_asked("publish") == [] and [link.number for link in log.links] == [1000, 1033]


def test_a_batch_that_is_lost_is_given_up(log):
    log.have(HEAD)
    log.sink.found = {"a": Found.LOST}
    with pytest.raises(RetriableError, match="batch 501 was lost before it could be published"):
        log.protocol.commit(501, [result(output(committables=["a"], states=["three"]))])
    assert [link.kind for link in log.appended] == [LinkKind.BATCH, LinkKind.LOST]
    assert (log.head.batch, log.head.states, log.head.pending) == (500, HEAD.states, None)


# --- clearing up behind a batch ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", range(501, 512))
def test_every_tenth_batch_is_cleared_up_behind(log, batch):
    log.have(HEAD)
    log.protocol.commit(batch, [result(planned=replace(PLANNED, batch_id=batch))])
    assert log.sink.all_asked("clear") == ([[Kept(1001, 901, [], ["one", "two"])]] if batch == 510 else [])


def test_what_holds_readers_back_is_cleared_after_every_batch(log, system):
    log.sink.holds_back_readers = True
    log.have(HEAD)
    assert log.protocol.commit(501, [result()]) == decided(system)
    assert log.sink.all_asked("clear") == [[Kept(1001, 901, [], ["one", "two"])]] and len(log.appended) == 1


def test_a_clearing_that_may_come_late_ends_the_generation(log, system):
    log.sink.holds_back_readers = True
    log.sink.on["clear"] = partial(fail, RetriableError("timed out"))
    log.have(HEAD)
    link = log.protocol.commit(501, [result(output(committables=["a"]))])
    batch = decided(system, output(committables=["a"]))
    assert link == followed(1002, LinkKind.CLAIM, system, batch, 2, generation=1002, pending=None)
    assert log.appended == [batch, link]


def test_a_clearing_that_may_come_late_is_the_next_runs_business_if_one_has_begun(log, system):
    log.sink.holds_back_readers = True
    log.sink.on["clear"] = lambda: (log.appends(run="z run")(), fail(OSError("timed out")))
    log.have(HEAD)
    assert log.protocol.commit(501, [result()]) == decided(system)
    assert [link.run for link in log.appended] == ["m run", "z run"]


def test_a_clearing_that_fails_is_tried_again_ten_batches_later(log, system):
    log.sink.on["clear"] = partial(fail, OSError("away"))
    log.have(HEAD)
    planned = replace(PLANNED, batch_id=510)
    assert log.protocol.commit(510, [result(planned=planned)]) == decided(system, batch=510)
    assert len(log.appended) == 1


def test_a_clearing_that_is_wrong_is_told(log):
    log.sink.on["clear"] = partial(fail, ValueError("a defect"))
    log.have(HEAD)
    with pytest.raises(ValueError, match="a defect"):
        log.protocol.commit(510, [result(planned=replace(PLANNED, batch_id=510))])
    assert log.sink.asked[-1] == ("close",)


def test_what_is_named_since_the_base_is_no_garbage(log):
    """By the base itself and by rolls since then. Names of state that is named twice are given once."""
    merged = output(-1, ["merged"], ["three"], consumed=["one"])
    log.have(
        replace(HEAD, number=999, base=999, outputs=(output(committables=["before the base"]),), states=(item("no"),)),
        HEAD,
        replace(HEAD, number=1001, kind=LinkKind.ROLL, outputs=(merged,), states=(item("two"), item("three"))),
    )
    log.protocol._clear(log.head)
    ((kept,),) = log.sink.all_asked("clear")
    assert (kept.base, kept.generation, sorted(kept.committables)) == (1000, 901, ["merged", "older"])
    assert sorted(kept.states) == ["one", "three", "two"]
    log.sink.asked.clear()
    log.protocol._clear(log.head, ends=True)
    ((kept,),) = log.sink.all_asked("clear")
    assert (kept.base, kept.generation, kept.committables) == (1000, 900, [])


@pytest.mark.parametrize(
    ("pending", "ends", "durable"), [(1000, False, False), (1000, True, True), (999, False, True), (None, True, False)]
)
def test_what_tells_that_it_was_published_is_cleared_once_that_is_noted_for_good(log, pending, ends, durable):
    log.have(replace(HEAD, pending=pending))
    log.protocol._clear(log.head, ends=ends)
    marks = [call[1:] for call in log.storage.asked if call[0] == "put"]
    assert marks == ([(f"{DIRECTORY}/{pending:020d}.done", True)] if durable else [])


def test_a_roll_that_was_published_is_not_noted_for_good_before_the_base_has_moved_on(log):
    log.have(HEAD, replace(HEAD, number=1001, kind=LinkKind.ROLL, pending=1001))
    log.protocol._clear(log.head)
    assert [call for call in log.storage.asked if call[0] == "put"] == []


# --- aborting ---------------------------------------------------------------------------------------------------------


def test_an_abort_voids_the_batch_then_throws_away(log, system):
    log.have(HEAD)
    log.memory.run = "the process that commits"
    log.protocol.abort(501, [result(output(committables=["a"], states=["b"])), None])
    assert log.appended == [followed(1001, LinkKind.CLAIM, system, generation=1001)]
    assert log.sink.asked == [("committer",), ("discard", ["a"], ["b"]), ("close",)] and system.slept_s == 0


def test_an_abort_of_what_holds_readers_back_clears_at_once(log, system):
    log.sink.holds_back_readers = True
    log.have(HEAD)
    log.protocol.abort(501, [result(), result(writer=1)])
    assert log.sink.all_asked("clear") == [[Kept(1001, 1002, [], ["one", "two"])]] and system.slept_s == 0


def test_an_abort_of_what_holds_readers_back_outlasts_tasks_that_have_not_reported(log, system):
    log.sink.holds_back_readers = True
    log.have(HEAD)
    log.protocol.abort(501, [result(), None])
    assert len(log.sink.all_asked("clear")) == 13 and system.slept_s == 3


def test_an_abort_ends_also_if_the_clock_has_passed_the_moment(log, system):
    log.sink.holds_back_readers = True
    system.sleep = lambda seconds: setattr(system, "slept_s", system.slept_s + 2)
    log.have(HEAD)
    log.protocol.abort(501, [result(), None])
    assert len(log.sink.all_asked("clear")) == 3


@pytest.mark.parametrize("error", [OSError("away"), RetriableError("away")])
def test_an_abort_that_cannot_clear_goes_on(log, system, error):
    log.sink.holds_back_readers = True
    log.sink.on["clear"] = partial(fail, error)
    log.have(HEAD)
    log.protocol.abort(501, [result(), None])
    assert len(log.sink.all_asked("clear")) == 2 and system.slept_s == 0.25


def test_an_abort_leaves_what_is_pending_to_its_owner(log):
    log.sink.holds_back_readers = True
    log.have(replace(HEAD, pending=1000))
    log.protocol.abort(501, [result(output(committables=["a"])), None])
    assert log.head.pending == 1000 and log.sink.all_asked("clear") == []
    assert log.sink.all_asked("discard") == [[["a"], []]]


@pytest.mark.parametrize("changes", [{"base": 999}, {"base": 1001}, {"batch": 501}, {"batch": 502}])
def test_an_abort_touches_nothing_that_was_decided_or_is_anothers(log, changes):
    log.have(replace(HEAD, **changes))
    log.protocol.abort(501, [result(output(committables=["a"]))])
    assert log.appended == [] and log.sink.asked == []


@pytest.mark.parametrize(
    ("of_head", "ours", "is_ours"),
    [
        ("m session", "m session", True),
        ("a session", "m session", False),
        ("z session", "m session", False),
        ("", "", False),
        ("m session", "", False),
    ],
)
def test_an_abort_without_reports_goes_by_the_session(log, system, of_head, ours, is_ours):
    log.have(replace(HEAD, session=of_head, run="a run of the session"))
    log.session = ours
    log.protocol.abort(501, [None, None])
    claim = {"generation": 1001, "run": "a run of the session"}
    assert log.appended == ([followed(1001, LinkKind.CLAIM, system, **claim)] if is_ours else [])


def test_an_abort_whose_number_is_taken_looks_again(log):
    log.have(HEAD)
    log.before_create(lambda: log.appends(**ROLL)())
    log.protocol.abort(501, [result()])
    assert [link.kind for link in log.appended] == [LinkKind.ROLL, LinkKind.CLAIM]
    assert log.head.generation == 1002


def test_an_abort_is_tried_twenty_times(log):
    log.have(HEAD)
    log.storage.create = lambda path, data: log.storage.asked.append(("create", path)) or log.appends(**ROLL)()
    log.protocol.abort(501, [result(output(committables=["a"]))])
    assert [what for what, *_ in log.storage.asked].count("create") == 20 and log.sink.asked == []


def test_an_abort_at_a_number_that_had_been_used_throws_nothing_away(log):
    log.have(HEAD)
    log.before_create(lambda: log.appends(number=1033, base=1033)())
    log.protocol.abort(501, [result(output(committables=["a"]))])
    assert log.sink.asked == [] and [link.number for link in log.links] == [1000, 1033]


# --- time stamps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ceiling", [1_800_000_009_000_000, 1_900_000_000_000_000])
def test_a_batch_leaves_its_stamps_below_the_floor(log, ceiling):
    log.sink = StampedScriptedSink()
    log.have(replace(HEAD, ceiling_us=ceiling))
    stamp = 1_800_000_008_000_000
    link = log.protocol.commit(501, [result(planned=replace(PLANNED, write_timestamp_us=stamp))])
    floor = stamp + 10_000
    assert (link.floor_us, link.ceiling_us) == (floor, max(floor + 10_000_000, ceiling))
