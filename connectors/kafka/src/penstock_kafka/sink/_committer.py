"""The driver's side of the exactly-once sink: ends the transactions that tasks left open. Read it from top to bottom.

A transaction is known by its transactional id, producer id and epoch: every transaction has an epoch of its own, so a
request to end one can never end another. Whether one that is over was committed is told by its proof, an offset that
was committed to a consumer group as a part of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import CommitOutcome, Committer
from penstock_kafka.sink._committable import KafkaCommittable
from penstock_kafka.transactions import Ended, OpenTransaction, Partition, QueryPrefix, TransactionRef

if TYPE_CHECKING:
    from penstock_kafka.transactions.coordinators import Coordinators
    from penstock_kafka.transactions.markers import Unmarked

__all__ = ["KafkaCommitter"]

_log = logging.getLogger("penstock.kafka")

#: Brokers forget ids and offsets after a while (by default both after 7 days); before that a missing proof is a proof.
FORGETTING_SETTINGS = {"transactional.id.expiration.ms": 1, "offsets.retention.minutes": 60_000}
_NOT_BEFORE_MS = 3_600_000
_SETTLE_S, _PROOF_S = 60.0, 5.0
_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.001, 0.064


class KafkaCommitter(Committer[KafkaCommittable, Any]):
    """Ends the transactions of one query. Driver only, single thread."""

    def __init__(self, coordinators: Coordinators, prefix: QueryPrefix, metrics: Metrics) -> None:
        self._coordinators = coordinators
        self._prefix = prefix
        self._metrics = metrics

    def commit(self, committables: Sequence[KafkaCommittable]) -> list[CommitOutcome]:
        """See the contract.

        Looks before it commits: if one transaction has been lost and none is committed yet, the others are given up as
        well, so that the batch is written again as a whole.
        """
        found, described = self._look(committables)
        lost = [c for c in committables if found[c] is CommitOutcome.LOST]
        if lost and CommitOutcome.ALREADY_COMMITTED not in found.values():
            _log.warning("%s can't be committed any more; its batch is given up as a whole", lost[0].describe())
            self._end(committables, commit=False)
            found, described = self._look(committables)
        found.update(self._commit_open([c for c in committables if found[c] is None]))
        committed = [c for c in committables if found[c] is not CommitOutcome.LOST]
        self._await_marks(self._partitions(committed, described), commit=True)
        return [found[c] or CommitOutcome.LOST for c in committables]

    # 1. Which are open (None), and what became of the others?

    def _look(
        self, committables: Sequence[KafkaCommittable]
    ) -> tuple[dict[KafkaCommittable, CommitOutcome | None], dict[str, OpenTransaction]]:
        described = self._describe_settled({c.ref.transactional_id for c in committables})
        over = [c for c in committables if not self._is_open(c, described.get(c.ref.transactional_id))]
        found: dict[KafkaCommittable, CommitOutcome | None] = dict.fromkeys(committables)
        found.update(self._outcomes(over, described))
        return found, described

    @staticmethod
    def _is_open(committable: KafkaCommittable, described: OpenTransaction | None) -> bool:
        return described is not None and described.state == "Ongoing" and described.ref == committable.ref

    def _describe_settled(self, transactional_ids: Collection[str]) -> dict[str, OpenTransaction]:
        """The states of all ids, none of them on its way from one to another."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            described = self._coordinators.describe(transactional_ids)
            if not any(one.state.startswith("Prepare") for one in described.values()):
                return described
            if time.monotonic() > deadline:
                raise RetriableError(f"a transaction has been ending for {_SETTLE_S:.0f} s; restart the query")
            time.sleep(0.01)

    # 2. End the open ones together.

    def _commit_open(self, committables: Sequence[KafkaCommittable]) -> dict[KafkaCommittable, CommitOutcome]:
        ended = dict(zip(committables, self._end(committables, commit=True), strict=True))
        done = {c: CommitOutcome.COMMITTED for c, answer in ended.items() if answer is Ended.DONE}
        self._metrics.add("transactions_committed", len(done))
        over = [c for c in committables if c not in done]  # timed out between looking and ending
        return {**done, **self._outcomes(over, self._describe_settled({c.ref.transactional_id for c in over}))}

    def _end(self, committables: Sequence[KafkaCommittable], *, commit: bool) -> list[Ended]:
        return self._coordinators.end([c.ref for c in committables], commit=commit) if committables else []

    # 3. What became of one that is over: its coordinator remembers it until the id is used again; after that its proof
    # is there if, and only if, it was committed.

    def _outcomes(
        self, committables: Sequence[KafkaCommittable], described: Mapping[str, OpenTransaction]
    ) -> dict[KafkaCommittable, CommitOutcome]:
        outcomes = {}
        for committable in committables:
            state = described.get(committable.ref.transactional_id)
            # Brokers may show an offset a moment after the transaction that committed it.
            patience = _PROOF_S if state is not None and state.state == "CompleteCommit" else 0.0
            if _is_remembered(committable, state) or self._is_proven(committable, patience):
                outcomes[committable] = CommitOutcome.ALREADY_COMMITTED
            else:
                self._refuse_if_forgotten(committable)
                outcomes[committable] = CommitOutcome.LOST
        return outcomes

    def _is_proven(self, committable: KafkaCommittable, patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while True:
            found = self._coordinators.proofs([committable.proof_group]).get(committable.proof_group)
            # A later batch in the same slot comes only after this one was carried out.
            if found is not None and (found == committable.proof or found.offset > committable.batch_id):
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)

    def _refuse_if_forgotten(self, committable: KafkaCommittable) -> None:
        """A proof that is missing says nothing once the brokers may have dropped it."""
        age_ms = time.time() * 1000 - committable.prepared_ms
        if age_ms < _NOT_BEFORE_MS:
            return
        for setting, unit_ms in FORGETTING_SETTINGS.items():
            value = self._coordinators.broker_setting(setting)
            kept_ms = int(value) * unit_ms if value is not None else 7 * 86_400_000
            if age_ms > kept_ms - _NOT_BEFORE_MS:
                raise FatalError(
                    f"{committable.describe()} was prepared {age_ms / 3_600_000:.0f} hours ago, and the brokers keep "
                    f"what would tell whether it was committed no longer than {kept_ms / 3_600_000:.0f} ({setting}). "
                    "Look into the topic whether the batch is there, then start with a new checkpoint behind it or "
                    "before it"
                )

    # 4. Readers see the end of a transaction once it is marked in its partitions. A coordinator that was killed on the
    # way may have left marks out.

    def _await_marks(self, partitions: Mapping[TransactionRef, Collection[Partition]], *, commit: bool) -> None:
        """Returns when none of the transactions, which have all ended, is open in any of its partitions."""
        if not partitions:
            return
        markers, ids = self._coordinators.markers, {ref.transactional_id for ref in partitions}
        asked, pause = time.monotonic(), _FIRST_LOOK_S
        where = {one for some in partitions.values() for one in some}
        while missing := markers.missing(partitions, where):
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            where = {one.partition for one in missing}
            if pause < _LONGEST_PAUSE_S:
                continue  # usually it takes some milliseconds
            self._describe_settled(ids)
            # Looked for again: the coordinator may have written them just before it had settled.
            if left_out := markers.missing(partitions, where):
                # Else they would hide everything behind them, for ever.
                markers.write(left_out, commit=commit)
                _log.warning("brokers had ended transactions and not marked it in %s: done now", _places(left_out))
            if time.monotonic() > asked + _SETTLE_S:
                raise RetriableError(f"a transaction has been ending for {_SETTLE_S:.0f} s; restart the query")

    def _partitions(
        self, committables: Sequence[KafkaCommittable], described: Mapping[str, OpenTransaction]
    ) -> dict[TransactionRef, Collection[Partition]]:
        """Where the transactions wrote to: known of those that were open when ``described``, guessed for the others."""
        known: dict[TransactionRef, Collection[Partition]] = {one.ref: one.partitions for one in described.values()}
        others = {topic for c in committables if not known.get(c.ref) for topic in c.topics}
        guess = self._coordinators.markers.partitions_of(others)
        return {c.ref: known.get(c.ref) or guess for c in committables}

    # 5. What does not count.

    def abort(self, committables: Sequence[KafkaCommittable], states: Sequence[Any]) -> None:
        """See the contract."""
        described = self._coordinators.describe({c.ref.transactional_id for c in committables})
        ended = zip(committables, self._end(committables, commit=False), strict=True)
        aborted = [c for c, answer in ended if answer is Ended.DONE]
        self._await_marks(self._partitions(aborted, described), commit=False)
        self._metrics.add("transactions_aborted", len(committables))

    def abort_lingering(self) -> int:
        """See the contract: open transactions of this query are listed, none is looked for by guessing its id."""
        lingering = self._coordinators.describe(self._coordinators.open_ids(self._prefix.owns))
        for transactional_id in lingering:
            # Fenced and not only aborted: its producer may be alive and go on writing.
            self._coordinators.fence(transactional_id)
        self._await_marks({one.ref: one.partitions for one in lingering.values()}, commit=False)
        if lingering:
            _log.info("aborted %d transactions that earlier attempts had left open", len(lingering))
            self._metrics.add("transactions_aborted", len(lingering))
        return len(lingering)


def _places(missing: Collection[Unmarked]) -> str:
    return ", ".join(sorted({f"{one.partition[0]}-{one.partition[1]}" for one in missing}))


def _is_remembered(committable: KafkaCommittable, state: OpenTransaction | None) -> bool:
    """Whether the last thing its coordinator knows of the id is that this very transaction was committed.

    The epoch is the transaction's own, or one more: brokers with transactions version 2 raise it at the end.
    """
    if state is None or state.state != "CompleteCommit" or state.ref.producer_id != committable.ref.producer_id:
        return False
    return state.ref.epoch - committable.ref.epoch in (0, 1)
