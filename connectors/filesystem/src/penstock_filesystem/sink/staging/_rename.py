"""Staging and committing where a rename is one step: local file systems and HDFS."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Literal

from penstock.errors import RetriableError
from penstock.retry import NO_RETRIES
from penstock.sink import Found, WriterContext
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._committer import FileSystemCommitter
from penstock_filesystem.sink._layout import Layout, base_of
from penstock_filesystem.sink.staging._staging import StagedFile, Staging, chunk_bytes, joined_pieces, open_chunk

__all__ = ["RenameCommitter", "RenameStaging"]


class RenameStaging(Staging):
    """Writes hidden files of the attempt's own, in the query's hidden directory."""

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._open: list[StagedFile] = []
        self._made: list[str] = []

    def create(self) -> StagedFile:
        """Opens a new hidden file."""
        path = self._new_path()
        file = StagedFile(path, self.layout.storage.open_new(self.layout.full(path)))
        self._open.append(file)
        return file

    def _new_path(self) -> str:
        path = self.names.hidden("chunk")
        self._made.append(path)
        return path

    def chunk(self, file: StagedFile) -> str:
        """Finishes the file; it stays where it is."""
        self._finish(file)
        return file.path

    def part(self, file: StagedFile, final: str, rows: int) -> PendingPart:
        """Finishes the file and puts its witness next to it."""
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
        """Copies the chunks into a new hidden file."""
        file = self._join(chunks)
        return self.chunk(file), file.size

    def join_to_part(self, chunks: Sequence[Chunk], final: str) -> PendingPart:
        """Copies the chunks; a single one gets a second name instead, which belongs to this attempt."""
        rows = sum(chunk.rows for chunk in chunks)
        if len(chunks) > 1:
            return self.part(self._join(chunks), final, rows)
        (chunk,) = chunks
        open_chunk(self.layout, chunk).close()  # raises if it is not the one that was committed
        path = self._new_path()
        self._link(self.layout.full(chunk.path), self.layout.full(path))
        return self._witnessed(PendingPart("rename", final, chunk.size, rows, hidden=path))

    def _link(self, source: str, target: str) -> None:
        self.layout.storage.add_name(source, target)

    def _join(self, chunks: Sequence[Chunk]) -> StagedFile:
        file = self.create()
        for chunk, offset in joined_pieces(chunks):
            for piece in chunk_bytes(self.layout, chunk, offset):
                file.write(piece)
        return file

    def sync(self) -> None:
        """Makes the names of all files durable."""
        self.layout.storage.sync_names(self.layout.root, map(self.layout.full, self._made))

    def abort(self) -> None:
        """Removes every file of this attempt."""
        # What fails here is garbage as soon as the decision log moves on.
        for file in self._open:
            with contextlib.suppress(OSError, RetriableError):
                file.discard()
        with contextlib.suppress(OSError, RetriableError):
            self.layout.storage.retrying(NO_RETRIES).delete(map(self.layout.full, self._made))
        self._open.clear()
        self._made.clear()


class RenameCommitter(FileSystemCommitter):
    """Gives the hidden file its final name, which is this file's alone.

    A late call finds the hidden name gone and does nothing. That would not be so with a link in place of the rename: a
    reader may have taken the final file away, and a late link would bring it back.
    """

    def look(self, committables: Sequence[PendingPart]) -> list[Found]:
        """Looks at hidden, sealed and final names."""
        return [self._look(part) for part in committables]

    def _look(self, part: PendingPart) -> Found:
        found = self._seen(part)
        if found is Found.LOST:
            found = self._layout.confirmed(lambda: self._seen(part))
        return found

    def _seen(self, part: PendingPart) -> Found:
        size = self._hidden_size(part)
        if size == part.size:
            return Found.OPEN
        # In this order: a process that publishes the part meanwhile takes the hidden name away first.
        if size is not None or self._size(part.sealed) is not None:
            return Found.LOST
        if self._size(part.final) == part.size or self._size(part.witness) is not None:
            return Found.COMMITTED
        return Found.LOST

    def _hidden_size(self, part: PendingPart) -> int | None:
        return self._size(part.hidden)

    def _size(self, path: str) -> int | None:
        return self._layout.storage.size(self._layout.full(path))

    def publish(self, committables: Sequence[PendingPart]) -> list[Found]:
        """Renames the parts and makes the names durable."""
        found = [self._publish(part) for part in committables]
        finals = [self._layout.full(part.final) for part in committables]
        self._layout.storage.sync_names(self._layout.root, finals)
        self._metrics.add("parts_published", found.count(Found.COMMITTED))
        return found

    def _publish(self, part: PendingPart) -> Found:
        try:
            self._layout.storage.move(self._layout.full(part.hidden), self._layout.full(part.final))
        except FileNotFoundError:
            return self._look(part)
        return Found.COMMITTED

    def seal(self, committables: Sequence[PendingPart]) -> None:
        """Takes the hidden names away, so that a late call to :meth:`publish` finds nothing."""
        for part in committables:
            if not self._seal(part):
                # Or a part of a directory that was away could be published when it is back.
                self._layout.confirmed(partial(self._seal, part))

    def _seal(self, part: PendingPart) -> bool:
        try:
            self._layout.storage.move(self._layout.full(part.hidden), self._layout.full(part.sealed))
        except FileNotFoundError:
            return False
        return True

    def discard(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """Deletes the files of parts and chunks."""
        parts = [path for part in committables if not part.adopted for path in (part.hidden, part.witness, part.sealed)]
        self._delete([*parts, *(chunk.path for chunk in states)])

    def _remove(self, paths: Sequence[str]) -> None:
        self._delete(paths)
        for directory in {path.rpartition("/")[0] for path in paths if base_of(path) is not None}:
            self._layout.storage.remove_empty(self._layout.full(directory))

    def leave(self) -> None:
        """Removes the query's hidden directory, and that of all queries if no other is left."""
        query = self._layout.full(self._directory)
        for directory in (query, query.rpartition("/")[0]):
            self._layout.storage.remove_empty(directory)
