"""The producer without transactions that a process keeps from one task to the next: connecting takes a while."""

from __future__ import annotations

import contextlib
import threading

from penstock.errors import PenstockError
from penstock.per_process import PerProcess
from penstock_kafka.client import BatchProducer, ProducerKind

__all__ = ["KeptProducer", "kept_producer"]

#: A producer keeps asking for the topics it has written to, and brokers may make a topic that they are asked for: one
#: that is kept for long would bring topics back that were deleted.
_KEPT_S = 30.0


class KeptProducer:
    """The producer that this process keeps. One task at a time acquires and releases it; a timer closes it."""

    def __init__(self) -> None:
        #: Guards what follows, which the timer's thread changes as well.
        self._lock = threading.Lock()
        self._kind: ProducerKind | None = None
        self._producer: BatchProducer | None = None
        #: Closes the producer if no task comes. There is none while a task has it.
        self._leaving: threading.Timer | None = None

    def acquire(self, kind: ProducerKind) -> BatchProducer:
        """Returns the producer of this kind; a new one if there is none, or one of another kind."""
        with self._lock:
            if self._leaving is not None:
                self._leaving.cancel()
                self._leaving = None
            if self._producer is not None and self._kind == kind:
                return self._producer
            other, self._producer = self._producer, None
        if other is not None:
            _flush_and_close(other)
        producer = kind.open()
        with self._lock:
            self._kind, self._producer = kind, producer
        return producer

    def release(self, producer: BatchProducer) -> None:
        """Ends its use by a task. It is flushed and closed if no other comes for it."""
        with self._lock:
            if self._producer is producer:
                self._leaving = threading.Timer(_KEPT_S, self._leave, [producer])
                self._leaving.daemon = True
                self._leaving.start()

    def forget(self, producer: BatchProducer) -> None:
        """Closes it, records in flight included, and does not lend it again."""
        with self._lock:
            if self._producer is producer:
                self._producer = None
        producer.close()

    def _leave(self, producer: BatchProducer) -> None:
        with self._lock:
            if self._leaving is not threading.current_thread():
                return  # a task came just then
            self._leaving = self._producer = None
        _flush_and_close(producer)


def _flush_and_close(producer: BatchProducer) -> None:
    with contextlib.suppress(PenstockError):
        producer.flush()
    producer.close()


_kept = PerProcess[None, KeptProducer](lambda _: KeptProducer())


def kept_producer() -> KeptProducer:
    """Returns this process's."""
    return _kept.get(None)
