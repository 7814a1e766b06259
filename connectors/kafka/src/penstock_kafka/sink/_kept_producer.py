"""The producer without transactions that a process keeps from one task to the next: connecting takes a while."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock_kafka.client import BatchProducer

__all__ = ["forget_producer", "keep_for_a_while", "kept_producer"]

#: A producer goes on asking for the topics it has written to, and brokers may make a topic that they are asked for: one
#: that is kept for long would bring topics back that were deleted.
_KEPT_S = 30.0


@dataclass
class _Kept:
    """``leaving`` closes the producer if no task comes."""

    settings_key: str
    producer: BatchProducer
    leaving: threading.Timer | None = None


#: By process id: a forked process must not touch a producer that was made before the fork.
_kept: dict[int, _Kept] = {}
_lock = threading.Lock()


def kept_producer(settings_key: str, open_producer: Callable[[], BatchProducer]) -> BatchProducer:
    """This process's producer with these settings; a new one if there is none, or one with others."""
    with _lock:
        kept = _kept.get(os.getpid())
        if kept is not None and kept.settings_key == settings_key:
            if kept.leaving is not None:
                kept.leaving.cancel()
            kept.leaving = None
            return kept.producer
    if kept is not None:
        _leave(kept.producer)
    producer = open_producer()
    with _lock:
        _kept[os.getpid()] = _Kept(settings_key, producer)
    return producer


def keep_for_a_while(producer: BatchProducer) -> None:
    """A task is done with ``producer``; it is flushed and closed if no other comes for it."""
    with _lock:
        kept = _kept.get(os.getpid())
        if kept is not None and kept.producer is producer:
            kept.leaving = threading.Timer(_KEPT_S, _leave_unused, [kept])
            kept.leaving.daemon = True
            kept.leaving.start()


def forget_producer(producer: BatchProducer) -> None:
    """Closes ``producer``, records on their way included, and does not lend it again."""
    with _lock:
        kept = _kept.get(os.getpid())
        if kept is not None and kept.producer is producer:
            del _kept[os.getpid()]
    producer.close()


def _leave_unused(kept: _Kept) -> None:
    with _lock:
        if kept.leaving is None or _kept.get(os.getpid()) is not kept:
            return  # a task came just then
        del _kept[os.getpid()]
    _leave(kept.producer)


def _leave(producer: BatchProducer) -> None:
    with contextlib.suppress(PenstockError):
        producer.flush()
    forget_producer(producer)
