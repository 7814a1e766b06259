"""The driver's side of the exactly-once sink by itself: what is asked for whatever the servers may answer.

``test_sink_transactions.py`` does the same with a real server.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from penstock.errors import FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import CheckpointLocation, Found, Kept
from penstock_pravega.client import (
    NoSuchSegment,
    PingAnswer,
    TransactionState,
    UnknownStreamError,
)
from penstock_pravega.sink import _committer
from penstock_pravega.sink._committable import COMMITTABLE_SERIALIZER, PravegaCommittable, TransactionRef
from penstock_pravega.sink._committer import PravegaCommitter
from penstock_pravega.sink._transaction_log import OpenTransaction, TransactionLog
from suite.scripted_sink import ScriptedStorage, copied, scripted_system

OPEN, COMMITTED, LOST = Found.OPEN, Found.COMMITTED, Found.LOST
STATE = TransactionState
NOW_MS = 1_800_000_000_123
EPOCH = 1 << 32


def prepared(number=0):
    ref = TransactionRef("scope/out", (1 << 100) + number)
    segments = ((EPOCH | 1, 1000), (EPOCH | 2, 2000))
    return PravegaCommittable(ref, segments, 17, 3000, f"attempt {number}", 30_001, NOW_MS - 1000, 5000 + number)


class ScriptedServers:
    """Answers what ``states`` (the last one stays), ``sizes`` and ``pings`` say; notes what it is asked."""

    def __init__(self):
        self.asked, self.states, self.sizes, self.pings = [], {}, {}, []
        self.accepts, self.deleted, self.on_abort, self.noted, self.closed = {}, set(), {}, [], False
        self.controller = self

    def transaction_state(self, scope, stream, transaction):
        assert (scope, stream) == ("scope", "out")
        self.asked.append(("state", transaction - (1 << 100)))
        if transaction in self.deleted:
            raise UnknownStreamError("deleted")
        states = self.states.get(transaction, [STATE.UNKNOWN])
        return states.pop(0) if len(states) > 1 else states[0]

    def ping_transaction(self, scope, stream, transaction, lease_ms):
        assert (scope, stream) == ("scope", "out")
        self.asked.append(("ping", transaction - (1 << 100), lease_ms))
        return self.pings.pop(0) if self.pings else PingAnswer.OK

    def commit_transaction(self, scope, stream, transaction):
        assert (scope, stream) == ("scope", "out")
        self.asked.append(("commit", transaction - (1 << 100)))
        return self.accepts.get(transaction, True)

    def abort_transaction(self, scope, stream, transaction):
        self.asked.append(("abort", transaction - (1 << 100)))
        self.states[transaction] = [self.on_abort.get(transaction, STATE.ABORTING)]

    def info(self, stream, segment, name):
        assert stream == "scope/out" and name.startswith(f"scope/out/{segment & 0xFF}.#epoch.1#transaction.")
        size = self.sizes.get(name, 1000 * (segment & 0xFF))
        if size is None:
            raise NoSuchSegment("over", name)
        return SimpleNamespace(end=size)

    def tail(self, stream):
        return {0: 99}

    def note_time(self, scope, name, writer, tail, watermark_ms):
        self.noted.append((scope, name, writer, tail, watermark_ms))
        return True

    def close(self):
        self.closed = True

    def all_asked(self, what):
        return [call[1:] for call in self.asked if call[0] == what]


class Query:
    def __init__(self, system, monkeypatch):
        self.system, self.servers, self.metrics, self.forgotten = system, ScriptedServers(), Metrics(), []
        monkeypatch.setattr(_committer, "lease_keeper", lambda: SimpleNamespace(forget=self.forgotten.append))
        self.storage = ScriptedStorage()
        self.notes = TransactionLog(CheckpointLocation(self.storage, "/ck"), "q")
        self.first, self.second, self.third = (prepared(number) for number in range(3))
        self.committer = self.new_committer(self.notes)

    def new_committer(self, notes):
        return PravegaCommitter(self.servers, notes, self.metrics, writer="w", out_of_orderness_ms=100)

    def is_in(self, committable, *states):
        self.servers.states[committable.ref.id] = list(states)

    @property
    def noted(self):
        return sorted(note.ref.id - (1 << 100) for note in self.notes.read())


@pytest.fixture
def query(monkeypatch):
    with scripted_system() as system:
        yield Query(system, monkeypatch)


def test_the_controller_is_asked_about_many_at_once(query):
    """A batch of thousands of tasks: each step waits for a few answers in a row, not for thousands."""
    many = [prepared(number) for number in range(100)]
    for step in ("look", "publish", "seal"):
        for one in many:
            query.is_in(one, STATE.COMMITTED if step == "publish" else STATE.OPEN)
        query.system.threads = 1
        getattr(query.committer, step)(many)
        assert query.system.threads == 16, step


# --- looking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "found"),
    [
        (STATE.OPEN, OPEN),
        (STATE.COMMITTED, COMMITTED),
        (STATE.ABORTING, LOST),
        (STATE.ABORTED, LOST),
        (STATE.UNKNOWN, LOST),
    ],
)
def test_what_became_of_a_transaction(query, state, found):
    query.is_in(query.first, state)
    assert query.committer.look([query.first]) == [found]
    assert query.servers.all_asked("ping") == ([(0, 30_001)] if state is STATE.OPEN else [])


def test_each_is_answered_for_in_order(query):
    query.is_in(query.first, STATE.OPEN)
    query.is_in(query.second, STATE.COMMITTED)
    assert query.committer.look([query.second, query.third, query.first]) == [COMMITTED, LOST, OPEN]


def test_one_that_is_being_committed_is_waited_for(query):
    query.is_in(query.first, *[STATE.COMMITTING] * 6, STATE.COMMITTED)
    assert query.committer.look([query.first]) == [COMMITTED]
    assert query.system.slept_s == pytest.approx(0.002 + 0.004 + 0.008 + 0.016 + 0.02 + 0.02)


def exact(query):
    query.system.sleep = lambda seconds: setattr(query.system, "slept_s", round(query.system.slept_s + seconds, 6))


def test_one_that_is_being_committed_for_a_minute_is_tried_again_later(query):
    exact(query)
    query.is_in(query.first, STATE.COMMITTING)
    with pytest.raises(RetriableError, match="has been committing for 60 s"):
        query.committer.look([query.first])
    assert query.system.slept_s == 60.01


def test_the_minute_itself_is_waited_for(query):
    query.is_in(query.first, STATE.COMMITTING, STATE.COMMITTING, STATE.COMMITTED)
    query.system.sleep = lambda seconds: setattr(query.system, "slept_s", 60.0)
    assert query.committer.look([query.first]) == [COMMITTED]


@pytest.mark.parametrize("segment", [0, 1])
@pytest.mark.parametrize("more", [-1, 1])
def test_one_that_is_not_whole_is_lost(query, caplog, segment, more):
    query.is_in(query.first, STATE.OPEN)
    number, size = query.first.segments[segment]
    query.servers.sizes[query.first.segment_name(number)] = size + more
    assert query.committer.look([query.first]) == [LOST]
    assert f"holds {size + more} bytes, written were {size}" in caplog.text


def test_sizes_are_compared_by_value(query):
    query.is_in(query.first, STATE.OPEN)
    assert query.committer.look([copied(query.first)]) == [OPEN]


@pytest.mark.parametrize(
    ("then", "found"), [(STATE.COMMITTED, COMMITTED), (STATE.ABORTED, LOST), (STATE.OPEN, LOST), (STATE.UNKNOWN, LOST)]
)
def test_one_that_ends_while_it_is_looked_at_is_looked_at_again(query, then, found):
    query.is_in(query.first, STATE.OPEN, then)
    query.servers.sizes[query.first.segment_name(EPOCH | 2)] = None
    assert query.committer.look([query.first]) == [found]


def test_one_that_ends_between_its_size_and_its_lease(query):
    query.is_in(query.first, STATE.OPEN, STATE.COMMITTED)
    query.servers.pings = [PingAnswer.COMMITTED] * 2
    assert query.committer.look([query.first]) == [COMMITTED]


@pytest.mark.parametrize("answer", [PingAnswer.LEASE_TOO_LARGE, PingAnswer.MAX_EXECUTION_TIME_EXCEEDED])
def test_a_lease_that_can_be_renewed_for_a_third_is_long_enough(query, answer):
    query.is_in(query.first, STATE.OPEN)
    query.servers.pings = [answer]
    assert query.committer.look([query.first]) == [OPEN]
    assert query.servers.all_asked("ping") == [(0, 30_001), (0, 10_000)]


@pytest.mark.parametrize("other", [None, OPEN, LOST, COMMITTED])
def test_one_that_ends_soon_is_lost_unless_another_is_committed(query, caplog, other):
    query.is_in(query.first, STATE.OPEN)
    query.servers.pings = [PingAnswer.MAX_EXECUTION_TIME_EXCEEDED] * 2
    query.is_in(query.second, {OPEN: STATE.OPEN, LOST: STATE.ABORTED, COMMITTED: STATE.COMMITTED}.get(other))
    asked = [query.first] if other is None else [query.first, query.second]
    found = query.committer.look(asked)
    assert found == [OPEN if other is COMMITTED else LOST, *([] if other is None else [other])]
    assert "can't be kept open for another 10000 ms (MAX_EXECUTION_TIME_EXCEEDED)" in caplog.text


@pytest.mark.parametrize("before", [0, 1])
def test_a_controller_that_is_cut_off_is_asked_again_later(query, before):
    query.is_in(query.first, STATE.OPEN)
    query.servers.pings = [PingAnswer.LEASE_TOO_LARGE] * before + [PingAnswer.DISCONNECTED]
    with pytest.raises(RetriableError, match="can't renew leases now"):
        query.committer.look([query.first])


HOUR_MS = 3_600_000


@pytest.mark.parametrize(("age_ms", "is_refused"), [(12 * HOUR_MS, False), (12 * HOUR_MS + 1, True)])
@pytest.mark.parametrize("state", [STATE.UNKNOWN, STATE.ABORTED])
def test_what_the_controller_may_have_forgotten_is_not_called_lost(query, age_ms, is_refused, state):
    query.system.us = NOW_MS * 1000
    query.is_in(query.first, state)
    old = replace(query.first, prepared_ms=NOW_MS - age_ms)
    if is_refused and state is STATE.UNKNOWN:
        with pytest.raises(FatalError, match="was prepared 12 hours ago"):
            query.committer.look([old])
    else:
        assert query.committer.look([old]) == [LOST]


def test_how_old_what_may_be_forgotten_is(query):
    query.is_in(query.first, STATE.UNKNOWN)
    query.system.us = NOW_MS * 1000 + 500
    with pytest.raises(FatalError, match="was prepared 12 hours ago"):
        query.committer.look([replace(query.first, prepared_ms=NOW_MS - 12 * HOUR_MS)])
    with pytest.raises(FatalError, match="was prepared 13 hours ago"):
        query.committer.look([replace(query.first, prepared_ms=NOW_MS - 12 * HOUR_MS - 2_400_000)])
    with pytest.raises(FatalError, match="was prepared 500000 hours ago"):
        query.committer.look([replace(query.first, prepared_ms=1000)])


# --- publishing -------------------------------------------------------------------------------------------------------


def write_notes(query, *bases):
    for committable, base in zip((query.first, query.second, query.third), bases, strict=False):
        query.notes.write(OpenTransaction(committable.ref, 30_000, base))


def test_publishing(query):
    for one in (query.first, query.second):
        query.is_in(one, STATE.OPEN)
    query.committer.look([query.first, query.second])
    for one in (query.first, query.second):
        query.is_in(one, STATE.COMMITTING, STATE.COMMITTED)
    write_notes(query, 5, 5, 5)
    query.servers.asked.clear()
    assert query.committer.publish([query.first, query.second]) == [COMMITTED, COMMITTED]
    assert query.servers.asked[:2] == [("commit", 0), ("commit", 1)], "all are begun before the first is waited for"
    assert query.metrics.take() == {"transactions_committed": 2} and query.noted == [2]
    assert query.forgotten == [query.first.ref, query.second.ref]
    assert query.servers.noted == [("scope", "out", "w", {0: 99}, 4901)]


def test_times_are_taken_as_they_are_by_default(query):
    committer = PravegaCommitter(query.servers, None, query.metrics, writer="w")
    query.is_in(query.first, STATE.COMMITTED)
    committer.look([query.first])
    committer.publish([query.first])
    assert [one[-1] for one in query.servers.noted] == [5000]


def test_publishing_what_has_been_lost_meanwhile(query):
    query.is_in(query.first, STATE.COMMITTED)
    query.is_in(query.second, STATE.ABORTED)
    query.servers.accepts = {query.second.ref.id: False}
    write_notes(query, 5, 5)
    assert query.committer.publish([query.first, query.second]) == [COMMITTED, LOST]
    assert query.metrics.take() == {"transactions_committed": 1}
    assert query.noted == [1] and query.forgotten == [query.first.ref] and query.servers.noted == []


@pytest.mark.parametrize(
    ("accepted", "state", "found"),
    [
        (True, STATE.COMMITTED, COMMITTED),
        (False, STATE.COMMITTED, COMMITTED),
        (False, STATE.ABORTED, LOST),
        (False, STATE.UNKNOWN, LOST),
        (True, STATE.ABORTED, None),
        (True, STATE.OPEN, None),
        (False, STATE.OPEN, None),
    ],
)
def test_what_became_of_a_commit(query, accepted, state, found):
    query.is_in(query.first, state)
    query.servers.accepts = {query.first.ref.id: accepted}
    if found is None:
        with pytest.raises(RetriableError, match=f"is to be committed and in state {state.name}"):
            query.committer.publish([query.first])
    else:
        assert query.committer.publish([query.first]) == [found]


def test_a_time_is_noted_once_all_that_was_looked_at_is_committed(query):
    for one in (query.first, query.second):
        query.is_in(one, STATE.OPEN)
    query.committer.look([query.first, query.second])
    for one in (query.first, query.second):
        query.is_in(one, STATE.COMMITTED)
    query.committer.publish([query.first])
    assert query.servers.noted == []
    query.committer.publish([query.second])
    assert [one[-1] for one in query.servers.noted] == [4901]


def test_a_batch_write_keeps_no_notes(query):
    committer = query.new_committer(None)
    query.is_in(query.first, STATE.COMMITTED)
    assert committer.publish([query.first]) == [COMMITTED]
    assert committer.clear(Kept(5, 9)) == 0 and query.storage.asked == []


# --- what does not count ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["seal", "discard"])
def test_what_does_not_count_is_aborted(query, how):
    query.is_in(query.first, STATE.OPEN)
    query.is_in(query.second, STATE.COMMITTED)
    write_notes(query, 5, 5, 5)
    both = [query.first, query.second]
    query.committer.seal(both) if how == "seal" else query.committer.discard(both, [])
    assert query.servers.all_asked("abort") == [(0,)] and query.metrics.take() == {"transactions_aborted": 1}
    assert query.noted == [2] and query.forgotten == [query.first.ref, query.second.ref]


@pytest.mark.parametrize(
    ("after", "aborted"), [(STATE.ABORTING, 1), (STATE.ABORTED, 1), (STATE.COMMITTED, 0), (STATE.UNKNOWN, 0)]
)
def test_an_abort_may_come_too_late(query, after, aborted):
    query.is_in(query.first, STATE.OPEN)
    query.servers.on_abort = {query.first.ref.id: after}
    query.committer.seal([query.first])
    assert query.metrics.take() == {"transactions_aborted": aborted}


def test_an_abort_that_was_not_taken_is_tried_again_later(query):
    query.is_in(query.first, STATE.OPEN)
    query.servers.on_abort = {query.first.ref.id: STATE.OPEN}
    write_notes(query, 5)
    with pytest.raises(RetriableError, match="is to be aborted and still open"):
        query.committer.seal([query.first])
    assert query.noted == [0]


def test_transactions_of_a_stream_that_was_deleted_are_over(query):
    query.servers.deleted = {query.first.ref.id}
    write_notes(query, 5)
    query.committer.seal([query.first])
    assert query.metrics.take() == {"transactions_aborted": 0} and query.noted == []


def test_garbage_was_noted_for_earlier_bases_and_is_not_named(query, caplog):
    caplog.set_level(logging.INFO)
    write_notes(query, 4, 4, 5)
    later = prepared(3)
    query.is_in(later, STATE.OPEN)
    query.notes.write(OpenTransaction(later.ref, 30_000, 6))
    for one in (query.first, query.second, query.third):
        query.is_in(one, STATE.OPEN)
    swept = []
    query.storage.sweep = swept.append
    assert query.committer.clear(Kept(5, 9, [copied(query.second)])) == 1
    assert query.servers.all_asked("abort") == [(0,)] and query.noted == [1, 2, 3] and len(swept) == 1
    assert "aborted 1 transactions that earlier attempts had left open" in caplog.text


def test_garbage_that_is_over_is_forgotten_without_a_word(query, caplog):
    caplog.set_level(logging.INFO)
    write_notes(query, 4)
    query.is_in(query.first, STATE.ABORTED)
    query.storage.sweep = lambda folder: None
    assert query.committer.clear(Kept(5, 9)) == 1
    assert query.noted == [] and caplog.text == "" and query.servers.all_asked("abort") == []


def test_closing_closes_the_connections(query):
    query.committer.close()
    assert query.servers.closed


# --- stored forms -----------------------------------------------------------------------------------------------------


def test_committables_are_values_and_described():
    assert len({prepared(), copied(prepared())}) == 1
    assert prepared().describe() == f"transaction {1 << 100:032x} on scope/out (17 events)"
    assert PravegaCommittable(prepared().ref, (), 1, 2, "a", 3, 4).latest_ms is None


def test_segments_are_stored_by_number_and_epoch():
    one = replace(prepared(), segments=((3, 7), (5 * EPOCH | 2, 9), (5 * EPOCH | 1000, 11)))
    stored = COMMITTABLE_SERIALIZER.pack(one)
    assert stored.version == 2 and COMMITTABLE_SERIALIZER.unpack(stored) == one
    assert b'"segments":{"1000.5":11,"2.5":9,"3.0":7}' in stored.data
