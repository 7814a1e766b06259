"""Slots: which transactional ids this process may use. Locks of the operating system lend them, and take them back.

Ids have to be few (a broker remembers each for days) and never in use twice at a time. So every machine counts its own
from 0, and a lock file for each number says whether a living process has it: the lock falls with the process, however
that ends, and the next one takes the number again. But not in the same batch: a transaction outlives its process, and
waits in its slot for the driver. So a second file notes on which base of the decision log the last batch was planned
that used a slot. What was planned on an earlier base is carried out or void when tasks run on a later one.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import tempfile
import time
import uuid
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from filelock import FileLock, Timeout

from penstock_kafka.transactions._names import QueryPrefix

__all__ = ["Slot", "SlotLender"]

#: Folders of queries that have not written for so long are removed: brokers have forgotten the ids by then.
_SWEEP_AFTER_S = 30 * 86_400.0


@dataclass(frozen=True)
class Slot:
    """An id that is this process's own until it ends."""

    transactional_id: str
    note: Path

    def use(self, base: int) -> None:
        """Notes that a transaction of a batch planned on ``base`` is about to begin here."""
        fresh = self.note.with_suffix(f".{os.getpid()}")
        fresh.write_text(str(base))
        fresh.replace(self.note)

    def is_free(self, base: int) -> bool:
        """Whether it was last used on an earlier base than ``base``, or never."""
        try:
            noted = self.note.read_text()
        except FileNotFoundError:
            return True
        # The first edition noted other things, all of them earlier.
        return not noted.isdigit() or int(noted) < base


class SlotLender:
    """Lends the slots of one generation of a query on this machine.

    ``folder`` is by default a directory of the user's below the machine's temporary directory. It holds the machine's
    random name as well: containers that have their own temporary directory are machines of their own.
    """

    def __init__(self, prefix: QueryPrefix, generation: int, folder: Path | None = None) -> None:
        self._prefix = prefix
        self._generation = generation
        self._folder = folder or Path(tempfile.gettempdir()) / f"penstock-{_user()}" / "kafka"
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._host = _host_name(self._folder)
        self._locks = self._folder / uuid.uuid5(uuid.NAMESPACE_OID, f"{prefix.text}{generation}").hex
        self._locks.mkdir(mode=0o700, exist_ok=True)
        os.utime(self._locks)
        _sweep(self._folder, self._locks)
        # A lock object that is forgotten lets its lock go.
        self._own: dict[int, FileLock] = {}

    def lend(self, base: int) -> Slot:
        """The lowest number that no living process has, and that was not used on ``base`` or a later one."""
        for number in count():
            if number in self._own:
                continue
            lock = FileLock(self._locks / f"{number}.lock")
            try:
                lock.acquire(timeout=0)
            except Timeout:
                continue
            transactional_id = self._prefix.transactional_id(self._generation, self._host, number)
            slot = Slot(transactional_id, self._locks / f"{number}.used")
            if slot.is_free(base):
                self._own[number] = lock
                return slot
            lock.release()
        raise AssertionError("count() never ends")

    def close(self) -> None:
        """Gives every slot back."""
        for lock in self._own.values():
            lock.release()
        self._own.clear()


def _sweep(folder: Path, own: Path) -> None:
    """Removes what queries have left that ended long ago. Every start of a query makes a folder for itself."""
    for other in folder.iterdir():
        if other != own and other.is_dir():
            with contextlib.suppress(OSError):
                newest = max(entry.stat().st_mtime for entry in (other, *other.iterdir()))
                if newest < time.time() - _SWEEP_AFTER_S:
                    shutil.rmtree(other)


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
