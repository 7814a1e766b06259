"""Consumers kept by a process from one task to the next: connecting costs more than reading a small batch."""

from __future__ import annotations

from penstock.per_process import IdlePool
from penstock_kafka.client import ClientKind, RangeConsumer

__all__ = ["KEPT_CONSUMERS"]


def _close(consumer: RangeConsumer) -> None:
    consumer.close()


#: They have no partitions assigned, so they hold connections but no records.
KEPT_CONSUMERS = IdlePool(ClientKind.open_consumer, close=_close, most=4, files=lambda kind: kind.files)
