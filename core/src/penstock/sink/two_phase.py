"""The exactly-once protocol: two-phase commit over a decision log. Read it from top to bottom.

::

    driver   recover  → finish the last decision if it is pending
             plan     → what the tasks must know: decided batches, carried state, sequence numbers
    tasks    run_task → write, flush, leave everything hidden; return what there is to decide
    driver   commit   → decide (one atomic put-if-absent), publish, mark done
             abort    → throw away what was not decided
    driver   roll     → between batches: close what is due, or everything, by a decision of its own

Invariants: decided is decided (an abort touches nothing of it); commit is idempotent and tells lost from committed;
what an attempt makes is named by the attempt alone, so a zombie's work is never part of a decision; a decision's number
is written once, so two drivers can't both decide.

The protocol follows Flink's two-phase commit sink with its checkpoint replaced by the decision; unlike there, a
committable that was lost before it could be published withdraws the decision, so that the batch is written again.
"""

from __future__ import annotations

import logging
import time
import uuid
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock.errors import DataLostError, FatalError, RetriableError
from penstock.sink._contracts import (
    TIMESTAMPS_PER_RUN,
    CheckpointLocation,
    CommitOutcome,
    Committer,
    Rolled,
    SinkContext,
    TwoPhaseCommitSink,
    WriterContext,
)
from penstock.sink.decision_log import Decision, DecisionLog, Output, StateItem

__all__ = ["BatchPlan", "TaskResult", "TwoPhaseCommit", "next_write_timestamp_us", "run_task"]

_log = logging.getLogger("penstock.sink")
_CLEAN_UP_EVERY = 10
_DECIDE_ATTEMPTS = 20
_STRAGGLERS_S = 3.0  # Spark kills a Python worker 2 s after its task was told to stop (spark.python.task.killTimeout)

AnySink = TwoPhaseCommitSink[Any, Any]


@dataclass(frozen=True)
class BatchPlan:
    """What the driver tells the tasks of the next batch. Pickled to them; never stored."""

    query_id: str
    last_batch: int
    redo: tuple[int, ...]
    sequence: int
    writers: int
    states: tuple[StateItem, ...]
    write_timestamp_us: int = 0
    checkpoint: CheckpointLocation | None = None
    plan_id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def is_decided(self, batch_id: int, writer: int) -> bool:
        """Whether ``writer``'s share of ``batch_id`` has been decided, so that a replay must not write it again."""
        if batch_id == self.last_batch and writer in self.redo:
            return False
        return batch_id <= self.last_batch

    def complete(self, context: WriterContext) -> WriterContext:
        """``context`` with what the plan knows."""
        return replace(
            context,
            sequence=self.sequence,
            plan_id=self.plan_id,
            write_timestamp_us=self.write_timestamp_us,
            checkpoint=self.checkpoint,
        )

    def states_of(self, sink: AnySink, writer: int) -> list[StateItem]:
        """The carried state that ``writer`` looks after in this batch."""
        return [item for item in self.states if self._owner(sink, item) == writer]

    def _owner(self, sink: AnySink, item: StateItem) -> int:
        key = sink.owner_key(sink.state_serializer.unpack(item.payload))
        return zlib.crc32(key.encode()) % max(1, self.writers)


@dataclass(frozen=True)
class TaskResult:
    """What one successful attempt sends to the driver. ``skipped``: its share had been decided, nothing was written."""

    writer: int
    attempt: str
    skipped: bool = False
    outputs: tuple[Output, ...] = ()
    metrics: dict[str, int] = field(default_factory=dict)


# --- in the tasks -----------------------------------------------------------------------------------------------------


def run_task(sink: AnySink, plan: BatchPlan, context: WriterContext, batches: Iterable[pa.RecordBatch]) -> TaskResult:
    """One attempt: rolls the carried state it looks after, writes ``batches``, leaves everything durable and hidden.

    For a share that is decided already the input is read to its end and dropped: operators before the sink (state
    stores) finish their own work only when their output is consumed.
    """
    context = plan.complete(context)
    if plan.is_decided(context.batch_id, context.writer_index):
        for _ in batches:
            pass
        return TaskResult(context.writer_index, context.attempt_id, skipped=True)
    owned = plan.states_of(sink, context.writer_index) if context.batch_id > plan.last_batch else []
    rolled = roll_states(sink, context, owned, finish=False)
    written = _write(sink, replace(context, sequence=context.sequence + _used(rolled)), batches)
    outputs = tuple(output for output in (*rolled, written) if _is_something(output))
    return TaskResult(context.writer_index, context.attempt_id, outputs=outputs, metrics=context.metrics.take())


def _write(sink: AnySink, context: WriterContext, batches: Iterable[pa.RecordBatch]) -> Output:
    writer = sink.create_writer(context)
    try:
        for batch in batches:
            writer.write(batch)
        prepared = writer.prepare_commit()
    except BaseException:
        writer.abort()
        raise
    finally:
        writer.close()
    return _output(sink, context, (), prepared.committables, prepared.states, prepared.sequences_used)


def roll_states(sink: AnySink, context: WriterContext, items: Sequence[StateItem], *, finish: bool) -> list[Output]:
    """Lets the sink's roller close what is due among ``items``; one output for each replacement."""
    roller = sink.create_roller(context) if items else None
    if roller is None:
        return []
    try:
        states = [sink.state_serializer.unpack(item.payload) for item in items]
        rolled = roller.roll(states, finish=finish)
        return [_rolled_output(sink, context, items, one) for one in rolled]
    except BaseException:
        roller.abort()
        raise
    finally:
        roller.close()


def _rolled_output(
    sink: AnySink, context: WriterContext, items: Sequence[StateItem], rolled: Rolled[Any, Any]
) -> Output:
    consumed = tuple(items[index].id for index in rolled.consumed)
    if not consumed:
        raise FatalError("a roller returned a replacement that consumes nothing")
    return _output(sink, context, consumed, rolled.committables, rolled.states, rolled.sequences_used)


def _output(
    sink: AnySink,
    context: WriterContext,
    consumed: tuple[str, ...],
    committables: Sequence[Any],
    states: Sequence[Any],
    sequences_used: int,
) -> Output:
    return Output(
        writer=context.writer_index,
        attempt=context.attempt_id,
        consumed=consumed,
        committables=tuple(sink.committable_serializer.pack(committable) for committable in committables),
        states=tuple(StateItem(uuid.uuid4().hex, sink.state_serializer.pack(state)) for state in states),
        sequences_used=sequences_used,
    )


def _used(outputs: Iterable[Output]) -> int:
    return sum(output.sequences_used for output in outputs)


def _is_something(output: Output) -> bool:
    return bool(output.consumed or output.committables or output.states)


# --- on the driver ----------------------------------------------------------------------------------------------------


class TwoPhaseCommit:
    """The driver's side of the protocol for one query. Single thread; several processes may hold one for one query."""

    def __init__(self, sink: AnySink, context: SinkContext, log: DecisionLog) -> None:
        self._sink = sink
        self._context = context
        self._log = log
        self._driver = uuid.uuid4().hex

    # 1. Before the tasks of a batch start.

    def recover(self) -> Decision:
        """Finishes the last decision if it is pending. Returns the head of the log, which is done.

        A decision that turns out to be lost is withdrawn here: its batch is not committed in the engine yet, and the
        replay writes it again. Raises :class:`DataLostError` if a part of it was published and the rest is lost.
        """
        head = self._log.head()
        while not head.done:
            self._carry_out(head)
            head = self._log.head()
        return head

    def plan(self) -> BatchPlan:
        """What the tasks of the next batch must know. None of them runs yet."""
        head = self.recover()
        self._abort_lingering()
        if self._sink.wants_write_timestamps:
            head = self._reserve_timestamp()
        return BatchPlan(
            self._context.query_id,
            head.last_batch,
            head.redo,
            head.sequence,
            head.writers,
            head.states,
            head.write_timestamp_us,
            self._context.checkpoint,
        )

    def _reserve_timestamp(self) -> Decision:
        """A link of the chain that changes nothing but the timestamp: no two runs, of whatever driver, get the same."""
        for _ in range(_DECIDE_ATTEMPTS):
            head = self.recover()
            stamp = max(next_write_timestamp_us(), head.write_timestamp_us + TIMESTAMPS_PER_RUN)
            plan = self._follow(head, "plan", (), redo=head.redo, write_timestamp_us=stamp)
            if self._log.append(plan):
                self._log.mark_done(plan)
                return plan
        raise RetriableError(f"the decision log kept changing under {_DECIDE_ATTEMPTS} tries")

    # 2. After the tasks: decide, publish, mark done.

    def commit(self, batch_id: int, results: Sequence[TaskResult]) -> Decision:
        """Decides ``batch_id`` and carries the decision out. Returns it (an earlier one if the batch was decided)."""
        head = self.recover()
        if head.last_batch >= batch_id and not (head.last_batch == batch_id and head.redo):
            if any(not result.skipped for result in results):
                raise FatalError(
                    f"batch {batch_id} was decided by another driver on the same checkpoint; this one must stop. "
                    "Nothing is lost: the other one's rows are the same rows"
                )
            return head
        decision = self._decide(batch_id, results)
        if not self._carry_out(decision):
            raise RetriableError(
                f"batch {batch_id} was lost before it could be published (see the log). Its decision is withdrawn and "
                "nothing of it counts: restart the query, and the batch is written again"
            )
        self._tidy_up(batch_id, self._abort_lingering)
        if batch_id % _CLEAN_UP_EVERY == 0:
            self._tidy_up(batch_id, self.clean_up)
        return decision

    def _decide(self, batch_id: int, results: Sequence[TaskResult]) -> Decision:
        outputs = [output for result in results for output in result.outputs]
        for _ in range(_DECIDE_ATTEMPTS):
            head = self.recover()
            counted, stale = self._still_valid(head, outputs)
            metrics = _sum_metrics(result.metrics for result in results)
            decision = self._follow(head, "batch", counted, last_batch=batch_id, writers=len(results), metrics=metrics)
            if self._log.append(decision):
                self._throw_away(stale)
                return decision
            if self._log.head().last_batch >= batch_id:
                raise FatalError(f"batch {batch_id} was decided by another driver; this one must stop")
        raise RetriableError(f"batch {batch_id}: the decision log kept changing under {_DECIDE_ATTEMPTS} tries")

    @staticmethod
    def _still_valid(head: Decision, outputs: Sequence[Output]) -> tuple[list[Output], list[Output]]:
        """Splits off replacements of state that someone else (a roll while the batch ran) has replaced meanwhile."""
        live = {state.id for state in head.states}
        counted = [output for output in outputs if live.issuperset(output.consumed)]
        return counted, [output for output in outputs if not live.issuperset(output.consumed)]

    def _follow(self, head: Decision, kind: str, outputs: Sequence[Output], **changes: Any) -> Decision:
        by_writer: dict[int, int] = {}
        for output in outputs:
            by_writer[output.writer] = by_writer.get(output.writer, 0) + output.sequences_used
        decision = Decision(
            number=head.number + 1,
            kind=kind,
            last_batch=head.last_batch,
            outputs=tuple(outputs),
            states=head.state_after(outputs),
            sequence=head.sequence + max(by_writer.values(), default=0),
            writers=head.writers,
            driver=self._driver,
            write_timestamp_us=head.write_timestamp_us,
        )
        return replace(decision, **changes)

    def _carry_out(self, decision: Decision) -> bool:
        """Publishes everything ``decision`` names; afterwards it is done. Safe to repeat, and to do in two processes.

        False if something was lost and the decision had to be withdrawn.
        """
        owners = [output for output in decision.outputs for _ in output.committables]
        committables = [self._committable(stored) for output in decision.outputs for stored in output.committables]
        outcomes = self._publish(committables) if committables else []
        lost = [index for index, outcome in enumerate(outcomes) if outcome is CommitOutcome.LOST]
        if lost:
            text = ", ".join(self._sink.describe_committable(committables[index]) for index in lost[:3])
            published = [owners[index] for index in range(len(owners)) if index not in lost]
            self._withdraw(decision, [owners[index] for index in lost], published, text)
            return False
        self._log.mark_done(decision)
        return True

    def _publish(self, committables: Sequence[Any]) -> list[CommitOutcome]:
        committer = self._committer()
        try:
            return committer.commit(committables)
        finally:
            committer.close()

    # 3. What was decided can't be published any more.

    def _withdraw(self, decision: Decision, lost: list[Output], published: list[Output], lost_text: str) -> None:
        """Takes back what was lost by a decision of its own, so that a replay writes it again.

        If none of the batch's rows were published, all of them are written again; if some were, only the lost writers'
        share, and only where a replay is sure to give each writer the same rows. Raises DataLostError otherwise.
        """
        batch = f"batch {decision.last_batch}: {lost_text} can't be published any more"
        advice = "Restore it, or start with a new checkpoint behind this batch"
        if any(output in published for output in lost):
            raise DataLostError(f"{batch}, while other files or transactions of the same writer are. {advice}")
        lost_writers = {output.writer for output in lost if not output.consumed}
        redo_all = bool(lost_writers) and all(output.consumed for output in published)
        if lost_writers and not redo_all and not self._sink.plan_is_deterministic:
            raise DataLostError(
                f"{batch}, while other writers' rows are, and a replay may give its rows to other writers. {advice}"
            )
        before = self._log.before(decision)
        standing = [o for o in decision.outputs if o not in lost and not (redo_all and not o.consumed)]
        withdrawal = replace(
            decision,
            number=decision.number + 1,
            kind="withdrawal",
            last_batch=before.last_batch if redo_all else decision.last_batch,
            redo=before.redo if redo_all else tuple(sorted(lost_writers)),
            outputs=(),
            states=before.state_after(standing),
            driver=self._driver,
            metrics={},
        )
        _log.warning("%s; the decision is withdrawn and the rows will be written again", batch)
        if self._log.append(withdrawal):
            self._log.mark_done(withdrawal)

    # 4. The batch failed.

    def abort(self, batch_id: int, results: Sequence[TaskResult | None], *, ends: bool = False) -> None:
        """Throws away what the given attempts left, unless a decision (of any driver) may count on it.

        ``results``: ``None`` for tasks that have not reported; some may still run. ``ends``: no batch follows.
        """
        entries = self._log.entries()
        attempts = {result.attempt: result for result in results if result is not None and result.outputs}
        is_decided = bool(entries) and entries[-1].last_batch >= batch_id
        if is_decided and all(entry.last_batch != batch_id for entry in entries):
            return  # so long ago that the decision is gone; clean-up finds what is superfluous
        for entry in entries:
            for output in entry.outputs:
                if entry.kind != "withdrawal":
                    attempts.pop(output.attempt, None)
        self._throw_away([output for result in attempts.values() for output in result.outputs])
        if not is_decided and (not entries or entries[-1].done):
            self._tidy_up(batch_id, self._abort_lingering)  # what tasks left that did not live to report it
            if None in results and (ends or self._sink.holds_back_readers):
                self._tidy_up(batch_id, self._outlast_stragglers)

    # 5. Between batches: nothing but carried state.

    def roll(self, *, finish: bool) -> Decision | None:
        """Closes and publishes carried state that is due, or all of it. ``None`` if there was nothing to do.

        Gives way to a batch that decides at the same time.
        """
        head = self.recover()
        context = WriterContext(
            query_id=self._context.query_id,
            schema=self._context.schema,
            metrics=self._context.metrics,
            # What a roll makes belongs to the batch to come, so that a clean-up after this one leaves it alone.
            batch_id=head.last_batch + 1,
            writer_index=0,
            attempt_id=uuid.uuid4().hex,
            sequence=head.sequence,
            checkpoint=self._context.checkpoint,
        )
        try:
            outputs = roll_states(self._sink, context, head.states, finish=finish)
        except (OSError, DataLostError):
            if self._log.head().number != head.number:
                return None  # a batch has replaced this state meanwhile, and its files are gone
            raise
        if not outputs:
            return None
        decision = self._follow(head, "roll", outputs)
        if not self._log.append(decision):
            self._throw_away(outputs)
            return None
        stands = self._carry_out(decision)
        self.clean_up()
        return decision if stands else None

    # 6. Nothing lingers.

    def clean_up(self, *, leave: bool = False) -> int:
        """Removes what crashed runs and losing attempts of this query left. Returns how many things were removed.

        ``leave``: the query has ended for good, and leaves nothing of its own behind.
        """
        head = self._log.head()
        if not head.done:
            return 0
        committer = self._committer()
        try:
            live = [self._sink.state_serializer.unpack(item.payload) for item in head.states]
            removed = committer.clean_up(live, before_batch=head.last_batch + 1)
            if leave:
                committer.leave()
            return removed
        finally:
            committer.close()

    def _abort_lingering(self) -> None:
        committer = self._committer()
        try:
            committer.abort_lingering()
        finally:
            committer.close()

    def _outlast_stragglers(self) -> None:
        """Engines report a failed batch while its other tasks are only being told to stop: until those are dead they
        may leave something behind that no later batch would find."""
        deadline = time.monotonic() + _STRAGGLERS_S
        while time.monotonic() < deadline:
            time.sleep(0.25)
            self._abort_lingering()

    def _tidy_up(self, batch_id: int, work: Callable[[], object]) -> None:
        """What fails here is made up for before the next batch, or by a later clean-up."""
        try:
            work()
        except (OSError, RetriableError) as error:
            _log.warning("could not clean up behind batch %d (%s); a later one will", batch_id, error)

    def _throw_away(self, outputs: Sequence[Output]) -> None:
        if not outputs:
            return
        committer = self._committer()
        try:
            committer.abort(
                [self._committable(stored) for output in outputs for stored in output.committables],
                [self._sink.state_serializer.unpack(item.payload) for output in outputs for item in output.states],
            )
        except (OSError, RetriableError) as error:
            _log.warning("could not throw away what an attempt left (%s); the next clean-up will", error)
        finally:
            committer.close()

    def _committer(self) -> Committer[Any, Any]:
        return self._sink.create_committer(self._context)

    def _committable(self, stored: Any) -> Any:
        return self._sink.committable_serializer.unpack(stored)


def next_write_timestamp_us() -> int:
    """Now, in microseconds since 1970: as users' own writes are stamped, so that theirs and ours have an order."""
    return time.time_ns() // 1000


def _sum_metrics(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in counts:
        for name, amount in one.items():
            total[name] = total.get(name, 0) + amount
    return total
