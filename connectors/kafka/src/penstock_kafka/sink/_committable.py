"""What a task hands to the driver: an open transaction with everything in it flushed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.serialization import JsonSerializer
from penstock_kafka.client import Proof, TransactionRef

__all__ = ["COMMITTABLE_SERIALIZER", "KafkaCommittable"]


@dataclass(frozen=True)
class KafkaCommittable:
    """``ref`` is the transaction; ``batch_id`` and ``attempt_id`` are in its proof.

    ``topics`` are those that it wrote to; none if they are not known. ``prepared_ms`` and ``opened_ms`` (0 if it is not
    known) are milliseconds since 1970, by the clock of the task's machine.
    """

    ref: TransactionRef
    batch_id: int
    attempt_id: str
    records: int
    prepared_ms: int
    topics: tuple[str, ...]
    opened_ms: int = 0

    @property
    def proof_group(self) -> str:
        """The consumer group to which the transaction commits an offset that proves it: named as its id."""
        return self.ref.transactional_id

    @property
    def proof(self) -> Proof:
        """What that offset is."""
        return Proof(self.batch_id, self.attempt_id)

    def describe(self) -> str:
        """Returns a text for messages."""
        ref = self.ref
        return f"transaction '{ref.transactional_id}' ({self.records} records, producer {ref.producer_id}/{ref.epoch})"


def _fields(committable: KafkaCommittable) -> dict[str, Any]:
    return {
        "transactional_id": committable.ref.transactional_id,
        "producer_id": committable.ref.producer_id,
        "epoch": committable.ref.epoch,
        "batch_id": committable.batch_id,
        "attempt_id": committable.attempt_id,
        "records": committable.records,
        "prepared_ms": committable.prepared_ms,
        "topics": list(committable.topics),
        "opened_ms": committable.opened_ms,
    }


def _committable(version: int, fields: dict[str, Any]) -> KafkaCommittable:
    ref = TransactionRef(fields["transactional_id"], fields["producer_id"], fields["epoch"])
    return KafkaCommittable(
        ref=ref,
        batch_id=fields["batch_id"],
        attempt_id=fields["attempt_id"],
        records=fields["records"],
        prepared_ms=fields["prepared_ms"],
        topics=tuple(fields["topics"]) if version > 1 else (),
        opened_ms=fields["opened_ms"] if version > 2 else 0,
    )


#: A JSON object with the fields of :class:`KafkaCommittable`. Version 1 had no topics, version 2 not
#: when the transaction was opened.
COMMITTABLE_SERIALIZER: JsonSerializer[KafkaCommittable] = JsonSerializer(3, _fields, _committable)
