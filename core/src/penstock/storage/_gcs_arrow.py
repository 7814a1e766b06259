"""Google Cloud Storage as pyarrow sees a file system.

Arrow has one of its own, which would need the credentials once more.
"""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._contract import Storage
from penstock.storage._handler import StorageHandler
from penstock.storage._ranged_file import RangedFile

__all__ = ["GcsHandler", "Known"]

#: What is read at once from a stream.
_STREAM_BYTES = 4 << 20


class Known(NamedTuple):
    """What is known of an object. Its ``generation`` is a number that no other object of that name ever has."""

    size: int
    generation: int
    written_s: float


class ObjectStorage(Protocol):
    """A storage of objects, as the handler asks for them."""

    def _known(self, path: str) -> Known | None: ...
    def _read_range(self, path: str, offset: int, length: int, generation: int) -> bytes: ...
    def _children(self, directory: str) -> list[tuple[str, Known | None]]: ...
    def _objects_below(self, directory: str) -> Iterator[tuple[str, Known]]: ...
    def _is_there(self, directory: str) -> bool: ...
    def url(self, path: str) -> str: ...
    def is_same_place(self, other: Storage) -> bool: ...


class GcsHandler(StorageHandler[ObjectStorage]):
    """Directories are prefixes of names. A recursive listing has files only."""

    def info(self, path: str) -> pafs.FileInfo:
        found = self._storage._known(path)
        if found is not None:
            return _file(path, found)
        there = self._storage._is_there(path)
        return pafs.FileInfo(path, pafs.FileType.Directory if there else pafs.FileType.NotFound)

    def infos_below(self, directory: str, *, recursive: bool) -> list[pafs.FileInfo]:
        if recursive:
            return [_file(path, known) for path, known in self._storage._objects_below(directory)]
        found: list[pafs.FileInfo] = []
        for path, known in self._storage._children(directory):
            found.append(pafs.FileInfo(path, pafs.FileType.Directory) if known is None else _file(path, known))
        return found

    def open(self, path: str) -> io.RawIOBase:
        """Opens an object. Reading raises RetriableError if it was replaced meanwhile."""
        found = self._storage._known(path)
        if found is None:
            raise FileNotFoundError(self._storage.url(path))
        read, generation = self._storage._read_range, found.generation
        return RangedFile(lambda offset, length: read(path, offset, length, generation), found.size)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(io.BufferedReader(self.open(path), _STREAM_BYTES), mode="r")


def _file(path: str, known: Known) -> pafs.FileInfo:
    written = datetime.datetime.fromtimestamp(known.written_s, datetime.timezone.utc)
    return pafs.FileInfo(path, pafs.FileType.File, mtime=written, size=known.size)
