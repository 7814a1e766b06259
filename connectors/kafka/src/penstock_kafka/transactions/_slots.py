"""Slots: which transactional ids this process may use. Locks of the operating system lend them, and take them back.

Ids have to be few (a broker remembers each for days) and never in use twice at a time. So every machine counts its own
from 0, and a file for each number, locked by the process that has it, says whether that is alive: the lock falls with
the process, however that ends, and the next one takes the number again. A random name in the file is a part of the id:
a file that was removed while its process lived (a cleaner of temporary files does that), and is re-created, stands for
another id.

A number is not lent again in the same batch: a transaction outlives its process, and waits in its slot for the driver.
So the file also notes on which base of the decision log the last batch was planned that used the slot. What was planned
on an earlier base is carried out or void when tasks run on a later one.

An id is given up once a request to register it stays unanswered: that request may reach the broker at any later time,
and would then end whatever transaction the id has. So while an id is being registered, the file holds another name
already. Only the answer brings the own name back; a process that dies in between leaves the next one a new id.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import tempfile
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from penstock.errors import BadConfigurationError
from penstock_kafka.transactions._names import QueryPrefix

__all__ = ["Slot", "SlotLender", "forget_slots"]

#: Folders of queries that have not written for so long are removed, unless a process has one of their slots.
_SWEEP_AFTER_S = 86_400.0
_NAME_BYTES = 8


class Slot:
    """An id that is this process's own until :meth:`close`, or until nothing refers to this object."""

    def __init__(self, prefix: QueryPrefix, generation: int, number: int, descriptor: int, folder: Path) -> None:
        self._descriptor = descriptor
        self._folder = folder
        self._close = weakref.finalize(self, os.close, descriptor)
        self._id_of: Callable[[str], str] = lambda name: prefix.transactional_id(generation, name, number)
        if len(os.pread(descriptor, _NAME_BYTES, 0)) < _NAME_BYTES:
            os.pwrite(descriptor, _new_name(), 0)
        self._take_name()

    def _take_name(self) -> None:
        self._name = os.pread(self._descriptor, _NAME_BYTES, 0)
        self.transactional_id: str = self._id_of(self._name.decode())

    @contextlib.contextmanager
    def registering(self) -> Iterator[None]:
        """Holds the slot while its id is registered. If that fails, the slot has another id afterwards."""
        os.pwrite(self._descriptor, _new_name(), 0)
        try:
            yield
        except BaseException:
            self._take_name()
            raise
        os.pwrite(self._descriptor, self._name, 0)

    def use(self, base: int) -> None:
        """Notes that a transaction of a batch planned on ``base`` is about to begin here."""
        os.pwrite(self._descriptor, b"%s %020d" % (self._name, base), 0)
        with contextlib.suppress(OSError):  # another process has removed it
            os.utime(self._folder)

    def is_free(self, base: int) -> bool:
        """Returns whether it was last used on an earlier base than ``base``, or never."""
        noted = os.pread(self._descriptor, 100, _NAME_BYTES)
        return not noted or int(noted) < base

    def close(self) -> None:
        """Gives it back."""
        self._close()


class SlotLender:
    """Lends the slots of one generation of a query on this machine.

    ``folder`` is by default a directory of the user's below the machine's temporary directory. Containers that have
    their own temporary directory are machines of their own.
    """

    def __init__(self, prefix: QueryPrefix, generation: int, folder: Path | None = None) -> None:
        self._prefix = prefix
        self._generation = generation
        self._folder = _folder_of(prefix, folder)
        _make(self._folder)
        os.utime(self._folder)
        _sweep(self._folder, generation)
        self._own: dict[int, Slot] = {}

    def lend(self, base: int) -> Slot:
        """Returns the lowest number that no living process has, and that was not used on ``base`` or a later one."""
        for number in count():
            if number in self._own:
                continue
            descriptor = _lock(self._folder / f"{self._generation}.{number}.slot", make=True)
            if descriptor is None:
                continue
            slot = Slot(self._prefix, self._generation, number, descriptor, self._folder)
            if slot.is_free(base):
                self._own[number] = slot
                return slot
            slot.close()
        raise AssertionError("count() never ends")

    def close(self) -> None:
        """Gives every slot back."""
        for slot in self._own.values():
            slot.close()
        self._own.clear()


def forget_slots(prefix: QueryPrefix, folder: Path | None = None) -> None:
    """Removes the slots of a query that has ended from this machine; those in use, once their processes have ended."""
    own = _folder_of(prefix, folder)
    if own.exists() and _is_own(own.parent):
        _remove(own)


def _new_name() -> bytes:
    return uuid.uuid4().hex[:_NAME_BYTES].encode()


def _folder_of(prefix: QueryPrefix, folder: Path | None) -> Path:
    every = folder or Path(tempfile.gettempdir()) / f"penstock-kafka-{os.geteuid()}"
    return every / uuid.uuid5(uuid.NAMESPACE_OID, prefix.text).hex


def _make(folder: Path) -> None:
    """Makes the query's folder and the one above it, for this user alone. Raises BadConfigurationError for another's.

    Any user may make folders in the machine's temporary directory, and could give this process files of their own.
    """
    for one in (folder.parent, folder):
        with contextlib.suppress(FileExistsError):
            one.mkdir(mode=0o700)
        if not _is_own(one):
            raise BadConfigurationError(
                f"{one} is not a directory that only the user who runs the query can write: remove it, or set TMPDIR "
                "to a directory of that user"
            )


def _is_own(folder: Path) -> bool:
    found = folder.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _lock(path: Path, *, make: bool) -> int | None:
    """Returns a descriptor of the file, locked by this process; ``None`` if another has it, or there is no file."""
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | (os.O_CREAT if make else 0), 0o600)
        except FileNotFoundError:
            if not make:
                return None
            _make(path.parent)  # another process has removed it
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_still(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # removed after it was opened: who comes next will not see the lock on it


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sweep(own: Path, generation: int) -> None:
    """Removes what is left of queries that ended, and of this one's earlier generations."""
    for path in own.glob("*.slot"):
        if int(path.name.partition(".")[0]) < generation:
            _remove_file(path)
    for other in own.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process was quicker
            if other != own and other.is_dir() and other.stat().st_mtime < time.time() - _SWEEP_AFTER_S:
                _remove(other)


def _remove(folder: Path) -> None:
    """Removes the files that no living process has locked, and the folder with the last one. What fails is left."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            _remove_file(path)
        try:
            folder.rmdir()
        except OSError:
            os.utime(folder, (0, 0))  # the next process tries again


def _remove_file(path: Path) -> None:
    descriptor = _lock(path, make=False)
    if descriptor is not None:
        path.unlink(missing_ok=True)
        os.close(descriptor)
