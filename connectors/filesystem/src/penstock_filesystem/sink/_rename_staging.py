"""Staging where a rename is atomic: local file systems, and others (HDFS) through pyarrow."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from penstock.sink import WriterContext
from penstock.storage import LocalStorage
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._staging import StagedFile, Staging, copied, joined_pieces, open_chunk
from penstock_filesystem.sink._state import Chunk, PendingPart

__all__ = ["RenameStaging", "sync_directories"]

_BUFFER = 1 << 20
_OPEN_ATTEMPTS = 10


class RenameStaging(Staging):
    """Hidden files of the attempt's own, in the query's hidden directory."""

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._is_local = isinstance(layout.storage, LocalStorage)
        self._made: dict[str, StagedFile] = {}

    def create(self) -> StagedFile:
        """See the base class."""
        path = self.names.hidden("chunk")
        file = StagedFile(path, self._open(self.layout.full(path)))
        self._made[path] = file
        return file

    def _open(self, path: str) -> Any:
        if not self._is_local:
            return self.layout.storage.open_output(path)
        for attempt in range(_OPEN_ATTEMPTS - 1):
            try:
                return _open_new(path)
            except FileNotFoundError:
                time.sleep(0.001 * attempt)  # a batch write just left, and with it an empty directory
        return _open_new(path)

    def chunk(self, file: StagedFile) -> str:
        """See the base class."""
        self._close(file)
        return file.path

    def part(self, file: StagedFile, final: str, rows: int) -> PendingPart:
        """See the base class."""
        self._close(file)
        return PendingPart("rename", final, file.size, rows, hidden=file.path)

    def _close(self, file: StagedFile) -> None:
        file.stream.flush()
        if self._is_local:
            os.fsync(file.stream.fileno())
        file.stream.close()

    def join_to_chunk(self, chunks: Sequence[Chunk]) -> tuple[str, int]:
        """See the base class."""
        file = self._join(chunks)
        return self.chunk(file), file.size

    def join_to_part(self, chunks: Sequence[Chunk], final: str) -> PendingPart:
        """A single chunk is taken as it is: commit renames it."""
        rows = sum(chunk.rows for chunk in chunks)
        if len(chunks) == 1:
            open_chunk(self.layout, chunks[0]).close()  # said now, not after it was decided, if it is gone
            return PendingPart("rename", final, chunks[0].size, rows, hidden=chunks[0].path, adopted=True)
        return self.part(self._join(chunks), final, rows)

    def _join(self, chunks: Sequence[Chunk]) -> StagedFile:
        file = self.create()
        for chunk, offset in joined_pieces(chunks):
            for piece in copied(self.layout, chunk, offset):
                file.write(piece)
        return file

    def sync(self) -> None:
        """See the base class."""
        if self._is_local and self._made:
            sync_directories(self.layout.root, [self.names.directory])

    def abort(self) -> None:
        """See the base class."""
        for file in self._made.values():
            try:
                file.discard()
                self.layout.storage.delete([self.layout.full(file.path)])
            except OSError:
                continue  # clean_up finds it
        self._made.clear()


def _open_new(path: str) -> Any:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    return open(path, "xb", buffering=_BUFFER)


def sync_directories(root: str, directories: Iterable[str]) -> None:
    """Makes names in local directories below ``root`` durable, up to and with that of ``root`` itself."""
    todo = {os.path.dirname(root)}
    for directory in directories:
        while directory:
            todo.add(f"{root}/{directory}")
            directory = os.path.dirname(directory)
        todo.add(root)
    for path in sorted(todo, reverse=True):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
