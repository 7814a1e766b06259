"""Stores of objects: a directory is what the names of objects begin with."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._contract import Storage
from penstock.storage._handler import StorageHandler
from penstock.storage._ranged_file import RangedFile

__all__ = ["PrefixStorage"]

#: What is read at once from a stream.
_STREAM_BYTES = 4 << 20
#: What a store says of an object.
KnownT = TypeVar("KnownT")


class PrefixStorage(Storage, Generic[KnownT]):
    """Lists objects and reads them by requests for ranges, of an object as it was when it was opened."""

    @property
    def fs(self) -> pafs.FileSystem:
        # It is not kept: no collector of garbage sees that Arrow's own object refers to the handler and so to this one.
        return pafs.PyFileSystem(_PrefixHandler(self))

    @abstractmethod
    def _look_up(self, path: str) -> KnownT | None:
        """Returns what is known of an object; ``None`` if there is none, or only a directory."""

    @abstractmethod
    def _info(self, path: str, known: KnownT) -> pafs.FileInfo:
        """Returns that object as pyarrow describes a file."""

    @abstractmethod
    def _read_range(self, path: str, offset: int, length: int, known: KnownT) -> bytes:
        """Returns a range of that object. Raises RetriableError if it was replaced or removed."""

    @abstractmethod
    def _children(self, directory: str) -> list[tuple[str, KnownT | None]]:
        """Returns the paths right below, with ``None`` for directories. Raises FileNotFoundError without a bucket."""

    @abstractmethod
    def _objects_below(self, directory: str) -> Iterator[tuple[str, KnownT]]:
        """Yields all objects below, with their paths. Raises FileNotFoundError if there is no bucket."""

    @abstractmethod
    def _is_there(self, directory: str) -> bool:
        """Returns whether there is such a directory."""

    def list_names(self, directory: str) -> list[str]:
        try:
            found = self._children(directory)
        except FileNotFoundError:
            return []
        return sorted(path.rpartition("/")[2] for path, known in found if known is not None)

    def list_tree(self, directory: str) -> list[str]:
        try:
            return sorted(path for path, _ in self._objects_below(directory))
        except FileNotFoundError:
            return []

    def is_empty(self, directory: str) -> bool:
        """Asks for one page."""
        try:
            return next(self._objects_below(directory), None) is None
        except FileNotFoundError:
            return True


class _PrefixHandler(StorageHandler[PrefixStorage[Any]]):
    """A recursive listing has files only."""

    def info(self, path: str) -> pafs.FileInfo:
        found = self._storage._look_up(path)
        if found is not None:
            return self._storage._info(path, found)
        there = self._storage._is_there(path)
        return pafs.FileInfo(path, pafs.FileType.Directory if there else pafs.FileType.NotFound)

    def infos_below(self, directory: str, *, recursive: bool) -> list[pafs.FileInfo]:
        info = self._storage._info
        if recursive:
            return [info(path, known) for path, known in self._storage._objects_below(directory)]
        return [
            pafs.FileInfo(path, pafs.FileType.Directory) if known is None else info(path, known)
            for path, known in self._storage._children(directory)
        ]

    def open(self, path: str) -> io.RawIOBase:
        """Opens an object. Reading raises RetriableError if it was replaced meanwhile."""
        found = self._storage._look_up(path)
        if found is None:
            raise FileNotFoundError(self._storage.url(path))
        read, size = self._storage._read_range, self._storage._info(path, found).size
        return RangedFile(lambda offset, length: read(path, offset, length, found), size)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(io.BufferedReader(self.open(path), _STREAM_BYTES), mode="r")
