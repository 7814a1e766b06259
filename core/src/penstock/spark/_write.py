"""Writing: a sink as Spark's stream writer and batch writer."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock.errors import BadConfigurationError, FatalError
from penstock.finishing import query_id_of, remember_sink
from penstock.metrics import Metrics
from penstock.options import OptionValues
from penstock.sink import CheckpointLocation, Sink, SinkContext, SinkWriter, WriterContext
from penstock.sink.decision_log import DecisionLog
from penstock.sink.two_phase import AnySink, BatchPlan, TaskResult, TwoPhaseCommit, next_write_timestamp_us, run_task
from penstock.spark._garbage import begin_use
from penstock.spark._offsets import is_last_batch
from penstock.storage import MemoryStorage, open_storage

__all__ = ["AtLeastOnceWriter", "BatchWriter", "StreamWriter"]


@dataclass
class TaskResultMessage(WriterCommitMessage):
    """A task's result on its way through Spark to the driver."""

    result: TaskResult


def _run(
    sink: AnySink,
    plan: BatchPlan,
    schema: pa.Schema,
    batch_id: int,
    batches: Iterator[pa.RecordBatch],
    accumulator: Any,
) -> TaskResultMessage:
    begin_use()
    context = _writer_context(plan.query_id, schema, batch_id)
    result = run_task(sink, plan, context, (_conform(batch, schema) for batch in batches))
    if accumulator is not None:
        accumulator.add(result.metrics)
    return TaskResultMessage(result)


def _writer_context(query_id: str, schema: pa.Schema, batch_id: int) -> WriterContext:
    task = TaskContext.get()
    return WriterContext(
        query_id=query_id,
        schema=schema,
        metrics=Metrics(),
        batch_id=batch_id,
        writer_index=task.partitionId() if task is not None else 0,
        attempt_id=uuid.uuid4().hex,
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
    again to commit or abort. The two look alike, but only the first is pickled: that is when whatever a crash left
    pending is finished, and the batch planned. The other must leave alone what the batch's tasks have made.
    """

    def __init__(
        self,
        sink: AnySink,
        schema: pa.Schema,
        connector: str,
        options: OptionValues,
        checkpoint: str | None,
        accumulator: Any,
    ) -> None:
        if not checkpoint:
            raise BadConfigurationError(
                f"sink penstock.{connector} needs .option('checkpointLocation', ...) on the writer itself for exactly "
                "once (a location from the session's configuration is not visible to it)"
            )
        self._schema = schema
        self._accumulator = accumulator
        storage, path = open_storage(checkpoint, options.with_prefix("s3."))
        self._driver: tuple[Any, str, TwoPhaseCommit] | None = None
        context = SinkContext(query_id_of(storage, path), schema, checkpoint=CheckpointLocation(storage, path))
        self._sink = sink.start(context)
        protocol = TwoPhaseCommit(self._sink, context, DecisionLog(storage, path))
        remember_sink(storage, path, connector, options, schema)
        self._plan: BatchPlan | None = None
        self._driver = (storage, path, protocol)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get sink and plan."""
        if self._plan is None and self._driver is not None:
            self._plan = self._driver[2].plan()
        return {**self.__dict__, "_driver": None}

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        batch_id = _local_property("streaming.sql.batchId")
        if batch_id is None:
            raise BadConfigurationError("the stream writer runs only inside a streaming query")
        assert self._plan is not None
        return _run(self._sink, self._plan, self._schema, int(batch_id), iterator, self._accumulator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Driver. With the last batch of a run that ends, everything still open is published too."""
        assert self._driver is not None
        storage, checkpoint, protocol = self._driver
        protocol.commit(batchId, _results(messages))
        if is_last_batch(storage.read(f"{checkpoint}/offsets/{batchId}")):
            protocol.roll(finish=True)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Driver. Touches nothing that was decided."""
        assert self._driver is not None
        self._driver[2].abort(batchId, _reports(messages))


class BatchWriter(DataSourceArrowWriter):
    """One write of a DataFrame: everything becomes visible at its commit, or nothing.

    The decision lives in the driver's memory only: a driver killed in the middle of publishing leaves a part visible,
    as Spark's own writers do.
    """

    def __init__(self, sink: AnySink, schema: pa.Schema, accumulator: Any) -> None:
        query_id = uuid.uuid4().hex
        self._sink = sink.start(SinkContext(query_id, schema))
        self._schema = schema
        self._accumulator = accumulator
        stamp = next_write_timestamp_us() if sink.wants_write_timestamps else 0
        self._plan = BatchPlan(
            query_id, last_batch=-1, redo=(), sequence=0, writers=1, states=(), write_timestamp_us=stamp
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        return _run(self._sink, self._plan, self._schema, 0, iterator, self._accumulator)

    def _protocol(self) -> TwoPhaseCommit:
        context = SinkContext(self._plan.query_id, self._schema)
        return TwoPhaseCommit(self._sink, context, DecisionLog(MemoryStorage(), "/batch"))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver."""
        protocol = self._protocol()
        protocol.commit(0, _results(messages))
        protocol.roll(finish=True)
        protocol.clean_up(leave=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Driver."""
        protocol = self._protocol()
        protocol.abort(0, _reports(messages), ends=True)
        protocol.clean_up(leave=True)


class AtLeastOnceWriter(DataSourceStreamArrowWriter, DataSourceArrowWriter):
    """A sink without commits, for streams and for batch writes: what a task wrote and flushed is there."""

    def __init__(self, sink: Sink[Any, Any], schema: pa.Schema, accumulator: Any) -> None:
        self._sink = sink.start(SinkContext("", schema))
        self._schema = schema
        self._accumulator = accumulator

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Task."""
        begin_use()
        query_id = _local_property("sql.streaming.queryId") or ""
        batch_id = int(_local_property("streaming.sql.batchId") or 0)
        context = _writer_context(query_id, self._schema, batch_id)
        writer = self._sink.create_writer(context)
        try:
            self._write(writer, iterator)
        finally:
            writer.close()
            if self._accumulator is not None:
                self._accumulator.add(context.metrics.take())
        return WriterCommitMessage()

    def _write(self, writer: SinkWriter[Any, Any], iterator: Iterator[pa.RecordBatch]) -> None:
        try:
            for batch in iterator:
                writer.write(_conform(batch, self._schema))
            prepared = writer.prepare_commit()
        except BaseException:
            writer.abort()
            raise
        if prepared.committables or prepared.states:
            raise FatalError("a sink that is no TwoPhaseCommitSink returned something to commit")

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        """Driver. Nothing is left to do."""

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int = 0) -> None:
        """Driver. What was flushed stays: at least once."""
