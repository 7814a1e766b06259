"""A model of Kafka's transaction coordinators, for :mod:`penstock.testing.simulation`; the committer is the real one.

What the model does is what brokers do, as far as ending transactions goes: a transactional id has one producer id, an
epoch that only grows, and at most one open transaction. ``test_simulation.py`` compares it with a broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from penstock._commit import AnySink
from penstock.errors import RetriableError
from penstock.metrics import Metrics
from penstock.serialization import JsonSerializer
from penstock.sink import CommittingSinkWriter, PreparedCommit, SinkContext, TwoPhaseCommitSink, WriterContext
from penstock.system import system
from penstock.testing.simulation import Event, Process, Scheduler, SimulatedTarget, target
from penstock_kafka.client import Ended, OpenTransaction, Proof, TransactionRef
from penstock_kafka.sink._committable import COMMITTABLE_SERIALIZER, KafkaCommittable
from penstock_kafka.sink._committer import KafkaCommitter
from penstock_kafka.sink._states import DescribedStates, ProvenStates, TransactionStates
from penstock_kafka.transactions import DEFAULT_PREFIX, QueryPrefix

__all__ = ["FencedError", "KafkaTarget", "ModelCoordinators"]

_TIMEOUT_MS = 900_000
_HOST = 0x0123ABCD


class FencedError(RetriableError):
    """Another producer has the transactional id, or its transaction was ended from outside."""


@dataclass
class _Id:
    """What a coordinator knows of one transactional id."""

    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    rows: list[int] = field(default_factory=list)
    proof: Proof | None = None
    started_ms: int = 0


class ModelCoordinators:
    """What :class:`~penstock_kafka.client.broker.Coordinators` asks, and what producers do.

    ``bumps`` is what brokers with transactions version 2 (KIP-890) do: they raise the epoch as a transaction ends.
    ``shown`` are the rows of committed transactions, in order.
    """

    def __init__(self, *, bumps: bool) -> None:
        self.bumps = bumps
        self.ids: dict[str, _Id] = {}
        self.groups: dict[str, Proof] = {}
        self.shown: list[tuple[TransactionRef, int]] = []

    # Producers.

    def init(self, transactional_id: str) -> TransactionRef:
        """InitProducerId: aborts what is open, and shuts out the producer before."""
        one = self.ids.setdefault(transactional_id, _Id(1000 + len(self.ids), epoch=-1))
        one.epoch += 1
        one.state, one.rows, one.proof = "Empty", [], None
        return TransactionRef(transactional_id, one.producer_id, one.epoch)

    def write(self, ref: TransactionRef, rows: Sequence[int], proof: Proof, now_ms: int) -> None:
        """Rows and the proof, in a transaction that this begins. Raises FencedError."""
        one = self.ids[ref.transactional_id]
        if one.epoch != ref.epoch or one.state not in ("Empty", "Ongoing"):
            raise FencedError(f"{ref} is fenced")
        if one.state == "Empty":
            one.state, one.started_ms = "Ongoing", now_ms
        one.rows += rows
        one.proof = proof

    # Anybody.

    def end(self, ref: TransactionRef, *, commit: bool) -> Ended:
        """EndTxn."""
        one = self.ids.get(ref.transactional_id)
        if one is None or one.producer_id != ref.producer_id:
            return Ended.OVER
        wanted = "CompleteCommit" if commit else "CompleteAbort"
        if one.state == wanted and one.epoch - ref.epoch == int(self.bumps):
            return Ended.DONE  # a request that is repeated
        # Since KIP-890 a transaction that has not begun can be aborted, too.
        can_end = one.state == "Ongoing" or (one.state == "Empty" and self.bumps and not commit)
        if one.epoch != ref.epoch or not can_end:
            return Ended.OVER
        if commit:
            self.shown += [(ref, row) for row in one.rows]
            if one.proof is not None:
                self.groups[ref.transactional_id] = one.proof
        one.state, one.rows, one.proof = wanted, [], None
        one.epoch += int(self.bumps)
        return Ended.DONE

    def time_out(self, before_ms: int) -> None:
        """Brokers abort transactions that were opened before, and shut out their producers."""
        for one in self.ids.values():
            if one.state == "Ongoing" and one.started_ms < before_ms:
                one.state, one.rows, one.proof = "CompleteAbort", [], None
                one.epoch += 1

    def describe(self, transactional_id: str) -> OpenTransaction | None:
        """DescribeTransactions; ``None`` for an id that was never heard of."""
        one = self.ids.get(transactional_id)
        if one is None:
            return None
        ref = TransactionRef(transactional_id, one.producer_id, one.epoch)
        return OpenTransaction(ref, one.state, one.started_ms, _TIMEOUT_MS, ())

    def pending(self, groups: Collection[str]) -> set[str]:
        """OffsetFetch of stable offsets: groups to which something open is to commit."""
        return {one for one in groups if one in self.ids and self.ids[one].proof is not None}

    def known_groups(self) -> list[str]:
        """ListGroups."""
        return sorted({*self.groups, *self.pending(self.ids)})

    def open_ids(self) -> list[str]:
        """ListTransactions."""
        return sorted(name for name, one in self.ids.items() if one.state == "Ongoing")


class KafkaTarget(SimulatedTarget):
    """Brokers, and the machine that lends slots."""

    #: Whether transactions can be listed and described.
    lists = True

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.model = ModelCoordinators(bumps=self.lists and bool(scheduler.choices.pick(2)))
        self._slots: dict[tuple[int, int], tuple[Process, int]] = {}
        self._names: dict[tuple[int, int], int] = {}
        self.shut_out: dict[str, float] = {}

    def create_sink(self) -> AnySink:
        """See the base class."""
        return _SimulatedKafkaSink()

    def name_of(self, committable: KafkaCommittable) -> str:
        """See the base class."""
        return _name(committable.ref)

    def shown(self) -> list[tuple[str, int]]:
        """See the base class."""
        return [(_name(ref), row) for ref, row in self.model.shown]

    def left(self) -> list[str]:
        """Readers wait for what is open."""
        return self.model.open_ids()

    def events(self) -> list[Event]:
        """See the base class."""
        return [
            Event("transactions time out", self._may_time_out, lambda: self._wait(1.0)),
            Event("most of the transactions' time passes", self._may_time_out, lambda: self._wait(0.8)),
        ]

    def _may_time_out(self) -> bool:
        """Not between the commits of one batch: that they come close together is what the margin is for."""
        if not self.model.open_ids():
            return False
        pending = [link for link in self.links() if link.number == link.pending]
        if not pending:
            return True
        decided = [
            COMMITTABLE_SERIALIZER.unpack(one).ref for output in pending[-1].outputs for one in output.committables
        ]
        committed = {ref for ref, _ in self.model.shown}
        return all(ref in committed for ref in decided) or not any(ref in committed for ref in decided)

    def _wait(self, part: float) -> None:
        """``part`` of the time-out passes."""
        self.scheduler.clock_us += int(_TIMEOUT_MS * 1000 * part) + 1
        self.model.time_out(self.scheduler.clock_us // 1000 - _TIMEOUT_MS)

    def register(self, generation: int, base: int) -> TransactionRef:
        """As :class:`~penstock_kafka.transactions.SlotLender` and the pool: slots go by processes that live and bases
        that were noted, and an id is given up unless its registration was answered.
        """
        slot = self._lend(generation, base)
        name = self._names.get(slot, 0)
        transactional_id = QueryPrefix(DEFAULT_PREFIX, "query").transactional_id(
            generation, f"{_HOST + name:08x}", slot[1]
        )
        self._names[slot] = name + 1
        ref: TransactionRef = self.ask(f"register {transactional_id}", lambda: self.model.init(transactional_id))
        self._names[slot] = name
        return ref

    def _lend(self, generation: int, base: int) -> tuple[int, int]:
        number = 0
        while True:
            holder = self._slots.get((generation, number))
            if holder is None or (not holder[0].alive and holder[1] < base):
                self._slots[generation, number] = (self.scheduler.current.root, base)
                return generation, number
            number += 1

    def ask(self, label: str, effect: Callable[[], Any]) -> Any:
        """One request."""

        def noted() -> Any:
            before = len(self.model.shown)
            answer = effect()
            self.changes += len(self.model.shown) != before
            return answer

        return self.scheduler.call(label, noted)


class UnlistedKafkaTarget(KafkaTarget):
    """Brokers that can't list or describe transactions."""

    lists = False


def _name(ref: TransactionRef) -> str:
    return f"{ref.transactional_id}/{ref.epoch}"


class _SimulatedCoordinators:
    """The interface of Coordinators, with each request a call of the scheduler."""

    def __init__(self) -> None:
        self.markers = _NoMarkers()

    def end(self, transactions: Sequence[TransactionRef], *, commit: bool) -> list[Ended]:
        there = target()
        what = "commit" if commit else "abort"
        return [
            there.ask(f"{what} {_name(ref)}", lambda ref=ref: there.model.end(ref, commit=commit))
            for ref in transactions
        ]

    def describe(self, transactional_ids: Collection[str]) -> dict[str, OpenTransaction]:
        there, wanted = target(), sorted(set(transactional_ids))
        if not wanted:
            return {}

        def describe() -> dict[str, OpenTransaction]:
            found = {name: there.model.describe(name) for name in wanted}
            return {name: one for name, one in found.items() if one is not None}

        described: dict[str, OpenTransaction] = there.ask(f"describe {wanted}", describe)
        return described

    def proofs(self, groups: Collection[str]) -> dict[str, Proof]:
        there = target()

        def read() -> dict[str, Proof]:
            return {group: there.model.groups[group] for group in groups if group in there.model.groups}

        proofs: dict[str, Proof] = there.ask(f"proofs of {list(groups)}", read)
        return proofs

    def fence(self, *transactional_ids: str) -> None:
        there = target()
        for one in transactional_ids:
            there.ask(f"fence {one}", lambda one=one: there.model.init(one) and None)

    def groups(self, owns: Callable[[str], bool]) -> list[str]:
        there = target()
        ids: list[str] = there.ask("list groups", lambda: [one for one in there.model.known_groups() if owns(one)])
        return ids

    def pending(self, groups: Mapping[str, Collection[str]]) -> set[str]:
        there = target()
        if not groups:
            return set()
        found: set[str] = there.ask(f"pending offsets of {sorted(groups)}", lambda: there.model.pending(groups))
        return found

    def open_ids(self, owns: Callable[[str], bool]) -> list[str]:
        there = target()
        ids: list[str] = there.ask("list transactions", lambda: [one for one in there.model.open_ids() if owns(one)])
        return ids

    def broker_setting(self, name: str) -> str | None:
        return None


class _NoMarkers:
    """A transaction that has ended is marked at once."""

    def partitions_of(self, topics: Collection[str]) -> set[Any]:
        return set()

    def missing(self, refs: Any, partitions: Any) -> list[Any]:
        return []


class _SimulatedKafkaSink(TwoPhaseCommitSink[KafkaCommittable, None]):
    @property
    def committable_serializer(self) -> JsonSerializer[KafkaCommittable]:
        return COMMITTABLE_SERIALIZER

    @property
    def holds_back_readers(self) -> bool:
        return True

    def create_writer(self, context: WriterContext) -> CommittingSinkWriter[KafkaCommittable, None]:
        return _SimulatedWriter(context)

    def create_committer(self, context: SinkContext) -> KafkaCommitter:
        coordinators: Any = _SimulatedCoordinators()
        there = target()

        def states() -> TransactionStates:
            if there.lists:
                return DescribedStates(coordinators)
            return ProvenStates(coordinators, _TIMEOUT_MS, ["out"], there.shut_out)

        return KafkaCommitter(coordinators, QueryPrefix(DEFAULT_PREFIX, context.query_id), Metrics(), states)


class _SimulatedWriter(CommittingSinkWriter[KafkaCommittable, None]):
    """One transaction, begun with the first row and left open."""

    def __init__(self, context: WriterContext) -> None:
        self._context = context
        self._committable: KafkaCommittable | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        rows = batch.column(0).to_pylist()
        if not rows:
            return
        there, context = target(), self._context
        now_ms = system().now_us() // 1000
        if self._committable is None:
            ref = there.register(context.generation, context.base)
            self._committable = KafkaCommittable(ref, context.batch_id, context.attempt_id, 0, now_ms, (), now_ms)
        made = self._committable
        there.ask(f"send {rows} in {_name(made.ref)}", lambda: there.model.write(made.ref, rows, made.proof, now_ms))
        self._committable = replace(made, records=made.records + len(rows))

    def prepare_commit(self) -> PreparedCommit[KafkaCommittable, None]:
        return PreparedCommit([] if self._committable is None else [self._committable])

    def abort(self) -> None:
        there, made = target(), self._committable
        if made is not None:
            there.ask(f"abort {_name(made.ref)}", lambda: there.model.end(made.ref, commit=False))
