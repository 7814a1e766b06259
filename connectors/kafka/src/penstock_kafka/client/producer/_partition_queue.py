"""The batches of one partition, in order and numbered (KIP-98).

The records of a partition have sequence numbers, and a batch that is sent again keeps its own: so the leader knows what
it has written already. When a batch fails for a reason that may pass, the batches after it fail as well, since the
leader takes no number before its turn. The queue is then halted until all of them are back, and starts again with the
first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock_kafka.client._interfaces import ProducerIdentity
from penstock_kafka.client.codec import SealedBatch, stamp

__all__ = ["PartitionQueue", "InFlightBatch"]

_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
_LAST_SEQUENCE = (1 << 31) - 1
_TRANSACTIONAL = 0x10


@dataclass(slots=True, eq=False)
class InFlightBatch:
    """A batch in flight to its leader.

    ``plain_bytes``: its length before it was compressed. ``order`` compares a producer's batches: their number, and for
    the parts of one more numbers. ``deadline``: seconds of the monotonic clock.
    """

    batch: SealedBatch
    attributes: int
    plain_bytes: int
    order: tuple[int, ...]
    deadline: float
    #: The sequence number of its first record, -1 until it is first sent.
    sequence: int = -1
    is_stamped: bool = False
    #: It was sent, and its outcome is unknown.
    is_uncertain: bool = False
    missing_since: float = 0.0
    #: What it takes of the producer's queue.
    queued_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.queued_bytes = len(self.batch.data)

    def is_missing(self, now: float, longest_s: float) -> bool:
        """Notes that its partition does not exist. Returns whether that is so for longer than ``longest_s``."""
        self.missing_since = self.missing_since or now
        return now - self.missing_since > longest_s


def _following(one: InFlightBatch) -> int:
    """Returns the sequence number after those of a batch. After the largest one they begin again with 0."""
    return (one.sequence + one.batch.records) & _LAST_SEQUENCE


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The batches of one partition: those that wait, those that are in flight, and when the next may be sent.

    Belongs to the connections' loop.
    """

    topic: str
    partition: int
    waiting: deque[InFlightBatch] = field(default_factory=deque)
    in_flight: list[InFlightBatch] = field(default_factory=list)
    next_sequence: int = 0
    #: The leader has written the batch before. From a producer that it does not know it takes any number: so the first
    #: batch, also of those that are sent again, is sent alone.
    is_known: bool = False
    #: Nothing is sent until every batch in flight is back.
    is_halted: bool = False
    not_before: float = 0.0
    _tries: int = 0
    #: The first batch that will never be written and had numbers: those after it get new ones, beginning with its own.
    _dropped: InFlightBatch | None = None

    def may_send(self, now: float) -> bool:
        """Returns whether the next batch may go."""
        return (
            bool(self.waiting)
            and now >= self.not_before
            and not (self.in_flight and (self.is_halted or not self.is_known))
        )

    def start(self, identity: ProducerIdentity, *, numbered: bool, transactional: bool) -> InFlightBatch:
        """Takes the next batch to send, numbered and stamped."""
        self.is_halted = False
        dropped, self._dropped = self._dropped, None
        if dropped is not None:
            # Nothing after it can have been written: the leader waits for its number.
            self.next_sequence = dropped.sequence
            for one in self.waiting:
                if one.order > dropped.order:
                    one.sequence = -1
        one = self.waiting.popleft()
        self.in_flight.append(one)
        if numbered and one.sequence < 0:
            one.sequence, one.is_stamped = self.next_sequence, False
            self.next_sequence = _following(one)
        if not one.is_stamped:
            attributes = one.attributes | (_TRANSACTIONAL if transactional else 0)
            producer_id, epoch = identity.producer_id, identity.epoch
            stamp(one.batch.data, attributes=attributes, producer_id=producer_id, epoch=epoch, sequence=one.sequence)
            one.is_stamped = True
        return one

    def acknowledge(self, one: InFlightBatch) -> None:
        """Removes a batch that the leader has written."""
        self.in_flight.remove(one)
        self._tries, self.is_known = 0, True

    def put_back(self, one: InFlightBatch, now: float) -> bool:
        """Queues a batch again that failed for a reason that may pass.

        Returns whether this halts the queue, which may continue at ``not_before``.
        """
        self.in_flight.remove(one)
        self._wait_in_order(one)
        self.is_known = False
        if self.is_halted:
            return False
        self.is_halted = True
        self._tries += 1
        self.not_before = now + min(_PAUSE_S * 2**self._tries, _LONGEST_PAUSE_S)
        return True

    def replace(self, one: InFlightBatch, parts: Sequence[InFlightBatch]) -> None:
        """Sends a batch's records in several smaller batches, with the numbers that it had."""
        self.in_flight.remove(one)
        sequence = one.sequence
        for part in parts:
            if one.sequence >= 0:
                part.sequence = sequence
                sequence = _following(part)
            self._wait_in_order(part)
        self.is_halted = True

    def _wait_in_order(self, one: InFlightBatch) -> None:
        index = 0
        while index < len(self.waiting) and self.waiting[index].order < one.order:
            index += 1
        self.waiting.insert(index, one)

    def drop(self, one: InFlightBatch) -> None:
        """Removes a batch that will not be written. Its numbers go to the batches after it."""
        if one in self.in_flight:
            self.in_flight.remove(one)
        else:
            self.waiting.remove(one)
        if one.sequence >= 0:
            self.is_halted = True
            self._dropped = self._dropped or one

    def forget_numbers(self) -> None:
        """Starts again with sequence number 0, as another identity does. Only while nothing is in flight."""
        self.next_sequence, self._dropped, self.is_known = 0, None, False
        for one in self.waiting:
            one.sequence = -1
