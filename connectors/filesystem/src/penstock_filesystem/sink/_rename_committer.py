"""Committing by rename: local file systems, and others (HDFS) through pyarrow."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import pyarrow.fs as pafs

from penstock.metrics import Metrics
from penstock.sink import CommitOutcome
from penstock.storage import LocalStorage
from penstock_filesystem.sink._committer import FileCommitter
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._rename_staging import sync_directories
from penstock_filesystem.sink._state import PendingPart

__all__ = ["RenameCommitter"]


class RenameCommitter(FileCommitter):
    """Gives the hidden file its final name. That name is this file's alone, so nothing can be replaced by it."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        super().__init__(layout, query_id, metrics)
        self._is_local = isinstance(layout.storage, LocalStorage)

    def _publish(self, part: PendingPart) -> CommitOutcome:
        if self._is_published(part):
            return CommitOutcome.ALREADY_COMMITTED
        final, hidden = self._layout.full(part.final), self._layout.full(part.hidden)
        try:
            self._rename(hidden, final, part.size)
        except OSError:
            # Another process may carry out the same decision at the same time.
            if self._is_published(part):
                return CommitOutcome.ALREADY_COMMITTED
            if self._layout.storage.size(hidden) == part.size and self._layout.storage.size(final) is None:
                raise  # a failure that may pass
            return CommitOutcome.LOST
        return CommitOutcome.COMMITTED

    def _is_published(self, part: PendingPart) -> bool:
        return self._layout.storage.size(self._layout.full(part.final)) == part.size

    def _rename(self, hidden: str, final: str, size: int) -> None:
        storage = self._layout.storage
        if storage.size(hidden) != size:
            raise FileNotFoundError(hidden)
        if storage.size(final) is not None:
            raise FileExistsError(final)
        if self._is_local:
            os.makedirs(os.path.dirname(final), exist_ok=True)
            os.rename(hidden, final)
        else:
            storage.fs.create_dir(os.path.dirname(final), recursive=True)
            storage.fs.move(hidden, final)

    def _settle(self, parts: Sequence[PendingPart]) -> None:
        if self._is_local and parts:
            directories = {os.path.dirname(part.final) for part in parts}
            existing = [name for name in directories if os.path.isdir(self._layout.full(name))]
            sync_directories(self._layout.root, existing)

    def _take_back(self, part: PendingPart) -> None:
        if not part.adopted:
            self._delete([part.hidden])

    def _hidden_files(self) -> list[str]:
        return [info.path[len(self._layout.root) + 1 :] for info in self._listed(recursive=True) if info.is_file]

    def _listed(self, *, recursive: bool) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self._layout.full(self._directory), allow_not_found=True, recursive=recursive)
        try:
            return list(self._layout.storage.fs.get_file_info(selector))
        except FileNotFoundError:
            return []  # another clean-up removed the directory while it was listed

    def _remove_empty_directories(self, before_batch: int) -> None:
        # Not those of a batch that may be running: a writer is about to use them.
        for info in self._listed(recursive=False):
            if info.base_name.isdigit() and int(info.base_name) < before_batch:
                self._remove_if_empty(info.path)

    def leave(self) -> None:
        """See the contract: the query's hidden directory, and the one of all queries if no other is there."""
        query = self._layout.full(self._directory)
        for path in (*(info.path for info in self._listed(recursive=False)), query, os.path.dirname(query)):
            self._remove_if_empty(path)

    def _remove_if_empty(self, path: str) -> None:
        if self._is_local:
            with contextlib.suppress(OSError):
                os.rmdir(path)
        elif not self._layout.storage.fs.get_file_info(pafs.FileSelector(path, allow_not_found=True)):
            self._layout.storage.fs.delete_dir(path)
