"""What tasks do for a batch: write, leave everything durable and hidden, and say what there is to decide."""

from __future__ import annotations

import pickle
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock._commit._chain import StateItem, TaskOutput
from penstock.errors import DataLostError, FatalError, RetriableError
from penstock.sink import (
    CheckpointLocation,
    PreparedCommit,
    Sink,
    SinkContext,
    SinkWriter,
    StateReplacement,
    SupportsStateRolling,
    TwoPhaseCommitSink,
    WriterContext,
    state_serializer_of,
)
from penstock.system import system

__all__ = [
    "BatchPlan",
    "PlannedBatch",
    "TaskResult",
    "grouped_by_owner",
    "metrics_of",
    "offsets_of",
    "open_writer",
    "roll_states",
    "run_task",
    "start_sink",
    "write_all",
]

AnySink = TwoPhaseCommitSink[Any, Any]


@dataclass(frozen=True)
class PlannedBatch:
    """Which batch was planned, and on which link. Goes to the tasks and comes back with their results.

    ``base`` and ``head`` are numbers of links, ``fingerprint`` that of Spark's offsets of the batch, ``plan_id`` this
    plan's own. ``is_decided``: a replay, whose rows count already. ``engine_run`` is that of :class:`Batch`.
    """

    query_id: str
    run: str
    plan_id: str
    base: int
    head: int
    generation: int
    batch_id: int
    fingerprint: str
    is_decided: bool
    write_timestamp_us: int = 0
    engine_run: str = ""


@dataclass(frozen=True)
class BatchPlan:
    """What the driver tells the tasks of the next batch. Pickled to them; never stored.

    ``states`` are packed by owner, so that a task unpacks only its own. ``offsets`` is Spark's file, which
    the decision will hold.
    """

    planned: PlannedBatch
    sequence: int = 0
    writers: int = 1
    states: Mapping[int, bytes] = field(default_factory=dict)
    offsets: bytes = b""
    checkpoint: CheckpointLocation | None = None

    def complete(self, context: WriterContext) -> WriterContext:
        """``context`` with what the plan knows."""
        planned = self.planned
        return replace(
            context,
            base=planned.base,
            generation=planned.generation,
            plan_id=planned.plan_id,
            sequence=self.sequence,
            write_timestamp_us=planned.write_timestamp_us,
            checkpoint=self.checkpoint,
        )

    def states_of(self, writer: int) -> tuple[StateItem, ...]:
        """Returns the carried state that ``writer`` looks after in this batch."""
        packed = self.states.get(writer)
        # Packed by the driver of this run, and part of what Spark itself pickles to the task; never stored.
        return () if packed is None else pickle.loads(zlib.decompress(packed))  # noqa: S301


def grouped_by_owner(sink: AnySink, states: Iterable[StateItem], writers: int) -> dict[int, bytes]:
    """Groups pieces for :attr:`BatchPlan.states`: those with the same key get the same one of ``writers``."""
    if not isinstance(sink, SupportsStateRolling):
        return {}
    groups: dict[int, list[StateItem]] = defaultdict(list)
    for item in states:
        key = sink.owner_key(sink.state_serializer.unpack(item.payload))
        groups[zlib.crc32(key.encode()) % max(1, writers)].append(item)
    return {owner: zlib.compress(pickle.dumps(tuple(items)), 1) for owner, items in groups.items()}


@dataclass(frozen=True)
class TaskResult:
    """What one successful attempt sends to the driver. ``offsets`` comes from the first writer alone."""

    writer: int
    attempt: str
    planned: PlannedBatch
    outputs: tuple[TaskOutput, ...] = ()
    offsets: bytes = b""
    metrics: dict[str, int] = field(default_factory=dict)


def offsets_of(results: Iterable[TaskResult]) -> bytes:
    """Spark's file of the batch that ``results`` are of."""
    return next((result.offsets for result in results if result.offsets), b"")


def metrics_of(results: Iterable[TaskResult]) -> dict[str, int]:
    """The counters of all of ``results`` together."""
    total: dict[str, int] = {}
    for result in results:
        for name, amount in result.metrics.items():
            total[name] = total.get(name, 0) + amount
    return total


def run_task(sink: AnySink, plan: BatchPlan, context: WriterContext, batches: Iterable[pa.RecordBatch]) -> TaskResult:
    """Runs one attempt: rolls its carried state, writes ``batches``, and leaves everything durable and hidden.

    For a batch that is decided already the input is read to its end and dropped: operators before the sink (state
    stores) finish their own work only when their output is consumed. Raises FatalError if the engine runs another batch
    than the one that was planned.
    """
    planned = plan.planned
    if context.batch_id != planned.batch_id:
        raise FatalError(
            f"the engine runs batch {context.batch_id}, and batch {planned.batch_id} was planned: were files below "
            "offsets/ in the checkpoint added or deleted while the query ran? Restart it"
        )
    context = plan.complete(context)
    if planned.is_decided:
        for _ in batches:
            pass
        return TaskResult(context.writer_index, context.attempt_id, planned, offsets=_carried_offsets(plan, context))
    rolled = _roll_owned(sink, context, plan)
    written = _write(sink, replace(context, sequence=context.sequence + _used(rolled)), batches)
    return TaskResult(
        context.writer_index,
        context.attempt_id,
        planned,
        outputs=tuple(output for output in (*rolled, written) if _is_something(output)),
        offsets=_carried_offsets(plan, context),
        metrics=context.metrics.take(),
    )


def _carried_offsets(plan: BatchPlan, context: WriterContext) -> bytes:
    return plan.offsets if context.writer_index == 0 else b""


def _roll_owned(sink: AnySink, context: WriterContext, plan: BatchPlan) -> list[TaskOutput]:
    try:
        return roll_states(sink, context, plan.states_of(context.writer_index), finish=False)
    except DataLostError as error:
        # A task can't know: the state in its plan may have been replaced, and the plan with it.
        raise RetriableError(f"{error}. Or another run took over: restart the query, which finds out") from error


def _write(sink: AnySink, context: WriterContext, batches: Iterable[pa.RecordBatch]) -> TaskOutput:
    writer = open_writer(sink, context)
    try:
        write_all(writer, batches)
        prepared = writer.prepare_commit()
    except BaseException:
        writer.abort()
        raise
    finally:
        writer.close()
    return _output(sink, context, (), prepared)


def start_sink(sink: Any, context: SinkContext) -> Any:
    """Starts a sink, which looks at the target system: again as the context's ``retry`` says. Driver."""
    return context.retry.call(lambda: sink.start(context), "starting the sink", context.metrics)


def open_writer(sink: Sink, context: WriterContext) -> Any:
    """Returns a new writer of ``sink``."""
    return context.retry.call(lambda: sink.create_writer(context), "opening a writer", context.metrics)


def write_all(writer: SinkWriter, batches: Iterable[pa.RecordBatch]) -> None:
    """Writes ``batches``, then flushes."""
    for batch in batches:
        writer.write(batch)
    writer.flush()


def roll_states(sink: AnySink, context: WriterContext, items: Sequence[StateItem], *, finish: bool) -> list[TaskOutput]:
    """Lets the sink's roller close what is due among ``items``; one output for each replacement."""
    if not items or not isinstance(sink, SupportsStateRolling):
        return []
    roller = sink.create_roller(context)
    try:
        states = [sink.state_serializer.unpack(item.payload) for item in items]
        rolled = roller.roll(states, finish=finish)
        return [_output(sink, context, _consumed(items, one), one) for one in rolled]
    except BaseException:
        roller.abort()
        raise
    finally:
        roller.close()


def _consumed(items: Sequence[StateItem], rolled: StateReplacement[Any, Any]) -> tuple[str, ...]:
    if not rolled.consumed:
        raise FatalError("a roller returned a replacement that consumes nothing")
    return tuple(items[index].id for index in rolled.consumed)


def _output(
    sink: AnySink,
    context: WriterContext,
    consumed: tuple[str, ...],
    made: PreparedCommit[Any, Any] | StateReplacement[Any, Any],
) -> TaskOutput:
    serializer = state_serializer_of(sink)
    return TaskOutput(
        writer=context.writer_index,
        attempt=context.attempt_id,
        consumed=consumed,
        committables=tuple(sink.committable_serializer.pack(committable) for committable in made.committables),
        states=tuple(StateItem(system().new_id(), serializer.pack(state)) for state in made.states),
        sequences_used=made.sequences_used,
    )


def _used(outputs: Iterable[TaskOutput]) -> int:
    return sum(output.sequences_used for output in outputs)


def _is_something(output: TaskOutput) -> bool:
    return bool(output.consumed or output.committables or output.states)


def driver_context(context: SinkContext, *, base: int, generation: int, sequence: int) -> WriterContext:
    """Returns the context of a roller on the driver, whose names carry ``base`` as those of attempts do."""
    return WriterContext(
        query_id=context.query_id,
        schema=context.schema,
        metrics=context.metrics,
        checkpoint=context.checkpoint,
        retry=context.retry,
        base=base,
        generation=generation,
        writer_index=-1,
        attempt_id=system().new_id(),
        sequence=sequence,
    )
