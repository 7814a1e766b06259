"""The driver's side of the exactly-once sink by itself: what coordinators are asked for whatever they may answer.

``test_sink_committer.py`` does the same with a real broker.
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.errors import FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.serialization import Versioned
from penstock.sink import Found, Kept
from penstock_kafka.client import Ended, OpenTransaction, Proof, TransactionRef
from penstock_kafka.client.broker import Unmarked
from penstock_kafka.sink._committable import COMMITTABLE_SERIALIZER, KafkaCommittable
from penstock_kafka.sink._committer import KafkaCommitter
from penstock_kafka.transactions import QueryPrefix
from suite.scripted_sink import copied, scripted_system

OPEN, COMMITTED, LOST = Found.OPEN, Found.COMMITTED, Found.LOST
PREFIX = QueryPrefix("test", "q")
NOW_MS = 1_800_000_000_123
EVERYWHERE = {("out", 0), ("out", 1)}


def prepared(slot=0, *, batch=3000, generation=1000):
    ref = TransactionRef(PREFIX.transactional_id(generation, "0123abcd", slot), 7000 + slot, 500)
    return KafkaCommittable(ref, batch, f"attempt {slot}", 2, NOW_MS - 1000, ("out",), NOW_MS - 2000)


class ScriptedCoordinators:
    """Answers what ``ids``, ``proven`` and ``ends`` say; notes what it is asked. ``after_describe`` changes happen."""

    def __init__(self):
        self.asked, self.ids, self.proven, self.settings = [], {}, {}, {}
        self.ends, self.unmarked, self.after_describe, self.after_proofs = {}, [], [], []
        self.markers, self.forgets_the_last = self, False

    def set(self, committable, state="Ongoing", **changes):
        ref = copied(changes.pop("ref", committable.ref))
        fields = {"started_ms": NOW_MS - 2000, "timeout_ms": 60_000, "partitions": (("out", ref.producer_id),)}
        self.ids[committable.ref.transactional_id] = OpenTransaction(ref, copied(state), **{**fields, **changes})

    def describe(self, transactional_ids):
        self.asked.append(("describe", sorted(transactional_ids)))
        found = {name: self.ids[name] for name in transactional_ids if name in self.ids}
        if self.after_describe:
            self.after_describe.pop(0)()
        return found

    def end(self, refs, *, commit):
        self.asked.append(("end", [ref.producer_id for ref in refs], commit))
        answers = [self.ends.get(ref.transactional_id, Ended.DONE) for ref in refs]
        return answers[:-1] if self.forgets_the_last else answers

    def proofs(self, groups):
        self.asked.append(("proofs", list(groups)))
        found = {group: self.proven[group] for group in groups if group in self.proven}
        if self.after_proofs:
            self.after_proofs.pop(0)()
        return found

    def broker_setting(self, name):
        return self.settings.get(name)

    def open_ids(self, wanted):
        return [name for name in self.ids if wanted(name)]

    def fence(self, transactional_id):
        self.asked.append(("fence", transactional_id))

    # Markers.

    def partitions_of(self, topics):
        self.asked.append(("partitions of", sorted(topics)))
        return EVERYWHERE if topics else set()

    def missing(self, refs, partitions):
        self.asked.append(("missing", sorted(ref.producer_id for ref in refs), sorted(partitions)))
        return self.unmarked.pop(0) if self.unmarked else []

    def write(self, missing, *, commit):
        self.asked.append(("write", list(missing), commit))

    def all_asked(self, what):
        return [call[1:] for call in self.asked if call[0] == what]


class Query:
    def __init__(self, system):
        self.system, self.coordinators, self.metrics = system, ScriptedCoordinators(), Metrics()
        self.committer = KafkaCommitter(self.coordinators, PREFIX, self.metrics)
        self.first, self.second, self.third = (prepared(slot) for slot in range(3))

    def open(self, *committables, **changes):
        for one in committables:
            self.coordinators.set(one, **changes)
        return self


@pytest.fixture
def query():
    with scripted_system() as system:
        assert system.us // 1000 == NOW_MS
        yield Query(system)


# --- looking ----------------------------------------------------------------------------------------------------------


def test_what_is_open(query):
    query.open(query.first, query.second)
    assert query.committer.look(copied([query.second, query.first])) == [OPEN, OPEN]
    ids = sorted(one.ref.transactional_id for one in (query.first, query.second))
    assert query.coordinators.asked == [("describe", ids), ("partitions of", [])]


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "Empty"},
        {"state": "CompleteAbort"},
        {"state": "Unknown"},
        {"ref": TransactionRef(prepared().ref.transactional_id, 7000, 501)},
        {"ref": TransactionRef(prepared().ref.transactional_id, 7000, 499)},
        {"ref": TransactionRef(prepared().ref.transactional_id, 6999, 500)},
    ],
)
def test_what_is_not_open_and_not_proven_is_lost(query, changes):
    query.open(query.first, **changes)
    assert query.committer.look([query.first]) == [LOST]
    assert ([query.first.ref.transactional_id],) in query.coordinators.all_asked("proofs")
    assert query.system.slept_s < 0.1, "a proof is not waited for"


def test_what_no_coordinator_has_heard_of_is_lost(query):
    assert query.committer.look([query.first]) == [LOST]


@pytest.mark.parametrize(
    ("producer", "epoch", "is_ours"),
    [
        (7000, 500, True),
        (7000, 501, True),
        (7000, 499, False),
        (7000, 502, False),
        (6999, 500, False),
        (7001, 500, False),
    ],
)
def test_what_a_coordinator_remembers_as_committed(query, producer, epoch, is_ours):
    ref = TransactionRef(query.first.ref.transactional_id, producer, epoch)
    query.open(query.first, state="CompleteCommit", ref=ref)
    assert query.committer.look([query.first]) == [COMMITTED if is_ours else LOST]
    assert bool(query.coordinators.all_asked("proofs")) != is_ours


@pytest.mark.parametrize("state", ["Empty", "CompleteAbort", "Ongoing"])
def test_only_what_was_committed_is_remembered_as_that(query, state):
    query.open(query.first, state=state, ref=replace(query.first.ref, epoch=501))
    assert query.committer.look([query.first]) == [LOST]


@pytest.mark.parametrize(
    ("proof", "is_ours"),
    [
        (Proof(3000, "attempt 0"), True),
        (Proof(3001, "another"), True),  # a later batch comes only after this one was carried out
        (Proof(3000, "another"), False),
        (Proof(2999, "attempt 0"), False),
    ],
)
def test_a_proof(query, proof, is_ours):
    query.coordinators.proven = {query.first.ref.transactional_id: copied(proof)}
    assert query.committer.look([query.first]) == [COMMITTED if is_ours else LOST]
    assert query.coordinators.all_asked("missing") == ([([7000], sorted(EVERYWHERE))] if is_ours else [])


def test_a_proof_may_be_shown_a_moment_after_the_commit(query):
    later = replace(query.first.ref, epoch=700)  # the id was used again, and what it was used for is committed too
    query.open(query.first, state="CompleteCommit", ref=later)

    def show():
        query.coordinators.proven = {query.first.ref.transactional_id: query.first.proof}

    query.coordinators.after_proofs = [lambda: None, show]
    assert query.committer.look([query.first]) == [COMMITTED]
    assert query.system.slept_s == pytest.approx(0.04)


def test_a_proof_is_waited_for_five_seconds(query):
    query.open(query.first, state="CompleteCommit", ref=replace(query.first.ref, epoch=700))
    query.system.sleep = lambda seconds: setattr(query.system, "slept_s", round(query.system.slept_s + seconds, 6))
    assert query.committer.look([query.first]) == [LOST]
    assert query.system.slept_s == 5.02


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort", "PrepareEpochFence"])
def test_what_is_ending_is_waited_for(query, state):
    query.open(query.first, query.second).open(query.first, state=state)
    query.coordinators.after_describe = [lambda: None, lambda: query.open(query.first)]
    assert query.committer.look([query.first, query.second]) == [OPEN, OPEN]
    assert query.system.slept_s == pytest.approx(0.02) and len(query.coordinators.all_asked("describe")) == 3


def test_what_is_ending_for_a_minute_is_tried_again_later(query):
    query.open(query.first, state="PrepareCommit")
    query.system.sleep = lambda seconds: setattr(query.system, "slept_s", round(query.system.slept_s + seconds, 6))
    with pytest.raises(RetriableError, match="has been ending for 60 s"):
        query.committer.look([query.first])
    assert query.system.slept_s == 60.01


def test_what_is_committed_is_waited_for_in_its_partitions(query):
    query.open(query.first, query.second)
    query.committer.look([query.first, query.second])
    query.open(query.first, state="CompleteCommit")
    query.coordinators.asked.clear()
    assert query.committer.look([query.first, query.second]) == [COMMITTED, OPEN]
    assert query.coordinators.all_asked("missing") == [([7000], [("out", 7000)])], "as it was when it was open"
    assert query.coordinators.all_asked("partitions of") == [([],)]


def test_where_it_wrote_to_is_guessed_by_its_topics(query):
    query.open(query.first, state="CompleteCommit")
    query.open(query.second, state="CompleteCommit", partitions=())
    other = replace(query.second, topics=("other",))
    assert query.committer.look([query.first, other]) == [COMMITTED, COMMITTED]
    assert query.coordinators.all_asked("partitions of") == [(["other", "out"],)]
    assert query.coordinators.all_asked("missing") == [([7000, 7001], sorted(EVERYWHERE))]


@pytest.mark.parametrize(("ours", "epoch", "is_ours"), [(501, 502, True), (501, 500, False), (500, 1000, False)])
def test_epochs_are_counted(query, ours, epoch, is_ours):
    one = replace(query.first, ref=replace(query.first.ref, epoch=ours))
    query.open(one, state="CompleteCommit", ref=replace(one.ref, epoch=epoch))
    assert query.committer.look([one]) == [COMMITTED if is_ours else LOST]


def test_marks_of_what_was_found_committed_are_written_as_commits(query):
    query.open(query.first, state="CompleteCommit")
    query.coordinators.unmarked = [[unmarked(query)]] * 7
    assert query.committer.look([query.first]) == [COMMITTED]
    assert query.coordinators.all_asked("write") == [([unmarked(query)], True)]


# --- giving up what will not last -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("started", "opened", "found"),
    [
        (40_000, 40_000, OPEN),
        (40_001, 40_001, LOST),
        (59_000, 40_000, OPEN),  # by whichever clock makes it younger
        (40_000, 59_000, OPEN),
        (59_000, 59_000, LOST),
    ],
)
def test_what_has_a_third_of_its_time_left_or_less_is_given_up(query, caplog, started, opened, found):
    caplog.set_level(logging.WARNING)
    query.open(query.first, started_ms=NOW_MS - started)
    one = replace(query.first, opened_ms=NOW_MS - opened)
    query.open(query.second, started_ms=NOW_MS)
    assert query.committer.look([one, query.second]) == [found, OPEN]
    assert ("raise the option transactionTimeout" in caplog.text) == (found is LOST)


def test_nothing_is_given_up_once_a_part_is_committed(query):
    query.open(query.first, started_ms=0).open(query.second, state="CompleteCommit")
    old = replace(query.first, opened_ms=0)
    assert query.committer.look([old, query.second]) == [OPEN, COMMITTED]
    assert query.committer.look([old]) == [LOST]


# --- publishing -------------------------------------------------------------------------------------------------------


def test_publishing(query):
    query.open(query.first, query.second)
    assert query.committer.publish([query.first, query.second]) == [COMMITTED, COMMITTED]
    assert query.coordinators.all_asked("end") == [([7000, 7001], True)]
    assert query.metrics.take() == {"transactions_committed": 2}
    assert query.coordinators.all_asked("missing") == [([7000, 7001], sorted(EVERYWHERE))]


def test_publishing_what_has_ended_meanwhile(query):
    query.open(query.first)
    query.open(query.second, state="CompleteCommit").open(query.third, state="CompleteAbort")
    names = [one.ref.transactional_id for one in (query.second, query.third)]
    query.coordinators.ends = dict.fromkeys(names, Ended.OVER)
    found = query.committer.publish([query.first, query.second, query.third])
    assert found == [COMMITTED, COMMITTED, LOST] and query.metrics.take() == {"transactions_committed": 1}
    assert query.coordinators.all_asked("describe") == [(names,)]
    assert query.coordinators.all_asked("missing") == [([7000, 7001], sorted(EVERYWHERE))]


def test_coordinators_answer_for_each(query):
    query.coordinators.forgets_the_last = True
    for call in (query.committer.publish, query.committer.seal):
        with pytest.raises(ValueError, match="shorter"):
            call([query.first, query.second])


def test_publishing_nothing(query):
    assert query.committer.publish([]) == [] and query.coordinators.all_asked("missing") == []


# --- what brokers may have forgotten ----------------------------------------------------------------------------------

HOUR_MS = 3_600_000
DAYS = {"transactional.id.expiration.ms": str(48 * HOUR_MS), "offsets.retention.minutes": str(60 * 100)}


@pytest.mark.parametrize(
    ("settings", "age_ms", "hours", "setting"),
    [
        ({}, 7 * 24 * HOUR_MS - HOUR_MS, None, None),
        ({}, 7 * 24 * HOUR_MS - HOUR_MS + 1, 168, "transactional.id.expiration.ms"),
        (DAYS, 47 * HOUR_MS, None, None),
        (DAYS, 47 * HOUR_MS + 1, 48, "transactional.id.expiration.ms"),
        (DAYS | {"transactional.id.expiration.ms": str(200 * HOUR_MS)}, 99 * HOUR_MS, None, None),
        (
            DAYS | {"transactional.id.expiration.ms": str(200 * HOUR_MS)},
            99 * HOUR_MS + 1,
            100,
            "offsets.retention.minutes",
        ),
        (DAYS | {"transactional.id.expiration.ms": "0"}, HOUR_MS - 1, None, None),
        (DAYS | {"transactional.id.expiration.ms": "0"}, HOUR_MS, 0, "transactional.id.expiration.ms"),
    ],
)
def test_a_missing_proof_says_nothing_once_it_may_have_been_forgotten(query, settings, age_ms, hours, setting):
    query.system.us = NOW_MS * 1000
    query.coordinators.settings = settings
    one = replace(query.first, prepared_ms=NOW_MS - age_ms)
    if hours is None:
        assert query.committer.look([one]) == [LOST]
    else:
        said = rf"prepared {age_ms / HOUR_MS:.0f} hours ago, and .* no longer than {hours} \({setting}\)"
        with pytest.raises(FatalError, match=said):
            query.committer.look([one])


def test_how_old_what_may_be_forgotten_is(query):
    query.system.us = NOW_MS * 1000 + 500
    query.coordinators.settings = {"transactional.id.expiration.ms": "5760000"}
    for age_ms, hours in ((2_160_000, None), (4_320_000, 1), (5_760_000, 2), (NOW_MS - 1000, 500_000)):
        one = replace(query.first, prepared_ms=NOW_MS - age_ms)
        if hours is None:
            assert query.committer.look([one]) == [LOST]
            continue
        with pytest.raises(FatalError, match=rf"prepared {hours} hours ago, and .* no longer than 2 \("):
            query.committer.look([one])
    query.coordinators.settings = {"transactional.id.expiration.ms": str(2 * HOUR_MS)}
    with pytest.raises(FatalError, match="prepared 1 hours ago"):
        query.committer.look([replace(query.first, prepared_ms=NOW_MS - HOUR_MS)])


def test_what_is_young_asks_for_no_settings(query):
    query.coordinators.broker_setting = lambda name: pytest.fail("it asks")
    assert query.committer.look([replace(query.first, prepared_ms=NOW_MS - HOUR_MS + 1)]) == [LOST]


# --- marks ------------------------------------------------------------------------------------------------------------


def unmarked(query, partition=("out", 1), committable=None):
    return Unmarked(partition, (committable or query.first).ref, 9)


def test_marks_come_after_some_milliseconds(query):
    query.coordinators.unmarked = [[unmarked(query)]] * 3
    query.open(query.first)
    query.committer.publish([query.first])
    assert query.coordinators.all_asked("missing") == [
        ([7000], [("out", 0), ("out", 1)]),
        ([7000], [("out", 1)]),
        ([7000], [("out", 1)]),
        ([7000], [("out", 1)]),
    ]
    assert query.system.slept_s == pytest.approx(0.001 + 0.002 + 0.004)
    assert query.coordinators.all_asked("write") == [] and query.coordinators.all_asked("describe") == [([],)]


@pytest.mark.parametrize("commit", [True, False])
def test_marks_that_were_left_out_are_written(query, caplog, commit):
    query.open(query.first)
    others = [unmarked(query, ("out", 2)), unmarked(query, ("out", 1)), unmarked(query, ("out", 1), query.second)]
    query.coordinators.unmarked = [[unmarked(query)]] * 5 + [[unmarked(query)], others]
    if commit:
        query.committer.publish([query.first])
    else:
        query.committer.seal([query.first])
    assert query.coordinators.all_asked("write") == [(others, commit)]
    assert query.system.slept_s == pytest.approx(0.001 + 0.002 + 0.004 + 0.008 + 0.016 + 0.032)
    assert query.coordinators.all_asked("describe")[-1] == ([query.first.ref.transactional_id],)
    assert "not marked it in out-1, out-2: done now" in caplog.text


def test_marks_that_come_while_it_is_asked_are_not_written(query):
    query.open(query.first)
    query.coordinators.unmarked = [[unmarked(query)]] * 6
    query.committer.publish([query.first])
    assert query.coordinators.all_asked("write") == [] and len(query.coordinators.all_asked("missing")) == 8


def test_marks_are_waited_for_a_minute(query):
    query.open(query.first)
    query.coordinators.missing = lambda refs, partitions: [unmarked(query)]
    with pytest.raises(RetriableError, match="has been ending for 60 s"):
        query.committer.publish([query.first])
    assert 60 < query.system.slept_s < 60.07 and len(query.coordinators.all_asked("write")) > 900


def test_marks_are_not_given_up_at_the_minute_itself(query):
    query.open(query.first)
    query.coordinators.unmarked = [[unmarked(query)]] * 6
    query.coordinators.after_describe = [lambda: None, lambda: setattr(query.system, "slept_s", 60.0)]
    assert query.committer.publish([query.first]) == [COMMITTED]


# --- what does not count ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["seal", "discard"])
def test_what_does_not_count_is_aborted_by_producer_and_epoch(query, how):
    query.open(query.first, query.second)
    query.coordinators.ends = {query.second.ref.transactional_id: Ended.OVER}
    both = [query.first, query.second]
    query.committer.seal(both) if how == "seal" else query.committer.discard(both, [])
    ids = [one.ref.transactional_id for one in both]
    assert query.coordinators.asked == [
        ("describe", ids),
        ("end", [7000, 7001], False),
        ("partitions of", []),
        ("missing", [7000], [("out", 7000)]),
    ]
    assert query.metrics.take() == {"transactions_aborted": 1}


@pytest.mark.parametrize("how", ["seal", "discard"])
def test_nothing_to_abort_asks_nobody(query, how):
    query.committer.seal([]) if how == "seal" else query.committer.discard([], [])
    assert query.coordinators.asked == [] and query.metrics.take() == {}


def test_garbage_is_of_earlier_generations_and_not_named(query, caplog):
    caplog.set_level(logging.INFO)
    old, named, now, later = (prepared(slot, generation=999 + (slot > 1) + (slot > 2)) for slot in range(4))
    query.open(old, named, now, later)
    foreign = replace(old, ref=replace(old.ref, transactional_id="test.another.1.0123abcd.0"))
    query.open(foreign)
    assert query.committer.clear(Kept(5, 1000, [named])) == 1
    assert query.coordinators.asked == [
        ("describe", [old.ref.transactional_id]),
        ("fence", old.ref.transactional_id),
        ("missing", [7000], [("out", 7000)]),
    ]
    assert query.metrics.take() == {"transactions_aborted": 1}
    assert "aborted 1 transactions that earlier attempts had left open" in caplog.text


def test_garbage_is_waited_for_until_it_hides_nothing(query):
    old = prepared(generation=999)
    query.open(old)
    query.coordinators.unmarked = [[unmarked(query, committable=old)]] * 7
    query.committer.clear(Kept(5, 1000))
    ((_, commit),) = query.coordinators.all_asked("write")
    assert commit is False


def test_no_garbage(query, caplog):
    caplog.set_level(logging.INFO)
    assert query.committer.clear(Kept(5, 1000)) == 0
    assert query.metrics.take() == {} and caplog.text == "" and query.coordinators.all_asked("fence") == []


# --- names and stored forms -------------------------------------------------------------------------------------------


def test_committables_are_values_and_described():
    assert len({prepared(), copied(prepared())}) == 1
    assert prepared().describe() == "transaction 'test.q.1000.0123abcd.0' (2 records, producer 7000/500)"
    assert prepared().proof == Proof(3000, "attempt 0") and len({prepared().proof, copied(prepared().proof)}) == 1
    assert KafkaCommittable(prepared().ref, 1, "a", 2, 3, ()).opened_ms == 0
    described = OpenTransaction(prepared().ref, "Ongoing", 1, 2, (("out", 0),))
    assert len({described, copied(described)}) == 1 and len({PREFIX, copied(PREFIX)}) == 1


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_stored_form_opens(version):
    stored = Versioned.from_json(
        json.loads((Path(__file__).parent / "golden" / f"committable-v{version}.json").read_text())
    )
    ref = TransactionRef("t.q.0123abcd.0", 7, 3)
    topics, opened = ("out",) if version > 1 else (), 1_699_999_999_000 if version > 2 else 0
    expected = KafkaCommittable(ref, 12, "ab" * 16, 1000, 1_700_000_000_000, topics, opened)
    assert COMMITTABLE_SERIALIZER.unpack(stored) == expected
    again = COMMITTABLE_SERIALIZER.pack(expected)
    assert again.version == 3 and COMMITTABLE_SERIALIZER.unpack(again) == expected


@pytest.mark.parametrize(
    ("name", "generation"),
    [
        ("test.q.0.0123abcd.0", 0),
        ("test.q.1000.0123abcd.12", 1000),
        ("test.q.0123abcd.7", -1),
        ("test.q.1000.0123abcd.7.more", None),
        ("test.q.1000.0123ABCD.7", None),
        ("test.q2.1000.0123abcd.7", None),
        ("best.q.1000.0123abcd.7", None),
        ("test.q.by-hand", None),
    ],
)
def test_an_id_tells_its_generation(name, generation):
    assert PREFIX.generation_of(name) == generation and PREFIX.owns(name) == (generation is not None)
