"""Staging where a rename is one step: local file systems and HDFS."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Literal

from penstock.sink import WriterContext
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._staging import StagedFile, Staging, check_chunk, copied, joined_pieces
from penstock_filesystem.sink._state import Chunk, PendingPart

__all__ = ["RenameStaging"]


class RenameStaging(Staging):
    """Hidden files of the attempt's own, in the query's hidden directory."""

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._open: list[StagedFile] = []
        self._made: list[str] = []

    def create(self) -> StagedFile:
        """See the base class."""
        path = self._new_path()
        file = StagedFile(path, self.layout.storage.open_new(self.layout.full(path)))
        self._open.append(file)
        return file

    def _new_path(self) -> str:
        path = self.names.hidden("chunk")
        self._made.append(path)
        return path

    def chunk(self, file: StagedFile) -> str:
        """See the base class."""
        self._finish(file)
        return file.path

    def part(self, file: StagedFile, final: str, rows: int) -> PendingPart:
        """See the base class."""
        self._finish(file)
        return self._witnessed(PendingPart("rename", final, file.size, rows, hidden=file.path))

    def _finish(self, file: StagedFile) -> None:
        self.layout.storage.finish(file.stream)
        self._open.remove(file)

    def _witnessed(self, part: PendingPart) -> PendingPart:
        self._made.append(part.witness)
        self.layout.storage.open_new(self.layout.full(part.witness)).close()
        return part

    def join_to_chunk(self, chunks: Sequence[Chunk]) -> tuple[str, int]:
        """See the base class."""
        file = self._join(chunks)
        return self.chunk(file), file.size

    def join_to_part(self, chunks: Sequence[Chunk], final: str) -> PendingPart:
        """A single chunk is not copied: it gets a second name, of this attempt."""
        rows = sum(chunk.rows for chunk in chunks)
        if len(chunks) > 1:
            return self.part(self._join(chunks), final, rows)
        (chunk,) = chunks
        check_chunk(self.layout, chunk)
        path = self._new_path()
        self.layout.storage.add_name(self.layout.full(chunk.path), self.layout.full(path))
        return self._witnessed(PendingPart("rename", final, chunk.size, rows, hidden=path))

    def _join(self, chunks: Sequence[Chunk]) -> StagedFile:
        file = self.create()
        for chunk, offset in joined_pieces(chunks):
            for piece in copied(self.layout, chunk, offset):
                file.write(piece)
        return file

    def sync(self) -> None:
        """See the base class."""
        self.layout.storage.sync_names(self.layout.root, map(self.layout.full, self._made))

    def abort(self) -> None:
        """See the base class."""
        # What fails here is garbage as soon as the decision log goes on.
        for file in self._open:
            with contextlib.suppress(OSError):
                file.discard()
        with contextlib.suppress(OSError):
            self.layout.storage.delete(map(self.layout.full, self._made))
        self._open.clear()
        self._made.clear()
