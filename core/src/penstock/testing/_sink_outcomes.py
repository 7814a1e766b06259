"""The cases of a sink about its committer: what it finds, what can't be published any more, and what it clears away."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.errors import PenstockError
from penstock.sink import Committer, Found, Kept, Segment, Sender, SinkContext, WriteAheadSink
from penstock.testing._calls import patiently, slowness
from penstock.testing._capabilities import proves
from penstock.testing._sink_base import CARRIED_OUT, SinkBase, query_crashing
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SinkOutcomeCases"]

#: How long another driver has to take over while the first one sleeps (s). It may have to wait for that one instead.
_TAKE_OVER_S = 2.0
#: Of an attempt: its committables, and the rows that they stand for.
Prepared = tuple[list[Any], Counter[int]]


class SinkOutcomeCases(SinkBase):
    """A process that slept may repeat any call, late; another one has gone on meanwhile."""

    def _prepared(self, query: SinkQuery, runs: Sequence[tuple[int, int]] = ((0, 0), (0, 0))) -> list[Prepared]:
        """Has an attempt for each of ``runs``, a base and a generation, write two rows and end."""
        self._needs_hidden_rows(query)
        plan = query.plan()
        assert plan is not None
        made = []
        for number, (base, generation) in enumerate(runs):
            context = plan.complete(query.task(0, number).context())
            context = replace(context, base=base, generation=generation)
            ids = range(2 * number, 2 * number + 2)
            committables = query.prepare(context, [self.batch(ids)])
            if not committables:
                does_not_apply("the sink carries rows from batch to batch: a first batch has nothing to commit")
            made.append((committables, Counter(ids)))
        return made

    @staticmethod
    def _needs_own_committer(query: SinkQuery) -> None:
        if isinstance(query.sink, WriteAheadSink):
            does_not_apply("the committer is that of the template")

    @pytest.mark.parametrize("times", [1, 2], ids=["once", "twice"])
    @proves(Capability.EXACTLY_ONCE)
    def test_a_look_touches_nothing(self, query: SinkQuery, target: SinkTarget, times: int) -> None:
        """Purpose: the outcome is asked for by drivers that may give the batch up, or are not the owner any more.

        Steps: two attempts are prepared; their outcome is looked at; they are published, once or twice; it is looked at
        again.
        Pass: OPEN and nothing visible, then COMMITTED from publish and look, and every row can be read once.
        If it fails: look only reads. publish of what is published finds that out, and says COMMITTED.
        """
        if times > 1:
            self._needs_own_committer(query)
        committables, rows = _all(self._prepared(query))
        with query.committer() as committer:
            _expect(committer.look(committables), Found.OPEN, "look after prepare_commit says")
            self._check(target, Counter(), "after a look at what is prepared")
        for _ in range(times):
            with query.committer() as committer:
                _expect(committer.publish(committables), Found.COMMITTED, "publish says")
                self._check(target, rows, "after publish")
        with query.committer() as committer:
            _expect(committer.look(committables), Found.COMMITTED, "look after publish says")
        self._check(target, rows, "after publish and a look")

    @proves(Capability.EXACTLY_ONCE)
    def test_what_is_prepared_is_durable(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: what a task leaves behind does not need the task any more.

        Steps: an attempt is prepared, and published while its writer is open; the writer is closed.
        Pass: every row can be read once, before and after the close.
        If it fails: prepare_commit returns when everything is in the system, and not in a buffer that close empties;
        close frees resources, and touches nothing else.
        """
        self._needs_hidden_rows(query)
        writer = query.writer(query.plan(), 0, 0)
        with contextlib.closing(writer):
            writer.write(self.batch([0, 1, 2]))
            writer.flush()
            committables = query.stored(writer.prepare_commit().committables)
            if not committables:
                does_not_apply("the sink carries rows from batch to batch: a first batch has nothing to commit")
            with query.committer() as committer:
                committer.publish(committables)
            self._check(target, Counter([0, 1, 2]), "when the writer is still open")
        self._check(target, Counter([0, 1, 2]), "when the writer is closed")

    @pytest.mark.parametrize("ended", ["sealed", "discarded"])
    @proves(Capability.EXACTLY_ONCE)
    def test_what_is_given_up_is_never_published(self, query: SinkQuery, target: SinkTarget, ended: str) -> None:
        """Purpose: a batch is given up and written again, and a driver that slept publishes the old one.

        Steps: two attempts are prepared; they are sealed or discarded, twice, by two processes; they are looked at and
        published; then again.
        Pass: LOST each time, and nothing is visible.
        If it fails: seal and discard take away what publish needs: rename the file, end the transaction. What another
        process has taken away already is no error.
        """
        self._needs_own_committer(query)
        committables, _ = _all(self._prepared(query))
        with query.committer() as slept:
            for number in range(2):
                with query.committer() as committer:
                    _end(committer, ended, committables)
                    self._check(target, Counter(), f"after they were {ended}")
                    _expect(committer.look(committables), Found.LOST, f"look says of what is {ended}")
                late = slept if number == 0 else committer
                _expect(late.publish(committables), Found.LOST, f"publish says of what is {ended}")
                self._check(target, Counter(), f"when what was {ended} is published late")

    @pytest.mark.parametrize("ended", ["sealed", "discarded"])
    @proves(Capability.EXACTLY_ONCE)
    def test_what_is_published_stays(self, query: SinkQuery, target: SinkTarget, ended: str) -> None:
        """Purpose: a driver gives up what another one has published meanwhile, in part.

        Steps: of two attempts the first one is published; both are sealed or discarded; if they are sealed, both are
        looked at and published.
        Pass: COMMITTED for the first and LOST for the other one, in this order, and the rows of the first can be read.
        If it fails: seal and discard spare what is published, and what tells that it was. Outcomes are in the order of
        the committables.
        """
        self._needs_own_committer(query)
        first, other = self._prepared(query)
        with query.committer() as committer:
            _expect(committer.publish(first[0]), Found.COMMITTED, "publish says")
        with query.committer() as committer:
            _end(committer, ended, [*other[0], *first[0]])
        self._check(target, first[1], f"when an attempt is {ended} after it was published")
        if ended == "discarded":
            return  # no driver asks for its outcome any more
        both, wanted = [*first[0], *other[0]], [Found.COMMITTED] * len(first[0]) + [Found.LOST] * len(other[0])
        with query.committer() as committer:
            assert committer.look(both) == wanted, "look at one that is published, and one that is sealed"
            assert committer.publish(both[::-1]) == wanted[::-1], "publish of one that is sealed, and one published"
        self._check(target, first[1], "when both are published late")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_loss_between_look_and_publish(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a transaction times out, or a file vanishes, when its batch is about to be published.

        Steps: two attempts are prepared, and looked at; everything prepared is lost; they are published and looked at.
        Pass: LOST both times, and nothing is visible.
        If it fails: what publish does not find is only COMMITTED if something shows that it was published.
        """
        self._needs_own_committer(query)
        if target.lose is None:
            not_tried("loss", "SinkTarget.lose")
        committables, _ = _all(self._prepared(query))
        with query.committer() as committer:
            _expect(committer.look(committables), Found.OPEN, "look after prepare_commit says")
            target.lose()
            _expect(committer.publish(committables), Found.LOST, "publish says of what is lost")
            _expect(committer.look(committables), Found.LOST, "look says of what is lost")
        self._check(target, Counter(), "when everything prepared was lost")

    @pytest.mark.parametrize("published", [False, True], ids=["prepared", "published"])
    @proves(Capability.EXACTLY_ONCE)
    def test_a_clean_up_keeps_what_is_needed(self, query: SinkQuery, target: SinkTarget, published: bool) -> None:
        """Purpose: a clean-up removes what a batch that runs still needs.

        Steps: attempts are prepared on bases 9, 10 and 100 of three runs, and one more on base 9 that is named as kept;
        they are, or are not, published, except for the first; what is below base 9 is cleared; then, twice, what is
        below base 10; they are looked at each time.
        Pass: those of bases 10 and 100 and the one that is kept are OPEN, or COMMITTED, and can be published; the other
        one of base 9 is not there any more. A clean-up that finds nothing to remove says so.
        If it fails: Kept.base is the first base that is *not* garbage, a number; what Kept.committables names stays,
        with what tells that it was published.
        """
        garbage, *needed = self._prepared(query, [(9, 0), (9, 0), (10, 1), (100, 2)])
        committables, rows = _all(needed)
        if published:
            with query.committer() as committer:
                _expect(committer.publish(committables), Found.COMMITTED, "publish says")
        kept: Kept[Any, Any] = Kept(10, generation=1, committables=needed[0][0])
        for now in (Kept(9, generation=0), kept, kept):
            with query.committer() as committer:
                removed = committer.clear(now)
                wanted = Found.COMMITTED if published else Found.OPEN
                _expect(committer.look(committables), wanted, "look says of what is needed, after a clean-up")
        assert removed == 0, f"clear says that it has removed {removed} things, and the call before has removed them"
        with query.committer() as committer:
            if not published:
                _expect(committer.publish(committables), Found.COMMITTED, "publish says of what is needed")
            assert committer.look(garbage[0]) == [Found.LOST] * len(garbage[0]), "look at garbage that was cleared"
        self._check(target, rows, "after a clean-up")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_driver_that_sleeps_while_it_publishes(
        self, query: SinkQuery, target: SinkTarget, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Purpose: a driver sleeps (garbage collection, a suspended machine), is thought dead, and continues.

        Steps: a batch is decided, and its driver is about to publish it, or to send its first segment, when another one
        takes over: it publishes the batch, runs the next one and cleans up; then the first one continues.
        Pass: every row can be read once, whether or not the first driver ends with an error.
        If it fails: publish makes sure that what it publishes is still there: a rename, not a copy. A sender asks
        check_owner of its context within the transaction that holds the note: the note itself may be forgotten.
        """
        self._needs_hidden_rows(query)
        batches = self._batches([(3, 2), (2, 1)])
        results = query.tasks(0, batches[0])
        waiting = [True]

        def sleep() -> None:
            if waiting and waiting.pop():
                other = SinkQuery(query.sink, self.schema, query.checkpoint, query.query_id)
                other.finish()
                other.done.add(0)
                other.run_all(batches)

        if isinstance(query.sink, WriteAheadSink):
            _before_each_send(type(query.sink), sleep, monkeypatch)
        else:
            _before_each_publish(query, sleep)
        with contextlib.suppress(PenstockError):
            query.commit(0, results)
        if waiting:
            does_not_apply("the sink carries rows from batch to batch: a first batch has nothing to commit")
        query.restart()
        query.finish()
        self._check(target, self._ids([(3, 2), (2, 1)]), "when a driver that slept has gone on")

    @proves(Capability.EXACTLY_ONCE)
    def test_a_sender_that_sleeps_when_it_has_asked(
        self, query: SinkQuery, target: SinkTarget, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Purpose: a driver sleeps when it has made sure that the query is its own, and before it sends.

        Steps: a batch is decided; its driver sends the first segment, and has just called ``check_owner`` when another
        one takes over: it publishes the batch, runs the next one and cleans up, or waits for the first one.
        Pass: every row can be read once, whether or not a driver ends with an error.
        If it fails: look for the note, and ask ``check_owner``, within the transaction that adds rows and note: a
        transaction that holds the note keeps the other driver from it.
        """
        if not isinstance(query.sink, WriteAheadSink):
            does_not_apply("the sink has no sender")
        batches = self._batches([(3, 2), (2, 1)])
        results = query.tasks(0, batches[0])
        others: list[threading.Thread] = []

        def take_over() -> None:
            with contextlib.suppress(Exception):  # it may find the system locked
                # The engine has one log of the batches that are committed.
                other = SinkQuery(query.sink, self.schema, query.checkpoint, query.query_id, query.done)
                other.finish()
                other.done.add(0)
                other.run_all(batches)

        def sleep() -> None:
            if not others:
                others.append(threading.Thread(target=take_over, daemon=True))
                others[0].start()
                others[0].join(_TAKE_OVER_S * slowness())

        _when_it_has_asked(type(query.sink), sleep, monkeypatch)
        with patiently(), contextlib.suppress(PenstockError):
            query.commit(0, results)
            query.finish()  # what the batch has only added to what is carried
        if not others:
            does_not_apply("its sender does not ask whether the query is its own")
        with patiently():
            others[0].join()
        query.restart()
        query.run_all(batches)
        self._check(target, self._ids([(3, 2), (2, 1)]), "when a driver that slept has gone on")

    @proves(Capability.EXACTLY_ONCE)
    def test_what_readers_take_away_does_not_come_again(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: readers remove what they have read: they move files, or delete rows.

        Steps: a batch is published, and its driver ends before it notes so; readers take everything away; a new driver
        finishes the decision, twice.
        Pass: nothing is visible any more, and no error.
        If it fails: that something was published is shown by something that readers do not touch.
        """
        self._needs_hidden_rows(query)
        if target.take is None:
            does_not_apply("no reader takes rows away", "SinkTarget.take")
        batches = self._batches([(3, 2)])
        results = query.tasks(0, batches[0])
        with query_crashing(query, CARRIED_OUT):
            query.commit(0, results)
            query.finish()  # what the batch has only added to what is carried
        self._check(target, self._ids([(3, 2)]), "before it is noted")
        target.take()
        for _ in range(2):
            query.restart()
            query.finish()
        query.run_all(batches)
        self._check(target, Counter(), "after readers have taken everything away")


def _before_each_send(kind: type[WriteAheadSink], call: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    create = kind.create_sender

    def create_sender(sink: WriteAheadSink, context: SinkContext) -> Sender:
        sender = create(sink, context)
        send = sender.send

        def after_a_call(batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
            call()
            send(batches, segment)

        sender.send = after_a_call  # type: ignore[method-assign]
        return sender

    monkeypatch.setattr(kind, "create_sender", create_sender)


def _when_it_has_asked(kind: type[WriteAheadSink], call: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    create = kind.create_sender

    def create_sender(sink: WriteAheadSink, context: SinkContext) -> Sender:
        is_sending = threading.local()

        def check_owner() -> None:
            context.check_owner()
            if getattr(is_sending, "now", False):  # the template asks as well, before it
                call()

        sender = create(sink, replace(context, check_owner=check_owner))
        send = sender.send

        def while_it_sends(batches: Iterator[pa.RecordBatch], segment: Segment) -> None:
            is_sending.now = True
            try:
                send(batches, segment)
            finally:
                is_sending.now = False

        sender.send = while_it_sends  # type: ignore[method-assign]
        return sender

    monkeypatch.setattr(kind, "create_sender", create_sender)


def _before_each_publish(query: SinkQuery, call: Callable[[], None]) -> None:
    real = query.fuse.step

    def step(what: str) -> None:
        real(what)
        if what == "before publish":
            call()

    query.fuse.step = step  # type: ignore[method-assign]


def _all(prepared: Iterable[Prepared]) -> Prepared:
    committables: list[Any] = []
    rows: Counter[int] = Counter()
    for some, ids in prepared:
        committables += some
        rows += ids
    return committables, rows


def _end(committer: Committer[Any, Any], how: str, committables: Sequence[Any]) -> None:
    if how == "sealed":
        committer.seal(committables)
    else:
        committer.discard(committables, [])


def _expect(found: Sequence[Found], wanted: Found, what: str) -> None:
    assert list(found) == [wanted] * len(found), f"{what} {[one.name for one in found]}, not {wanted.name}"
