"""Archives or removes files whose rows are committed."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Sequence

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.storage import Storage
from penstock_filesystem.source._absence import check_is_gone
from penstock_filesystem.source._split import FileSplit
from penstock_filesystem.source.discovery import is_hidden, without_wildcards

__all__ = ["FileCleaner"]

_log = get_logger("penstock.filesystem")


class FileCleaner:
    """Archives or deletes files in a thread of its own. A failure is logged and counted, and never stops the query.

    A file that is not below ``roots`` stays where it is.

    A file is cleaned once its last range was committed: ranges are handed out in order, so the others were too, or
    are in the same batch. ``archive`` keeps a file's path below ``archive_root``, from the root it was found under.
    Metrics: ``cleaned_files``, ``clean_failures``.
    """

    def __init__(self, storage: Storage, roots: Sequence[str], archive_root: str | None, metrics: Metrics) -> None:
        if archive_root is not None:
            for root in roots:
                below = f"{archive_root}/".removeprefix(f"{root.rstrip('/')}/")
                if below != f"{archive_root}/" and not any(map(is_hidden, below.split("/"))):
                    raise BadConfigurationError(f"sourceArchiveDir is in {root}, so archived files would be read again")
        self._storage = storage
        self._roots = sorted(roots, key=len, reverse=True)
        self._archive_root = archive_root
        self._metrics = metrics
        # All that the cleaner's thread and the coordinator's share; None ends the thread.
        self._queue: queue.Queue[FileSplit | None] = queue.Queue()
        self._thread: threading.Thread | None = None

    def clean(self, splits: Sequence[FileSplit]) -> None:
        """Queues the files of which the last split is among ``splits``."""
        for split in splits:
            if split.is_last:
                self._queue.put(split)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="penstock-file-cleaner", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float = 10.0) -> None:
        """Finishes what is queued, within the time."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout_s)

    def _run(self) -> None:
        while (split := self._queue.get()) is not None:
            try:
                self._clean_file(split)
                self._metrics.add("cleaned_files")
            except FileNotFoundError:
                continue
            except Exception as error:  # a file that stays is no reason to stop reading
                self._metrics.add("clean_failures")
                _log.warning("%s could not be cleaned: %s", self._storage.url(split.path), error)

    def _clean_file(self, split: FileSplit) -> None:
        if not self._is_below_a_root(split.path):
            # The path comes from the checkpoint: a user who can write that must not have other files removed.
            _log.warning(
                "%s is not below the paths that are read: it is left where it is", self._storage.url(split.path)
            )
            return
        info = self._storage.fs.get_file_info(split.path)
        if not info.is_file:
            check_is_gone(self._storage, split.path, map(without_wildcards, self._roots))
            raise FileNotFoundError(split.path)
        if (info.size, info.mtime_ns or 0) != (split.size, split.mtime_ns):
            _log.warning("%s changed after it was read: it is left where it is", self._storage.url(split.path))
            return
        if self._archive_root is None:
            self._storage.delete([split.path])
            return
        self._storage.move_over(split.path, self.archive_path(split.path))

    def _is_below_a_root(self, path: str) -> bool:
        known = map(without_wildcards, self._roots)
        return ".." not in path.split("/") and any(
            path == root or path.startswith(f"{root.rstrip('/')}/") for root in known
        )

    def archive_path(self, path: str) -> str:
        """Returns where ``path`` goes."""
        for root in self._roots:
            if path.startswith(f"{root.rstrip('/')}/"):
                return f"{self._archive_root}/{path[len(root.rstrip('/')) + 1 :]}"
        return f"{self._archive_root}/{os.path.basename(path)}"
