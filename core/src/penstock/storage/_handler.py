"""A storage as pyarrow sees a file system."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import Any, Generic, Protocol, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.storage._contract import Storage

__all__ = ["StorageHandler"]


class _Place(Protocol):
    def is_same_place(self, other: Storage) -> bool: ...


#: What a handler needs of its storage.
StorageT = TypeVar("StorageT", bound=_Place)


class StorageHandler(pafs.FileSystemHandler, Generic[StorageT]):  # type: ignore[misc]
    """What pyarrow asks of a file system. For looking and reading; a storage that writes by it overrides the rest."""

    def __init__(self, storage: StorageT) -> None:
        self._storage = storage

    @abstractmethod
    def info(self, path: str) -> pafs.FileInfo:
        """Returns what there is at ``path``, nothing included."""

    @abstractmethod
    def infos_below(self, directory: str, *, recursive: bool) -> list[pafs.FileInfo]:
        """Returns what is below a directory, if ``recursive`` in all of its directories. Raises FileNotFoundError."""

    @abstractmethod
    def open(self, path: str) -> io.RawIOBase:
        """Opens a file for reading. Raises FileNotFoundError."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageHandler) and self._storage.is_same_place(other._storage)

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        return type(self._storage).__name__

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[pafs.FileInfo]:
        return list(map(self.info, paths))

    def get_file_info_selector(self, selector: pafs.FileSelector) -> list[pafs.FileInfo]:
        directory = selector.base_dir.rstrip("/") or "/"
        try:
            return self.infos_below(directory, recursive=selector.recursive)
        except FileNotFoundError:
            if selector.allow_not_found:
                return []
            raise

    def open_input_file(self, path: str) -> pa.NativeFile:
        return pa.PythonFile(self.open(path), mode="r")

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def create_dir(self, path: str, recursive: bool) -> None:
        raise self._refused()

    def delete_dir(self, path: str) -> None:
        raise self._refused()

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise self._refused()

    def delete_root_dir_contents(self) -> None:
        raise self._refused()

    def delete_file(self, path: str) -> None:
        raise self._refused()

    def move(self, src: str, dest: str) -> None:
        raise self._refused()

    def copy_file(self, src: str, dest: str) -> None:
        raise self._refused()

    def open_output_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise self._refused()

    def open_append_stream(self, path: str, metadata: Any) -> pa.NativeFile:
        raise self._refused()

    def _refused(self) -> NotImplementedError:
        return NotImplementedError(f"{self.get_type_name()} is written by its own methods")
