"""HDFS as pyarrow sees a file system."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._contract import Storage
from penstock.storage._handler import StorageHandler
from penstock.storage._hdfs_client import OpenFile, translated

if TYPE_CHECKING:
    from hdfs_native import Client, FileStatus


__all__ = ["HdfsHandler"]


class StatusStorage(Protocol):
    """A storage with a client of HDFS, as the handler asks for it."""

    @property
    def _client(self) -> Client: ...
    def _status(self, path: str) -> FileStatus | None: ...
    def _statuses(self, directory: str, *, recursive: bool = False) -> list[FileStatus]: ...
    def add_name(self, source: str, target: str) -> None: ...
    def open_new(self, path: str) -> BinaryIO: ...
    def url(self, path: str) -> str: ...
    def is_same_place(self, other: Storage) -> bool: ...


class HdfsHandler(StorageHandler[StatusStorage]):
    """HDFS, which also writes by it."""

    def info(self, path: str) -> pafs.FileInfo:
        found = self._storage._status(path)
        return pafs.FileInfo(path, pafs.FileType.NotFound) if found is None else _info(found)

    def infos_below(self, directory: str, *, recursive: bool) -> list[pafs.FileInfo]:
        return [_info(one) for one in self._storage._statuses(directory, recursive=recursive)]

    def open(self, path: str) -> io.RawIOBase:
        where = self._storage.url(path)
        with translated(where):
            return OpenFile(self._storage._client.read(path), where)

    def create_dir(self, path: str, recursive: bool) -> None:
        with translated(self._storage.url(path)):
            self._storage._client.mkdirs(path, create_parent=recursive)

    def delete_dir(self, path: str) -> None:
        self._delete(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        try:
            found = self._storage._statuses(path)
        except FileNotFoundError:
            if missing_dir_ok:
                return
            raise
        for one in found:
            self._delete(one.path)

    def delete_root_dir_contents(self) -> None:
        self.delete_dir_contents("/")

    def delete_file(self, path: str) -> None:
        self._delete(path)

    def _delete(self, path: str) -> None:
        with translated(self._storage.url(path)):
            if not self._storage._client.delete(path, True):
                raise FileNotFoundError(path)

    def move(self, src: str, dest: str) -> None:
        with translated(self._storage.url(src)):
            self._storage._client.rename(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self._storage.add_name(src, dest)

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(self._storage.open_new(path), mode="w")


def _info(status: FileStatus) -> pafs.FileInfo:
    if status.isdir:
        return pafs.FileInfo(status.path, pafs.FileType.Directory)
    mtime = status.modification_time / 1000
    return pafs.FileInfo(status.path, pafs.FileType.File, mtime=mtime, size=status.length)
