"""HDFS, through pyarrow."""

from __future__ import annotations

import contextlib
import functools
import time
import uuid
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from penstock.storage._contract import ABANDONED_AFTER_S, Storage, is_temporary

__all__ = ["HdfsStorage"]

_COPY_BYTES = 4 << 20


class HdfsStorage(Storage):
    """Atomic by HDFS's rename, which does not replace. ``root`` is ``hdfs://host:port/`` or ``viewfs://…/``."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __reduce__(self) -> Any:
        return (HdfsStorage, (self._root,), {"retry": self.retry})

    @functools.cached_property
    def fs(self) -> pafs.FileSystem:
        return pafs.FileSystem.from_uri(self._root)[0]

    def url(self, path: str) -> str:
        parts = urlsplit(self._root)
        return f"{parts.scheme}://{parts.netloc}{path}"

    def _write_temporary(self, path: str, data: bytes) -> str:
        directory, _, name = path.rpartition("/")
        temporary = f"{directory}/.{name}.{uuid.uuid4().hex}.tmp"
        try:
            with self.open_output(temporary) as stream:
                stream.write(data)
        except BaseException:
            with contextlib.suppress(OSError):
                self.delete([temporary])
            raise
        return temporary

    def create(self, path: str, data: bytes) -> bool:
        if self.exists(path):
            return False
        temporary = self._write_temporary(path, data)
        try:
            self.fs.move(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                self.delete([temporary])
            if not self.exists(path):
                raise
            return False
        return True

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """The old file is gone for a moment; used for nothing that a commit rests on."""
        temporary = self._write_temporary(path, data)
        self.delete([path])
        self.fs.move(temporary, path)

    def sweep(self, directory: str, older_than_s: float = ABANDONED_AFTER_S) -> int:
        before = time.time() - older_than_s
        infos = self.fs.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        old = [info.path for info in infos if is_temporary(info.base_name) and info.mtime.timestamp() < before]
        self.delete(old)
        return len(old)

    def open_new(self, path: str) -> BinaryIO:
        return cast(BinaryIO, self.open_output(path))

    def finish(self, file: BinaryIO) -> None:
        file.flush()
        file.close()

    def is_away(self, directory: str) -> bool:
        return bool(self.fs.get_file_info(directory).type != pafs.FileType.Directory)

    def move(self, source: str, target: str) -> None:
        if not self.exists(source):
            raise FileNotFoundError(source)
        self.fs.create_dir(target.rpartition("/")[0], recursive=True)
        self.fs.move(source, target)

    def add_name(self, source: str, target: str) -> None:
        """HDFS has no links."""
        with self.fs.open_input_stream(source) as stream, self.open_output(target) as copy:
            while piece := stream.read(_COPY_BYTES):
                copy.write(piece)

    def list_tree(self, directory: str) -> list[str]:
        selector = pafs.FileSelector(directory, allow_not_found=True, recursive=True)
        infos = self.fs.get_file_info(selector)
        return sorted(info.path for info in infos if info.is_file and not is_temporary(info.base_name))

    def remove_empty(self, directory: str) -> None:
        if self.fs.get_file_info(directory).type == pafs.FileType.Directory and not self.list_tree(directory):
            self.fs.delete_dir(directory)
