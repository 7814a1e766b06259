"""The driver's side of the exactly-once sink: ends the transactions that tasks left open. Read it from top to bottom.

The controller commits a transaction by its id, whoever opened it, and remembers what became of it. It commits an empty
or a half-written one without a word: so the bytes of each segment are compared with what the task counted, first.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from penstock.errors import FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import CommitOutcome, Committer
from penstock_pravega.protocol import (
    ControllerSettings,
    NoSuchSegment,
    PingAnswer,
    SegmentStores,
    TransactionState,
    UnknownStreamError,
)
from penstock_pravega.sink._committable import PravegaCommittable, TransactionRef
from penstock_pravega.sink._leases import lease_keeper
from penstock_pravega.sink._notes import TransactionNotes
from penstock_pravega.sink._watermark import WatermarkNoter

__all__ = ["PravegaCommitter"]

_log = logging.getLogger("penstock.pravega")

_SETTLE_S, _FIRST_LOOK_S, _LONGEST_PAUSE_S = 60.0, 0.002, 0.02
#: The controller forgets transactions a day after their end; before that, what it does not know was never committed.
_FORGOTTEN_AFTER_MS = 12 * 3_600_000

Outcomes = dict[PravegaCommittable, "CommitOutcome | None"]


class PravegaCommitter(Committer[PravegaCommittable, Any]):
    """Ends the transactions of one query. Driver only, single thread. ``notes``: none for a batch write.

    ``writer`` is in whose name times are noted, if they are to be; ``out_of_orderness_ms`` is as with
    :class:`WatermarkNoter`.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        notes: TransactionNotes | None,
        metrics: Metrics,
        *,
        writer: str,
        out_of_orderness_ms: int = 0,
    ) -> None:
        self._settings = settings
        self._stores = SegmentStores(settings)
        self._notes = notes
        self._metrics = metrics
        self._watermark = WatermarkNoter(self._stores, writer, out_of_orderness_ms)

    def commit(self, committables: Sequence[PravegaCommittable]) -> list[CommitOutcome]:
        """See the contract.

        Looks before it commits: if one transaction has been lost and none is committed yet, the others are given up as
        well, so that the batch is written again as a whole. Those that are open get their whole lease once more, so
        that none ends while others are committed.
        """
        found = self._look(committables)
        lost = [c for c in committables if found[c] is CommitOutcome.LOST]
        if lost and CommitOutcome.ALREADY_COMMITTED not in found.values():
            _log.warning("%s can't be committed any more; its batch is given up as a whole", lost[0].describe())
            for committable in committables:
                self._abort(committable.ref)
            found = self._look(committables)
        found.update(self._commit_open([c for c in committables if found[c] is None]))
        self._forget([c.ref for c in committables])
        outcomes = [found[c] or CommitOutcome.LOST for c in committables]
        if CommitOutcome.LOST not in outcomes:
            self._watermark.note(committables)
        return outcomes

    # 1. Which are open and whole (None), and what became of the others?

    def _look(self, committables: Sequence[PravegaCommittable]) -> Outcomes:
        return {committable: self._look_at(committable) for committable in committables}

    def _look_at(self, committable: PravegaCommittable) -> CommitOutcome | None:
        state = self._settled_state(committable.ref)
        if state is TransactionState.COMMITTED:
            return CommitOutcome.ALREADY_COMMITTED
        if state is TransactionState.OPEN and self._is_whole(committable) and self._renew(committable):
            return None
        if state is TransactionState.OPEN:
            self._abort(committable.ref)
            return self._look_at(committable)
        if state is TransactionState.UNKNOWN:
            self._refuse_if_forgotten(committable)
        return CommitOutcome.LOST

    def _settled_state(self, ref: TransactionRef) -> TransactionState:
        """What became of it, not on its way from one state to another."""
        deadline, pause = time.monotonic() + _SETTLE_S, _FIRST_LOOK_S
        while True:
            state = self._stores.controller.transaction_state(*ref.scope_and_stream, ref.id)
            if state not in (TransactionState.COMMITTING, TransactionState.ABORTING):
                return state
            if time.monotonic() > deadline:
                raise RetriableError(f"{ref} has been ending for {_SETTLE_S:.0f} s; restart the query")
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)

    def _is_whole(self, committable: PravegaCommittable) -> bool:
        """Whether its segments hold exactly what the task counted."""
        for segment, size in committable.segments:
            try:
                there = self._stores.info(committable.ref.stream, segment, committable.segment_name(segment)).end
            except NoSuchSegment:
                return False  # it has ended meanwhile
            if there != size:
                _log.error("%s holds %d bytes, written were %d", committable.segment_name(segment), there, size)
                return False
        return True

    def _renew(self, committable: PravegaCommittable) -> bool:
        ref = committable.ref
        answer = self._stores.controller.ping_transaction(*ref.scope_and_stream, ref.id, committable.lease_ms)
        if answer is PingAnswer.MAX_EXECUTION_TIME_EXCEEDED:
            return True  # it can't be renewed any more, and is still open
        return answer in (PingAnswer.OK, PingAnswer.DISCONNECTED)

    def _refuse_if_forgotten(self, committable: PravegaCommittable) -> None:
        age_ms = time.time() * 1000 - committable.prepared_ms
        if age_ms > _FORGOTTEN_AFTER_MS:
            raise FatalError(
                f"{committable.describe()} was prepared {age_ms / 3_600_000:.0f} hours ago, and the controller may "
                "have forgotten whether it was committed. Look into the stream whether the batch is there, then start "
                "with a new checkpoint behind it or before it"
            )

    # 2. Commit the open ones: all are begun before the first is waited for.

    def _commit_open(self, committables: Sequence[PravegaCommittable]) -> Outcomes:
        begun = {c: self._stores.controller.commit_transaction(*c.ref.scope_and_stream, c.ref.id) for c in committables}
        outcomes: Outcomes = {}
        for committable, accepted in begun.items():
            state = self._settled_state(committable.ref)
            if state is TransactionState.COMMITTED:
                outcomes[committable] = CommitOutcome.COMMITTED if accepted else CommitOutcome.ALREADY_COMMITTED
            elif accepted:
                raise RetriableError(f"{committable.describe()} is to be committed and in state {state.name}")
            else:  # it ended between looking and committing
                outcomes[committable] = CommitOutcome.LOST
        committed = sum(outcome is CommitOutcome.COMMITTED for outcome in outcomes.values())
        self._metrics.add("transactions_committed", committed)
        return outcomes

    # 3. What does not count.

    def abort(self, committables: Sequence[PravegaCommittable], states: Sequence[Any]) -> None:
        """See the contract."""
        aborted = [committable.ref for committable in committables if self._abort(committable.ref)]
        self._metrics.add("transactions_aborted", len(aborted))
        self._forget([committable.ref for committable in committables])

    def abort_lingering(self) -> int:
        """See the contract: the query's own notes say what its attempts have opened."""
        if self._notes is None:
            return 0
        refs = [ref for ref, _ in self._notes.read()]
        aborted = [ref for ref in refs if self._abort(ref)]
        self._forget(refs)
        if aborted:
            _log.info("aborted %d transactions that earlier attempts had left open", len(aborted))
            self._metrics.add("transactions_aborted", len(aborted))
        return len(aborted)

    def _abort(self, ref: TransactionRef) -> bool:
        """Whether it was open; it no longer is."""
        try:
            if self._settled_state(ref) is not TransactionState.OPEN:
                return False
            self._stores.controller.abort_transaction(*ref.scope_and_stream, ref.id)
            return self._settled_state(ref) is TransactionState.ABORTED
        except UnknownStreamError:  # deleted, with all of it
            return False

    def _forget(self, refs: list[TransactionRef]) -> None:
        for ref in refs:
            lease_keeper().forget(ref)
        if self._notes is not None:
            self._notes.delete(refs)

    def close(self) -> None:
        """See the contract."""
        self._stores.close()
