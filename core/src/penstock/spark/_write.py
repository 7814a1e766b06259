"""Writing: a sink as Spark's stream writer and batch writer."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock._commit import (
    AnySink,
    Batch,
    BatchPlan,
    Chain,
    PlannedBatch,
    TaskResult,
    TwoPhaseCommit,
    metrics_of,
    offsets_of,
    open_writer,
    run_task,
    start_sink,
    undone,
    write_all,
)
from penstock.checkpoint import (
    Prepared,
    chain_of_write,
    forget_write,
    is_remembered,
    remember_sink,
    remember_write,
)
from penstock.errors import BadConfigurationError, RetriableError
from penstock.metrics import Metrics
from penstock.options import OptionValues
from penstock.printable import get_logger
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.sink import CheckpointLocation, Member, Sink, SinkContext, WriterContext, owned
from penstock.spark._foreach_batch import RunningBatch
from penstock.spark._gc_tuning import freeze_modules
from penstock.spark._known_query import known_query
from penstock.spark._metrics import add_counts
from penstock.spark._offsets import is_last_batch
from penstock.spark._query_driver import QueryDriver
from penstock.storage import MemoryStorage, open_storage

__all__ = ["AtLeastOnceWriter", "BatchWriter", "InBatchWriter", "MemberWriter", "StreamWriter"]

_log = get_logger("penstock")


@dataclass
class TaskResultMessage(WriterCommitMessage):
    """A task's result, as Spark carries it to the driver."""

    result: TaskResult


def _run(
    sink: AnySink,
    plan: BatchPlan,
    schema: pa.Schema,
    batch_id: int,
    batches: Iterator[pa.RecordBatch],
    accumulator: Any,
    retry: RetryPolicy,
) -> TaskResultMessage:
    freeze_modules()
    context = _writer_context(plan.planned.query_id, schema, batch_id, retry)
    result = run_task(sink, plan, context, (_conform(batch, schema) for batch in batches))
    add_counts(accumulator, result.metrics)
    return TaskResultMessage(result)


def _writer_context(query_id: str, schema: pa.Schema, batch_id: int, retry: RetryPolicy) -> WriterContext:
    task = TaskContext.get()
    return WriterContext(
        query_id=query_id,
        schema=schema,
        metrics=Metrics(),
        batch_id=batch_id,
        writer_index=task.partitionId() if task is not None else 0,
        attempt_id=uuid.uuid4().hex,
        retry=retry,
    )


def _local_property(name: str) -> str | None:
    task = TaskContext.get()
    value = task.getLocalProperty(name) if task is not None else None
    return None if value is None else str(value)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _results(messages: list[WriterCommitMessage | None]) -> list[TaskResult]:
    return [result for result in _reports(messages) if result is not None]


def _reports(messages: list[WriterCommitMessage | None]) -> list[TaskResult | None]:
    return [message.result if isinstance(message, TaskResultMessage) else None for message in messages]


class StreamWriter(DataSourceStreamArrowWriter):
    """Exactly once over micro-batches.

    Spark constructs it on the driver for every batch before its tasks start, pickles it to the tasks, and constructs it
    again, in another process, to commit or abort. The two look alike, but only the first is pickled: that is when
    the decision log is claimed, whatever a crash left pending is finished, and the batch is planned.
    """

    def __init__(
        self,
        sink: AnySink,
        schema: pa.Schema,
        connector: str,
        options: OptionValues,
        checkpoint: str | None,
        accumulator: Any,
        session: str,
        retry: RetryPolicy,
        *,
        ends: bool,
        counts_folder: str = "",
    ) -> None:
        if not checkpoint:
            raise BadConfigurationError(
                f"sink penstock.{connector} needs .option('checkpointLocation', ...) on the writer itself for exactly "
                "once (a location from the session's configuration is not visible to it)"
            )
        self._schema = schema
        self._accumulator = accumulator
        self._retry = retry
        self._ends = ends
        self._plan: BatchPlan | None = None
        self._driver: QueryDriver | None = QueryDriver(
            sink, schema, connector, options, checkpoint, session, retry, counts_folder=counts_folder
        )
        self._sink: AnySink = self._driver.sink

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get sink and plan. PICKLING HAS EFFECTS: it plans the batch, see :meth:`_plan_once`."""
        self._plan_once()
        return {**self.__dict__, "_driver": None}

    def _plan_once(self) -> None:
        # Spark makes two of these for a batch, and says of neither which it is: the one whose commit or abort it calls
        # is made once the tasks have run. Only the one for the tasks is pickled. Planning earlier would be planning
        # twice, and the second plan would displace the first one while its tasks run.
        if self._plan is None and self._driver is not None:
            self._plan = self._driver.plan()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        batch_id = _local_property("streaming.sql.batchId")
        if batch_id is None:
            raise BadConfigurationError("the stream writer runs only inside a streaming query")
        assert self._plan is not None
        return _run(self._sink, self._plan, self._schema, int(batch_id), iterator, self._accumulator, self._retry)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Driver. With the last batch of a run that ends, everything still open is published too.

        With every batch of such a run if a source can't say which is the last: nothing may stay hidden after it.
        """
        assert self._driver is not None
        results = _results(messages)
        with self._driver.counting():
            protocol = self._driver.protocol(results)
            link = protocol.commit(batchId, results)
            if is_last_batch(offsets_of(results), run_ends=self._ends):  # of a replay too, whose link may be a claim
                protocol.close(link)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Driver. Touches nothing that was decided."""
        assert self._driver is not None
        reports = _reports(messages)
        with self._driver.counting():
            self._driver.protocol(reports).abort(batchId, reports)


class InBatchWriter(DataSourceArrowWriter):
    """A write inside the function of ``foreachBatch``: exactly once, and visible when it returns.

    Planned when it is made, on the driver; Spark pickles it to the tasks, and to the process that commits or aborts.
    """

    def __init__(
        self,
        sink: AnySink,
        schema: pa.Schema,
        connector: str,
        options: OptionValues,
        batch: RunningBatch,
        accumulator: Any,
        session: str,
        retry: RetryPolicy,
        counts_folder: str,
    ) -> None:
        self._driver_of = partial(
            QueryDriver, sink, schema, connector, options, batch.checkpoint, session, retry, batch, counts_folder
        )
        self._schema = schema
        self._batch_id = batch.number
        self._accumulator = accumulator
        self._retry = retry
        driver = self._driver_of()
        self._sink: AnySink = driver.sink
        self._plan = driver.plan()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        return _run(self._sink, self._plan, self._schema, self._batch_id, iterator, self._accumulator, self._retry)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver."""
        driver, results = self._driver_of(), _results(messages)
        with driver.counting():
            driver.protocol(results).commit(self._batch_id, results)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver. Touches nothing that was decided."""
        driver, reports = self._driver_of(), _reports(messages)
        with driver.counting():
            driver.protocol(reports).abort(self._batch_id, reports)


class MemberWriter(DataSourceArrowWriter):
    """A write to one sink of a group: its tasks leave everything hidden, and the group's batch decides.

    Made on the driver; Spark pickles it to the tasks, and to the process that commits or aborts.
    """

    def __init__(
        self,
        sink: AnySink,
        schema: pa.Schema,
        connector: str,
        options: OptionValues,
        batch: RunningBatch,
        accumulator: Any,
        retry: RetryPolicy,
    ) -> None:
        storage, path = open_storage(batch.checkpoint, options, retry)
        plan = json.loads(batch.plan)
        sequence = plan.pop("sequence")
        self._group_plan = PlannedBatch(**plan)
        query = known_query(storage, path, sink=batch.sink_name, names=self._group_plan.query_id)
        group = SinkContext(query.names, schema, checkpoint=CheckpointLocation(storage, query.home), retry=retry)
        context = Member(batch.member, sink, schema).context_of(group)
        assert context.checkpoint is not None
        remember_sink(storage, context.checkpoint.path, connector, options, schema)
        self._plan = BatchPlan(
            replace(self._group_plan, query_id=context.query_id), sequence=sequence, checkpoint=context.checkpoint
        )
        self._sink: AnySink = start_sink(sink, context)
        self._prepared = Prepared(storage, query.home)
        self._member = batch.member
        self._schema = schema
        self._batch_id = batch.number
        self._accumulator = accumulator
        self._retry = retry

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        return _run(self._sink, self._plan, self._schema, self._batch_id, iterator, self._accumulator, self._retry)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver. Decides nothing: notes what tasks have left for the group's decision."""
        results = _results(messages)
        outputs = [
            replace(
                output,
                committables=tuple(owned(self._member, one) for one in output.committables),
                states=tuple(replace(one, payload=owned(self._member, one.payload)) for one in output.states),
            )
            for result in results
            for output in result.outputs
        ]
        self._prepared.put(self._group_plan.plan_id, self._member, outputs, metrics_of(results))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver. The group's batch ends with the same error, and cleans up."""


class BatchWriter(DataSourceArrowWriter):
    """One write of a DataFrame: everything becomes visible at its commit, or nothing.

    The decision is kept below what is written where the sink has a place for it: ``penstock finish PATH`` ends what a
    driver that was killed had begun. Otherwise it lives in the driver's memory, and a driver that is killed in the
    middle of publishing, or can't publish for ``retryTimeout``, leaves a part visible, as Spark's own writers do.
    """

    def __init__(
        self,
        sink: AnySink,
        schema: pa.Schema,
        connector: str,
        options: OptionValues,
        accumulator: Any,
        retry: RetryPolicy = NO_RETRIES,
    ) -> None:
        self._retry = retry
        self._query_id = uuid.uuid4().hex
        self._schema = schema
        self._accumulator = accumulator
        self._sink = start_sink(sink, self._context())
        self._log = sink.batch_log(self._query_id)
        if self._log is not None:
            self._log = replace(self._log, storage=self._log.storage.retrying(retry))
        # Pickled to the process that commits, and to the tasks: it has one claim in it.
        self._memory = MemoryStorage() if self._log is None else None
        try:
            if self._log is not None:
                remember_write(self._log, connector, options, schema)
            self._plan = self._protocol().plan(_OneBatch())
            if self._log is not None and not is_remembered(self._log):
                raise undone(self._chain())
        except Exception:
            with contextlib.suppress(OSError, RetriableError):
                self._leave(NO_RETRIES)
            raise

    def _context(self, retry: RetryPolicy | None = None) -> SinkContext:
        return SinkContext(self._query_id, self._schema, retry=self._retry if retry is None else retry)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        return _run(self._sink, self._plan, self._schema, 0, iterator, self._accumulator, self._retry)

    def _protocol(self, retry: RetryPolicy | None = None) -> TwoPhaseCommit:
        return TwoPhaseCommit(self._sink, self._context(retry), self._chain())

    def _chain(self) -> Chain:
        if self._log is not None:
            return chain_of_write(self._log)
        assert self._memory is not None
        return Chain(self._memory, "/decisions")

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver. What fails once everything is published is said, and does not fail the write.

        The error of a write that is decided all the same says so: written a second time it would be there twice. Where
        the decision is in this process's memory alone, Spark aborts the rest by another process.
        """
        protocol, results = self._protocol(), _results(messages)
        try:
            protocol.commit_at_once(results)
        except (OSError, RetriableError) as error:
            if self._protocol(NO_RETRIES).settle_at_once() is False:
                raise
            if self._log is None:
                raise RetriableError(
                    f"{error}. A part of the write may be visible already, and the rest is dropped, because this sink "
                    "keeps no decision of a write: look at the target before you write again"
                ) from error
            raise RetriableError(
                f"{error}. The write is decided all the same, or may be: do not write it again, but fix this and run: "
                f"penstock finish {self._sink.target}"
            ) from error
        try:
            protocol.clear_at_once()
            self._leave()
        except (OSError, RetriableError) as error:
            again = f"; run: penstock finish {self._sink.target}" if self._log is not None else ""
            _log.warning("everything is written; what failed tasks have left could not be removed (%s)%s", error, again)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver. What was decided is published all the same; the log says so, as Spark reports a failure."""
        if self._protocol().abort_at_once(_reports(messages)):
            _log.error(
                "this write was decided before it failed, and all of it is visible now at %s: do not write it again",
                self._sink.target,
            )
        self._leave()

    def _leave(self, retry: RetryPolicy | None = None) -> None:
        context = self._context(retry)
        if self._log is not None:
            forget_write(replace(self._log, storage=self._log.storage.retrying(context.retry)))
        with contextlib.closing(self._sink.create_committer(context)) as committer:
            committer.leave()


class _OneBatch:
    """A batch write has one batch."""

    def planned(self, expected: int | None) -> Batch:
        return Batch(0, b"")

    def find(self, number: int) -> Batch | None:
        return None


class AtLeastOnceWriter(DataSourceStreamArrowWriter, DataSourceArrowWriter):
    """A sink without commits, for streams and for batch writes: what a task wrote and flushed is there."""

    def __init__(self, sink: Sink, schema: pa.Schema, accumulator: Any, retry: RetryPolicy) -> None:
        self._retry = retry
        self._sink = start_sink(sink, SinkContext("", schema, retry=retry))
        self._schema = schema
        self._accumulator = accumulator

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        freeze_modules()
        query_id = _local_property("sql.streaming.queryId") or ""
        batch_id = int(_local_property("streaming.sql.batchId") or 0)
        context = _writer_context(query_id, self._schema, batch_id, self._retry)
        writer = open_writer(self._sink, context)
        try:
            write_all(writer, (_conform(batch, self._schema) for batch in iterator))
        finally:
            writer.close()
            add_counts(self._accumulator, context.metrics.take())
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        """Driver. Nothing is left to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        """Driver. What was flushed stays: at least once."""
