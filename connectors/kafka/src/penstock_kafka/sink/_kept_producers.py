"""The producers without transactions that a process keeps from one task to the next: connecting takes a while."""

from __future__ import annotations

import contextlib

from penstock.errors import PenstockError
from penstock.per_process import IdlePool
from penstock_kafka.client import BatchProducer, ClientKind

__all__ = ["KEPT_PRODUCERS"]

#: A producer keeps asking for the topics it has written to, and brokers may make a topic that they are asked for: one
#: that is kept for long would bring topics back that were deleted.
_IDLE_S = 30.0


def _flush_and_close(producer: BatchProducer) -> None:
    with contextlib.suppress(PenstockError):
        producer.flush()
    producer.close()


#: One task at a time acquires a producer. What it did not wait for (``delivery=none``) is still sent before it closes.
KEPT_PRODUCERS = IdlePool(
    ClientKind.open_producer, close=_flush_and_close, most=1, idle_s=_IDLE_S, files=lambda kind: kind.files
)
