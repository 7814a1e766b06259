"""Azure's blob storage as pyarrow sees a file system.

Arrow has one of its own. Its errors show the signature of a SAS token, and it would need the credentials once more.
"""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._handler import StorageHandler

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties

    from penstock.storage._azure import AzureStorage

__all__ = ["AzureHandler"]

#: What is read at once from a stream.
_STREAM_BYTES = 4 << 20


class AzureHandler(StorageHandler):
    """Directories are prefixes of names. A recursive listing has files only."""

    _storage: AzureStorage

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
        return _OpenBlob(self._storage, path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(io.BufferedReader(self.open(path), _STREAM_BYTES), mode="r")


def _file(path: str, blob: BlobProperties) -> pafs.FileInfo:
    return pafs.FileInfo(path, pafs.FileType.File, mtime=blob.last_modified, size=blob.size)


class _OpenBlob(io.RawIOBase):
    """A blob that is being read, by a request for each range. Raises RetriableError if it was replaced meanwhile."""

    def __init__(self, storage: AzureStorage, path: str) -> None:
        super().__init__()
        found = storage._properties(path)
        if found is None:
            raise FileNotFoundError(storage.url(path))
        self._storage = storage
        self._path = path
        self._size = int(found.size)
        self._etag = found.etag
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(size, left)
        if not length:
            return b""
        data = self._storage._read_range(self._path, self._at, length, self._etag)
        self._at += len(data)
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
