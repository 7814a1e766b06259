"""Local and mounted file systems."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import functools
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import pyarrow.fs as pafs

from penstock.errors import BadConfigurationError
from penstock.storage._contract import ABANDONED_AFTER_S, Storage, is_temporary, temporary_for

__all__ = ["LocalStorage", "sync_directory"]

_BUFFER_BYTES = 1 << 20
_OPEN_TRIES = 10
#: What link(2) says where there are no hard links (FAT, some mounts of network file systems and of containers).
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


def sync_directory(path: str) -> None:
    """Makes names in a local directory durable."""
    _sync(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_name(path: str) -> None:
    """Makes the name of a new file durable. If its directory is gone, another process has removed both."""
    with contextlib.suppress(FileNotFoundError):
        sync_directory(os.path.dirname(path))


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Errors of writing say which file it was, as those of opening do: a disk that is full has to be known."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = path
        raise


class _NewFile(io.FileIO):
    def write(self, data: Any) -> int:
        with naming(str(self.name)):
            return super().write(data)


def rename_without_replacing(source: str, target: str) -> bool:
    """False if ``target`` is there. Raises BadConfigurationError where the file system can't do it in one step."""
    libc = ctypes.CDLL(None, use_errno=True)
    encoded = os.fsencode(source), os.fsencode(target)
    if sys.platform == "darwin":
        failed = libc.renamex_np(*encoded, 4)  # RENAME_EXCL
    else:
        failed = libc.renameat2(-100, encoded[0], -100, encoded[1], 1)  # AT_FDCWD, RENAME_NOREPLACE
    if not failed:
        return True
    error = ctypes.get_errno()
    if error == errno.EEXIST:
        return False
    if error in (errno.EINVAL, *_NO_LINKS):
        raise BadConfigurationError(
            f"{os.path.dirname(target)} is on a file system with neither hard links nor a rename that never "
            "replaces: two drivers could decide the same batch there. Put the checkpoint on another one"
        )
    raise OSError(error, os.strerror(error), target)


def _in_its_directory(path: str, open_file: Callable[[], BinaryIO]) -> BinaryIO:
    """Opens a new file; makes its directory first."""
    for attempt in range(_OPEN_TRIES):
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return open_file()
        except FileNotFoundError:
            # Another process has just removed the empty directory.
            if attempt + 1 == _OPEN_TRIES:
                raise
            time.sleep(0.001 * attempt)
    raise AssertionError


class LocalStorage(Storage):
    """Atomicity comes from link(2) and rename(2); without hard links, from a rename that never replaces."""

    has_late_calls = False

    @functools.cached_property
    def fs(self) -> pafs.FileSystem:
        return pafs.LocalFileSystem()

    def __reduce__(self) -> Any:
        return (LocalStorage, (), {"retry": self.retry})

    def url(self, path: str) -> str:
        """Local paths are shown as they are."""
        return path

    def read(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def size(self, path: str) -> int | None:
        try:
            return os.stat(path).st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_away(self, directory: str) -> bool:
        return not os.path.isdir(directory)

    def list_names(self, directory: str) -> list[str]:
        try:
            with os.scandir(directory) as entries:
                return sorted(one.name for one in entries if not is_temporary(one.name) and one.is_file())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def _write_temporary(self, path: str, data: bytes, *, durable: bool = True) -> str:
        temporary = temporary_for(path)
        file = _in_its_directory(temporary, lambda: open(temporary, "xb"))  # noqa: SIM115
        try:
            with naming(path), file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        except BaseException:
            self.delete([temporary])
            raise
        return temporary

    def create(self, path: str, data: bytes) -> bool:
        temporary = self._write_temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if not rename_without_replacing(temporary, path):
                return False
        finally:
            self.delete([temporary])
        _sync_name(path)
        return True

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        temporary = self._write_temporary(path, data, durable=durable)
        try:
            os.replace(temporary, path)
        except BaseException:
            self.delete([temporary])
            raise
        if durable:
            _sync_name(path)

    def sweep(self, directory: str, older_than_s: float = ABANDONED_AFTER_S) -> int:
        before = time.time() - older_than_s
        old = []
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(directory) as entries:
            for one in entries:
                if is_temporary(one.name):
                    with contextlib.suppress(FileNotFoundError):
                        old += [one.path] if one.stat().st_mtime < before else []
        self.delete(old)
        return len(old)

    def make_durable(self, path: str) -> None:
        _sync(path)
        sync_directory(os.path.dirname(path))

    def open_new(self, path: str) -> BinaryIO:
        return _in_its_directory(path, lambda: io.BufferedWriter(_NewFile(path, "xb"), _BUFFER_BYTES))

    def finish(self, file: BinaryIO) -> None:
        with naming(file.name):
            file.flush()
            os.fsync(file.fileno())
            file.close()

    def sync_names(self, root: str, paths: Iterable[str]) -> None:
        todo = set()
        for path in paths:
            directory = os.path.dirname(path)
            while directory.startswith(root) and directory not in todo:
                todo.add(directory)
                directory = os.path.dirname(directory)
        if todo:
            todo.add(os.path.dirname(root))
        for directory in sorted(todo, reverse=True):
            with contextlib.suppress(FileNotFoundError):
                sync_directory(directory)

    def move(self, source: str, target: str) -> None:
        try:
            os.rename(source, target)
        except FileNotFoundError:
            os.stat(source)  # raises where it is the source that is not there: no directory is made for it
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)

    def move_over(self, source: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(source, target)

    def add_name(self, source: str, target: str) -> None:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        try:
            os.link(source, target)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            with open(source, "rb") as file, self.open_new(target) as copy:
                shutil.copyfileobj(file, copy, _BUFFER_BYTES)
                self.finish(copy)

    def list_tree(self, directory: str) -> list[str]:
        found = []
        for folder, _, names in os.walk(directory):
            found += [f"{folder}/{name}" for name in names if not is_temporary(name)]
        return sorted(found)

    def remove_empty(self, directory: str) -> None:
        for folder, _, _ in os.walk(directory, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
