"""A query without Spark: one process that plans, runs tasks, commits, crashes and is started again.

It treats a connector as :mod:`penstock.spark` does: the sink is pickled to every task, every attempt has an id of its
own, a batch that the engine has not noted as done is run again with the same rows, and everything that is not stored is
gone after a crash. So the cases of the kit run on the pure contracts, in seconds.
"""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from penstock._commit import (
    BatchPlan,
    PlannedBatch,
    RunMemory,
    TaskResult,
    TwoPhaseCommit,
    open_writer,
    run_task,
    write_all,
)
from penstock.checkpoint import BatchInFunction, SparkLog, chain_of, home_of
from penstock.errors import BadDataError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.sink import (
    CheckpointLocation,
    Committer,
    CommittingSinkWriter,
    Sink,
    SinkContext,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.storage import LocalStorage, Storage
from penstock.testing._calls import calling
from penstock.testing._faults import Crash, FaultyStorage, Fuse, faulty_sink

__all__ = ["Shares", "SinkQuery", "Task", "attempt"]

#: A batch as the engine sees it: for each writer (by index) its Arrow batches.
Shares = Sequence[Iterable[pa.RecordBatch]]


@dataclass(frozen=True)
class Task:
    """A task of a query's batch."""

    query_id: str
    schema: pa.Schema
    batch_id: int
    writer: int
    retry: RetryPolicy = NO_RETRIES

    def context(self) -> WriterContext:
        """Returns the context of a new attempt."""
        return WriterContext(
            self.query_id,
            self.schema,
            Metrics(),
            batch_id=self.batch_id,
            writer_index=self.writer,
            attempt_id=uuid.uuid4().hex,
            retry=self.retry,
        )


def attempt(sink: Any, plan: BatchPlan | None, task: Task, batches: Iterable[pa.RecordBatch]) -> TaskResult:
    """Runs one attempt of a task. ``plan`` is ``None`` for a sink that decides nothing."""
    context = task.context()
    if plan is not None:
        return run_task(sink, plan, context, batches)
    opened = open_writer(sink, context)
    try:
        write_all(opened, batches)
    finally:
        opened.close()
    planned = PlannedBatch(task.query_id, "", "", 0, 0, 0, task.batch_id, "", is_decided=False)
    return TaskResult(task.writer, context.attempt_id, planned, metrics=context.metrics.take())


@contextlib.contextmanager
def _too_late_to_refuse() -> Iterator[None]:
    try:
        yield
    except BadDataError as error:
        raise AssertionError(
            f"rows are refused after their batch was decided, so that the query can never continue: {error}. Refuse "
            "them before, in validate_schema, write, prepare_commit or drop_invalid"
        ) from error


@dataclass
class SinkQuery:
    """One streaming query into ``sink``. What a crash leaves is the folder ``checkpoint`` and the target system.

    ``done`` is the engine's own note of the batches that it will not run again, ``retry`` the option ``retryTimeout``.
    ``store`` has the folder: the local disk, unless the checkpoint is elsewhere. ``sink_name``: it is one of the sinks
    that a batch function writes to.
    """

    sink: Sink
    schema: pa.Schema
    checkpoint: Path
    query_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    done: set[int] = field(default_factory=set)
    retry: RetryPolicy = NO_RETRIES
    store: Storage = field(default_factory=LocalStorage)
    sink_name: str = ""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, fuse: Fuse | None = None) -> None:
        """A new driver process on the same checkpoint; ``fuse`` ends it at one of its steps."""
        self.metrics = Metrics()
        self.rows_written = 0
        self.fuse = fuse or Fuse()
        self.storage = FaultyStorage(self.store, self.fuse)
        location = CheckpointLocation(self.storage.retrying(self.retry), self._home)
        self._context = SinkContext(self.query_id, self.schema, self.metrics, location, retry=self.retry)
        sink = pickle.loads(pickle.dumps(self.sink))
        self.retry.call(lambda: sink.validate_schema(self.schema))
        with calling("start"):
            self._pickled = pickle.dumps(self.retry.call(lambda: sink.start(self._context)))
        self._memory = RunMemory()
        self._engine_run = uuid.uuid4().hex

    @property
    def _home(self) -> str:
        return home_of(str(self.checkpoint), self.sink_name)

    @property
    def commits(self) -> bool:
        """Whether the sink decides batches; otherwise it delivers at least once."""
        return isinstance(self.sink, TwoPhaseCommitSink)

    def _sink(self) -> Any:
        """Returns the sink as a process gets it: unpickled, with the fuse of this driver around it."""
        return faulty_sink(pickle.loads(self._pickled), self.fuse)

    def protocol(self) -> TwoPhaseCommit:
        """Returns the driver's side, new for every batch as in Spark."""
        chain = chain_of(self.storage, self._home)
        return TwoPhaseCommit(self._sink(), self._context, chain, self._memory, in_batch=bool(self.sink_name))

    def plan(self, batch_id: int = 0) -> BatchPlan | None:
        """Before the tasks of a batch. ``None`` for a sink that decides nothing.

        The engine notes first what the batch reads; the same when it runs it again.
        """
        if not self.commits:
            return None
        self.store.put(f"{self.checkpoint}/offsets/{batch_id}", f"v1\n{{}}\n{batch_id}".encode(), durable=False)
        log = SparkLog(self.store.retrying(self.retry), str(self.checkpoint))
        if self.sink_name:
            return self.protocol().plan(BatchInFunction(log, batch_id, self._engine_run))
        return self.protocol().plan(log)

    def attempt(
        self, plan: BatchPlan | None, batch_id: int, writer: int, batches: Iterable[pa.RecordBatch]
    ) -> TaskResult:
        """Runs one attempt of one task, as in a process of its own: everything is created again."""
        result = attempt(self._sink(), pickle.loads(pickle.dumps(plan)), self.task(batch_id, writer), batches)
        self.rows_written += result.metrics.get("rows_written", 0)
        return result

    def task(self, batch_id: int, writer: int) -> Task:
        """Returns a task of a batch, for :func:`attempt`."""
        return Task(self.query_id, self.schema, batch_id, writer, self.retry)

    @property
    def sent(self) -> bytes:
        """The sink as the tasks of this driver get it."""
        return self._pickled

    def writer(self, plan: BatchPlan | None, batch_id: int, writer: int) -> CommittingSinkWriter[Any, Any]:
        """Returns the writer of one attempt, to do with it what no engine would."""
        context = self.task(batch_id, writer).context()
        opened: CommittingSinkWriter[Any, Any] = self._sink().create_writer(plan.complete(context) if plan else context)
        return opened

    def prepare(self, context: WriterContext, batches: Iterable[pa.RecordBatch]) -> list[Any]:
        """Runs one attempt outside of the protocol. Returns its committables, as the driver gets them."""
        with contextlib.closing(self._sink().create_writer(context)) as opened:
            write_all(opened, batches)
            return self.stored(opened.prepare_commit().committables)

    def stored(self, committables: Iterable[Any]) -> list[Any]:
        """Returns committables as the driver gets them."""
        serializer = self.sink.committable_serializer  # type: ignore[attr-defined]
        return [serializer.unpack(serializer.pack(one)) for one in committables]

    def committer(self) -> contextlib.closing[Committer[Any, Any]]:
        """Returns a committer as a driver has, to do with it what the protocol does, at other times."""
        return contextlib.closing(self._sink().create_committer(self._context))

    def tasks(self, batch_id: int, shares: Shares) -> list[TaskResult]:
        """Plans the batch and runs one attempt of each task."""
        plan = self.plan(batch_id)
        # Spark runs one task for a frame without partitions.
        return [self.attempt(plan, batch_id, writer, iter(share)) for writer, share in enumerate(shares or [[]])]

    def commit(self, batch_id: int, results: Sequence[TaskResult]) -> None:
        """After the tasks; then the engine notes the batch as done."""
        if self.commits:
            with _too_late_to_refuse(), calling("the commit of a batch"):
                self.protocol().commit(batch_id, results)
        self.done.add(batch_id)

    def abort(self, batch_id: int, results: Sequence[TaskResult | None]) -> None:
        """Does what Spark calls when a task or a commit failed."""
        if self.commits:
            with calling("the end of a batch that is given up"):
                self.protocol().abort(batch_id, results)

    def run(self, batch_id: int, shares: Shares) -> None:
        """One batch, from its plan to the engine's note."""
        self.commit(batch_id, self.tasks(batch_id, shares))

    def run_all(self, batches: Sequence[Shares]) -> None:
        """Every batch that is not done yet, then publishes what is still carried."""
        for batch_id, shares in enumerate(batches):
            if batch_id not in self.done:
                self.run(batch_id, shares)
        self.finish()

    def finish(self) -> None:
        """Publishes what was decided and what is carried from batch to batch, and leaves nothing behind."""
        if self.commits:
            with _too_late_to_refuse(), calling("the clean-up"):
                self.protocol().take_over()

    @contextlib.contextmanager
    def crashing_at(self, step: int) -> Iterator[Fuse]:
        """Restarts the driver with a fuse that ends it at ``step``; swallows that crash, and nothing else."""
        fuse = Fuse(step)
        try:
            self.restart(fuse)
            yield fuse
        except Crash:
            pass
