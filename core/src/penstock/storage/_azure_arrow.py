"""Azure's blob storage as pyarrow sees a file system.

Arrow has one of its own. Its errors show the signature of a SAS token, and it would need the credentials once more.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._contract import Storage
from penstock.storage._handler import StorageHandler
from penstock.storage._ranged_file import RangedFile

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

__all__ = ["AzureHandler"]

#: What is read at once from a stream.
_STREAM_BYTES = 4 << 20


class BlobStorage(Protocol):
    """A storage of blobs, as the handler asks for them."""

    def _properties(self, path: str) -> BlobProperties | None: ...
    def _read_range(self, path: str, offset: int, length: int, etag: str) -> bytes: ...
    def _children(self, directory: str) -> list[tuple[str, BlobProperties | None]]: ...
    def _blobs_below(self, directory: str) -> Iterator[tuple[str, BlobProperties]]: ...
    def _is_there(self, directory: str) -> bool: ...
    def url(self, path: str) -> str: ...
    def is_same_place(self, other: Storage) -> bool: ...


class AzureHandler(StorageHandler[BlobStorage]):
    """Directories are prefixes of names. A recursive listing has files only."""

    def info(self, path: str) -> pafs.FileInfo:
        found = self._storage._properties(path)
        if found is not None:
            return _file(path, found)
        there = self._storage._is_there(path)
        return pafs.FileInfo(path, pafs.FileType.Directory if there else pafs.FileType.NotFound)

    def infos_below(self, directory: str, *, recursive: bool) -> list[pafs.FileInfo]:
        if recursive:
            return [_file(path, blob) for path, blob in self._storage._blobs_below(directory)]
        found: list[pafs.FileInfo] = []
        for path, blob in self._storage._children(directory):
            found.append(pafs.FileInfo(path, pafs.FileType.Directory) if blob is None else _file(path, blob))
        return found

    def open(self, path: str) -> io.RawIOBase:
        """Opens a blob. Reading raises RetriableError if it was replaced meanwhile."""
        found = self._storage._properties(path)
        if found is None:
            raise FileNotFoundError(self._storage.url(path))
        read = self._storage._read_range
        return RangedFile(lambda offset, length: read(path, offset, length, found.etag), int(found.size))

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(io.BufferedReader(self.open(path), _STREAM_BYTES), mode="r")


def _file(path: str, blob: BlobProperties) -> pafs.FileInfo:
    return pafs.FileInfo(path, pafs.FileType.File, mtime=blob.last_modified, size=blob.size)
