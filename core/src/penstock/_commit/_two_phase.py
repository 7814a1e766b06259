"""The exactly-once protocol: two-phase commit over a decision log. Read it from top to bottom.

::

    driver   plan     → claim the log unless this run owns it; finish what is pending; judge the batch
    tasks    run_task → write, flush, leave everything hidden; return what there is to decide (see ``_tasks.py``)
    driver   commit   → decide (one link, created only if absent); look, publish, mark done (see ``_publishing.py``)
             abort    → void the batch by a link, then throw away what it left
             close    → at the end of a run: carried state is published, nothing stays hidden
    idle     roll     → between batches: close what is due

Who may do what:

======================  ====================  =======================================  ================================
who                     may append            may carry out                            may remove
======================  ====================  =======================================  ================================
``plan`` (driver)       claim                 what is pending, once it owns the log    garbage
``commit`` (driver)     batch, close          its own link; a pending roll on its      garbage
                                              base
``abort`` (driver)      claim                 nothing                                  attempts of the batch it voided
tasks, also zombies     nothing               nothing                                  what they made, when they fail
``roll`` (listener,     roll, on a head that  a pending roll, also another's;          its merge, if its roll was
``penstock finish``)    is carried out        never gives one up                       refused
``take_over``           claim, lost, close    as ``plan``                              as ``plan``
======================  ====================  =======================================  ================================

Three ideas carry everything. **One chain**: a number that a process knew to be free is its compare-and-swap. **A
base**: the number of the last link that is no roll. A batch is planned on a base and can be decided only while that
base is the head's; so any link but a roll makes void every plan before it, and what void plans have made is garbage for
ever.
**Claim, then touch**: nothing that another process made is aborted, fenced or deleted before a process's own link has
made it void.

The *owner* of the log is the run that appended the base. A run that finds another's base was displaced: it stops, and
never claims back. There is no lease and no clock in this: a run that slept for an hour finds its number taken.

After Flink's two-phase commit sink, with its checkpoint replaced by the decision; unlike there, a committable that was
lost before anything was published gives the decision up, so that the batch is written again.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from penstock._commit._chain import Chain, Head, Link, LinkKind, TaskOutput, now_ms
from penstock._commit._publishing import DisplacedError, Publishing, displaced, ended, undone
from penstock._commit._tasks import (
    AnySink,
    BatchPlan,
    PlannedBatch,
    TaskResult,
    driver_context,
    grouped_by_owner,
    metrics_of,
    offsets_of,
    roll_states,
)
from penstock.errors import BadConfigurationError, DataLostError, FatalError, RetriableError
from penstock.printable import get_logger
from penstock.sink import (
    TIMESTAMPS_PER_RUN,
    Committer,
    Kept,
    SinkContext,
    SupportsWriteTimestamps,
    describe_state,
    member_of,
    state_serializer_of,
    targets_of,
)
from penstock.system import system

__all__ = ["Batch", "BatchPendingError", "EngineLog", "GaveWayError", "RunMemory", "TwoPhaseCommit"]

_log = get_logger("penstock.sink")
_CLEAR_EVERY = 10
_TRIES = 20
_STRAGGLERS_S = 3.0  # Spark kills a Python worker 2 s after it asked the task to stop (spark.python.task.killTimeout)
#: How far ahead of its clock a run may stamp rows before it must reserve more.
_STAMPS_AHEAD_US = 10_000_000
#: Above the number of any link, and any generation.
_ABOVE_ALL = 1 << 62


@dataclass(frozen=True)
class Batch:
    """A batch as Spark has planned it: its number and Spark's own file of its offsets.

    Spark writes that file once, before it makes the sink's writer, and reads it back when it replays the batch. It
    holds the time as well, so a batch that is planned again has another one even where its offsets are the same.
    ``engine_run`` names the run of Spark's query, where that is known and counts: see :attr:`TwoPhaseCommit.in_batch`.
    """

    number: int
    offsets: bytes
    engine_run: str = ""

    @property
    def fingerprint(self) -> str:
        """Tells it from any other batch of the same number."""
        return hashlib.sha256(self.offsets).hexdigest()


class EngineLog(Protocol):
    """Spark's own log of the batches it has planned."""

    def planned(self, expected: int | None) -> Batch:
        """Returns the batch that is planned now: the last of the log. ``expected`` is tried first, if it is given."""

    def find(self, number: int) -> Batch | None:
        """Returns a batch of the log."""


@dataclass
class RunMemory:
    """What one process remembers of one query from batch to batch. A new process knows nothing, and claims."""

    run: str = field(default_factory=lambda: system().new_id())
    batch: int | None = None  #: the last one planned here
    plan_id: str = ""
    base: int | None = None  #: that it was planned on

    def goes_on_at(self, head: Link, *, in_batch: bool = False) -> bool:
        """Returns whether the next batch may be planned on ``head`` without a claim: since the last plan, only this
        run's committer and rolls have appended links. Then Spark has noted that batch, and no commit is running.

        ``in_batch``: only if that plan was decided. A function may catch the error of a write, and write later batches.
        """
        if self.batch is None or head.run != self.run:
            return False
        was_decided = head.plan == self.plan_id and head.batch == self.batch and head.base > (self.base or 0)
        return was_decided or (head.base == self.base and not in_batch)


class GaveWayError(RetriableError):
    """A batch came first: what was asked for is for later."""


class BatchPendingError(GaveWayError):
    """A batch is decided and not published yet: only the query's driver, or its successor, does that."""


class TwoPhaseCommit:
    """The driver's side of the protocol for one query. Single thread; several processes may hold one for one query.

    ``session`` names the session whose processes belong together. ``before_claim`` is called when a run begins.

    ``in_batch``: each batch is one of a user's function, which writes to this sink once, or not at all. So a log may
    leave batches out; and what was written is visible when a commit returns, as after any write of a DataFrame: it is
    merged first, and nothing is carried.
    """

    def __init__(
        self,
        sink: AnySink,
        context: SinkContext,
        chain: Chain,
        memory: RunMemory | None = None,
        *,
        session: str = "",
        before_claim: Callable[[], None] = lambda: None,
        in_batch: bool = False,
    ) -> None:
        self._sink = sink
        self._context = context
        self._chain = chain
        chain.storage = chain.storage.retrying(context.retry)
        self._memory = memory if memory is not None else RunMemory()
        self._session = session
        self._before_claim = before_claim
        self._in_batch = in_batch
        self._publishing = Publishing(sink, context, chain)

    # 1. Before the tasks of a batch start: own the log, leave nothing pending, judge the batch.

    def plan(self, engine: EngineLog) -> BatchPlan:
        """Returns what the tasks of the next batch must know. None of them runs yet."""
        memory = self._memory
        head = self._chain.head()
        was_carried_out = head.pending is None
        goes_on = memory.goes_on_at(head.link, in_batch=self._in_batch)
        batch = engine.planned(memory.batch + 1 if goes_on and memory.batch is not None else None)
        if self._in_batch:
            self._check_that_it_was_planned(head.link, batch, engine)
        if goes_on and self._follows(batch):
            head = self._carry_out_pending(head)
        elif self._follows(batch) and self._is_foreign(head.link):
            self._memory.batch = None
            raise displaced(self._chain, head.link)
        else:
            head = self._own(head, batch)
        is_decided = self._judge(batch, head.link, engine)
        if is_decided and was_carried_out and batch.engine_run and batch.engine_run == head.link.engine_run:
            raise BadConfigurationError(
                f"batch {batch.number} has been written to this sink already, in the same run of the query: give each "
                "write of a batch a name of its own"
            )
        if isinstance(self._sink, SupportsWriteTimestamps) and not is_decided:
            head = self._reserve_stamps(head)
        return self._planned(head.link, batch, is_decided=is_decided)

    def _follows(self, batch: Batch) -> bool:
        """Returns whether ``batch`` comes after the one that this process has planned last."""
        last = self._memory.batch
        if last is None:
            return False
        return batch.number > last if self._in_batch else batch.number == last + 1

    def _is_foreign(self, head: Link) -> bool:
        """Returns whether another run appended ``head``. Processes of one session take turns in planning a query's
        batches, and Spark runs a query once in a session.
        """
        is_of_session = bool(self._session) and head.session == self._session
        return head.run != self._memory.run and not is_of_session

    def _judge(self, batch: Batch, head: Link, engine: EngineLog) -> bool:
        """Returns whether ``batch`` is decided. Raises FatalError if it is none that may follow."""
        if head.batch < 0 or batch.number == head.batch + 1 or (self._in_batch and batch.number > head.batch):
            return False
        if batch.number == head.batch:
            if head.matches(batch.fingerprint):
                return True
            raise self._other_offsets(batch.number)
        if batch.number > head.batch:
            raise FatalError(
                f"Spark runs batch {batch.number}, and the last batch decided in {self._chain.directory} is "
                f"{head.batch}: a part of the decision log was deleted, or an older one put back. Put the newer one "
                "back, or start with a new checkpoint"
            )
        last = engine.find(head.batch)
        if last is not None and head.matches(last.fingerprint):
            raise displaced(self._chain, head)  # it has gone on since this run has looked at Spark's logs
        raise FatalError(
            f"Spark runs batch {batch.number}, and batch {head.batch} is decided in {self._chain.directory}: files "
            "below offsets/ and commits/ of the checkpoint were deleted or put back. Run: penstock restore-offsets "
            f"{self._chain.checkpoint}, or start with a new checkpoint"
        )

    def _check_that_it_was_planned(self, head: Link, batch: Batch, engine: EngineLog) -> None:
        """Raises FatalError if Spark's log has another batch than the last one that was decided.

        A function may leave batches out, so that the number of the next one does not show it. Within a run Spark's log
        only grows.
        """
        if batch.number <= head.batch or (batch.engine_run and batch.engine_run == head.engine_run):
            return
        last = engine.find(head.batch) if head.batch >= 0 else None
        if last is not None and not head.matches(last.fingerprint):
            raise self._other_offsets(head.batch)

    def _other_offsets(self, number: int) -> FatalError:
        return FatalError(
            f"batch {number} was decided with other offsets than the ones it is run with now: files below offsets/ of "
            f"the checkpoint were deleted or put back. Run: penstock restore-offsets {self._chain.checkpoint}, and "
            "start the query again"
        )

    def _own(self, head: Head, batch: Batch | None = None) -> Head:
        """Claims the log for this run, finishes what others have left pending, and cleans up after them. ``batch`` is
        the one that is planned.
        """
        self._check_target(head)  # first: what finishes the rows for another target needs the sink as it was stored
        self._before_claim()
        in_turn = batch is not None and self._is_taken_over_in_turn(head, batch)
        head = self._claim(head, keeps_generation=in_turn)
        head = self._carry_out_pending(head)
        retry = self._context.retry
        retry.call(lambda: self._check_states(head.link), "looking for carried rows")
        retry.call(lambda: self._clear(head.link), "cleaning up")
        return head

    def _check_target(self, head: Head) -> None:
        """Raises BadConfigurationError if what is open is for another target than that which its member has now, or the
        sink has no such member any more.
        """
        first = f"run penstock finish --take-over {self._chain.checkpoint} first"
        stored = [item.payload for item in head.link.states]
        if head.pending is not None:
            stored += [one for output in self._chain.read(head.pending).outputs for one in output.committables]
        targets = targets_of(self._sink)
        for member in sorted({member_of(self._sink, one) for one in stored}):
            if member not in targets:
                raise BadConfigurationError(
                    f"what was written to '{member}' is not published yet, and the query has no such sink any more: "
                    f"add it again as it was, or {first}"
                )
            before, now = head.link.targets.get(member), targets[member]
            if before and now and before != now:
                of_member = f" ({member})" if member else ""
                raise BadConfigurationError(
                    f"the query wrote to {before}{of_member} before and is to write to {now}, while rows for {before} "
                    f"are still open: {first}"
                )

    def _committer(self) -> contextlib.closing[Committer[Any, Any]]:
        """Makes a committer for one step. It is cheap: connectors keep their connections for the whole process."""
        return contextlib.closing(self._sink.create_committer(self._context))

    def _check_states(self, link: Link) -> None:
        states = [state_serializer_of(self._sink).unpack(item.payload) for item in link.states]
        if not states:
            return
        with self._committer() as committer:
            missing = [state for state, there in zip(states, committer.are_there(states), strict=True) if not there]
        if missing:
            head = self._chain.head().link
            if head.id != link.id:
                raise displaced(self._chain, head)
            raise DataLostError(
                f"{describe_state(self._sink, missing[0])} is gone, and {len(missing) - 1} more, with rows that were "
                "decided: was the target of the query changed, or something hidden in it deleted? Restore it, or start "
                "with a new checkpoint"
            )

    def _is_taken_over_in_turn(self, head: Head, batch: Batch) -> bool:
        """Returns whether another process of this session has written the last batch, in the same run of the query.

        A plan by another process than that of the last batch leaves a claim, and so does a write that failed: a head
        that is a batch, and carried out, was left by a write that has returned. Unless it was planned on in vain here.
        """
        link = head.link
        is_done = link.kind is LinkKind.BATCH and head.pending is None and self._memory.base != link.base
        is_of_session = bool(self._session) and link.session == self._session
        is_of_run = bool(batch.engine_run) and link.engine_run == batch.engine_run
        return self._in_batch and is_done and is_of_session and is_of_run and batch.number > link.batch

    def _claim(self, head: Head, *, keeps_generation: bool = False) -> Head:
        for _ in range(_TRIES):
            link = self._following(head, LinkKind.CLAIM)
            # An orderly end has left nothing that could be open under a name of its generation.
            if head.link.kind is not LinkKind.CLOSE and not keeps_generation:
                link = replace(link, generation=link.number)
            if isinstance(self._sink, SupportsWriteTimestamps):
                # The run before may have used anything up to the ceiling.
                link = replace(link, floor_us=head.link.ceiling_us, ceiling_us=_ceiling(head.link.ceiling_us))
            if self._chain.create(link):
                self._chain.shorten(head)
                found = self._chain.head()
                if found.link.id == link.id:
                    return found
            head, keeps_generation = self._chain.head(), False
        raise RetriableError(f"the decision log kept changing under {_TRIES} tries: {self._chain.directory}")

    def _carry_out_pending(self, head: Head) -> Head:
        """Carries out what is pending, and returns a head without it. Only the owner calls this."""
        base = head.link.base
        while head.pending is not None:
            link = self._chain.read(head.pending)
            if not self._publishing.carry_out(link, owner=base):
                self._give_up(link, base)
            head = self._chain.head()
            if head.link.run != self._memory.run:
                raise displaced(self._chain, head.link)
            base = head.link.base
        return head

    def _give_up(self, link: Link, owner: int) -> int:
        """Appends ``lost``: nothing of ``link`` is or can be published, so what held before it holds again.

        Returns the new base.

        Only while ``link`` is still pending and ``owner`` the base: else another run has carried it out, and what it
        published was read and cleared away meanwhile.
        """
        head = self._chain.head()
        if head.pending != link.number or head.link.base != owner:
            raise displaced(self._chain, head.link)
        before = self._chain.read(link.number - 1)
        lost = replace(
            self._following(head, LinkKind.LOST),
            batch=before.batch,
            fingerprint=before.fingerprint,
            states=before.states,
            pending=None,
        )
        if not self._chain.create(lost):
            raise displaced(self._chain, self._chain.head().link)
        return lost.number

    def _reserve_stamps(self, head: Head) -> Head:
        """Returns a head whose ceiling is above the stamps of the next batch."""
        if _next_stamp(head.link) + TIMESTAMPS_PER_RUN > head.link.ceiling_us:
            head = self._claim(head)
        return head

    def _planned(self, link: Link, batch: Batch, *, is_decided: bool) -> BatchPlan:
        stamp = _next_stamp(link) if isinstance(self._sink, SupportsWriteTimestamps) else 0
        planned = PlannedBatch(
            query_id=self._context.query_id,
            run=self._memory.run,
            plan_id=system().new_id(),
            base=link.base,
            head=link.number,
            generation=link.generation,
            batch_id=batch.number,
            fingerprint=batch.fingerprint,
            is_decided=is_decided,
            write_timestamp_us=stamp,
            engine_run=batch.engine_run,
        )
        memory = self._memory
        memory.batch, memory.plan_id, memory.base = batch.number, planned.plan_id, link.base
        return BatchPlan(
            planned,
            sequence=link.sequence,
            writers=link.writers,
            states={} if is_decided else grouped_by_owner(self._sink, link.states, link.writers),
            offsets=batch.offsets,
            checkpoint=self._context.checkpoint,
        )

    def _following(self, head: Head, kind: LinkKind, outputs: Sequence[TaskOutput] = ()) -> Link:
        """Returns the link that follows ``head`` if only ``outputs`` changes."""
        before = head.link
        number = before.number + 1
        by_writer: dict[int, int] = {}
        for output in outputs:
            by_writer[output.writer] = by_writer.get(output.writer, 0) + output.sequences_used
        return replace(
            before,
            number=number,
            kind=kind,
            base=before.base if kind is LinkKind.ROLL else number,
            id=system().new_id(),
            run=before.run if kind is LinkKind.ROLL else self._memory.run,
            session=before.session if kind is LinkKind.ROLL else self._session,
            time_ms=now_ms(),
            offsets=b"",
            outputs=tuple(outputs),
            states=before.state_after(outputs),
            pending=number if any(output.committables for output in outputs) else head.pending,
            sequence=before.sequence + max(by_writer.values(), default=0),
            query=self._context.query_id,
            targets=targets_of(self._sink),
            metrics={},
        )

    # 2. After the tasks: decide, look, publish, mark done.

    def commit(self, batch_id: int, results: Sequence[TaskResult]) -> Link:
        """Decides the batch and carries the decision out. Returns the link (an earlier one for a replay)."""
        planned = _common_plan(batch_id, results)
        self._memory.run = planned.run  # the process that planned it is another one
        if planned.is_decided:
            return self._skipped(planned)
        outputs = [output for result in results for output in result.outputs]
        if self._in_batch:
            outputs = self._merged_for(planned, outputs)
        link = self._decide(planned, results, outputs)
        if link.outputs and link.pending == link.number:
            if not self._chain.is_in_order(link.number):
                raise displaced(self._chain, self._chain.head().link)
            if not self._publishing.carry_out(link, owner=link.base):
                self._give_up(link, link.base)
                raise RetriableError(
                    f"batch {batch_id} was lost before it could be published (see the log). It is given up and nothing "
                    "of it counts: restart the query, and the batch is written again"
                )
        return self._clear_behind(link, planned)

    def _merged_for(self, planned: PlannedBatch, outputs: Sequence[TaskOutput]) -> list[TaskOutput]:
        try:
            return self._merged(self._chain.read(planned.head), outputs)
        except GaveWayError:
            raise displaced(self._chain, self._chain.head().link) from None

    def _skipped(self, planned: PlannedBatch) -> Link:
        head = self._chain.head()
        if head.link.base != planned.base or head.link.batch < planned.batch_id:
            raise displaced(self._chain, head.link)
        if planned.engine_run in ("", head.link.engine_run):
            return head.link
        # The run is on record, so that a second write of the batch in it is no replay.
        link = replace(self._following(head, LinkKind.CLAIM), engine_run=planned.engine_run)
        if not self._chain.create(link) or not self._chain.is_in_order(link.number):
            raise displaced(self._chain, self._chain.head().link)
        return link

    def _decide(self, planned: PlannedBatch, results: Sequence[TaskResult], outputs: Sequence[TaskOutput]) -> Link:
        before = self._chain.read(planned.head)
        head = Head(before, frozenset() if before.pending is None else frozenset([before.pending]))  # so it was planned
        metrics = metrics_of(results)
        for _ in range(_TRIES):
            counted, stale = _still_valid(head.link, outputs)
            link = replace(
                self._following(head, LinkKind.BATCH, counted),
                run=planned.run,
                plan=planned.plan_id,
                batch=planned.batch_id,
                fingerprint=planned.fingerprint,
                offsets=offsets_of(results),
                writers=len(results),
                metrics=metrics,
                engine_run=planned.engine_run,
            )
            if isinstance(self._sink, SupportsWriteTimestamps):
                floor = planned.write_timestamp_us + TIMESTAMPS_PER_RUN
                link = replace(link, floor_us=floor, ceiling_us=max(_ceiling(floor), head.link.ceiling_us))
            if self._chain.create(link):
                self._discard(stale)
                self._chain.shorten(head)
                return link
            head = self._chain.head()
            if head.link.base != planned.base:
                raise displaced(self._chain, head.link)
            if head.pending is not None:
                if not self._publishing.carry_out(self._chain.read(head.pending), owner=None):
                    raise RetriableError(
                        f"batch {planned.batch_id}: a merge of carried rows was lost; restart the query"
                    )
                head = self._chain.head()
                if head.link.base != planned.base:
                    raise displaced(self._chain, head.link)
        raise RetriableError(f"batch {planned.batch_id}: the decision log kept changing under {_TRIES} tries")

    def _clear_behind(self, link: Link, planned: PlannedBatch) -> Link:
        """Removes what the batch's losing attempts have left, and what was merged. Returns the head."""
        consumes = any(output.consumed or output.writer < 0 for output in link.outputs)
        if not (self._sink.holds_back_readers or consumes or planned.batch_id % _CLEAR_EVERY == 0):
            return link
        is_clear = self._tidily(f"clean up after batch {planned.batch_id}", lambda: self._clear(link))
        if is_clear or not self._sink.holds_back_readers:
            return link
        # A request of that clearing may arrive late: no batch may use names that it could hit.
        claim = replace(
            self._following(Head(link, frozenset([link.number])), LinkKind.CLAIM), generation=link.number + 1
        )
        return claim if self._chain.create(claim) else link

    # 3. The batch failed.

    def abort(self, batch_id: int, results: Sequence[TaskResult | None]) -> None:
        """Voids the batch by a link, and throws away what its attempts left. Touches nothing that was decided.

        ``results``: ``None`` for tasks that have not reported; some may still run.
        """
        reported = [result for result in results if result is not None]
        for _ in range(_TRIES):
            head = self._chain.head()
            if reported:
                is_ours = head.link.base == reported[0].planned.base
            else:
                is_ours = bool(self._session) and head.link.session == self._session
            if not is_ours or head.link.batch >= batch_id:
                return
            self._memory.run = head.link.run
            link = replace(self._following(head, LinkKind.CLAIM), generation=head.link.number + 1)
            if self._chain.create(link):
                if self._chain.is_in_order(link.number):
                    self._after_abort(batch_id, link, reported, stragglers=None in results)
                return

    def _after_abort(self, batch_id: int, link: Link, reported: Sequence[TaskResult], *, stragglers: bool) -> None:
        self._discard([output for result in reported for output in result.outputs])
        if link.pending is not None or not self._sink.holds_back_readers:
            return  # the next claim finds the rest
        self._tidily(f"clean up after batch {batch_id}", lambda: self._clear(link))
        if stragglers:
            self._tidily(
                f"clean up after batch {batch_id}", lambda: self._outlast_stragglers(lambda: self._clear(link))
            )

    def _outlast_stragglers(self, clear: Callable[[], object]) -> None:
        """Engines report a failed batch while its other tasks are only being asked to stop: until those are dead they
        may leave something behind that no later batch would find."""
        deadline = system().monotonic() + _STRAGGLERS_S
        while system().monotonic() < deadline:
            system().sleep(0.25)
            clear()

    # 4. Between batches: only carried state.

    def roll(self, *, finish: bool) -> Link | None:
        """Closes and publishes carried state that is due, or all of it. ``None`` if there was nothing to do.

        Any process may call it at any time. Raises GaveWayError if a batch is decided and not carried out, or came
        first.
        """
        head = self._chain.head()
        if head.pending is not None:
            link = self._chain.read(head.pending)
            if link.kind is not LinkKind.ROLL:
                raise BatchPendingError(
                    f"batch {head.link.batch} is decided and not published yet: the query does that, or the next start "
                    f"of it. If it is stopped for good, run: penstock finish --take-over {self._chain.checkpoint}"
                )
            return link if self._publishing.carry_out(link, owner=None) else None
        outputs = self._rolled(head.link, finish=finish)
        if not outputs:
            return None
        link = self._following(head, LinkKind.ROLL, outputs)
        if not self._chain.create(link) or not self._chain.is_in_order(link.number):
            self._discard(outputs)
            raise GaveWayError(f"{self._chain.directory}: a batch was decided at the same time")
        if link.pending == link.number:
            self._publishing.carry_out(link, owner=None)
        return link

    def _rolled(self, link: Link, *, finish: bool) -> list[TaskOutput]:
        context = driver_context(self._context, base=link.number, generation=link.generation, sequence=link.sequence)
        try:
            return roll_states(self._sink, context, link.states, finish=finish)
        except (OSError, DataLostError, RetriableError) as error:
            if self._chain.head().link.id != link.id:
                raise GaveWayError(f"{self._chain.directory}: a batch has replaced what was to be merged") from error
            raise

    # 5. The end of a run.

    def commit_at_once(self, results: Sequence[TaskResult]) -> None:
        """A batch write: everything that tasks have left is merged first, and is then one decision.

        Safe to repeat after a failure. A failure before the decision leaves nothing. After it, this method,
        :meth:`finish_at_once` or :meth:`abort_at_once` of any process publishes the rest. What losing attempts have
        left is for :meth:`clear_at_once`.
        """
        planned = _common_plan(0, results)
        self._memory.run = planned.run
        head = self._chain.head()
        if head.link.plan != planned.plan_id:
            head = self._decide_at_once(head, planned, results)
        if not self._publish_at_once(head):
            raise DataLostError(
                "what was written is gone before it could be published (see the log). Nothing of it is visible: write "
                "it again"
            )

    def _decide_at_once(self, head: Head, planned: PlannedBatch, results: Sequence[TaskResult]) -> Head:
        if head.link.base != planned.base:
            raise undone(self._chain)
        try:
            decided = self._merged(head.link, [output for result in results for output in result.outputs])
        except GaveWayError:
            raise undone(self._chain) from None
        link = replace(self._following(head, LinkKind.CLOSE, decided), batch=0, plan=planned.plan_id)
        if not self._chain.create(link):
            head = self._chain.head()
            if head.link.plan != planned.plan_id:
                raise undone(self._chain)
            return head  # an earlier try whose answer was lost
        if not self._chain.has_not_ended_before(link.number, planned.base):
            raise ended(self._chain)
        return Head(link)

    def _merged(self, head: Link, outputs: Sequence[TaskOutput]) -> list[TaskOutput]:
        """Returns ``outputs`` with what they leave open merged and closed. Nothing is carried at ``head``."""
        staged = replace(head, states=head.state_after(outputs))
        rolled = self._rolled(staged, finish=True)
        left = {state_id for output in rolled for state_id in output.consumed}
        assert left == {item.id for item in staged.states}, "a roller must finish everything"
        plain = [replace(output, states=()) for output in outputs]
        return [*plain, *(replace(output, consumed=()) for output in rolled)]

    def _publish_at_once(self, head: Head) -> bool:
        """Carries out what a batch write has decided. Any number of processes may do so at the same time.

        False if it is lost: nothing of it is visible, or ever will be.
        """
        if head.link.pending is None:
            return True
        try:
            if head.pending is not None and not self._publishing.carry_out(
                self._chain.read(head.pending), owner=head.link.base
            ):
                # Or another process has carried it out, and cleared up since.
                return self._chain.head().pending != head.pending
        except DisplacedError:
            return True  # the same
        # What tells that it was published is garbage from now on.
        self._chain.mark_done(head.link.pending, durable=True)
        return True

    def abort_at_once(self, results: Sequence[TaskResult | None]) -> bool:
        """A batch write failed, or is undone. What was decided is published all the same; otherwise nothing stays.

        ``results``: ``None`` for tasks that have not reported; some may still run. Returns whether it is published.
        """
        head, is_published = self._chain.head(), False
        if head.link.number >= 0:  # else it has ended: its log is gone
            head = self._claim(head)
            is_published = self._publish_at_once(head) and head.link.batch >= 0
        if head.link.batch < 0:
            self._discard([output for result in results if result is not None for output in result.outputs])
        self.clear_at_once()
        if None in results:
            self._outlast_stragglers(self.clear_at_once)
        return is_published

    def finish_at_once(self) -> Link | None:
        """Publishes what a batch write had decided, and clears up. Returns the decision; ``None`` if it was lost.

        Any process may call it, at any time. Raises GaveWayError if the write has not decided anything.
        """
        head = self._chain.head()
        if head.link.batch < 0:
            raise GaveWayError("a batch write has not decided anything yet")
        decision = self._chain.read(head.link.number if head.link.pending is None else head.link.pending)
        is_published = self._publish_at_once(head)
        self.clear_at_once()
        return decision if is_published else None

    def settle_at_once(self) -> bool | None:
        """Returns whether a batch write whose commit has failed is decided; ``None`` if that can't be known.

        A request for the decision may have been given up, and arrive later. A claim takes its place in the log, so that
        an answer that it is not decided stays true.
        """
        try:
            head = self._chain.head()
            if head.link.number >= 0 and head.link.batch < 0 and self._chain.storage.has_late_calls:
                head = self._claim(head)
        except (OSError, RetriableError):
            return None
        # Without its log, the write was ended by another process: undone, or published.
        return head.link.batch >= 0 if head.link.number >= 0 else None

    def clear_at_once(self) -> None:
        """Removes whatever a batch write that has ended made and did not publish. It never counts any more."""
        with self._committer() as committer:
            committer.clear(Kept(base=_ABOVE_ALL, generation=_ABOVE_ALL))

    def close(self, link: Link) -> Link:
        """Publishes all that is carried, by the owner, when no batch follows; nothing stays hidden.

        ``link`` is that of the last batch. Gives way to rolls only.
        """
        base, self._memory.run = link.base, link.run
        for _ in range(_TRIES):
            head = self._chain.head()
            if head.link.base != base:
                raise displaced(self._chain, head.link)
            if head.pending is not None:
                pending = self._chain.read(head.pending)
                if not self._publishing.carry_out(pending, owner=base):
                    base = self._give_up(pending, base)
                continue
            outputs = self._rolled(head.link, finish=True)
            closing = self._following(head, LinkKind.CLOSE, outputs)
            if not self._chain.create(closing):
                self._discard(outputs)
                continue
            if not self._chain.is_in_order(closing.number):
                raise displaced(self._chain, self._chain.head().link)
            base = closing.base
            if closing.pending != closing.number or self._publishing.carry_out(closing, owner=base):
                self._clear(closing, ends=True)
                return closing
            base = self._give_up(closing, base)
        raise RetriableError(f"the decision log kept changing under {_TRIES} tries: {self._chain.directory}")

    def take_over(self) -> Link:
        """Claims the log from its owner, carries out what is pending and closes."""
        head = self._own(self._chain.head())
        return self.close(head.link)

    def resolve(self, *, write_all_again: bool) -> Link:
        """Ends what a person must decide: a batch of which a part is published and another part is lost.

        Claims the log. Either the batch is given up, and written again as a whole, so that what is published comes
        twice; or what is lost stays missing, and the rest of the batch is published.
        """
        head = self._claim(self._chain.head())
        if head.pending is None:
            raise BadConfigurationError(f"{self._chain.directory}: nothing is pending, there is nothing to resolve")
        link = self._chain.read(head.pending)
        if write_all_again:
            self._publishing.seal(link)
            self._give_up(link, head.link.base)
        else:
            self._publishing.publish_what_is_left(link, head.link.base)
        return self._chain.head().link

    # 6. Garbage.

    def _clear(self, link: Link, *, ends: bool = False) -> int:
        """Returns what plans below ``link``'s base have made, and no link from the base on names.

        ``ends``: nor what ``link`` itself has published. Another run may have begun by then, with the same generation;
        else no task of the generation runs.
        """
        if link.pending is not None and (ends or link.pending < link.base):
            # What tells that it was published is garbage, too: a mark that a power failure takes back would make it
            # look lost.
            self._chain.mark_done(link.pending, durable=True)
        named = [link, *(self._chain.read(number) for number in range(link.base, link.number))]
        with self._committer() as committer:
            return committer.clear(
                Kept(
                    base=link.base,
                    generation=link.generation + (not ends),
                    committables=[
                        self._sink.committable_serializer.unpack(stored)
                        for one in named
                        for output in one.outputs
                        for stored in output.committables
                        if not ends
                    ],
                    states=[
                        state_serializer_of(self._sink).unpack(payload)
                        for payload in {item.id: item.payload for one in named for item in one.states}.values()
                    ],
                )
            )

    def _discard(self, outputs: Sequence[TaskOutput]) -> None:
        if not outputs:
            return

        def discard() -> None:
            with self._committer() as committer:
                committer.discard(
                    [
                        self._sink.committable_serializer.unpack(one)
                        for output in outputs
                        for one in output.committables
                    ],
                    [
                        state_serializer_of(self._sink).unpack(item.payload)
                        for output in outputs
                        for item in output.states
                    ],
                )

        self._tidily("throw away what an attempt left", discard)

    @staticmethod
    def _tidily(what: str, work: Callable[[], object]) -> bool:
        """Returns whether ``work`` was done; if it fails, a later clearing makes up for it."""
        try:
            work()
        except (OSError, RetriableError) as error:
            _log.warning("could not %s (%s); a later batch will", what, error)
            return False
        return True


def _common_plan(batch_id: int, results: Sequence[TaskResult]) -> PlannedBatch:
    plans = {result.planned for result in results}
    if len(plans) != 1:
        raise FatalError(f"batch {batch_id}: its tasks were planned {len(plans)} times; restart the query")
    (planned,) = plans
    if planned.batch_id != batch_id:
        raise FatalError(f"batch {batch_id} is to be committed, and {planned.batch_id} was planned; restart the query")
    return planned


def _still_valid(head: Link, outputs: Sequence[TaskOutput]) -> tuple[list[TaskOutput], list[TaskOutput]]:
    """Splits off replacements of state that a roll has replaced meanwhile: its rows are in the roll."""
    live = {state.id for state in head.states}
    counted = [output for output in outputs if live.issuperset(output.consumed)]
    return counted, [output for output in outputs if not live.issuperset(output.consumed)]


def _next_stamp(link: Link) -> int:
    return max(system().now_us(), link.floor_us + 1)


def _ceiling(floor_us: int) -> int:
    return max(system().now_us(), floor_us) + _STAMPS_AHEAD_US
