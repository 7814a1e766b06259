"""Keeping transactions open: one thread in each process renews leases until their transactions are over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.errors import PenstockError
from penstock.per_process import PerProcess
from penstock.printable import get_logger
from penstock_pravega.client import ControllerSettings, PingAnswer, controller_of
from penstock_pravega.sink._committable import TransactionRef
from penstock_pravega.sink._transaction_log import OpenTransaction

__all__ = ["LeaseKeeper", "lease_keeper"]

_log = get_logger("penstock.pravega")

#: A process stops renewing a transaction that has not been mentioned for this long.
_LONGEST_S = 24 * 3600.0
_LEASE_PART, _SOONEST_S, _RETRY_S = 4, 0.5, 2.0

TransactionSource = Callable[[], Iterable[OpenTransaction]]


@dataclass
class _Lease:
    """When it is renewed next, and until when at all (on the monotonic clock). Guarded by the keeper's condition."""

    settings: ControllerSettings
    lease_ms: int
    due: float
    until: float


class LeaseKeeper:
    """Renews leases four times as often as needed. Thread-safe; its thread is a daemon and ends when idle.

    The process of the task that opened a transaction keeps it open, also after the task has ended, until it is
    committed or aborted or the process ends. So does the driver, by the query's transaction log, because a batch may
    outlast its workers.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._kept: dict[TransactionRef, _Lease] = {}
        self._watched: dict[str, tuple[ControllerSettings, TransactionSource, float, float]] = {}
        self._thread: threading.Thread | None = None
        self._failing: set[object] = set()

    def keep(self, settings: ControllerSettings, ref: TransactionRef, lease_ms: int) -> None:
        """Renews the lease from now on. The transaction was opened or renewed just now."""
        with self._condition:
            if ref not in self._kept:
                now = time.monotonic()
                self._kept[ref] = _Lease(settings, lease_ms, now + _interval(lease_ms), now + _LONGEST_S)
                self._start()

    def watch(self, name: str, settings: ControllerSettings, source: TransactionSource, lease_ms: int) -> None:
        """Renews what ``source`` returns, asking it now and then, for a day after the last call for ``name``."""
        with self._condition:
            _, _, _, due = self._watched.get(name, (settings, source, 0.0, time.monotonic() + _interval(lease_ms)))
            self._watched[name] = (settings, source, time.monotonic() + _LONGEST_S, due)
            self._start()

    def forget(self, ref: TransactionRef) -> None:
        """Stops renewing: the transaction is over."""
        with self._condition:
            self._drop(ref)

    def _drop(self, ref: TransactionRef) -> None:
        self._kept.pop(ref, None)
        self._failing.discard(ref)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-leases", daemon=True)
            self._thread.start()
        self._condition.notify_all()

    def _run(self) -> None:
        while True:
            with self._condition:
                now = time.monotonic()
                for ref in [ref for ref, lease in self._kept.items() if lease.until < now]:
                    self._drop(ref)
                for name in [name for name, (_, _, until, _) in self._watched.items() if until < now]:
                    del self._watched[name]
                times = [*(lease.due for lease in self._kept.values()), *(due for *_, due in self._watched.values())]
                if not times:
                    self._thread = None
                    return
                wait = min(times) - now
                if wait > 0:
                    self._condition.wait(wait)
                    continue
                leases = [(ref, lease) for ref, lease in self._kept.items() if lease.due <= now]
                watched = [(name, *one) for name, one in self._watched.items() if one[3] <= now]
            for ref, lease in leases:
                self._renew(ref, lease)
            for name, settings, source, until, _ in watched:
                self._ask(name, settings, source, until)

    def _renew(self, ref: TransactionRef, lease: _Lease) -> None:
        pause = _interval(lease.lease_ms)
        try:
            answer = controller_of(lease.settings).ping_transaction(*ref.scope_and_stream, ref.id, lease.lease_ms)
            over = answer not in (PingAnswer.OK, PingAnswer.DISCONNECTED)
            pause = pause if answer is PingAnswer.OK else min(pause, _RETRY_S)
            self._failing.discard(ref)
        except PenstockError as error:
            self._warn(ref, f"the lease of {ref}", error)
            over, pause = False, min(pause, _RETRY_S)
        with self._condition:
            if over:
                self._drop(ref)
            lease.due = time.monotonic() + pause

    def _ask(self, name: str, settings: ControllerSettings, source: TransactionSource, until: float) -> None:
        pause = _RETRY_S
        try:
            for open_ in source():
                pause = max(pause, _interval(open_.lease_ms))
                controller_of(settings).ping_transaction(*open_.ref.scope_and_stream, open_.ref.id, open_.lease_ms)
            self._failing.discard(name)
        except (PenstockError, OSError) as error:
            self._warn(name, "leases of open transactions", error)
        with self._condition:
            if name in self._watched:
                self._watched[name] = (settings, source, self._watched[name][2], time.monotonic() + pause)

    def _warn(self, what: object, words: str, error: Exception) -> None:
        """Warns of the first failure in a row; renewing is tried every few seconds."""
        level = logging.DEBUG if what in self._failing else logging.WARNING
        self._failing.add(what)
        _log.log(level, "%s could not be renewed, trying again until it can: %s", words, error)


def _interval(lease_ms: int) -> float:
    return max(_SOONEST_S, lease_ms / 1000 / _LEASE_PART)


_keepers = PerProcess[None, LeaseKeeper](lambda _: LeaseKeeper(), idle_s=None)


def lease_keeper() -> LeaseKeeper:
    """Returns this process's keeper."""
    return _keepers.get(None)
