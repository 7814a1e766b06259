"""Slots: which transactional ids this process may use. Locks of the operating system lend them, and take them back.

Ids have to be few (a broker remembers each for days) and never in use twice at a time. So every machine counts its own
from 0, and a lock file for each number says whether a living process has it: the lock falls with the process, however
that ends, and the next one takes the number again. But not in the same batch: a transaction outlives its process, and
waits in its slot for the driver. So a second file notes for which batch a slot was used last.
"""

from __future__ import annotations

import getpass
import os
import tempfile
import uuid
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from filelock import FileLock, Timeout

from penstock_kafka.transactions._names import QueryPrefix

__all__ = ["Slot", "SlotLender"]


@dataclass(frozen=True)
class Slot:
    """An id that is this process's own until it ends."""

    transactional_id: str
    note: Path

    def use(self, plan_id: str) -> None:
        """Notes that a transaction of the batch planned as ``plan_id`` is about to begin here."""
        fresh = self.note.with_suffix(f".{os.getpid()}")
        fresh.write_text(plan_id)
        fresh.replace(self.note)

    def is_free(self, plan_id: str) -> bool:
        """Whether it was not used for the batch planned as ``plan_id``; what it was used for before is carried out."""
        try:
            return self.note.read_text() != plan_id
        except FileNotFoundError:
            return True


class SlotLender:
    """Lends the slots of one query on this machine.

    ``folder`` is by default a directory of the user's below the machine's temporary directory. It holds the machine's
    random name as well: containers that have their own temporary directory are machines of their own.
    """

    def __init__(self, prefix: QueryPrefix, folder: Path | None = None) -> None:
        self._prefix = prefix
        self._folder = folder or Path(tempfile.gettempdir()) / f"penstock-{_user()}" / "kafka"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._host = _host_name(self._folder)
        self._locks = self._folder / uuid.uuid5(uuid.NAMESPACE_OID, prefix.text).hex
        self._locks.mkdir(mode=0o700, exist_ok=True)
        # A lock object that is forgotten lets its lock go.
        self._own: dict[int, FileLock] = {}

    def lend(self, plan_id: str) -> Slot:
        """The lowest number that no living process has, and that was not used for this batch."""
        for number in count():
            if number in self._own:
                continue
            lock = FileLock(self._locks / f"{number}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            slot = Slot(self._prefix.transactional_id(self._host, number), self._locks / f"{number}.used")
            if slot.is_free(plan_id):
                self._own[number] = lock
                return slot
            lock.release()
        raise AssertionError("count() never ends")

    def close(self) -> None:
        """Gives every slot back."""
        for lock in self._own.values():
            lock.release()
        self._own.clear()


def _host_name(folder: Path) -> str:
    path = folder / "host"
    with FileLock(folder / "host.lock"):
        if not path.exists():
            fresh = folder / f"host.{os.getpid()}"
            fresh.write_text(uuid.uuid4().hex[:8])
            fresh.replace(path)
        return path.read_text()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in some containers
        return str(os.getuid())
