"""How the committer learns how transactions are: coordinators describe them, or their proofs tell.

Brokers before 3.0, and some that are not Apache's, can't list or describe transactions (KIP-664). There a transaction
is known by its proof: it has sent an offset to a consumer group of its own before its first record. While it is open,
or ending, the group's coordinator calls that offset unstable; and the groups are the list of the ids that were used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.errors import RetriableError
from penstock.printable import get_logger
from penstock.system import system
from penstock_kafka.client import Ended, OpenTransaction, Partition, TransactionRef
from penstock_kafka.sink._committable import KafkaCommittable

if TYPE_CHECKING:
    from penstock_kafka.client.broker import Coordinators, Unmarked

__all__ = ["DescribedStates", "ProvenStates", "TransactionStates"]

_log = get_logger("penstock.kafka")

_SETTLE_S = 60.0
_FIRST_LOOK_S, _LONGEST_PAUSE_S = 0.001, 0.064
#: After so long, an id of an earlier run is shut out again, whatever it has open.
_SHUT_OUT_S = 600.0


class TransactionStates(ABC):
    """What coordinators know of transactions. Driver only, single thread."""

    @abstractmethod
    def settled(self, committables: Sequence[KafkaCommittable]) -> dict[str, OpenTransaction]:
        """Returns the states of the ids, as far as they are known, none of them in transition. Touches nothing."""

    @abstractmethod
    def note(self, committables: Sequence[KafkaCommittable]) -> None:
        """Looks at what is about to be ended: coordinators forget it then."""

    def ended(self, answers: Mapping[TransactionRef, Ended], *, commit: bool) -> None:  # noqa: B027
        """Learns what coordinators have answered to a request to end transactions."""

    @abstractmethod
    def await_ends(self, committables: Sequence[KafkaCommittable], *, commit: bool) -> None:
        """Returns when readers see that the transactions, which have been ended, are over."""

    @abstractmethod
    def end_leftovers(
        self, is_leftover: Callable[[str], bool], is_earlier: Callable[[str], bool], topics: Collection[str]
    ) -> int:
        """Aborts open transactions of ids that are left over, and shuts their producers out. Returns how many.

        ``is_earlier``: whether no process of this run may have prepared a producer for the id. ``topics``: some that
        this run has written to.
        """


class DescribedStates(TransactionStates):
    """Asks the transactions' coordinators, and the partitions for marks."""

    def __init__(self, coordinators: Coordinators) -> None:
        self._coordinators = coordinators
        #: Of transactions that were open when they were looked at: coordinators forget it as they end them.
        self._written_to: dict[TransactionRef, Collection[Partition]] = {}

    def settled(self, committables: Sequence[KafkaCommittable]) -> dict[str, OpenTransaction]:
        """Waits until no id is in transition."""
        described = self.settled_ids({c.ref.transactional_id for c in committables})
        self._written_to.update({one.ref: one.partitions for one in described.values() if one.state == "Ongoing"})
        return described

    def settled_ids(self, transactional_ids: Collection[str]) -> dict[str, OpenTransaction]:
        """Returns the states of all ids, none of them in transition."""
        deadline = system().monotonic() + _SETTLE_S
        while True:
            described = self._coordinators.describe(transactional_ids)
            if not any(one.state.startswith("Prepare") for one in described.values()):
                return described
            if system().monotonic() > deadline:
                raise _still_ending()
            system().sleep(0.01)

    def note(self, committables: Sequence[KafkaCommittable]) -> None:
        """Notes where they wrote to."""
        described = self._coordinators.describe({c.ref.transactional_id for c in committables})
        self._written_to.update({one.ref: one.partitions for one in described.values()})

    # Readers see the end of a transaction once it is marked in its partitions. A coordinator that was killed on the way
    # may have left marks out.

    def await_ends(self, committables: Sequence[KafkaCommittable], *, commit: bool) -> None:
        """Returns when none of the transactions is open in any of its partitions. Writes marks that were left out."""
        self._await_marks_in(self._partitions(committables), commit=commit)

    def _await_marks_in(self, partitions: Mapping[TransactionRef, Collection[Partition]], *, commit: bool) -> None:
        if not partitions:
            return
        markers, ids = self._coordinators.markers, {ref.transactional_id for ref in partitions}
        asked, pause = system().monotonic(), _FIRST_LOOK_S
        refs, where = set(partitions), {one for some in partitions.values() for one in some}
        while missing := markers.missing(refs, where):
            system().sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_S)
            refs, where = {one.ref for one in missing}, {one.partition for one in missing}
            if pause < _LONGEST_PAUSE_S:
                continue  # usually it takes some milliseconds
            self.settled_ids(ids)
            # Looked for again: the coordinator may have written them just before it had settled.
            if left_out := markers.missing(refs, where):
                # Otherwise they would hide everything after them forever.
                markers.write(left_out, commit=commit)
                _log.warning("brokers had ended transactions and not marked it in %s: done now", _places(left_out))
            if system().monotonic() > asked + _SETTLE_S:
                raise _still_ending()

    def _partitions(self, committables: Sequence[KafkaCommittable]) -> dict[TransactionRef, Collection[Partition]]:
        """Returns where the transactions wrote to: known of those that were open when looked at, guessed for the
        others.
        """
        others = {topic for c in committables if not self._written_to.get(c.ref) for topic in c.topics}
        guess = self._coordinators.markers.partitions_of(others)
        return {c.ref: self._written_to.get(c.ref) or guess for c in committables}

    def end_leftovers(
        self, is_leftover: Callable[[str], bool], is_earlier: Callable[[str], bool], topics: Collection[str]
    ) -> int:
        """Brokers list what is open, no id is guessed."""
        lingering = self._coordinators.describe(self._coordinators.open_ids(is_leftover))
        for transactional_id in lingering:
            self._coordinators.fence(transactional_id)
        self._await_marks_in({one.ref: one.partitions for one in lingering.values()}, commit=False)
        return len(lingering)


class ProvenStates(TransactionStates):
    """Asks the coordinators of the groups that hold the proofs. ``timeout_ms`` is that of the transactions.

    ``topics`` are those in which a proof may be, besides the committables'. ``shut_out`` maps ids to when they were:
    the process keeps it.
    """

    def __init__(
        self, coordinators: Coordinators, timeout_ms: int, topics: Collection[str], shut_out: dict[str, float]
    ) -> None:
        self._coordinators = coordinators
        self._timeout_ms = timeout_ms
        self._topics = set(topics)
        self._shut_out = shut_out
        #: Of those that this process has ended, or tried to: whether it was a commit that succeeded.
        self._committed: dict[TransactionRef, bool] = {}

    def settled(self, committables: Sequence[KafkaCommittable]) -> dict[str, OpenTransaction]:
        """An offset that is unstable belongs to a transaction that is open, or is ending: to end it tells which."""
        self._topics.update(topic for c in committables for topic in c.topics)
        unknown = [c for c in committables if c.ref not in self._committed]
        pending = self._coordinators.pending({c.proof_group: c.topics or sorted(self._topics) for c in unknown})
        states = {c: "Ongoing" for c in unknown if c.proof_group in pending}
        states.update({c: "CompleteCommit" for c in committables if self._committed.get(c.ref)})
        return {
            c.ref.transactional_id: OpenTransaction(c.ref, state, c.opened_ms, self._timeout_ms, ())
            for c, state in states.items()
        }

    def note(self, committables: Sequence[KafkaCommittable]) -> None:
        """Has nothing to note."""

    def ended(self, answers: Mapping[TransactionRef, Ended], *, commit: bool) -> None:
        """An offset that is unstable from now on is another transaction's: the ids of late drivers are used again.

        One that can't be aborted any more may be about to be committed. To commit it then changes nothing, and tells.
        """
        doubtful = [ref for ref, answer in answers.items() if answer is Ended.OVER and not commit]
        found = dict(zip(doubtful, self._coordinators.end(doubtful, commit=True), strict=True)) if doubtful else {}
        for ref, answer in answers.items():
            self._committed[ref] = found.get(ref, answer) is Ended.DONE and (commit or ref in found)

    def await_ends(self, committables: Sequence[KafkaCommittable], *, commit: bool) -> None:
        """A coordinator that is asked for the same end again answers when it has written every mark."""
        if committables:
            self._coordinators.end([c.ref for c in committables], commit=commit)

    def end_leftovers(
        self, is_leftover: Callable[[str], bool], is_earlier: Callable[[str], bool], topics: Collection[str]
    ) -> int:
        """Ids of earlier runs are shut out once, whatever they have open; then, and those of this run, if they have
        something open in a topic that is known. What a late task of an earlier run opens elsewhere times out.

        An id has a group as long as the group's coordinator keeps its last offset (offsets.retention.minutes).
        """
        now = system().monotonic()
        for one in [one for one, at in self._shut_out.items() if now > at + _SHUT_OUT_S]:
            del self._shut_out[one]
        groups = self._coordinators.groups(is_leftover)
        earlier = [one for one in groups if is_earlier(one) and one not in self._shut_out]
        where = sorted(self._topics.union(topics))
        found = self._coordinators.pending(dict.fromkeys(groups, where)) if where else set()
        self._coordinators.fence(*sorted(found.union(earlier)))
        self._shut_out.update(dict.fromkeys(earlier, now))
        return len(found)


def _still_ending() -> RetriableError:
    return RetriableError(f"a transaction has been ending for {_SETTLE_S:.0f} s; restart the query")


def _places(missing: Collection[Unmarked]) -> str:
    return ", ".join(sorted({f"{one.partition[0]}-{one.partition[1]}" for one in missing}))
