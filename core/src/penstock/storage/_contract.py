"""What the core asks of a place for files."""

from __future__ import annotations

import functools
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.errors import PenstockError, RetriableError
from penstock.retry import NO_RETRIES, RetryPolicy

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ABANDONED_AFTER_S", "REQUESTS_AT_ONCE", "Storage", "is_temporary", "temporary_for"]

#: No write takes so long: a temporary file that is older was left by a process that was killed.
ABANDONED_AFTER_S = 86_400.0


#: Calls that do the same if they are made twice. Of the others, one that failed may have left something in between.
_REPEATABLE = frozenset(
    (
        *("create", "put", "read", "open_file", "size", "list_names", "list_tree", "is_empty", "is_away", "age_s"),
        *("delete", "move", "move_over", "sweep", "remove_empty", "make_durable", "sync_names"),
        *("put_file", "stage_block", "staged_blocks", "commit_blocks", "discard_blocks"),
        *("stage_file", "copy_file", "generation", "check_moves"),
    )
)
#: Set while a thread is inside of such a call: what that calls itself is a part of it, and is not repeated by itself.
_inside = threading.local()


def temporary_for(path: str) -> str:
    """Returns a new name next to ``path``, for a file until it is renamed to that."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"


def is_temporary(name: str) -> bool:
    """Returns whether a file is a storage's own, before it is renamed to the requested name."""
    return name.startswith(".") and name.endswith(".tmp")


#: Of one piece of work to an object store: each takes tens of milliseconds, and a commit may need thousands.
REQUESTS_AT_ONCE = 32


class Storage(ABC):
    """A place for files. Paths are those of :attr:`fs` (no scheme; ``bucket/key`` for S3). Thread-safe, picklable.

    A failure is an ``OSError`` (``FileNotFoundError`` where that is what it is) or a
    :class:`penstock.errors.RetriableError`, whatever library is behind it. After a failure of a writing call the file
    may be there all the same, now or later.

    A storage's temporary files are its own: no other call shows them.

    Calls fail at once, unless the storage was given a policy (:meth:`retrying`). Then those that may be made twice are
    made again, in subclasses too: ``move`` may raise FileNotFoundError because an earlier try of it has worked.
    """

    #: Bytes that the name of a file or a directory may have, and a whole path.
    longest_name: int = 255
    longest_path: int = 4095

    retry: RetryPolicy = NO_RETRIES

    #: Independent requests that one piece of work makes at the same time.
    requests_at_once: int = 8

    #: Whether a call that has failed may still be carried out later, as by a store behind a network.
    has_late_calls: bool = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _make_repeatable(cls)

    def retrying(self, retry: RetryPolicy) -> Self:
        """Returns this storage with calls that are made again as ``retry`` says. Connections are shared."""
        if retry == self.retry:
            return self
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, retry=retry)
        return other

    @property
    @abstractmethod
    def fs(self) -> pafs.FileSystem:
        """The pyarrow file system: listing, opening, reading."""

    @abstractmethod
    def url(self, path: str) -> str:
        """``path`` with its scheme, as a user would write it."""

    def is_same_place(self, other: Storage) -> bool:
        """Returns whether a path means the same file for both."""
        return type(self) is type(other) and self.url("x/y") == other.url("x/y")

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Writes a whole file atomically, only if nothing is there. Durable if True.

        False says that something is there, which may be what an earlier try of this very call has written: a caller
        that must know looks at it.
        """

    @abstractmethod
    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Writes a whole file atomically, replacing what is there.

        ``durable`` on return, or at some time: for what is only looked up to save work.
        """

    def open_file(self, path: str) -> pa.NativeFile:
        """Opens a file for reading with seeks; whatever a store answers, its bytes are those that the file has.

        The file systems of Arrow are faster where several ranges are read at the same time. Given an answer of S3
        without a body, they give bytes that are not the file's. Raises FileNotFoundError.
        """
        return self.fs.open_input_file(path)

    def read(self, path: str) -> bytes:
        """Returns the whole file. Raises FileNotFoundError."""
        with self.fs.open_input_stream(path) as stream:
            return bytes(stream.read())

    def size(self, path: str) -> int | None:
        """Size in bytes, ``None`` if there is no such file."""
        info = self.fs.get_file_info(path)
        return int(info.size) if info.type == pafs.FileType.File else None

    def exists(self, path: str) -> bool:
        """Returns whether there is such a file."""
        return self.size(path) is not None

    def list_names(self, directory: str) -> list[str]:
        """Names of the files right below ``directory``, in order; empty if it does not exist.

        Whatever was written before the call, by any process, is in it.
        """
        infos = self.fs.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        return sorted(
            info.base_name for info in infos if info.type == pafs.FileType.File and not is_temporary(info.base_name)
        )

    def is_away(self, directory: str) -> bool:
        """Returns whether a directory that was there is not, as where a file system is not mounted any more.

        Always False for a store whose directories are only prefixes of names.
        """
        return False

    def check_is_there(self, directory: str) -> None:
        """Raises RetriableError if :meth:`is_away`: then nothing can be said of what is in the directory."""
        if self.is_away(directory):
            raise RetriableError(f"{self.url(directory)} is not there: is it mounted?")

    def no_answer(self, path: str, error: BaseException) -> PenstockError | None:
        """Returns better words for an error of :attr:`fs` about ``path`` that means that no store answered; ``None`` if
        there are none. May look at the store's endpoint, for some seconds.
        """
        return None

    def delete(self, paths: Iterable[str]) -> None:
        """Removes files; missing ones are fine. In one request where the store has one for many."""
        for path in paths:
            try:
                self.fs.delete_file(path)
            except FileNotFoundError:
                continue

    def sweep(self, directory: str, older_than_s: float = ABANDONED_AFTER_S) -> int:
        """Removes temporary files right below ``directory`` that killed processes left. Returns how many there were.

        Lists the directory where the storage has such files: a process that writes into one calls it now and then.
        """
        return 0

    def make_durable(self, path: str) -> None:  # noqa: B027
        """Makes what another process has written there durable, its name included. Raises FileNotFoundError."""

    # For a sink that leaves files hidden and publishes them by a rename. An object store has no such thing.

    def open_new(self, path: str) -> BinaryIO:
        """Returns a new file to write to. Parent directories are made. Not there for sure before :meth:`finish`."""
        raise NotImplementedError

    def finish(self, file: BinaryIO) -> None:
        """Closes what :meth:`open_new` gave. Its bytes are durable on return, its name after :meth:`sync_names`."""
        raise NotImplementedError

    def sync_names(self, root: str, paths: Iterable[str]) -> None:  # noqa: B027
        """The names of files are durable on return, and those of the directories they are in, up to ``root``."""

    def move(self, source: str, target: str) -> None:
        """Gives a file another name, in one step. No other process uses ``target``. Raises FileNotFoundError."""
        raise NotImplementedError

    def move_over(self, source: str, target: str) -> None:
        """Gives a file another name, replacing what has it; by a copy and a deletion where a store has no rename.

        Parent directories are made. Raises FileNotFoundError.
        """
        self.fs.create_dir(target.rpartition("/")[0], recursive=True)
        self.fs.move(source, target)

    def add_name(self, source: str, target: str) -> None:
        """A second file with the bytes of ``source``, which is never changed: a link, or where there is none a copy."""
        raise NotImplementedError

    def list_tree(self, directory: str) -> list[str]:
        """Returns the paths of all files below, in order; empty if it does not exist."""
        raise NotImplementedError

    def is_empty(self, directory: str) -> bool:
        """Returns whether there is no file below ``directory``, or no such directory."""
        return not self.list_tree(directory)

    def remove_empty(self, directory: str) -> None:  # noqa: B027
        """Removes a directory, and those below it, if there is no file in them. One that is not there is fine."""


def _make_repeatable(cls: type[Any]) -> None:
    for name in _REPEATABLE & vars(cls).keys():
        setattr(cls, name, _repeated(vars(cls)[name]))


def _repeated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Storage, *arguments: Any, **more: Any) -> Any:
        if self.retry.timeout_s <= 0 or getattr(_inside, "is_set", False):
            return method(self, *arguments, **more)
        # What can be read only once, such as a generator of paths, would be empty for the second try.
        kept = [list(one) if isinstance(one, Iterator) and not hasattr(one, "seek") else one for one in arguments]

        def once() -> Any:
            _inside.is_set = True
            try:
                return method(self, *kept, **more)
            finally:
                _inside.is_set = False

        return self.retry.call(once)

    return call


_make_repeatable(Storage)
