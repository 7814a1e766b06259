"""The batches of one partition, in order and numbered (KIP-98).

A batch's records are numbered for their partition, and a batch is sent again with the numbers it had: so the leader
knows what it has written already. When one fails that may pass, those behind it come back as well, since the leader
takes no number before its turn; the lane is halted until all of them are back, and starts again with the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock_kafka.client._contracts import ProducerIdentity
from penstock_kafka.client.native._encoder import SealedBatch, stamp

__all__ = ["Lane", "Sending"]

_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
_LAST_SEQUENCE = (1 << 31) - 1
_TRANSACTIONAL = 0x10


@dataclass(slots=True, eq=False)
class Sending:
    """A batch on its way.

    ``plain_bytes``: its length before it was compressed. ``order`` compares a producer's batches: their number, and for
    parts of one more numbers. ``deadline``: seconds of the monotonic clock.
    """

    batch: SealedBatch
    attributes: int
    plain_bytes: int
    order: tuple[int, ...]
    deadline: float
    #: The number of its first record, -1 until it is first sent.
    sequence: int = -1
    is_stamped: bool = False
    #: It was sent, and nobody knows what became of it.
    is_uncertain: bool = False
    missing_since: float = 0.0
    #: What it takes of the producer's queue.
    queued_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.queued_bytes = len(self.batch.data)

    def is_missing(self, now: float, longest_s: float) -> bool:
        """Its partition is not there: whether that is so for longer than it may be on its way."""
        self.missing_since = self.missing_since or now
        return now - self.missing_since > longest_s


def _following(one: Sending) -> int:
    """The number behind those of a batch: they begin again with 0 behind the last one."""
    return (one.sequence + one.batch.records) & _LAST_SEQUENCE


@dataclass(slots=True, eq=False)
class Lane:
    """One partition: what waits, what flies, and how it goes on. Of the connections' loop."""

    topic: str
    partition: int
    waiting: deque[Sending] = field(default_factory=deque)
    flying: list[Sending] = field(default_factory=list)
    next_sequence: int = 0
    #: The leader has written the batch before. From a producer that it does not know it takes any number: so the first
    #: batch, also of those that are sent again, flies alone.
    is_known: bool = False
    is_halted: bool = False
    not_before: float = 0.0
    _tries: int = 0
    _refused: Sending | None = None

    def may_send(self, now: float) -> bool:
        """Whether the next batch may go."""
        return (
            bool(self.waiting)
            and now >= self.not_before
            and not (self.flying and (self.is_halted or not self.is_known))
        )

    def start(self, identity: ProducerIdentity, *, numbered: bool, transactional: bool) -> Sending:
        """The next batch, as it is sent."""
        self.is_halted = False
        refused, self._refused = self._refused, None
        if refused is not None:
            # Nothing behind it can have been written: the leader waits for its number.
            self.next_sequence = refused.sequence
            for one in self.waiting:
                if one.order > refused.order:
                    one.sequence = -1
        one = self.waiting.popleft()
        self.flying.append(one)
        if numbered and one.sequence < 0:
            one.sequence, one.is_stamped = self.next_sequence, False
            self.next_sequence = _following(one)
        if not one.is_stamped:
            attributes = one.attributes | (_TRANSACTIONAL if transactional else 0)
            producer_id, epoch = identity.producer_id, identity.epoch
            stamp(one.batch.data, attributes=attributes, producer_id=producer_id, epoch=epoch, sequence=one.sequence)
            one.is_stamped = True
        return one

    def written(self, one: Sending) -> None:
        """The leader has it."""
        self.flying.remove(one)
        self._tries, self.is_known = 0, True

    def put_back(self, one: Sending, now: float) -> bool:
        """It did not get there, and may yet. Whether this halts the lane: it may go on at ``not_before``."""
        self.flying.remove(one)
        self._wait_in_order(one)
        self.is_known = False
        if self.is_halted:
            return False
        self.is_halted = True
        self._tries += 1
        self.not_before = now + min(_PAUSE_S * 2**self._tries, _LONGEST_PAUSE_S)
        return True

    def replace(self, one: Sending, parts: Sequence[Sending]) -> None:
        """It will not be written, but its records are, with the numbers that it had."""
        self.flying.remove(one)
        sequence = one.sequence
        for part in parts:
            if one.sequence >= 0:
                part.sequence = sequence
                sequence = _following(part)
            self._wait_in_order(part)
        self.is_halted = True

    def _wait_in_order(self, one: Sending) -> None:
        index = 0
        while index < len(self.waiting) and self.waiting[index].order < one.order:
            index += 1
        self.waiting.insert(index, one)

    def refuse(self, one: Sending) -> None:
        """It will not be written; its numbers are those of the batches behind it."""
        if one in self.flying:
            self.flying.remove(one)
        else:
            self.waiting.remove(one)
        if one.sequence >= 0:
            self.is_halted = True
            self._refused = self._refused or one

    def forget_numbers(self) -> None:
        """Another identity begins to count anew. Only while nothing flies."""
        self.next_sequence, self._refused, self.is_known = 0, None, False
        for one in self.waiting:
            one.sequence = -1
