"""What is said about transactions: which one, how it is, how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["Ended", "OpenTransaction", "Partition", "Proof", "TransactionRef"]

#: A topic and the number of one of its partitions.
Partition = tuple[str, int]


@dataclass(frozen=True)
class TransactionRef:
    """One transaction, forever: an id's producer id and epoch are those of a single transaction."""

    transactional_id: str
    producer_id: int
    epoch: int


@dataclass(frozen=True)
class OpenTransaction:
    """An open transaction as its coordinator describes it. ``started_ms`` and ``timeout_ms`` are milliseconds."""

    ref: TransactionRef
    state: str
    started_ms: int
    timeout_ms: int
    partitions: tuple[Partition, ...]


class Ended(Enum):
    """The answer to a request to end a transaction."""

    DONE = "done"  #: ended as asked for, now or by an earlier request
    OVER = "over"  #: it had ended before, in whatever way


@dataclass(frozen=True)
class Proof:
    """An offset committed as a part of a transaction: it is there if, and only if, the transaction was committed."""

    offset: int
    metadata: str
