"""The driver's side of the exactly-once sink: ends the transactions that tasks left open.

The controller commits a transaction by its id, from any process, and remembers how it ended. It commits an empty
or a half-written one without a word: so the bytes of each segment are compared with what the task counted, first. An id
is never used again, and what has ended stays as it has ended: so a late call finds its own transaction, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from penstock.errors import FatalError, RetriableError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.sink import Committer, Found, Kept
from penstock.system import in_parallel, system
from penstock_pravega.client import (
    NoSuchSegment,
    PingAnswer,
    SegmentStores,
    TransactionState,
    UnknownStreamError,
)
from penstock_pravega.sink._committable import PravegaCommittable, TransactionRef
from penstock_pravega.sink._leases import lease_keeper
from penstock_pravega.sink._transaction_log import TransactionLog
from penstock_pravega.sink._watermarks import WatermarkPublisher

__all__ = ["PravegaCommitter"]

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")

_log = get_logger("penstock.pravega")

_SETTLE_S, _FIRST_LOOK_S, _LONGEST_PAUSE_S = 60.0, 0.002, 0.02
#: The controller forgets transactions a day after their end; before that, what it does not know was never committed.
_FORGOTTEN_AFTER_MS = 12 * 3_600_000
#: Calls of the controller that are in flight at a time: its client is thread-safe.
_CALLS_AT_ONCE = 16
#: The part of its lease that a transaction must live on for, so that none ends while others are committed.
_LAST_PART = 3


class PravegaCommitter(Committer[PravegaCommittable, Any]):
    """Ends the transactions of one query. Driver only, single thread. ``log``: none for a batch write.

    ``stores`` are its own: it closes them. ``writer`` is the name under which watermarks are published;
    ``out_of_orderness_ms`` is as with :class:`WatermarkPublisher`.
    """

    def __init__(
        self,
        stores: SegmentStores,
        log: TransactionLog | None,
        metrics: Metrics,
        *,
        writer: str,
        out_of_orderness_ms: int = 0,
    ) -> None:
        self._stores = stores
        self._transactions = log
        self._metrics = metrics
        self._watermark = WatermarkPublisher(self._stores, writer, out_of_orderness_ms)
        #: The batch that was looked at last, with its states: its watermark waits until all of it is committed.
        self._found: dict[PravegaCommittable, Found] = {}

    # 1. Look: which are open and whole, and how did the others end?

    def look(self, committables: Sequence[PravegaCommittable]) -> list[Found]:
        """Finds out the state of transactions. Changes only leases: only a renewal shows whether one is still alive.

        One that ends within a third of its lease, and can't be renewed for longer, is lost as long as none is
        committed. One that is being committed is waited for. Raises FatalError for one that may have been committed so
        long ago that the controller has forgotten it.
        """
        looked_at = self._looked_at(committables)
        short_lived = Found.OPEN if Found.COMMITTED in looked_at else Found.LOST
        found = [one or short_lived for one in looked_at]
        self._found = dict(zip(committables, found, strict=True))
        return found

    def _looked_at(self, committables: Sequence[PravegaCommittable]) -> list[Found | None]:
        """Returns ``None`` for one that is open and whole, and ends soon."""
        states = dict(
            zip(committables, self._each(lambda one: self._settled_state(one.ref), committables), strict=True)
        )
        open_ = [one for one, state in states.items() if state is TransactionState.OPEN]
        # The connections to segment stores are this thread's.
        is_whole = {one: self._is_whole(one) for one in open_}
        lives_on = dict(zip(open_, self._each(self._lives_on, open_), strict=True))
        found = dict.fromkeys((one for one in open_ if is_whole[one] and lives_on[one]), Found.OPEN)
        return [found.get(one) or self._outcome(one, states[one], is_whole.get(one)) for one in committables]

    def _outcome(self, committable: PravegaCommittable, state: TransactionState, is_whole: bool | None) -> Found | None:
        """Returns how one ended that is not open, whole and alive for long. ``is_whole``: if it was open."""
        if state is TransactionState.OPEN:
            state = self._settled_state(committable.ref)
            if state is TransactionState.OPEN:  # it has not ended meanwhile
                return None if is_whole else Found.LOST
        if state is TransactionState.COMMITTED:
            return Found.COMMITTED
        if state is TransactionState.UNKNOWN:
            self._refuse_if_forgotten(committable)
        return Found.LOST

    def _state(self, ref: TransactionRef) -> TransactionState:
        return self._stores.controller.transaction_state(*ref.scope_and_stream, ref.id)

    def _settled_state(self, ref: TransactionRef) -> TransactionState:
        """Returns the state, after a running commit has ended: then the events can be read."""
        deadline, pause = system().monotonic() + _SETTLE_S, _FIRST_LOOK_S
        while (state := self._state(ref)) is TransactionState.COMMITTING:
            if system().monotonic() > deadline:
                raise RetriableError(f"{ref} has been committing for {_SETTLE_S:.0f} s; restart the query")
            system().sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return state

    def _is_whole(self, committable: PravegaCommittable) -> bool:
        """Returns whether its segments hold exactly what the task counted."""
        for segment, size in committable.segments:
            try:
                size_there = self._stores.info(committable.ref.stream, segment, committable.segment_name(segment)).end
            except NoSuchSegment:
                return False  # the transaction has ended meanwhile
            if size_there != size:
                _log.error("%s holds %d bytes, written were %d", committable.segment_name(segment), size_there, size)
                return False
        return True

    def _lives_on(self, committable: PravegaCommittable) -> bool:
        """Returns whether it stays open for another third of its lease. It gets all of it, if the server lets it live
        so long: that is a thousand leases in all, and a day at most.
        """
        ref = committable.ref
        for lease_ms in (committable.lease_ms, committable.lease_ms // _LAST_PART):
            answer = self._stores.controller.ping_transaction(*ref.scope_and_stream, ref.id, lease_ms)
            if answer is PingAnswer.OK:
                return True
            if answer is PingAnswer.DISCONNECTED:
                raise RetriableError(f"{ref}: the controller can't renew leases now; restart the query")
        _log.warning("%s can't be kept open for another %d ms (%s)", ref, lease_ms, answer.name)
        return False

    def _refuse_if_forgotten(self, committable: PravegaCommittable) -> None:
        age_ms = system().now_us() / 1000 - committable.prepared_ms
        if age_ms > _FORGOTTEN_AFTER_MS:
            raise FatalError(
                f"{committable.describe()} was prepared {age_ms / 3_600_000:.0f} hours ago, and the controller may "
                "have forgotten whether it was committed. Look into the stream whether the batch is there. If it is "
                "not, run: penstock resolve CHECKPOINT --write-all-again; else start with a new checkpoint after it"
            )

    # 2. Publish: begin all commits before waiting for the first.

    def publish(self, committables: Sequence[PravegaCommittable]) -> list[Found]:
        """Commits all, then waits for each. Publishes the watermark once all of the batch is committed."""
        commit = self._stores.controller.commit_transaction
        accepted = self._each(lambda one: commit(*one.ref.scope_and_stream, one.ref.id), committables)
        found = self._each(lambda one: self._published(*one), list(zip(committables, accepted, strict=True)))
        self._metrics.add("transactions_committed", found.count(Found.COMMITTED))
        self._found.update(zip(committables, found, strict=True))
        self._forget([one.ref for one, is_ in zip(committables, found, strict=True) if is_ is Found.COMMITTED])
        if all(one is Found.COMMITTED for one in self._found.values()):
            self._watermark.publish(list(self._found))
        return found

    def _published(self, committable: PravegaCommittable, accepted: bool) -> Found:
        state = self._settled_state(committable.ref)
        if state is TransactionState.COMMITTED:
            return Found.COMMITTED
        if accepted or state is TransactionState.OPEN:
            raise RetriableError(f"{committable.describe()} is to be committed and in state {state.name}")
        return Found.LOST

    # 3. End the transactions that do not count.

    def seal(self, committables: Sequence[PravegaCommittable]) -> None:
        """Aborts them: a later commit by a zombie then finds none."""
        self._abort([committable.ref for committable in committables])

    def discard(self, committables: Sequence[PravegaCommittable], states: Sequence[Any]) -> None:
        """Aborts them."""
        self._abort([committable.ref for committable in committables])

    def clear(self, kept: Kept[PravegaCommittable, Any]) -> int:
        """Aborts what attempts of before ``kept.base`` have opened: the query's transaction log lists it."""
        if self._transactions is None:
            return 0
        self._transactions.sweep()
        named = {committable.ref for committable in kept.committables}
        opened = self._transactions.read()
        garbage = [entry.ref for entry in opened if entry.base < kept.base and entry.ref not in named]
        if aborted := self._abort(garbage):
            _log.info("aborted %d transactions that earlier attempts had left open", aborted)
        return len(garbage)

    def _abort(self, refs: Sequence[TransactionRef]) -> int:
        """Aborts those that are open. Returns how many were."""
        aborted = sum(self._each(self._abort_one, refs))
        self._metrics.add("transactions_aborted", aborted)
        self._forget(refs)
        return aborted

    def _abort_one(self, ref: TransactionRef) -> bool:
        try:
            if self._state(ref) is not TransactionState.OPEN:
                return False
            self._stores.controller.abort_transaction(*ref.scope_and_stream, ref.id)
            state = self._state(ref)
        except UnknownStreamError:  # deleted, with all of it
            return False
        if state is TransactionState.OPEN:
            raise RetriableError(f"{ref} is to be aborted and still open")
        return state in (TransactionState.ABORTING, TransactionState.ABORTED)

    def _forget(self, refs: Sequence[TransactionRef]) -> None:
        """Stops the renewal of leases, and deletes the log's entries: the transactions are over."""
        for ref in refs:
            lease_keeper().forget(ref)
        if self._transactions is not None:
            self._transactions.delete(refs)

    @staticmethod
    def _each(work: Callable[[ItemT], AnswerT], items: Sequence[ItemT]) -> list[AnswerT]:
        """Asks the controller about each, several at a time."""
        return in_parallel(work, items, _CALLS_AT_ONCE, "penstock-pravega")

    def close(self) -> None:
        """Ends the connections."""
        self._stores.close()
