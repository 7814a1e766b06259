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
cases run on the contracts alone (:mod:`penstock.testing.sink_engine`).

After the suites of Flink's connector test framework and the tests of its two-phase commit and write-ahead templates;
crashes at every step, zombies and two drivers are Penstock's own.
"""

from __future__ import annotations

import errno
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError, BadDataError, PenstockError, RetriableError
from penstock.plugins import EXACTLY_ONCE, RESCALING, STREAM_WRITE
from penstock.sink import IdempotentSink, Sink
from penstock.testing.capabilities import ConnectorSuite, proves
from penstock.testing.faults import Crash
from penstock.testing.rows import ODD_TEXTS, SPARK_TYPES
from penstock.testing.sink_engine import Shares, SinkQuery
from penstock.testing.target import SinkTarget

__all__ = ["SinkSuite"]

#: How many batches, and rows of each task of each batch, the cases write that are about more than one.
_SHAPE: tuple[tuple[int, ...], ...] = ((3, 2), (2, 0, 4), (1,))

#: The decision is durable and nothing of it was done; everything was done and not noted.
_DECIDED, _CARRIED_OUT = "after put_if_absent", "before put "


class SinkSuite(ConnectorSuite):
    """See the module. What may be overridden: ``schema``, :meth:`batch` and :meth:`id_of` for a sink that takes other
    rows; ``task_count`` for one that can't write in parallel.
    """

    schema: ClassVar[pa.Schema] = pa.schema([("id", pa.int64()), ("text", pa.string())])

    @pytest.fixture
    def new_target(self) -> Callable[[], SinkTarget]:
        """To be overridden: a function that makes an empty target each time it is called."""
        raise NotImplementedError("write a fixture 'new_target' that returns a function which makes a SinkTarget")

    @pytest.fixture
    def target(self, new_target: Callable[[], SinkTarget]) -> SinkTarget:
        """The target of a case that needs one."""
        return new_target()

    # --- rows ---------------------------------------------------------------------------------------------------------

    def batch(self, ids: Sequence[int]) -> pa.RecordBatch:
        """Rows of ``schema`` that :meth:`id_of` can tell apart once they are read back."""
        return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], schema=self.schema)

    def id_of(self, row: Mapping[str, Any]) -> int:
        """Which row it is, of those that :meth:`batch` made."""
        return int(row["id"])

    def _batches(self, shape: Sequence[Sequence[int]] = _SHAPE) -> list[Shares]:
        """For every batch and task that many rows, each with a number of its own, in Arrow batches of two."""
        batches: list[Shares] = []
        first = 0
        for counts in shape:
            shares = []
            for count in counts:
                ids = list(range(first, first + count))
                first += count
                shares.append([self.batch(ids[at : at + 2]) for at in range(0, count, 2)])
            batches.append(shares)
        return batches

    @staticmethod
    def _ids(shape: Sequence[Sequence[int]] = _SHAPE) -> Counter[int]:
        return Counter(range(sum(sum(counts) for counts in shape)))

    def _seen(self, target: SinkTarget) -> Counter[int]:
        return Counter(self.id_of(row) for row in target.read())

    # --- the sink -----------------------------------------------------------------------------------------------------

    def _sink(self, target: SinkTarget, schema: pa.Schema | None = None) -> Sink[Any, Any]:
        connector = self.connector()
        assert connector.sink_options is not None, f"{self.connector.__name__} declares no sink_options"
        options = connector.sink_options.parse(dict(target.options), owner="sink under test")
        return connector.create_sink(options, schema if schema is not None else self.schema)

    @pytest.fixture
    def query(self, target: SinkTarget, tmp_path: Path) -> SinkQuery:
        """A query that writes to ``target``, with its checkpoint beside it."""
        query = SinkQuery(self._sink(target), self.schema, tmp_path / "penstock-checkpoint")
        if EXACTLY_ONCE in self.connector.capabilities:
            assert query.commits, "the connector declares exactly-once, but its sink is not a TwoPhaseCommitSink"
        return query

    @staticmethod
    def _needs_hidden_rows(query: SinkQuery) -> None:
        """Cases about what is hidden until the commit are not for sinks that write in place, under a key."""
        if isinstance(query.sink, IdempotentSink):
            pytest.skip("an idempotent sink writes in place")

    # --- basics -------------------------------------------------------------------------------------------------------

    @proves(STREAM_WRITE)
    def test_rows_arrive(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: the sink writes.

        Steps: three batches of one to three tasks, one of them without rows.
        Pass: every row can be read once.
        If it fails: look at write() and commit(); rows of a task's later Arrow batches are the ones often forgotten.
        """
        query.run_all(self._batches())
        assert self._seen(target) == self._ids()

    @proves(STREAM_WRITE)
    def test_batches_without_rows(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: triggers without data, tasks without rows and Arrow batches without rows are everyday events.

        Steps: a batch without tasks, tasks without Arrow batches, an Arrow batch of no rows, then one row.
        Pass: no error, and the one row can be read once.
        If it fails: make connections and files with the first row only; a task without rows has nothing to commit.
        """
        empty = self.batch([])
        query.run_all([[], [[], []], [[empty], [empty, empty]], [[empty, self.batch([0]), empty]], []])
        assert self._seen(target) == Counter([0])

    @proves(STREAM_WRITE)
    def test_metrics_count_rows(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: the query's progress shows what was written.

        Steps: one batch of two tasks; the metrics of their results are added up.
        Pass: 'rows_written' is the number of rows.
        If it fails: add it to context.metrics in prepare_commit, when the rows are known to be there.
        """
        results = query.tasks(0, self._batches([(3, 2)])[0])
        assert sum(result.metrics.get("rows_written", 0) for result in results) == 5

    @proves(RESCALING)
    def test_scale_up_and_down(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a query goes on with another number of tasks, also after a restart.

        Steps: batches of one, four, two and one tasks, with a restart of the driver before each.
        Pass: every row can be read once.
        If it fails: state must not be tied to a writer's index: see TwoPhaseCommitSink.owner_key.
        """
        shape = [(2,), (3, 1, 2, 2), (1, 5), (4,)]
        for batch_id, shares in enumerate(self._batches(shape)):
            query.restart()
            query.run(batch_id, shares)
        query.finish()
        assert self._seen(target) == self._ids(shape)

    @proves(STREAM_WRITE)
    def test_the_sink_can_be_pickled(self, query: SinkQuery) -> None:
        """Purpose: the sink is made on the driver and sent to every task.

        Steps: it is pickled and unpickled.
        Pass: that works, and takes less than 1 MB.
        If it fails: keep configuration only; open connections and files in create_writer and create_committer.
        """
        pickled = pickle.dumps(query.sink)
        assert len(pickled) < 1_000_000
        assert type(pickle.loads(pickled)) is type(query.sink)

    # --- data ---------------------------------------------------------------------------------------------------------

    def text_of(self, row: Mapping[str, Any]) -> str | None:
        """The text of a row that was read; ``None`` if rows have none."""
        text = row.get("text")
        return None if text is None else str(text)

    def with_texts(self, ids: Sequence[int], texts: Sequence[str]) -> pa.RecordBatch | None:
        """Rows with these texts, for the cases about text; ``None`` if rows have none."""
        batch = self.batch(ids)
        at = batch.schema.get_field_index("text")
        return None if at < 0 else batch.set_column(at, batch.schema.field(at), pa.array(texts, pa.string()))

    @proves(STREAM_WRITE)
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
            sink = self._sink(target, schema)
            query = SinkQuery(sink, schema, tmp_path / "penstock-checkpoint")
            query.run_all([[[batch]]])
        except (BadConfigurationError, BadDataError):
            return
        assert self._seen(target) == Counter(range(len(column)))

    @proves(STREAM_WRITE)
    def test_text_arrives_as_it_is(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: no text is taken for something else: quotes, line ends, other scripts, 70,000 characters.

        Steps: one row for each of such texts.
        Pass: each can be read as it was written.
        If it fails: escape, or better pass values apart from the statement.
        """
        batch = self.with_texts(range(len(ODD_TEXTS)), ODD_TEXTS)
        if batch is None:
            pytest.skip("rows have no text")
        query.run_all([[[batch]]])
        read = {self.id_of(row): self.text_of(row) for row in target.read()}
        assert read == dict(enumerate(ODD_TEXTS))

    @proves(STREAM_WRITE)
    def test_a_huge_row_is_written_or_refused(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: one row of 16 MiB among small ones.

        Steps: a batch with it; if that is refused, a batch without it.
        Pass: all rows can be read once; or it is refused with an error, and the other batch can be read once.
        If it fails: a row that is too large is BadDataError (or FatalError), and nothing of its batch may be visible.
        """
        batch = self.with_texts([0, 1, 2], ["a", "x" * (16 << 20), "c"])
        if batch is None:
            pytest.skip("rows have no text")
        try:
            query.run_all([[[batch]]])
        except PenstockError:
            query.restart()
            query.run_all([[[self.batch([0, 2])]]])
            assert self._seen(target) == Counter([0, 2])
        else:
            assert self._seen(target) == Counter([0, 1, 2])

    # --- options ------------------------------------------------------------------------------------------------------

    @proves(STREAM_WRITE)
    def test_an_unknown_option_is_refused(self, target: SinkTarget) -> None:
        """Purpose: a typing error must not silently do something else.

        Steps: an option that does not exist, spelled nearly as one that does.
        Pass: BadConfigurationError that names it.
        If it fails: declare every option in sink_options; an open_prefix must not swallow all names.
        """
        connector = self.connector()
        assert connector.sink_options is not None
        with pytest.raises(BadConfigurationError, match="noSuchOptionAtAll"):
            connector.sink_options.parse({**target.options, "noSuchOptionAtAll": "1"}, owner="sink under test")

    @proves(STREAM_WRITE)
    def test_secrets_are_never_shown(self, target: SinkTarget) -> None:
        """Purpose: passwords must not end up in logs, offsets or error texts.

        Steps: every option that is declared secret is given a value that is searched for in what is printed of the
        options and of the sink.
        Pass: it is nowhere.
        If it fails: leave secret fields out of the repr (dataclasses.field(repr=False)).
        """
        connector = self.connector()
        assert connector.sink_options is not None
        for option in connector.sink_options:
            if not option.secret:
                continue
            texts = {**target.options, option.name: "s3cr3t-of-the-kit"}
            try:
                options = connector.sink_options.parse(texts, owner="sink under test")
                shown = f"{options!r} {options} {connector.create_sink(options, self.schema)!r}"
            except PenstockError as error:
                shown = f"{error} {error!r}"
            assert "s3cr3t-of-the-kit" not in shown, f"the value of '{option.name}' is shown"

    # --- exactly once -------------------------------------------------------------------------------------------------

    @proves(EXACTLY_ONCE)
    def test_nothing_is_visible_before_the_commit(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: readers never see a batch that may still be thrown away.

        Steps: the tasks of a batch end; the target is read; the batch is committed; the target is read again.
        Pass: nothing, then everything.
        If it fails: write() must hide rows until Committer.commit: a transaction, a file under another name.
        """
        self._needs_hidden_rows(query)
        results = query.tasks(0, self._batches([(3, 2)])[0])
        assert not self._seen(target)
        query.commit(0, results)
        query.finish()
        assert self._seen(target) == self._ids([(3, 2)])

    @proves(EXACTLY_ONCE)
    def test_commit_twice(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a commit that was carried out is repeated after a crash just behind it.

        Steps: the driver ends after it has committed and before it notes so; a new one finishes the decision; then once
        more.
        Pass: every row can be read once.
        If it fails: Committer.commit must recognise what an earlier call has done, and say ALREADY_COMMITTED.
        """
        batches = self._batches([(3, 2)])
        results = query.tasks(0, batches[0])
        with query_crashing(query, _CARRIED_OUT):
            query.commit(0, results)
        for _ in range(2):
            query.restart()
            query.protocol().recover()
        query.run_all(batches)
        assert self._seen(target) == self._ids([(3, 2)])

    @proves(EXACTLY_ONCE)
    def test_a_replay_of_a_decided_batch_writes_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: the engine was killed after our commit and before its own note, and runs the batch again.

        Steps: a batch is committed; it is run again by a new driver.
        Pass: every row can be read once.
        If it fails: batches are told by their id; the protocol skips decided ones, so rows must not leave the sink by
        another way than its writer.
        """
        batches = self._batches([(3, 2)])
        query.run(0, batches[0])
        query.done.clear()
        query.restart()
        query.run_all(batches)
        assert self._seen(target) == self._ids([(3, 2)])

    @proves(EXACTLY_ONCE)
    def test_an_aborted_batch_leaves_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: a task failed, and the engine gives the batch up.

        Steps: the tasks of a batch end; it is aborted; it is run again.
        Pass: nothing is visible after the abort, and every row once at the end.
        If it fails: Committer.abort gets what the other tasks have prepared, and must throw it away.
        """
        batches = self._batches()
        query.abort(0, query.tasks(0, batches[0]))
        if not isinstance(query.sink, IdempotentSink):
            assert not self._seen(target)
        query.run_all(batches)
        assert self._seen(target) == self._ids()

    @proves(EXACTLY_ONCE)
    def test_abort_after_the_decision_touches_nothing(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: Spark calls abort after a commit that raised, even if the batch was decided.

        Steps: the driver ends after the decision, before the commit; abort is called with the batch's results; a new
        driver goes on.
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

    @proves(STREAM_WRITE)
    def test_a_crash_at_every_step(self, new_target: Callable[[], SinkTarget], tmp_path: Path) -> None:
        """Purpose: the promise: kill the process at any point, and no row is lost or doubled.

        Steps: three batches are run once to count the steps (before and after each write, prepare, decision, commit,
        note, clean-up). Then for each step anew: the driver with its tasks ends there; another one carries on.
        Pass: after every one of them each row can be read once; at least once, for a sink that promises no more.
        If it fails: the message names the step. Lost: something was thrown away that was decided, or not found again.
        Doubled: a commit was repeated that had been done, or rows were visible before they were committed.
        """
        batches = self._batches()

        def fresh(at: int | str) -> tuple[SinkTarget, SinkQuery]:
            target = new_target()
            return target, SinkQuery(self._sink(target), self.schema, tmp_path / f"checkpoint-{at}")

        target, query = fresh("dry")
        query.run_all(batches)
        assert self._seen(target) == self._ids()
        for at, step in enumerate(query.fuse.steps):
            target, query = fresh(at)
            with query.crashing_at(at):
                query.run_all(batches)
            query.restart()
            query.run_all(batches)
            seen = self._seen(target)
            lost, doubled = self._ids() - seen, seen - self._ids()
            assert not lost, f"lost after a crash {step} ({at}): {sorted(lost)}"
            if EXACTLY_ONCE in self.connector.capabilities:
                assert not doubled, f"doubled after a crash {step} ({at}): {sorted(doubled)}"

    @proves(EXACTLY_ONCE)
    def test_a_zombie_never_becomes_visible(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: an attempt that was given up (speculation, a lost executor) may go on writing at any time.

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

    @proves(EXACTLY_ONCE)
    def test_two_drivers(self, query: SinkQuery, target: SinkTarget, tmp_path: Path) -> None:
        """Purpose: two drivers on one checkpoint (one was thought dead) can't both decide.

        Steps: both run the tasks of the same batch; both commit; the first one is restarted and goes on.
        Pass: at most one of the commits succeeds, and at the end each row can be read once.
        If it fails: publish nothing outside of Committer.commit.
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

    @proves(EXACTLY_ONCE)
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

    @proves(EXACTLY_ONCE)
    def test_nothing_lingers(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: crashed runs leave nothing that has to be cleaned up by hand.

        Steps: attempts end without their results reaching the driver, three times; the query is restarted, runs to its
        end and cleans up.
        Pass: nothing is hidden in the target any more, and every row can be read once.
        If it fails: Committer.clean_up (files) or abort_lingering (open transactions) must find what nobody names.
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
    @proves(EXACTLY_ONCE)
    def test_a_decision_log_that_can_not_be_written(self, query: SinkQuery, target: SinkTarget, error: OSError) -> None:
        """Purpose: the disk of the checkpoint is full, or became read-only.

        Steps: the tasks of a batch end; deciding fails; the disk is mended; the batch is run again.
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

    @proves(EXACTLY_ONCE)
    def test_what_is_lost_before_the_commit_is_written_again(self, query: SinkQuery, target: SinkTarget) -> None:
        """Purpose: what tasks prepared can be gone before it is committed: a transaction timed out, a file vanished.

        Steps: the tasks of a batch end; everything prepared is lost; the batch is committed; the driver is restarted
        and runs it again.
        Pass: the commit raises, and at the end every row can be read once.
        If it fails: Committer.commit must say LOST, not COMMITTED, of what it can't find and did not commit itself.
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

    @proves(EXACTLY_ONCE)
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
            query.protocol().recover()
        query.restart()
        query.run_all(batches)
        assert self._seen(target) == self._ids()


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
