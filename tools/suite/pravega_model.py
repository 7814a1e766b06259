"""A model of Pravega's transactions for :mod:`penstock.testing.simulation`, with the real committer.

What the model does is what a controller and its segment stores do, as far as transactions go: each has an id that is
never used again, and a lease that whoever knows the id may renew; what has ended stays as it has ended.
``test_simulation.py`` compares it with a server.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from penstock._commit import AnySink
from penstock.errors import RetriableError
from penstock.metrics import Metrics
from penstock.serialization import JsonSerializer
from penstock.sink import CommittingSinkWriter, PreparedCommit, SinkContext, TwoPhaseCommitSink, WriterContext
from penstock.system import system
from penstock.testing.simulation import Event, Process, Scheduler, SimulatedTarget, target
from penstock_pravega.client import NoSuchSegment, PingAnswer, TransactionState
from penstock_pravega.sink._committable import COMMITTABLE_SERIALIZER, PravegaCommittable, TransactionRef
from penstock_pravega.sink._committer import PravegaCommitter
from penstock_pravega.sink._transaction_log import OpenTransaction, TransactionLog

__all__ = ["ModelStream", "PravegaTarget"]

_LEASE_MS = 600_000
#: The part of a lease that passes without ending one that was just renewed.
_MOST = 0.8
_STREAM = "scope/stream"
_SEGMENT = 0
#: What became of a lease, by what became of its transaction.
_PINGS = {
    TransactionState.COMMITTED: PingAnswer.COMMITTED,
    TransactionState.ABORTED: PingAnswer.ABORTED,
    TransactionState.UNKNOWN: PingAnswer.UNKNOWN,
}


@dataclass
class _Transaction:
    state: TransactionState
    begun_ms: int
    ends_ms: int
    rows: list[int] = field(default_factory=list)


class ModelStream:
    """The transactions of one stream. ``shown`` are the rows of those that were committed, in order.

    ``longest_ms``: what a transaction may live in all, however often its lease is renewed.
    """

    def __init__(self, longest_ms: int) -> None:
        self.longest_ms = longest_ms
        self.transactions: dict[int, _Transaction] = {}
        self.shown: list[tuple[int, int]] = []

    def begin(self, lease_ms: int, now_ms: int) -> int:
        """The new transaction's id."""
        number = len(self.transactions) + 1
        self.transactions[number] = _Transaction(TransactionState.OPEN, now_ms, now_ms + lease_ms)
        return number

    def append(self, number: int, rows: Sequence[int]) -> None:
        """Raises NoSuchSegment if it is over."""
        self._open(number).rows += rows

    def size(self, number: int) -> int:
        """How many rows its segment holds. Raises NoSuchSegment if it is over."""
        return len(self._open(number).rows)

    def _open(self, number: int) -> _Transaction:
        one = self.transactions.get(number)
        if one is None or one.state is not TransactionState.OPEN:
            raise NoSuchSegment("it is not there", f"{number}")
        return one

    def state(self, number: int) -> TransactionState:
        """What became of it."""
        one = self.transactions.get(number)
        return TransactionState.UNKNOWN if one is None else one.state

    def ping(self, number: int, lease_ms: int, now_ms: int) -> PingAnswer:
        """Renews the lease."""
        state = self.state(number)
        if state is not TransactionState.OPEN:
            return _PINGS[state]
        one = self.transactions[number]
        if now_ms + lease_ms > one.begun_ms + self.longest_ms:
            return PingAnswer.MAX_EXECUTION_TIME_EXCEEDED
        one.ends_ms = now_ms + lease_ms
        return PingAnswer.OK

    def end(self, number: int, *, commit: bool) -> bool:
        """Commits or aborts it. Whether it has ended so, now or before."""
        wanted = TransactionState.COMMITTED if commit else TransactionState.ABORTED
        if self.state(number) is TransactionState.OPEN:
            one = self.transactions[number]
            one.state = wanted
            if commit:
                self.shown += [(number, row) for row in one.rows]
        return self.state(number) is wanted

    def time_out(self, now_ms: int) -> None:
        """Transactions whose lease is over are aborted."""
        for one in self.transactions.values():
            if one.state is TransactionState.OPEN and one.ends_ms < now_ms:
                one.state = TransactionState.ABORTED

    def open_ids(self) -> list[int]:
        """Which nobody lists on a real server."""
        return [number for number, one in self.transactions.items() if one.state is TransactionState.OPEN]


class PravegaTarget(SimulatedTarget):
    """A controller and its segment stores."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        # A thousand leases by default; or so few that one can't be renewed for long.
        self.model = ModelStream((2 if scheduler.choices.pick(2, 0.7) else 1000) * _LEASE_MS)
        self._renewed: list[tuple[Process, int]] = []

    def create_sink(self) -> AnySink:
        """See the base class."""
        return _SimulatedPravegaSink()

    def name_of(self, committable: PravegaCommittable) -> str:
        """See the base class."""
        return str(committable.ref.id)

    def shown(self) -> list[tuple[str, int]]:
        """See the base class."""
        return [(str(number), row) for number, row in self.model.shown]

    def left(self) -> list[str]:
        """A transaction that was never noted holds nothing, and ends with its lease."""
        return [f"transaction {number}" for number in self.model.open_ids() if self.model.size(number)]

    def events(self) -> list[Event]:
        """See the base class."""
        return [
            Event("leases end", self._may_end, lambda: self._wait(1.0)),
            Event("most of the leases' time passes", self._may_pass, lambda: self._wait(_MOST)),
        ]

    def _may_end(self) -> bool:
        """Not between the commits of one batch: that they come close together is what the margin is for."""
        return bool(self.model.open_ids()) and not self._half_committed()

    def _may_pass(self) -> bool:
        """Nor, so that some leases end and others do not, between a look, which renews them, and the commits."""
        open_ids, until_ms = self.model.open_ids(), self.scheduler.clock_us // 1000 + int(_MOST * _LEASE_MS) + 1
        if not open_ids or any(process.alive and one in open_ids for process, one in self._renewed):
            return False
        # A driver that died between two commits comes back before the rest has ended.
        return all(self.model.transactions[one].ends_ms > until_ms for one in self._half_committed() & set(open_ids))

    def _half_committed(self) -> set[int]:
        """The transactions of a pending batch of which a part is committed."""
        pending = [link for link in self.links() if link.number == link.pending]
        if not pending:
            return set()
        decided = {
            COMMITTABLE_SERIALIZER.unpack(one).ref.id for output in pending[-1].outputs for one in output.committables
        }
        committed = decided & {number for number, _ in self.model.shown}
        return decided if committed not in (set(), decided) else set()

    def _wait(self, part: float) -> None:
        """``part`` of a lease passes."""
        self.scheduler.clock_us += int(_LEASE_MS * 1000 * part) + 1000
        self.model.time_out(self.scheduler.clock_us // 1000)

    def ask(self, label: str, effect: Callable[[], Any]) -> Any:
        """One request."""

        def noted() -> Any:
            before = len(self.model.shown)
            answer = effect()
            self.changes += len(self.model.shown) != before
            return answer

        return self.scheduler.call(label, noted)

    def note_renewal(self, number: int) -> None:
        """A driver relies on it from now on."""
        self._renewed.append((self.scheduler.current.root, number))

    def state(self) -> object:
        """Who has renewed what decides nothing but what may happen."""
        renewed = tuple((process.name, number) for process, number in self._renewed if process.alive)
        return (repr(self.model.transactions), tuple(self.model.shown), self.model.longest_ms, self.changes, renewed)


class _SimulatedController:
    """What the committer asks of :class:`~penstock_pravega.client.Controller`, each a call of the scheduler."""

    def transaction_state(self, scope: str, stream: str, number: int) -> TransactionState:
        there = target()
        state: TransactionState = there.ask(f"state of {number}", lambda: there.model.state(number))
        return state

    def ping_transaction(self, scope: str, stream: str, number: int, lease_ms: int) -> PingAnswer:
        there = target()

        def ping() -> PingAnswer:
            answer: PingAnswer = there.model.ping(number, lease_ms, there.scheduler.clock_us // 1000)
            return answer

        answer: PingAnswer = there.ask(f"renew {number} for {lease_ms} ms", ping)
        if answer is PingAnswer.OK:
            there.note_renewal(number)
        return answer

    def commit_transaction(self, scope: str, stream: str, number: int) -> bool:
        there = target()
        return bool(there.ask(f"commit {number}", lambda: there.model.end(number, commit=True)))

    def abort_transaction(self, scope: str, stream: str, number: int) -> bool:
        there = target()
        return bool(there.ask(f"abort {number}", lambda: there.model.end(number, commit=False)))


class _SimulatedStores:
    """The same for :class:`~penstock_pravega.client.SegmentStores`."""

    def __init__(self) -> None:
        self.controller = _SimulatedController()

    def info(self, stream: str, segment: int, name: str) -> SimpleNamespace:
        there, number = target(), int(name.rpartition(".")[2], 16)
        return SimpleNamespace(end=there.ask(f"size of {number}", lambda: there.model.size(number)))

    def close(self) -> None:
        """Nothing to free."""


class _SimulatedPravegaSink(TwoPhaseCommitSink[PravegaCommittable, Any]):
    @property
    def committable_serializer(self) -> JsonSerializer[PravegaCommittable]:
        return COMMITTABLE_SERIALIZER

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[PravegaCommittable, Any]:
        return _SimulatedWriter(context)

    def create_committer(self, context: SinkContext) -> PravegaCommitter:
        assert context.checkpoint is not None
        stores: Any = _SimulatedStores()
        log = TransactionLog(context.checkpoint, context.query_id)
        return PravegaCommitter(stores, log, Metrics(), writer="")


class _SimulatedWriter(CommittingSinkWriter[PravegaCommittable, Any]):
    """One transaction, begun with the first row, noted before it, and left open."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._ref: TransactionRef | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        rows = batch.column(0).to_pylist()
        if not rows:
            return
        there = target()
        if self._ref is None:
            number = there.ask(
                "begin a transaction", lambda: there.model.begin(_LEASE_MS, there.scheduler.clock_us // 1000)
            )
            self._ref = TransactionRef(_STREAM, number)
            assert self._context.checkpoint is not None
            log = TransactionLog(self._context.checkpoint, self._context.query_id)
            log.write(OpenTransaction(self._ref, _LEASE_MS, self._context.base))
        ref = self._ref
        try:
            there.ask(f"append {rows} to {ref.id}", lambda: there.model.append(ref.id, rows))
        except NoSuchSegment as error:
            raise RetriableError(f"{ref} is over") from error
        self._rows += len(rows)

    def prepare_commit(self) -> PreparedCommit[PravegaCommittable, Any]:
        if self._ref is None:
            return PreparedCommit()
        sizes, context, now_ms = ((_SEGMENT, self._rows),), self._context, system().now_us() // 1000
        made = PravegaCommittable(self._ref, sizes, self._rows, context.batch_id, context.attempt_id, _LEASE_MS, now_ms)
        return PreparedCommit([made])

    def abort(self) -> None:
        there, ref = target(), self._ref
        if ref is not None:
            there.ask(f"abort {ref.id}", lambda: there.model.end(ref.id, commit=False))
