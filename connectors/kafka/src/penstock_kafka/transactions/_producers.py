"""Producers that are ready when a task needs one.

Registering a transactional id takes tens of milliseconds. So whenever one is taken, the next is made in the
background, while the batch is being written; and closing one is done there as well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from penstock.errors import PenstockError, RetriableError
from penstock.per_process import PerProcess
from penstock.printable import get_logger
from penstock_kafka.client import BatchProducer, ClientKind, ProducerIdentity, TransactionRef
from penstock_kafka.transactions._names import QueryPrefix
from penstock_kafka.transactions._slots import Slot, SlotLender

__all__ = ["ProducerPool", "ReadyProducer", "acquire_pool", "release_pool"]

_log = get_logger("penstock.kafka")
INIT_TIMEOUT_MS = 60_000
#: A broker forgets an id that was not used for days (transactional.id.expiration.ms): don't come near that.
_STALE_AFTER_S = 3600.0
_KEPT_POOLS = 4
#: Registered one after the other, while requests stay unanswered.
_MOST_IDS = 5


class _InDoubtError(Exception):
    """The id is registered, but an earlier request for the same has not been answered, and may still arrive."""


@dataclass
class ReadyProducer:
    """A producer whose id is registered; its one transaction has not begun."""

    producer: BatchProducer
    slot: Slot
    identity: ProducerIdentity
    made: float

    @property
    def ref(self) -> TransactionRef:
        """Its transaction."""
        return TransactionRef(self.slot.transactional_id, self.identity.producer_id, self.identity.epoch)


class ProducerPool:
    """The producers of one generation of a query in one process. A task takes and retires them, a thread does the rest.

    A slot whose transaction waits for the driver is not used again before a batch that was planned on a later base:
    registering its id again would abort that transaction.
    """

    def __init__(self, lender: SlotLender, open_producer: Callable[[str], BatchProducer]) -> None:
        self._lender = lender
        self._open_producer = open_producer
        self._slots: list[Slot] = []
        self._lock = threading.Lock()
        self._next: Future[ReadyProducer] | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="penstock-producers")

    def take(self, base: int) -> ReadyProducer:
        """Returns a producer for one transaction of the batch that was planned on ``base``. Raises what making it
        raised.
        """
        ready = self._prepared() or self._make(base)
        ready.slot.use(base)
        self._next = self._worker.submit(self._make, base)
        return ready

    def _prepared(self) -> ReadyProducer | None:
        waiting, self._next = self._next, None
        if waiting is None:
            return None
        try:
            ready = waiting.result()
        except PenstockError as error:
            _log.info("a producer could not be made in advance: %s", error)
            return None
        if time.monotonic() - ready.made < _STALE_AFTER_S:
            return ready
        self._give_back(ready)
        return None

    def _make(self, base: int) -> ReadyProducer:
        slot = self._free_slot(base)
        try:
            for _ in range(_MOST_IDS):
                with contextlib.suppress(_InDoubtError):
                    return self._register(slot)
            raise RetriableError(f"{_MOST_IDS} ids in a row had a request to register that stays unanswered")
        except BaseException:
            with self._lock:
                self._slots.append(slot)
            raise

    def _register(self, slot: Slot) -> ReadyProducer:
        with slot.registering():
            producer = self._open_producer(slot.transactional_id)
            try:
                identity = producer.init_transactions(INIT_TIMEOUT_MS)
                if identity.in_doubt:
                    raise _InDoubtError
            except BaseException:
                producer.close()
                raise
        return ReadyProducer(producer, slot, identity, time.monotonic())

    def _free_slot(self, base: int) -> Slot:
        with self._lock:
            for slot in self._slots:
                if slot.is_free(base):
                    self._slots.remove(slot)
                    return slot
            return self._lender.lend(base)

    def _give_back(self, ready: ReadyProducer) -> None:
        with self._lock:
            self._slots.append(ready.slot)
        self._worker.submit(ready.producer.close)

    def retire(self, ready: ReadyProducer) -> None:
        """Ends the producer, not its transaction; its slot is free for later batches."""
        self._give_back(ready)

    def close(self) -> None:
        """Ends every producer and gives the slots back to the machine."""
        with contextlib.suppress(PenstockError):
            if self._next is not None:
                self._give_back(self._next.result())
        self._worker.shutdown()
        self._lender.close()


@dataclass(frozen=True)
class _Owner:
    """Who uses a pool: a generation of a query, with the settings of its producers."""

    prefix: QueryPrefix
    generation: int
    kind: ClientKind

    def make_pool(self) -> ProducerPool:
        lender = SlotLender(self.prefix, self.generation)
        return ProducerPool(
            lender, lambda transactional_id: self.kind.open_producer({"transactional.id": transactional_id})
        )


_pools = PerProcess(_Owner.make_pool, most=_KEPT_POOLS, close=ProducerPool.close, files=lambda owner: owner.kind.files)


def acquire_pool(prefix: QueryPrefix, generation: int, kind: ClientKind) -> ProducerPool:
    """Returns this process's pool of a generation of a query, kept from batch to batch; those of earlier ones are
    closed. Release it.
    """
    for owner in _pools.keys():  # noqa: SIM118 - it is no dictionary
        if owner.prefix == prefix and owner.generation < generation:
            _pools.forget(owner)
    return _pools.acquire(_Owner(prefix, generation, kind))


def release_pool(pool: ProducerPool) -> None:
    """Ends a task's use of an acquired pool."""
    _pools.release(pool)
