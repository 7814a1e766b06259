"""HDFS as pyarrow sees a file system."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._hdfs_client import OpenFile, translated

if TYPE_CHECKING:
    from hdfs_native import FileStatus

    from penstock.storage._hdfs import HdfsStorage

__all__ = ["HdfsHandler"]


class HdfsHandler(pafs.FileSystemHandler):  # type: ignore[misc]
    """What pyarrow asks of a file system."""

    def __init__(self, storage: HdfsStorage) -> None:
        self._storage = storage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HdfsHandler) and self._storage.url("") == other._storage.url("")

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return "hdfs"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        found = [(path, self._storage._status(path)) for path in paths]
        return [pafs.FileInfo(path, pafs.FileType.NotFound) if one is None else _info(one) for path, one in found]

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        directory = selector.base_dir.rstrip("/") or "/"
        try:
            return [_info(one) for one in self._storage._statuses(directory, recursive=selector.recursive)]
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise

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

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def open_input_file(self, path: str) -> pa.NativeFile:
        where = self._storage.url(path)
        with translated(where):
            return pa.PythonFile(OpenFile(self._storage._client.read(path), where), mode="r")

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        return pa.PythonFile(self._storage.open_new(path), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise NotImplementedError("nothing is appended to a file in HDFS")


def _info(status: FileStatus) -> pafs.FileInfo:
    if status.isdir:
        return pafs.FileInfo(status.path, pafs.FileType.Directory)
    mtime = status.modification_time / 1000
    return pafs.FileInfo(status.path, pafs.FileType.File, mtime=mtime, size=status.length)
