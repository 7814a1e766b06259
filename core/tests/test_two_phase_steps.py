"""Each step of the driver's side by itself: what is appended to the chain, and what the sink is asked, exactly.

Numbers are large and values come as copies, as they do from another process: nothing may be told by its identity.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from penstock import BadConfigurationError, DataLostError, FatalError, RetriableError
from penstock.sink import Found, Kept, Rolled, SinkContext, WriterContext
from penstock.sink.chain import Chain, Head, Link, LinkKind
from penstock.sink.publishing import DisplacedError
from penstock.sink.tasks import BatchPlan, PlannedBatch, TaskResult
from penstock.sink.two_phase import Batch, BatchPendingError, GaveWayError, RunMemory, TwoPhaseCommit
from suite.scripted_sink import ScriptedSink, ScriptedStorage, copied, item, output, scripted_system

DIRECTORY = "/ck/penstock/decisions"
#: What a run is called that is not ours: before and behind it in the alphabet.
OTHERS = ["a run", "z run"]
HEAD = Link(
    number=1000,
    kind=LinkKind.BATCH,
    base=1000,
    generation=900,
    id="the head",
    run="m run",
    session="m session",
    plan="the plan before",
    time_ms=7,
    batch=500,
    fingerprint=Batch(500, b"offsets 500").fingerprint,
    offsets=b"offsets 500",
    states=(item("one"), item("two")),
    outputs=(output(committables=["older"]),),
    sequence=7000,
    writers=3,
    floor_us=1_800_000_001_000_000,
    ceiling_us=1_800_000_009_000_000,
    query="q",
    target="/out",
    metrics={"rows": 3},
)
PLANNED = PlannedBatch("q", "m run", "the plan", 1000, 1000, 900, 501, "fingerprint 501", is_decided=False)


@pytest.fixture(autouse=True)
def system():
    with scripted_system() as made:
        yield made


class Log:
    """A chain in a scripted store, a scripted sink, and what they make of it."""

    def __init__(self):
        self.storage, self.sink = ScriptedStorage(), ScriptedSink()
        self.memory, self.session = RunMemory(run="m run"), "m session"
        self.engine = {500: b"offsets 500", 501: b"offsets 501"}
        self.expected, self.claimed = [], 0

    @property
    def chain(self):
        return Chain(self.storage, DIRECTORY)

    @property
    def protocol(self):
        context = SinkContext("q", None)
        return TwoPhaseCommit(
            self.sink, context, self.chain, self.memory, session=copied(self.session), before_claim=self._count
        )

    def _count(self):
        self.claimed += 1

    def have(self, *links):
        for link in links:
            assert Chain(self.storage, DIRECTORY).create(link)
        self.storage.asked.clear()
        return self

    @property
    def links(self):
        return self.chain.links()

    @property
    def head(self):
        return self.chain.head().link

    @property
    def appended(self):
        return [link for link in self.links if link.number > 1000]

    def is_done(self, number):
        return f"{DIRECTORY}/{number:020d}.done" in self.storage.files

    def before_create(self, *happenings):
        self.storage.before["create"] = list(happenings)

    def appends(self, **changes):
        """Something else appends a link."""
        head = self.head
        link = replace(head, **{"number": head.number + 1, "base": head.number + 1, "id": "another's", **changes})
        return lambda: self.have_silently(link)

    def have_silently(self, link):
        self.storage.files[f"{DIRECTORY}/{link.number:020d}.json"] = link.to_bytes()

    # Spark's own log.

    def planned(self, expected):
        self.expected.append(expected)
        return Batch(max(self.engine), self.engine[max(self.engine)])

    def find(self, number):
        return Batch(number, self.engine[number]) if number in self.engine else None

    def plan(self):
        return self.protocol.plan(self)


@pytest.fixture
def log():
    return Log()


CLAIM = {"kind": LinkKind.CLAIM, "plan": "the plan before"}
ROLL = {"kind": LinkKind.ROLL, "base": 1000}


def followed(number, kind, system, before=HEAD, ids=1, **changes):
    """The link that is expected behind ``before``."""
    return replace(
        before,
        **{
            "number": number,
            "kind": kind,
            "base": number,
            "id": f"id {ids}",
            "time_ms": system.us // 1000,
            "offsets": b"",
            "outputs": (),
            "metrics": {},
            **changes,
        },
    )


def result(*outputs, planned=PLANNED, writer=0, offsets=b"", metrics=None):
    return copied(TaskResult(writer, f"attempt {writer}", planned, outputs, offsets, metrics or {}))


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


def remembers(log, batch=500, plan="the plan before", base=900):
    log.memory = copied(RunMemory("m run", batch, plan, base))


def test_a_batch_behind_one_of_this_run_is_planned_without_a_claim(log, system):
    log.have(HEAD)
    remembers(log)
    plan = log.plan()
    assert log.expected == [501] and log.appended == [] and log.claimed == 0 and log.sink.asked == []
    planned = replace(PLANNED, plan_id="id 1", fingerprint=Batch(501, b"offsets 501").fingerprint)
    assert plan.planned == planned
    assert (plan.sequence, plan.writers, plan.offsets, plan.checkpoint) == (7000, 3, b"offsets 501", None)
    assert sum((plan.states_of(writer) for writer in range(3)), ()) in [HEAD.states, HEAD.states[::-1]]
    assert log.memory == RunMemory("m run", 501, "id 1", 1000)


def test_what_is_pending_is_published_before_the_next_plan(log):
    log.have(replace(HEAD, pending=1000))
    remembers(log)
    log.plan()
    assert log.sink.all_asked("publish") == [[["older"]]] and log.is_done(1000) and log.appended == []


@pytest.mark.parametrize("batch", [500, 502])
def test_a_batch_that_does_not_follow_is_planned_with_a_claim(log, batch):
    log.have(HEAD)
    remembers(log)
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
    remembers(log, base=1000, plan="another")
    log.plan()
    assert log.expected == [None] and [link.number for link in log.appended] == [1001, 1002]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("batch", [500, 501])
def test_a_run_that_was_displaced_stops_once(log, other, batch):
    log.have(replace(HEAD, run=other, batch=batch))
    log.engine[batch + 1] = b"offsets"
    remembers(log, batch=batch)
    with pytest.raises(DisplacedError, match=f"link 1000 of run {other}"):
        log.plan()
    assert log.memory.batch is None and log.appended == []
    log.plan()  # the query was started again
    assert [link.run for link in log.appended] == ["m run"]


@pytest.mark.parametrize(("batch", "other"), [(502, "a run"), (500, "z run"), (502, "z run"), (500, "a run")])
def test_a_run_whose_batches_do_not_follow_does_not_call_itself_displaced(log, batch, other):
    log.have(replace(HEAD, run=other))
    remembers(log, batch=501)
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
    log.have(replace(HEAD, target=before, states=states, pending=1000 if pending else None))
    if refused:
        with pytest.raises(BadConfigurationError, match=f"wrote to {before} before and is to write to {now}"):
            log.plan()
        assert log.appended == []
    else:
        log.plan()
        assert log.appended[0].target == now


def test_carried_state_that_is_gone_is_told_by_name_and_number(log):
    log.have(replace(HEAD, states=tuple(item(name) for name in ("one", "two", "three", "four", "five"))))
    log.sink.gone = {"two", "three", "four", "five"}
    with pytest.raises(DataLostError, match=r"^'two' is gone, and 3 more"):
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
    """A batch that is decided, and lost before anything of it was published."""
    log.have(
        replace(HEAD, number=998, base=998, batch=498, fingerprint="498", states=(item("older"),)),
        replace(HEAD, number=999, base=999, batch=499, fingerprint="499", states=(item("before"),)),
        replace(HEAD, pending=1000),
    )
    log.sink.found = {"older": Found.LOST}
    return log


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
    log.sink.wants_write_timestamps = True
    remembers(log)
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


@pytest.mark.parametrize("ceiling", [1_800_000_009_000_000, 1_900_000_000_000_000])
def test_a_batch_leaves_its_stamps_below_the_floor(stamped, system, ceiling):
    stamped.have(replace(HEAD, ceiling_us=ceiling))
    stamp = 1_800_000_008_000_000
    link = stamped.protocol.commit(501, [result(planned=replace(PLANNED, write_timestamp_us=stamp))])
    floor = stamp + 10_000
    assert (link.floor_us, link.ceiling_us) == (floor, max(floor + 10_000_000, ceiling))


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
        ("publish", ["a", "b", "c"]),
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


def fail(error):
    raise error


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
    log.sink.asked.clear()
    log.protocol._clear(log.head, ends=True, is_last=True)
    ((kept,),) = log.sink.all_asked("clear")
    assert (kept.base, kept.generation, kept.committables) == (1000, 901, [])


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


# --- between batches --------------------------------------------------------------------------------------------------


def rolls(log, committables=("merged",), states=(), consumed=(0, 1)):
    log.sink.rolled = [Rolled(list(consumed), list(committables), list(states), 5)]


@pytest.mark.parametrize("finish", [True, False])
def test_a_roll_replaces_state_and_leaves_the_base(log, system, finish):
    log.have(HEAD)
    log.memory.run, log.session = "the listener", "the listener's"
    rolls(log, states=["three"])
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
    context = WriterContext("q", None, base=1000, generation=900, writer_index=-1, attempt_id="id 1", sequence=7000)
    assert log.sink.asked[:3] == [("roller", context), ("roll", ["one", "two"], finish), ("close roller",)]
    assert log.sink.all_asked("publish") == [[["merged"]]]


def test_a_roll_that_only_merges_publishes_nothing(log):
    log.have(HEAD)
    rolls(log, committables=(), states=["three"])
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


@pytest.mark.parametrize("found", [Found.OPEN, Found.LOST])
def test_a_roll_that_is_pending_is_published_by_whoever_comes(log, found):
    log.have(HEAD, replace(HEAD, number=1001, kind=LinkKind.ROLL, pending=1001))
    log.sink.found = {"older": found}
    link = log.protocol.roll(finish=True)
    assert (link and link.number) == (1001 if found is Found.OPEN else None)
    assert log.is_done(1001) == (found is Found.OPEN) and len(log.appended) == 1


@pytest.mark.parametrize("happens", [{}, {"number": 1033, "base": 1033}])
def test_a_roll_that_comes_too_late_takes_its_merge_away(log, happens):
    log.have(HEAD)
    rolls(log, states=["three"])
    log.before_create(lambda: log.appends(**happens)())
    with pytest.raises(GaveWayError, match="a batch was decided at the same time"):
        log.protocol.roll(finish=True)
    assert log.sink.all_asked("discard") == [[["merged"], ["three"]]] and log.sink.all_asked("publish") == []


@pytest.mark.parametrize("error", [OSError("x"), DataLostError("x"), RetriableError("x")])
@pytest.mark.parametrize("name", ["a link", "z link", None])
def test_a_roll_whose_inputs_a_batch_has_replaced_gives_way(log, error, name):
    log.have(HEAD)
    rolls(log)
    protocol = log.protocol
    happens = protocol._chain.forget if name is None else log.appends(id=name)
    log.sink.on["roll"] = lambda: (happens(), fail(error))
    with pytest.raises(type(error) if name is None else GaveWayError) as caught:
        protocol.roll(finish=True)
    assert (caught.value is error) == (name is None) and ("abort roller",) in log.sink.asked


# --- batch writes -----------------------------------------------------------------------------------------------------

FIRST = Link(number=0, kind=LinkKind.CLAIM, base=0, generation=0, id="first", run="m run", query="q", target="/out")
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
    rolls(log)
    return log


def test_a_batch_write_is_one_decision(write, system):
    link = write.protocol.commit_at_once(write.results)
    merged = replace(output(-1, ["merged"], used=5), attempt="id 1")
    outputs = (output(0, ["a"], used=3), output(1, ["b"]), merged)
    changes = {"batch": 0, "plan": "the plan", "outputs": outputs, "pending": 1, "sequence": 5}
    assert link == followed(1, LinkKind.CLOSE, system, FIRST, 2, **changes) and write.links == [FIRST, link]
    assert write.sink.all_asked("roll") == [[["one", "two"], True]] and write.is_done(1)
    assert write.sink.all_asked("publish") == [[["a", "b", "merged"]]]
    assert write.sink.all_asked("clear") == [[Kept(1, 1, [], [])]]
    marks = [call[1:] for call in write.storage.asked if call[0] == "put"]
    assert [durable for _, durable in marks] == [False, True]


def test_a_batch_write_that_was_decided_is_published_by_the_next_call(write):
    write.sink.on["publish"] = partial(fail, OSError("away"))
    with pytest.raises(OSError, match="away"):
        write.protocol.commit_at_once(write.results)
    assert not write.is_done(1)
    write.sink.on.clear()
    assert write.protocol.commit_at_once(write.results).number == 1
    assert write.is_done(1) and len(write.links) == 2


def test_a_batch_write_that_was_decided_is_published_by_an_abort(write):
    write.sink.on["publish"] = partial(fail, OSError("away"))
    with pytest.raises(OSError, match="away"):
        write.protocol.commit_at_once(write.results)
    write.sink.on.clear()
    write.protocol.abort_at_once([*write.results, None])
    assert write.is_done(1) and write.sink.all_asked("discard") == [] and len(write.links) == 2


@pytest.mark.parametrize(("missing", "clears", "slept"), [([], 1, 0), ([None], 13, 3)])
def test_a_batch_write_that_failed_leaves_nothing(write, system, missing, clears, slept):
    write.protocol.abort_at_once([*write.results, *missing])
    assert write.sink.all_asked("discard") == [[["a", "b"], ["one", "two"]]]
    assert write.head == followed(
        1, LinkKind.CLAIM, system, FIRST, generation=1, run="the process that commits", session=""
    )
    assert write.sink.all_asked("clear") == [[Kept(1, 2, [], [])]] * clears and system.slept_s == slept


def test_a_batch_write_that_another_process_has_voided_is_over(write):
    write.protocol.void_at_once()
    with pytest.raises(GaveWayError, match="not decided anything yet"):
        write.protocol.commit_at_once(write.results)


def test_a_batch_write_that_is_voided_meanwhile_is_over(write):
    write.before_create(lambda: write.appends(kind=LinkKind.CLAIM)())
    with pytest.raises(DisplacedError):
        write.protocol.commit_at_once(write.results)


def test_a_batch_write_that_is_lost_can_be_run_again(write):
    write.sink.found = {"b": Found.LOST}
    with pytest.raises(RetriableError, match="nothing of it is visible"):
        write.protocol.commit_at_once(write.results)
    assert write.sink.all_asked("publish") == [] and write.sink.all_asked("seal") == [[["a", "b", "merged"]]]


def test_a_batch_write_that_is_done_is_cleared_up_behind_again(write):
    write.protocol.commit_at_once(write.results)
    write.sink.asked.clear()
    assert write.protocol.finish_at_once().number == 1
    assert write.sink.all_asked("publish") == [] and write.sink.all_asked("clear") == [[Kept(1, 1, [], [])]]


def test_a_roller_must_finish_everything(write):
    rolls(write, consumed=[1])
    with pytest.raises(AssertionError, match="a roller must finish everything"):
        write.protocol.commit_at_once(write.results)
    assert write.links == [FIRST]


# --- the end of a run -------------------------------------------------------------------------------------------------


def test_a_close_publishes_what_is_carried(log, system):
    log.have(HEAD)
    log.memory.run = "the process that commits"
    rolls(log)
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
    rolls(log)
    assert log.protocol.close(HEAD).number == 1003
    assert [link.kind for link in log.appended] == [LinkKind.ROLL, LinkKind.LOST, LinkKind.CLOSE]
    assert log.sink.all_asked("roll") == [[["one", "two"], True]]


def test_a_close_gives_itself_up_if_it_is_lost(log):
    log.have(HEAD)
    rolls(log)
    log.sink.found = {"merged": Found.LOST}
    log.sink.on["seal"] = lambda: log.sink.on.update({"roll": log.sink.found.clear})
    assert log.protocol.close(HEAD).number == 1003
    assert [link.kind for link in log.appended] == [LinkKind.CLOSE, LinkKind.LOST, LinkKind.CLOSE]


def test_a_close_gives_way_to_a_roll(log):
    log.have(HEAD)
    rolls(log)
    log.before_create(lambda: log.appends(**ROLL, states=())())
    assert log.protocol.close(HEAD).number == 1002
    assert log.sink.all_asked("discard") == [[["merged"], []]]


def test_a_close_at_a_number_that_had_been_used_stops(log):
    log.have(HEAD)
    rolls(log)
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
    rolls(log)
    assert log.protocol.take_over().number == 1002
    assert [(link.kind, link.run) for link in log.appended] == [(LinkKind.CLAIM, "m run"), (LinkKind.CLOSE, "m run")]
    assert log.sink.all_asked("publish") == [[["older"]], [["merged"]]]


# --- what a person decides --------------------------------------------------------------------------------------------


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


def test_plans_and_batches_are_values():
    """They are compared, and kept in sets."""
    assert len({PLANNED, copied(PLANNED)}) == 1 and len({Batch(1, b"x"), Batch(1, b"x")}) == 1
    assert BatchPlan(PLANNED) == copied(BatchPlan(PLANNED)) and Head(HEAD) == copied(Head(HEAD))
