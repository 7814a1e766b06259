"""The cases that a sink has to pass. An author subclasses :class:`SinkSuite` and writes one fixture::

    class TestNotes(SinkSuite):
        connector = NotesConnector

        @pytest.fixture
        def new_target(self, tmp_path):
            def make():
                path = tmp_path / f"{uuid.uuid4()}.db"
                return SinkTarget({"path": str(path)}, read=lambda: read_notes(path))

            return make

Every case says in its docstring what it is for, what it does, when it passes, and what to look for if it does not. The
cases run on the contracts alone (:mod:`penstock.testing._sink_engine`).

After the suites of Flink's connector test framework and the tests of its two-phase commit and write-ahead templates;
crashes at every step, zombies and two drivers are Penstock's own.
"""

from __future__ import annotations

import errno
import functools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.errors import BadConfigurationError, BadDataError, PenstockError, RetriableError
from penstock.sink import IdempotentSink, TwoPhaseCommitSink, WriteAheadSink
from penstock.testing._capabilities import proves
from penstock.testing._faults import Crash
from penstock.testing._memory import peak_growth_bytes
from penstock.testing._resident import resident_bytes
from penstock.testing._rows import SPARK_TYPES
from penstock.testing._sink_cases import SinkCases
from penstock.testing._sink_engine import Shares, SinkQuery
from penstock.testing._target import SinkTarget
from penstock.testing.simulation import RealTarget, Scheduler, SinkUnderTest, run_schedule

__all__ = ["SinkSuite"]

#: The decision is durable and nothing of it was done; everything was done and not noted.
_DECIDED, _CARRIED_OUT = "after create", "before put "


class SinkSuite(SinkCases):
    """See the module and :class:`penstock.testing._sink_cases.SinkCases`. What may be overridden as well: ``many``, the
    rows of the case about memory; ``most_memory_bytes``, by how much a task may grow meanwhile; ``schedules``, how many
    the simulator runs.
    """

    many: ClassVar[int] = 1_000_000
    most_memory_bytes: ClassVar[int] = 128 << 20
    schedules: ClassVar[int] = 20

    def _query(
        self, target: SinkTarget, folder: Path, schema: pa.Schema | None = None, before: SinkQuery | None = None
    ) -> SinkQuery:
        """Returns a query in ``folder``; the one that was there ``before``, changed."""
        schema = schema if schema is not None else self.schema
        sink = self._create_for(self._parse(target.options), schema)
        query = SinkQuery(sink, schema, folder)
        if before is not None:
            query = SinkQuery(sink, schema, folder, before.query_id, before.done)
        if Capability.EXACTLY_ONCE in self.connector.capabilities:
            assert query.commits, "the connector declares exactly-once, but its sink is not a TwoPhaseCommitSink"
        return query

    @pytest.fixture
    def query(self, target: SinkTarget, tmp_path: Path) -> SinkQuery:
        """Returns a query that writes to ``target``, with its checkpoint next to it."""
        return self._query(target, tmp_path / "penstock-checkpoint")

    @staticmethod
    def _needs_hidden_rows(query: SinkQuery) -> None:
        """Cases about what is hidden until the commit are not for sinks that write in place, under a key."""
        if isinstance(query.sink, IdempotentSink):
            pytest.skip("an idempotent sink writes in place")

    # --- exactly once -------------------------------------------------------------------------------------------------

    @proves(Capability.STREAM_WRITE)
    @pytest.mark.parametrize("name", SPARK_TYPES)
    def test_every_type_is_written_or_refused(self, target: SinkTarget, tmp_path: Path, name: str) -> None:
        """Purpose: a column of any of Spark's types, with its extremes and with nulls.

        Steps: rows with one more column, of that type, are written.
        Pass: the sink refuses the schema, or a value, with an error that says so; or every row can be read once.
        If it fails: refuse types in validate_schema, with BadConfigurationError; values with BadDataError.
        """
        kind, values = SPARK_TYPES[name]
        column = pa.array([None, *values, None], kind)
        schema = self.schema.append(pa.field("extra", kind))
        rows = self.batch(range(len(column)))
        batch = pa.RecordBatch.from_arrays([*rows.columns, column], schema=schema)
        try:
            self._query(target, tmp_path / "penstock-query", schema).run_all([[[batch]]])
        except (BadConfigurationError, BadDataError):
            return
        assert self._seen(target) == Counter(range(len(column)))

    @proves(Capability.STREAM_WRITE)
    def test_many_rows_in_bounded_memory(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a task may get more rows than fit into memory.

        Steps: one task writes ``many`` rows of 200 bytes, in Arrow batches of 5,000.
        Pass: the process grows by less than ``most_memory_bytes``, and every row can be read once.
        If it fails: hand rows on while they come; bound what waits in queues.
        """
        text = "x" * 200

        def share() -> Iterator[pa.RecordBatch]:
            before = resident_bytes()
            for first in range(0, self.many, 5_000):
                grown = resident_bytes() - before  # reported as soon as it is known, with memory left
                assert grown < self.most_memory_bytes, f"the task grew by {grown >> 20} MiB in {first} rows"
                ids = range(first, min(first + 5_000, self.many))
                yield self.with_texts(ids, [text] * len(ids)) or self.batch(ids)

        query.run(0, [[self.batch([self.many])]])  # what a first batch costs is not the point
        grown = peak_growth_bytes(lambda: query.run(1, [share()]))
        query.finish()
        assert grown < self.most_memory_bytes, f"the task grew by {grown >> 20} MiB"
        assert self._seen(target) == Counter(range(self.many + 1))

    @pytest.mark.parametrize("change", ["a column more", "a column less"])
    @proves(Capability.STREAM_WRITE)
    def test_the_schema_changes(self, query: SinkQuery, target: SinkTarget, tmp_path: Path, change: str) -> None:
        """Purpose: a query is changed, and started again from its checkpoint.

        Steps: a batch; the driver ends in the middle of the second one's commit; the query continues with a column
        more, or less; if that is refused, it continues as it was.
        Pass: every row can be read once (at least once, for a sink that promises no more).
        If it fails: refuse in validate_schema, with BadConfigurationError; what was decided is carried out still.
        """
        wider = self.schema.append(pa.field("added", pa.string()))
        narrow_batches = self._batches()
        wide_batches: list[Shares] = [[[_widened(b, wider) for b in s] for s in shares] for shares in narrow_batches]
        before, after = (self.schema, narrow_batches), (wider, wide_batches)
        if change == "a column less":
            before, after = after, before
        try:
            old = self._query(target, tmp_path / "changing", before[0])
            old.run(0, before[1][0])
        except (BadConfigurationError, BadDataError):
            return  # it takes no column more
        if old.commits:
            results = old.tasks(1, before[1][1])
            with query_crashing(old, _DECIDED):
                old.commit(1, results)
        try:
            new = self._query(target, tmp_path / "changing", after[0], old)
            new.run_all(after[1])
        except (BadConfigurationError, BadDataError):
            old.restart()
            old.run_all(before[1])
        seen = self._seen(target)
        assert not self._ids() - seen
        if Capability.EXACTLY_ONCE in self.connector.capabilities:
            assert seen == self._ids()

    @pytest.mark.parametrize("moment", ["writing", "committing"])
    @proves(Capability.STREAM_WRITE)
    def test_the_system_is_away_for_a_while(self, query: SinkQuery, target: SinkTarget, moment: str) -> None:
        """Purpose: servers restart, networks break.

        Steps: the system can't be reached while tasks write, or while the batch is committed; it comes back; the query
        is restarted.
        Pass: RetriableError or OSError meanwhile, and every row can be read once (at least once) in the end.
        If it fails: an error that may pass must not be fatal, nor be swallowed; give every call a time limit.
        """
        if target.unreachable is None:
            pytest.skip("the target can not be made unreachable")
        if moment == "committing" and not query.commits:
            pytest.skip("the sink commits nothing")
        batches = self._batches()
        query.run(0, batches[0])
        act = functools.partial(query.run, 1, batches[1])
        if moment == "committing":
            act = functools.partial(query.commit, 1, query.tasks(1, batches[1]))
        with target.unreachable(), pytest.raises((OSError, RetriableError)):
            act()
        query.restart()
        query.run_all(batches)
        seen = self._seen(target)
        assert not self._ids() - seen
        if Capability.EXACTLY_ONCE in self.connector.capabilities:
            assert seen == self._ids()

    @proves(Capability.EXACTLY_ONCE)
    def test_nothing_is_visible_before_the_commit(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: readers never see a batch that may still be thrown away.

        Steps: the tasks of a batch end; the target is read; the batch is committed; the target is read again.
        Pass: nothing, then everything.
        If it fails: write() must hide rows until Committer.publish: a transaction, a file under another name.
        """
        self._needs_hidden_rows(query)
        results = query.tasks(0, self._batches([(3, 2)])[0])
        assert not self._seen(target)
        query.commit(0, results)
        query.finish()
        assert self._seen(target) == self._ids([(3, 2)])

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
        with query_crashing(query, _CARRIED_OUT):
            query.commit(0, results)
            query.finish()  # what the batch has only added to what is carried
        for _ in range(2):
            query.restart()
            query.finish()
        query.run_all(batches)
        assert self._seen(target) == self._ids([(3, 2)])

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
        assert self._seen(target) == self._ids([(3, 2)])

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
            assert not self._seen(target)
        query.run_all(batches)
        assert self._seen(target) == self._ids()

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
        with query_crashing(query, _DECIDED):
            query.commit(0, results)
        query.restart()
        query.abort(0, results)
        query.run_all(batches)
        assert self._seen(target) == self._ids()

    @proves(Capability.STREAM_WRITE)
    def test_a_crash_at_every_step(self, new_target: Callable[[], SinkTarget], tmp_path: Path) -> None:
        """Purpose: the promise: kill the process at any point, and no row is lost or duplicated.

        Steps: three batches are run once to count the steps (before and after each write, prepare, decision, commit,
        note, clean-up). Then for each step again: the driver with its tasks ends there; another one carries on.
        Pass: after every one of them each row can be read once; at least once, for a sink that promises only this.
        If it fails: the message names the step. Lost: something was thrown away that was decided, or not found again.
        Duplicated: a commit was repeated that had been done, or rows were visible before they were committed.
        """
        batches = self._batches()

        def fresh(at: int | str) -> tuple[SinkTarget, SinkQuery]:
            target = new_target()
            return target, self._query(target, tmp_path / f"checkpoint-{at}")

        target, query = fresh("dry")
        query.run_all(batches)
        assert self._seen(target) == self._ids()
        steps = query.fuse.steps
        for at in self._crash_points(steps):
            step = steps[at]
            target, query = fresh(at)
            with query.crashing_at(at):
                query.run_all(batches)
            query.restart()
            query.run_all(batches)
            seen = self._seen(target)
            lost, doubled = self._ids() - seen, seen - self._ids()
            assert not lost, f"lost after a crash {step} ({at}): {sorted(lost)}"
            if Capability.EXACTLY_ONCE in self.connector.capabilities:
                assert not doubled, f"duplicated after a crash {step} ({at}): {sorted(doubled)}"

    def _crash_points(self, steps: Sequence[str]) -> Iterable[int]:
        """At which of these steps :meth:`test_a_crash_at_every_step` ends the driver, by index."""
        return range(len(steps))

    @proves(Capability.EXACTLY_ONCE)
    def test_schedules_by_chance(self, new_target: Callable[[], SinkTarget]) -> None:
        """Purpose: what no example shows: processes that are killed, sleep, are late and run twice, in any order.

        Steps: the simulator of the commit protocol (:mod:`penstock.testing.simulation`) runs ``schedules`` of them,
        each with a target of its own. Each call of the contract is a step: anything may happen before and after it.
        Pass: no row is visible twice, or before its batch is decided; in the end every row can be read once, and
        nothing is hidden any more.
        If it fails: the message tells who did what, in order. A call of the committer may be repeated, come late, and
        come from two processes: publish and seal must find its outcome by the thing itself.
        """
        for _ in range(self.schedules):
            target, seed = new_target(), random.randrange(1 << 40)
            sink = self._create_for(self._parse(target.options), self.schema)
            assert isinstance(sink, TwoPhaseCommitSink)
            tested = SinkUnderTest(
                sink,
                self.schema,
                self.batch,
                read=functools.partial(self._numbers, target),
                hidden=target.hidden,
                hides=not isinstance(sink, (IdempotentSink, WriteAheadSink)),
            )
            made: list[RealTarget] = []

            def make(scheduler: Scheduler, tested: SinkUnderTest = tested, made: list[RealTarget] = made) -> RealTarget:
                made.append(RealTarget(scheduler, tested))
                return made[-1]

            failure = run_schedule(seed, make)
            made[0].close()
            assert failure is None, str(failure)

    def _numbers(self, target: SinkTarget) -> list[int]:
        return list(self._seen(target).elements())

    @proves(Capability.EXACTLY_ONCE)
    def test_a_zombie_never_becomes_visible(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: an attempt that was given up (speculation, a lost executor) may write at any later time.

        Steps: two attempts of one task; the batch is committed with the second's result; the first one, which had
        written some rows, writes more and ends.
        Pass: the rows of the second attempt can be read once, those of the first never, and the zombie ends with an
        error or without effect.
        If it fails: name everything that an attempt makes by context.attempt_id, and share nothing between attempts.
        """
        self._needs_hidden_rows(query)
        plan = query.plan()
        assert plan is not None
        zombie = query.writer(plan, 0, 0)
        zombie.write(self.batch([100, 101]))
        query.commit(0, [query.attempt(plan, 0, 0, [self.batch([0, 1, 2])])])
        try:
            zombie.write(self.batch([102]))
            zombie.prepare_commit()
        except PenstockError:
            zombie.abort()
        zombie.close()
        query.restart()
        query.finish()
        assert self._seen(target) == Counter([0, 1, 2])

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
        assert self._seen(target) == self._ids([(3, 2)])

    @proves(Capability.EXACTLY_ONCE)
    def test_another_query_is_left_alone(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: two queries write to one target; one cleans up while the other is about to commit.

        Steps: query A ends its tasks; query B runs a batch, aborts another and cleans up; A commits.
        Pass: every row of both can be read once.
        If it fails: name everything by context.query_id, and look only for what has it.
        """
        self._needs_hidden_rows(query)
        other = SinkQuery(query.sink, self.schema, tmp_path / "other-checkpoint")
        results = query.tasks(0, [[self.batch([0, 1])], [self.batch([2])]])
        other.run(0, [[self.batch([10, 11])]])
        other.abort(1, other.tasks(1, [[self.batch([12])]]))
        other.restart()
        other.finish()
        query.commit(0, results)
        query.finish()
        assert self._seen(target) == Counter([0, 1, 2, 10, 11])

    @proves(Capability.EXACTLY_ONCE)
    def test_nothing_lingers(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: crashed runs leave nothing that has to be cleaned up by hand.

        Steps: attempts end without their results reaching the driver, three times; the query is restarted, runs to its
        end and cleans up.
        Pass: nothing is hidden in the target any more, and every row can be read once.
        If it fails: Committer.clear must find what no link names.
        """
        if target.hidden is None:
            pytest.skip("the target does not tell what is hidden")
        batches = self._batches()
        for _ in range(3):
            query.tasks(0, batches[0])
            query.restart()
        query.run_all(batches)
        query.restart()
        query.finish()
        assert list(target.hidden()) == []
        assert self._seen(target) == self._ids()

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
            assert not self._seen(target)
        query.restart()
        query.run_all(batches)
        assert self._seen(target) == self._ids()

    @proves(Capability.EXACTLY_ONCE)
    def test_what_is_lost_before_the_commit_is_written_again(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: what tasks prepared can be gone before it is committed: a transaction timed out, a file vanished.

        Steps: the tasks of a batch end; everything prepared is lost; the batch is committed; the driver is restarted
        and runs it again.
        Pass: the commit raises, and at the end every row can be read once.
        If it fails: Committer.look must say LOST, not COMMITTED, of what it can't find and did not publish itself.
        """
        self._needs_hidden_rows(query)
        if target.lose is None:
            pytest.skip("the target can not lose what was prepared")
        shape = [(2, 2)]
        batches = self._batches(shape)
        results = query.tasks(0, batches[0])
        if not any(output.committables for result in results for output in result.outputs):
            pytest.skip("the sink carries rows from batch to batch: a first batch has nothing to commit")
        target.lose()
        with pytest.raises(RetriableError, match="written again"):
            query.commit(0, results)
        query.restart()
        query.run_all(batches)
        assert self._seen(target) == self._ids(shape)

    @proves(Capability.EXACTLY_ONCE)
    def test_restored_twice_from_the_same_state(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a restart that fails is followed by another one, from the same stored state.

        Steps: the driver ends between decision and commit; so does the next one; the third carries on.
        Pass: every row can be read once.
        If it fails: restoring must change nothing that a second restore needs.
        """
        batches = self._batches()
        results = query.tasks(0, batches[0])
        with query_crashing(query, _DECIDED):
            query.commit(0, results)
        query.restart()
        with query_crashing(query, "before "):
            query.finish()
        query.restart()
        query.run_all(batches)
        assert self._seen(target) == self._ids()


def _widened(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    added = pa.array([f"added {i}" for i in range(batch.num_rows)], pa.string())
    return pa.RecordBatch.from_arrays([*batch.columns, added], schema=schema)


class query_crashing:
    """Ends the driver of ``query`` at the first step that begins like that; fails if it never comes to one."""

    def __init__(self, query: SinkQuery, step: str) -> None:
        self._query = query
        self._step = step

    def __enter__(self) -> None:
        real = self._query.fuse.step

        def step(what: str) -> None:
            real(what)
            if what.startswith(self._step):
                raise Crash(what)

        self._query.fuse.step = step  # type: ignore[method-assign]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if kind is None:
            raise AssertionError(f"the driver never came to the step '{self._step}'")
        return issubclass(kind, Crash)
