"""Files in this process's memory."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow.fs as pafs

from penstock.storage._contract import Storage

__all__ = ["MemoryStorage"]


class MemoryStorage(Storage):
    """For decisions that need not outlive the process."""

    has_late_calls = False

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    @property
    def fs(self) -> pafs.FileSystem:
        """Not offered."""
        raise NotImplementedError("files in memory have no pyarrow file system")

    def url(self, path: str) -> str:
        """``memory:`` and the path."""
        return f"memory:{path}"

    def read(self, path: str) -> bytes:
        try:
            return self.files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def size(self, path: str) -> int | None:
        return len(self.files[path]) if path in self.files else None

    def list_names(self, directory: str) -> list[str]:
        parts = (path.rpartition("/") for path in list(self.files))
        return sorted(name for folder, _, name in parts if folder == directory)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.files.pop(path, None)

    def create(self, path: str, data: bytes) -> bool:
        return self.files.setdefault(path, data) is data

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self.files[path] = data

    def make_durable(self, path: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(path)
