"""The cases of a sink about what is hidden, decided, repeated, given up and left behind."""

from __future__ import annotations

import errno
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.connector import Capability
from penstock.errors import PenstockError, RetriableError
from penstock.retry import RetryPolicy
from penstock.sink import IdempotentSink, WriteAheadSink
from penstock.testing._away import for_a_moment, only_if_it_may_pass
from penstock.testing._calls import patiently
from penstock.testing._capabilities import proves
from penstock.testing._sink_base import CARRIED_OUT, DECIDED, SinkBase, query_crashing
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply, not_tried

__all__ = ["SinkCommitCases"]


class SinkCommitCases(SinkBase):
    """What is decided happens once."""

    @pytest.mark.parametrize("moment", ["writing", "committing"])
    @proves(Capability.STREAM_WRITE)
    def test_the_system_is_away_for_a_while(self, target: SinkTarget, tmp_path: Path, moment: str) -> None:
        """Purpose: servers restart, networks break.

        Steps: the system can't be reached while tasks write, or while the batch is committed; it comes back; the query
        is restarted.
        Pass: RetriableError or OSError meanwhile, and every row can be read once (at least once) in the end.
        If it fails: an error that may pass must not be fatal, nor be swallowed; give every call a time limit.
        """
        if target.unreachable is None:
            not_tried("outages", "SinkTarget.unreachable")
        impatient = replace(target, options={**target.options, **target.impatient})
        query = self._query(impatient, tmp_path / "penstock-checkpoint")
        if moment == "committing" and not query.commits:
            does_not_apply("the sink commits nothing")
        if moment == "committing" and isinstance(query.sink, IdempotentSink):
            does_not_apply("an idempotent sink asks its system for nothing when a batch is committed")
        batches = self._batches()
        query.run(0, batches[0])
        results = query.tasks(1, batches[1]) if moment == "committing" else None

        def act() -> None:
            if results is None:
                query.run(1, batches[1])
            else:
                query.commit(1, results)
                query.finish()  # what is carried from batch to batch

        with target.unreachable(), patiently(), pytest.raises((OSError, RetriableError)):
            act()
        query.restart()
        query.run_all(batches)
        self._check(target, self._ids(), promised=True)

    @proves(Capability.STREAM_WRITE)
    def test_a_short_outage_is_waited_for(self, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: a server that restarts ends no query.

        Steps: the system can't be reached for a moment while a batch is committed, and once more while the next one is
        planned and writers are made. What fails is called again, as with ``retryTimeout``.
        Pass: every row can be read once (at least once), and no error.
        If it fails: raise RetriableError from start, create_writer and every call of the committer; all of them are
        called again.
        """
        if target.unreachable is None:
            not_tried("outages", "SinkTarget.unreachable")
        impatient = replace(target, options={**target.options, **target.impatient})
        query = self._query(impatient, tmp_path / "penstock-checkpoint")
        query.retry = RetryPolicy(60)
        query.restart()
        batches = self._batches()
        with only_if_it_may_pass():
            query.run(0, batches[0])
            results = query.tasks(1, batches[1])
            with for_a_moment(target.unreachable()):
                query.commit(1, results)
            if query.commits and not isinstance(query.sink, IdempotentSink):
                with for_a_moment(target.unreachable()):
                    query.restart()
                    query.plan(2)
            query.run_all(batches)
        self._check(target, self._ids(), promised=True)

    @proves(Capability.EXACTLY_ONCE)
    def test_nothing_is_visible_before_the_commit(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: readers see rows of a batch that is thrown away later.

        Steps: the tasks of a batch end; the target is read; the batch is committed; the target is read again.
        Pass: nothing, then everything.
        If it fails: write() must hide rows until Committer.publish: a transaction, a file under another name.
        """
        self._needs_hidden_rows(query)
        results = query.tasks(0, self._batches([(3, 2)])[0])
        self._check(target, Counter())
        query.commit(0, results)
        query.finish()
        self._check(target, self._ids([(3, 2)]))

    @proves(Capability.EXACTLY_ONCE)
    def test_commit_twice(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a commit that was carried out is repeated after a crash just after it.

        Steps: the driver ends after it has committed and before it notes so; a new one finishes the decision; then once
        more.
        Pass: every row can be read once.
        If it fails: Committer.look must recognise what an earlier call has done, and say COMMITTED.
        """
        self._needs_hidden_rows(query)
        batches = self._batches([(3, 2)])
        results = query.tasks(0, batches[0])
        with query_crashing(query, CARRIED_OUT):
            query.commit(0, results)
            query.finish()  # what the batch has only added to what is carried
        for _ in range(2):
            query.restart()
            query.finish()
        query.run_all(batches)
        self._check(target, self._ids([(3, 2)]))

    @proves(Capability.EXACTLY_ONCE)
    def test_a_replay_of_a_decided_batch_writes_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: the engine was killed after our commit and before its own note, and runs the batch again.

        Steps: a batch is committed; it is run again by a new driver.
        Pass: every row can be read once.
        If it fails: batches are identified by their id; the protocol skips decided ones, so rows must leave the sink
        only through its writer.
        """
        batches = self._batches([(3, 2)])
        query.run(0, batches[0])
        query.done.clear()
        query.restart()
        query.run_all(batches)
        self._check(target, self._ids([(3, 2)]))

    @proves(Capability.EXACTLY_ONCE)
    def test_an_aborted_batch_leaves_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a task failed, and the engine gives the batch up.

        Steps: the tasks of a batch end; it is aborted; it is run again.
        Pass: nothing is visible after the abort, and every row once at the end.
        If it fails: Committer.discard gets what the other tasks have prepared, and must throw it away.
        """
        batches = self._batches()
        query.abort(0, query.tasks(0, batches[0]))
        if not isinstance(query.sink, IdempotentSink):
            self._check(target, Counter())
        query.run_all(batches)
        self._check(target, self._ids())

    @proves(Capability.EXACTLY_ONCE)
    def test_abort_after_the_decision_touches_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: Spark calls abort after a commit that raised, even if the batch was decided.

        Steps: the driver ends after the decision, before the commit; abort is called with the batch's results; a new
        driver continues.
        Pass: every row can be read once.
        If it fails: nothing of a decided batch may be removed by anything but the committer's own outcome.
        """
        batches = self._batches()
        results = query.tasks(0, batches[0])
        with query_crashing(query, DECIDED):
            query.commit(0, results)
        query.restart()
        query.abort(0, results)
        query.run_all(batches)
        self._check(target, self._ids())

    @pytest.mark.parametrize("end", ["is prepared", "is aborted", "is closed"])
    @proves(Capability.EXACTLY_ONCE)
    def test_a_zombie_never_becomes_visible(self, query: SinkQuery, target: SinkTarget, end: str) -> None:
        """Purpose: an attempt that was given up (speculation, a lost executor) may write at any later time.

        Steps: two attempts of one task; the batch is committed with the second's result; the first one, which had
        written some rows, writes more and is prepared, aborted or just closed.
        Pass: the rows of the second attempt can be read once, those of the first never, and the zombie ends with an
        error or without effect.
        If it fails: name everything that an attempt makes by context.attempt_id, and share nothing between attempts.
        What abort throws away is its own.
        """
        self._needs_hidden_rows(query)
        plan = query.plan()
        assert plan is not None
        zombie = query.writer(plan, 0, 0)
        zombie.write(self.batch([100, 101]))
        query.commit(0, [query.attempt(plan, 0, 0, [self.batch([0, 1, 2])])])
        try:
            zombie.write(self.batch([102]))
            if end == "is prepared":
                zombie.prepare_commit()
            elif end == "is aborted":
                zombie.abort()
        except PenstockError:
            zombie.abort()
        zombie.close()
        query.restart()
        query.finish()
        self._check(target, Counter([0, 1, 2]), f"when the zombie {end}")

    @proves(Capability.EXACTLY_ONCE)
    def test_an_attempt_that_is_given_up_harms_no_other(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: of two attempts of a task (speculation), the one that is slower is aborted.

        Steps: an attempt of each of two tasks is prepared; another attempt of the first task writes the same rows and
        is aborted; the batch is committed with the prepared ones.
        Pass: the abort leaves nothing hidden, and every row can be read once.
        If it fails: abort of a writer throws away what this attempt has made, and nothing that has the task's name.
        """
        shares = [list(share) for share in self._batches([(3, 2)])[0]]
        plan = query.plan()
        results = [query.attempt(plan, 0, writer, share) for writer, share in enumerate(shares)]
        hidden = target.hidden or list
        before = Counter(hidden())
        slower = query.writer(plan, 0, 0)
        for batch in shares[0]:
            slower.write(batch)
        slower.abort()
        slower.close()
        left = Counter(hidden()) - before
        assert not left, f"an attempt that is aborted leaves {sorted(left)}"
        query.commit(0, results)
        query.finish()
        self._check(target, self._ids([(3, 2)]))

    @proves(Capability.EXACTLY_ONCE)
    def test_two_drivers(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: two drivers on one checkpoint (one was thought dead) can't both decide.

        Steps: both run the tasks of the same batch; both commit; the first one is restarted and continues.
        Pass: at most one of the commits succeeds, and at the end each row can be read once.
        If it fails: publish nothing outside of Committer.publish.
        """
        other = SinkQuery(query.sink, self.schema, query.checkpoint, query.query_id)
        shares = self._batches([(3, 2)])[0]
        plan, other_plan = query.plan(), other.plan()
        results = [query.attempt(plan, 0, writer, iter(share)) for writer, share in enumerate(shares)]
        late = [other.attempt(other_plan, 0, writer, iter(share)) for writer, share in enumerate(shares)]
        for driver, prepared in ((query, results), (other, late)):
            try:
                driver.commit(0, prepared)
            except PenstockError:
                driver.abort(0, prepared)
        assert len(query.done) + len(other.done) <= 1
        query.restart()
        query.run_all([shares])
        self._check(target, self._ids([(3, 2)]))

    @proves(Capability.EXACTLY_ONCE)
    def test_another_query_is_left_alone(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: two queries write to one target; one cleans up while the other is about to commit.

        Steps: query A ends its tasks; query B runs a batch, aborts another and cleans up; A commits, and its driver
        ends before it has noted that; B runs two more batches and cleans up; another driver of A continues.
        Pass: every row of both can be read once.
        If it fails: name everything by context.query_id, and look only for what has it. What was recorded of another
        query is its own.
        """
        self._needs_hidden_rows(query)
        other = SinkQuery(query.sink, self.schema, tmp_path / "other-checkpoint")
        results = query.tasks(0, [[self.batch([0, 1])], [self.batch([2])]])
        other.run(0, [[self.batch([10, 11])]])
        other.abort(1, other.tasks(1, [[self.batch([12])]]))
        other.restart()
        other.finish()
        with query_crashing(query, CARRIED_OUT):
            query.commit(0, results)
            query.finish()  # what the batch has only added to what is carried
        for batch_id in (1, 2):
            other.run(batch_id, [[self.batch([12 + batch_id])]])
        other.finish()
        query.restart()
        query.run_all([[[self.batch([0, 1])], [self.batch([2])]]])
        self._check(target, Counter([0, 1, 2, 10, 11, 13, 14]))

    @proves(Capability.EXACTLY_ONCE)
    def test_nothing_lingers(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: hidden files, transactions or rows of crashed runs add up until someone removes them by hand.

        Steps: attempts end without their results reaching the driver, three times; the query is restarted, runs to its
        end and cleans up.
        Pass: nothing is hidden in the target any more, and every row can be read once.
        If it fails: Committer.clear must find what no link names.
        """
        if target.hidden is None:
            not_tried("what lingers", "SinkTarget.hidden")
        batches = self._batches()
        for _ in range(3):
            query.tasks(0, batches[0])
            query.restart()
        query.run_all(batches)
        query.restart()
        query.finish()
        assert list(target.hidden()) == []
        self._check(target, self._ids())

    @pytest.mark.parametrize(
        "error", [OSError(errno.ENOSPC, "no space left on device"), PermissionError(errno.EROFS, "read-only")]
    )
    @proves(Capability.EXACTLY_ONCE)
    def test_a_decision_log_that_can_not_be_written(self, query: SinkQuery, target: SinkTarget, error: OSError) -> None:
        """Purpose: the disk of the checkpoint is full, or became read-only.

        Steps: the tasks of a batch end; deciding fails; the disk is repaired; the batch is run again.
        Pass: the commit raises and nothing of it is visible; afterwards every row can be read once.
        If it fails: commit nothing in the target that was not decided.
        """
        batches = self._batches()
        results = query.tasks(0, batches[0])
        query.storage.broken = error
        with pytest.raises((OSError, PenstockError)):
            query.commit(0, results)
        if not isinstance(query.sink, IdempotentSink):
            self._check(target, Counter())
        query.restart()
        query.run_all(batches)
        self._check(target, self._ids())

    @proves(Capability.EXACTLY_ONCE)
    def test_what_is_lost_before_the_commit_is_written_again(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: what tasks prepared can be gone before it is committed: a transaction timed out, a file vanished.

        Steps: the tasks of a batch end; everything prepared is lost; the batch is committed; the driver is restarted
        and runs it again.
        Pass: the commit raises, and at the end every row can be read once.
        If it fails: Committer.look must say LOST, not COMMITTED, of what it can't find and did not publish itself.
        """
        self._needs_hidden_rows(query)
        if isinstance(query.sink, WriteAheadSink):
            does_not_apply("what is prepared waits in the checkpoint")
        if target.lose is None:
            not_tried("loss", "SinkTarget.lose")
        shape = [(2, 2)]
        batches = self._batches(shape)
        results = query.tasks(0, batches[0])
        if not any(output.committables for result in results for output in result.outputs):
            does_not_apply("the sink carries rows from batch to batch: a first batch has nothing to commit")
        target.lose()
        with pytest.raises(RetriableError, match="written again"):
            query.commit(0, results)
        query.restart()
        query.run_all(batches)
        self._check(target, self._ids(shape))

    @proves(Capability.EXACTLY_ONCE)
    def test_restored_twice_from_the_same_state(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a restart that fails is followed by another one, from the same stored state.

        Steps: the driver ends between decision and commit; so does the next one; the third carries on.
        Pass: every row can be read once.
        If it fails: restoring must change nothing that a second restore needs.
        """
        batches = self._batches()
        results = query.tasks(0, batches[0])
        with query_crashing(query, DECIDED):
            query.commit(0, results)
        query.restart()
        with query_crashing(query, "before "):
            query.finish()
        query.restart()
        query.run_all(batches)
        self._check(target, self._ids())
