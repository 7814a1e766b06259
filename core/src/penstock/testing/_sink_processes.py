"""A query of :mod:`penstock.testing._sink_engine` in processes of its own: what one of them does."""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from penstock._commit import BatchPlan, TaskResult
from penstock.sink import Sink
from penstock.testing._lines import Moment, Watch
from penstock.testing._machines import GlobalState
from penstock.testing._memory import growth_of_batches
from penstock.testing._open_things import growth_of
from penstock.testing._sink_engine import SinkQuery, Task, attempt

__all__ = ["Lines", "QueryJob", "growth_of_job", "lines_of_commits", "run_attempt", "run_many", "run_query"]

#: How often each line of an author's was reached.
Lines = Counter[tuple[str, int]]


@dataclass(frozen=True)
class QueryJob:
    """A query and the rows of its batches. The engine's note of what is done is a file next to ``checkpoint``."""

    sink: Sink
    schema: pa.Schema
    checkpoint: Path
    query_id: str
    batches: Sequence[Sequence[Sequence[pa.RecordBatch]]]
    own_files: tuple[str, ...] = ()

    @property
    def notes(self) -> Path:
        """Holds a line for each batch that is done."""
        return self.checkpoint.with_name(self.checkpoint.name + "-done")

    def open(self) -> SinkQuery:
        """A new driver."""
        notes = self.notes.read_text().split() if self.notes.exists() else []
        return SinkQuery(self.sink, self.schema, self.checkpoint, self.query_id, {int(note) for note in notes})


def run_query(job: QueryJob, kill: Moment | None) -> Lines:
    """Runs what is not done yet, driver and tasks. Returns how often each line of the author's was reached."""
    _without_waiting_for_disks()
    watch = Watch(job.own_files, kill)
    with watch.watching():
        query = job.open()
        for batch_id, shares in enumerate(job.batches):
            if batch_id not in query.done:
                query.run(batch_id, shares)
                with job.notes.open("a") as notes:
                    notes.write(f"{batch_id}\n")
        query.finish()
    return watch.reached


def run_attempt(sent: bytes, plan: BatchPlan | None, task: Task, share: Sequence[pa.RecordBatch]) -> TaskResult:
    """Runs one attempt of a task, with the sink that was ``sent`` to it."""
    _without_waiting_for_disks()
    return attempt(pickle.loads(sent), plan, task, share)


def run_many(job: QueryJob, share: Sequence[pa.RecordBatch], warm_up: int, more: int) -> list[str]:
    """Runs ``warm_up`` batches and then ``more`` of them. Returns what there is more of for each batch,
    and what has changed for the whole process.

    In each batch an attempt is aborted and another one only closed; then a batch is run, and its driver ends.
    """
    _without_waiting_for_disks()
    with tempfile.TemporaryDirectory(prefix="penstock-kit-") as folder:
        tempfile.tempdir = folder  # to count what is left there
        shared = GlobalState()
        query = job.open()
        numbers = itertools.count()
        for batch_id in itertools.islice(numbers, warm_up):
            _run_with_losers(query, batch_id, share)
            shared.look()

        def run_more() -> None:
            for batch_id in itertools.islice(numbers, more):
                _run_with_losers(query, batch_id, share)
            query.finish()

        return [*growth_of(run_more, folder, most=more // 4), *shared.changes()]


def growth_of_job(job: QueryJob, share: Sequence[pa.RecordBatch], settles_s: float) -> str | None:
    """Runs batches of these rows. Returns what each adds to what this process holds; see :func:`growth_of_batches`."""
    _without_waiting_for_disks()
    query, numbers = job.open(), itertools.count()

    def run_batch() -> None:
        query.run(next(numbers), [[batch] for batch in share])
        query.done.clear()  # the engine's own
        query.fuse.steps.clear()

    return growth_of_batches(run_batch, settles_s=settles_s)


def lines_of_commits(job: QueryJob, rows: Sequence[pa.RecordBatch], sizes: Sequence[int]) -> list[Lines]:
    """Commits a batch of so many tasks for each of ``sizes``. Returns the lines of the author in each commit."""
    _without_waiting_for_disks()
    watch, lines = Watch(job.own_files), list[Lines]()
    query = job.open()
    for batch_id, size in enumerate(sizes):
        results = query.tasks(batch_id, [[batch] for batch in rows[:size]])
        before = watch.reached.copy()
        with watch.watching():
            query.commit(batch_id, results)
        lines.append(watch.reached - before)
    query.finish()
    return lines


def _run_with_losers(query: SinkQuery, batch_id: int, share: Sequence[pa.RecordBatch]) -> None:
    query.restart()
    plan = query.plan(batch_id)
    for gives_up in (True, False):
        loser = query.writer(plan, batch_id, 0)
        with contextlib.closing(loser):
            loser.write(share[0])
            if gives_up and query.commits:
                loser.abort()
    query.commit(batch_id, [query.attempt(plan, batch_id, writer, [batch]) for writer, batch in enumerate(share)])


def _without_waiting_for_disks() -> None:
    os.fsync = os.fstat  # type: ignore[assignment]  # this process ends soon
