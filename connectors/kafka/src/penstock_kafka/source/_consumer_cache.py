"""Consumers kept by a process from one task to the next: connecting costs more than reading a small batch."""

from __future__ import annotations

import threading

from penstock_kafka.client import ClientConfig, RangeConsumer, open_consumer

__all__ = ["ConsumerCache"]


_Kind = tuple[dict[str, str], str]


class ConsumerCache:
    """Idle consumers by their settings and implementation, at most ``most`` of them. Thread-safe.

    They have no partitions assigned, so they hold connections but no records.
    """

    def __init__(self, most: int = 4) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._idle: list[tuple[_Kind, RangeConsumer]] = []

    def acquire(self, config: ClientConfig, implementation: str) -> RangeConsumer:
        """Returns an idle consumer of this kind, or a new one. The caller gives it back or closes it."""
        wanted = (dict(config), implementation)
        with self._lock:
            for index, (kind, consumer) in enumerate(self._idle):
                if kind == wanted:
                    del self._idle[index]
                    return consumer
        return open_consumer(config, implementation)

    def release(self, config: ClientConfig, implementation: str, consumer: RangeConsumer) -> None:
        """Keeps ``consumer``, which has not failed, for the next task. The one that was idle longest makes room."""
        consumer.assign([], headers=False)
        with self._lock:
            self._idle.append(((dict(config), implementation), consumer))
            surplus = self._idle.pop(0)[1] if len(self._idle) > self._most else None
        if surplus is not None:
            surplus.close()
