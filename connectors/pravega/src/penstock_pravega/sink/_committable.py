"""What a task hands to the driver: an open transaction with everything in it acknowledged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.serialization import JsonSerializer
from penstock_pravega.client import epoch_of, number_of, transaction_segment_name

__all__ = ["COMMITTABLE_SERIALIZER", "TransactionRef", "PravegaCommittable"]


@dataclass(frozen=True)
class TransactionRef:
    """A transaction of a stream (``scope/stream``). Its id is an unsigned 128-bit number."""

    stream: str
    id: int

    def __str__(self) -> str:
        return f"transaction {self.id:032x} on {self.stream}"

    @property
    def scope_and_stream(self) -> tuple[str, str]:
        """As the controller takes them."""
        scope, _, name = self.stream.partition("/")
        return scope, name


@dataclass(frozen=True)
class PravegaCommittable:
    """``segments`` holds (segment id, bytes) of the transaction's segments that were written to; ``lease_ms`` is what
    it was opened with; ``prepared_ms`` and ``latest_ms`` since 1970, the latter the latest event time in it, if that is
    to be noted.
    """

    ref: TransactionRef
    segments: tuple[tuple[int, int], ...]
    events: int
    batch_id: int
    attempt_id: str
    lease_ms: int
    prepared_ms: int
    latest_ms: int | None = None

    def segment_name(self, segment: int) -> str:
        """Returns the transaction's part of a segment."""
        return transaction_segment_name(self.ref.stream, segment, self.ref.id)

    def describe(self) -> str:
        """Returns a text for messages."""
        return f"{self.ref} ({self.events} events)"


def _fields(committable: PravegaCommittable) -> dict[str, Any]:
    return {
        "stream": committable.ref.stream,
        "transaction": f"{committable.ref.id:032x}",
        "segments": {f"{number_of(s)}.{epoch_of(s)}": size for s, size in committable.segments},
        "events": committable.events,
        "batch_id": committable.batch_id,
        "attempt_id": committable.attempt_id,
        "lease_ms": committable.lease_ms,
        "prepared_ms": committable.prepared_ms,
        "latest_ms": committable.latest_ms,
    }


def _committable(version: int, fields: dict[str, Any]) -> PravegaCommittable:
    segments = []
    for name, size in fields["segments"].items():
        number, _, epoch = name.partition(".")
        segments.append((int(epoch) << 32 | int(number), size))
    return PravegaCommittable(
        TransactionRef(fields["stream"], int(fields["transaction"], 16)),
        tuple(sorted(segments)),
        fields["events"],
        fields["batch_id"],
        fields["attempt_id"],
        fields["lease_ms"],
        fields["prepared_ms"],
        fields["latest_ms"] if version > 1 else None,
    )


#: A JSON object with the fields of :class:`PravegaCommittable`; segments as ``{"number.epoch": bytes}``.
COMMITTABLE_SERIALIZER: JsonSerializer[PravegaCommittable] = JsonSerializer(2, _fields, _committable)
