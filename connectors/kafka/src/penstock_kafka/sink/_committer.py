"""The driver's side of the exactly-once sink: ends the transactions that tasks left open. Read it from top to bottom.

A transaction is known by its transactional id, producer id and epoch: every transaction has an epoch of its own, so a
request to end one can never end another. Its proof says whether one that is over was committed: an offset that
was committed to a consumer group as a part of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from penstock.errors import FatalError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.sink import Committer, Found, Kept
from penstock.system import system
from penstock_kafka.client import Ended, OpenTransaction
from penstock_kafka.sink._committable import KafkaCommittable
from penstock_kafka.sink._states import DescribedStates, TransactionStates
from penstock_kafka.transactions import QueryPrefix, forget_slots

if TYPE_CHECKING:
    from penstock_kafka.client.broker import Coordinators

__all__ = ["KafkaCommitter"]

_log = get_logger("penstock.kafka")

#: Brokers forget ids and offsets after a while (by default both after 7 days); before that a missing proof is a proof.
FORGETTING_SETTINGS = {"transactional.id.expiration.ms": 1, "offsets.retention.minutes": 60_000}
_NOT_BEFORE_MS = 3_600_000
_PROOF_S = 5.0


class KafkaCommitter(Committer[KafkaCommittable, Any]):
    """Ends the transactions of one query. Driver only, single thread."""

    def __init__(
        self,
        coordinators: Coordinators,
        prefix: QueryPrefix,
        metrics: Metrics,
        states: Callable[[], TransactionStates] | None = None,
    ) -> None:
        self._coordinators = coordinators
        self._prefix = prefix
        self._metrics = metrics
        self._choose = states or (lambda: DescribedStates(coordinators))

    @cached_property
    def _states(self) -> TransactionStates:
        """Chosen when it is needed: brokers are asked what they can do."""
        return self._choose()

    # 1. Which are open, and how did the others end?

    def look(self, committables: Sequence[KafkaCommittable]) -> list[Found]:
        """Finds out which are open, committed or lost.

        One is committed when readers see it: those that brokers have ended and not marked yet are waited for.

        A transaction with a third of its timeout left, or less, is lost as long as none is committed.
        """
        described = self._states.settled(committables)
        open_ = [c for c in committables if self._is_open(c, described.get(c.ref.transactional_id))]
        found: dict[KafkaCommittable, Found] = dict.fromkeys(open_, Found.OPEN)
        found.update(self._outcomes([c for c in committables if c not in found], described))
        committed = [c for c, state in found.items() if state is Found.COMMITTED]
        if not committed:
            found.update(dict.fromkeys(self._dying(open_, described), Found.LOST))
        self._states.await_ends(committed, commit=True)
        return [found[c] for c in committables]

    @staticmethod
    def _dying(
        committables: Sequence[KafkaCommittable], described: Mapping[str, OpenTransaction]
    ) -> list[KafkaCommittable]:
        now_ms = system().now_us() // 1000
        dying = []
        for committable in committables:
            one = described[committable.ref.transactional_id]
            # By the broker's clock or the task's, whichever makes it younger: with a wrong one every batch is given up.
            age_ms = now_ms - max(one.started_ms, committable.opened_ms)
            if age_ms > one.timeout_ms * 2 // 3:
                dying.append(committable)
                _log.warning(
                    "%s has been open for %d of the %d s that brokers allow it: raise the option transactionTimeout, "
                    "or make batches smaller",
                    committable.describe(),
                    age_ms // 1000,
                    one.timeout_ms // 1000,
                )
        return dying

    @staticmethod
    def _is_open(committable: KafkaCommittable, described: OpenTransaction | None) -> bool:
        return described is not None and described.state == "Ongoing" and described.ref == committable.ref

    # 2. End the open ones together.

    def publish(self, committables: Sequence[KafkaCommittable]) -> list[Found]:
        """Commits the open ones. The requests travel together."""
        ended = dict(zip(committables, self._coordinators.end([c.ref for c in committables], commit=True), strict=True))
        self._states.ended({c.ref: answer for c, answer in ended.items()}, commit=True)
        found = {c: Found.COMMITTED for c, answer in ended.items() if answer is Ended.DONE}
        self._metrics.add("transactions_committed", len(found))
        over = [c for c in committables if c not in found]  # timed out since it was looked at, or ended by another
        found.update(self._outcomes(over, self._states.settled(over)))
        self._states.await_ends([c for c, state in found.items() if state is Found.COMMITTED], commit=True)
        return [found[c] for c in committables]

    # 3. How one that is over ended: its coordinator remembers it until the id is used again; after that its proof
    # is there if, and only if, it was committed.

    def _outcomes(
        self, committables: Sequence[KafkaCommittable], described: Mapping[str, OpenTransaction]
    ) -> dict[KafkaCommittable, Found]:
        outcomes = {}
        for committable in committables:
            state = described.get(committable.ref.transactional_id)
            # Brokers may show an offset a moment after the transaction that committed it.
            patience = _PROOF_S if state is not None and state.state == "CompleteCommit" else 0.0
            if _is_remembered(committable, state) or self._is_proven(committable, patience):
                outcomes[committable] = Found.COMMITTED
            else:
                self._refuse_if_forgotten(committable)
                outcomes[committable] = Found.LOST
        return outcomes

    def _is_proven(self, committable: KafkaCommittable, patience_s: float) -> bool:
        deadline = system().monotonic() + patience_s
        while True:
            found = self._coordinators.proofs([committable.proof_group]).get(committable.proof_group)
            # A later batch in the same slot comes only after this one was carried out.
            if found is not None and (found == committable.proof or found.offset > committable.batch_id):
                return True
            if system().monotonic() > deadline:
                return False
            system().sleep(0.02)

    def _refuse_if_forgotten(self, committable: KafkaCommittable) -> None:
        """A proof that is missing says nothing once the brokers may have dropped it."""
        age_ms = system().now_us() / 1000 - committable.prepared_ms
        if age_ms < _NOT_BEFORE_MS:
            return
        for setting, unit_ms in FORGETTING_SETTINGS.items():
            value = self._coordinators.broker_setting(setting)
            kept_ms = int(value) * unit_ms if value is not None else 7 * 86_400_000
            if age_ms > kept_ms - _NOT_BEFORE_MS:
                raise FatalError(
                    f"{committable.describe()} was prepared {age_ms / 3_600_000:.0f} hours ago, and the brokers keep "
                    f"what would tell whether it was committed no longer than {kept_ms / 3_600_000:.0f} ({setting}). "
                    "Look into the topic whether the batch is there, then start with a new checkpoint after it or "
                    "before it"
                )

    # 4. What does not count.

    def seal(self, committables: Sequence[KafkaCommittable]) -> None:
        """Aborts by producer and epoch. Brokers then refuse a request to commit that is still in flight."""
        self._abort(committables)

    def discard(self, committables: Sequence[KafkaCommittable], states: Sequence[Any]) -> None:
        """Aborts what does not count."""
        self._abort(committables)

    def _abort(self, committables: Sequence[KafkaCommittable]) -> None:
        if not committables:
            return
        self._states.note(committables)
        ended = dict(
            zip(committables, self._coordinators.end([c.ref for c in committables], commit=False), strict=True)
        )
        self._states.ended({c.ref: answer for c, answer in ended.items()}, commit=False)
        aborted = [c for c, answer in ended.items() if answer is Ended.DONE]
        self._states.await_ends(aborted, commit=False)
        self._metrics.add("transactions_aborted", len(aborted))

    def clear(self, kept: Kept[KafkaCommittable, Any]) -> int:
        """Aborts what earlier runs left open: brokers list it, no id is guessed.

        They are fenced and not only aborted: their producers may be alive and continue to write.
        """
        named = {c.ref.transactional_id for c in kept.committables}

        def is_garbage(transactional_id: str) -> bool:
            generation = self._prefix.generation_of(transactional_id)
            return generation is not None and generation < kept.generation and transactional_id not in named

        def is_earlier(transactional_id: str) -> bool:
            generation = self._prefix.generation_of(transactional_id)
            return generation is not None and generation < kept.generation - 1

        topics = {topic for c in kept.committables for topic in c.topics}
        count = self._states.end_leftovers(is_garbage, is_earlier, topics)
        if count:
            _log.info("aborted %d transactions that earlier attempts had left open", count)
            self._metrics.add("transactions_aborted", count)
        return count

    def leave(self) -> None:
        """Removes the slots on this machine. Those on others go when nothing has used them for a day."""
        forget_slots(self._prefix)


def _is_remembered(committable: KafkaCommittable, state: OpenTransaction | None) -> bool:
    """Returns whether the last thing its coordinator knows of the id is that this very transaction was committed.

    The epoch is the transaction's own, or one more: brokers with transactions version 2 raise it at the end.
    """
    if state is None or state.state != "CompleteCommit" or state.ref.producer_id != committable.ref.producer_id:
        return False
    return state.ref.epoch - committable.ref.epoch in (0, 1)
