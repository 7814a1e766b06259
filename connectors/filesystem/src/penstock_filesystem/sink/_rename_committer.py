"""Committing by rename: local file systems and HDFS."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from penstock.sink import Found
from penstock_filesystem.sink._committer import FileCommitter
from penstock_filesystem.sink._layout import base_of
from penstock_filesystem.sink._state import Chunk, PendingPart

__all__ = ["RenameCommitter"]


class RenameCommitter(FileCommitter):
    """Gives the hidden file its final name, which is this file's alone.

    A late call finds the hidden name gone and does nothing. That would not be so with a link in place of the rename: a
    reader may have taken the final file away, and a late link would bring it back.
    """

    def look(self, committables: Sequence[PendingPart]) -> list[Found]:
        """See the contract."""
        return [self._look(part) for part in committables]

    def _look(self, part: PendingPart) -> Found:
        size = self._size(part.hidden)
        if size == part.size:
            return Found.OPEN
        # In this order: whoever publishes it meanwhile takes the hidden name away first.
        if size is not None or self._size(part.sealed) is not None:
            return Found.LOST
        is_published = self._size(part.final) == part.size or self._size(part.witness) is not None
        return Found.COMMITTED if is_published else Found.LOST

    def _size(self, path: str) -> int | None:
        return self._layout.storage.size(self._layout.full(path))

    def publish(self, committables: Sequence[PendingPart]) -> list[Found]:
        """See the contract."""
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
        """See the contract."""
        for part in committables:
            with contextlib.suppress(FileNotFoundError):
                self._layout.storage.move(self._layout.full(part.hidden), self._layout.full(part.sealed))

    def discard(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """See the contract."""
        parts = [path for part in committables if not part.adopted for path in (part.hidden, part.witness, part.sealed)]
        self._delete([*parts, *(chunk.path for chunk in states)])

    def _hidden_files(self) -> list[str]:
        paths = self._layout.storage.list_tree(self._layout.full(self._directory))
        return [path[len(self._layout.root) + 1 :] for path in paths]

    def _remove(self, paths: Sequence[str]) -> None:
        self._delete(paths)
        for directory in {path.rpartition("/")[0] for path in paths if base_of(path) is not None}:
            self._layout.storage.remove_empty(self._layout.full(directory))

    def leave(self) -> None:
        """See the contract: the query's hidden directory, and the one of all queries if no other is there."""
        query = self._layout.full(self._directory)
        for directory in (query, query.rpartition("/")[0]):
            self._layout.storage.remove_empty(directory)
