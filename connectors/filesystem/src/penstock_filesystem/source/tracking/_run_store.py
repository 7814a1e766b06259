"""Stores runs of fingerprints as files next to the checkpoint, so that the query's offsets need not hold them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence

from penstock.errors import FatalError, RetriableError
from penstock.storage import Storage, path_below
from penstock_filesystem.source.tracking._tracked_files import FingerprintRun

__all__ = ["RunStore", "still_referenced"]

_HEAD = b"penstock seen files 1\n"
#: Spark keeps the offsets of a hundred batches: a run that one of them may name is not removed.
_KEPT_COMMITS = 128


class RunStore:
    """Keeps the runs of one source of one query, in a directory of their own: ``<checkpoint>/penstock/sources/<id>/``.

    A file is written once, under a unique name, before an offset names it. Its name begins with the
    number of batches that were committed by then. Thread-safe.
    """

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    def write(self, run: FingerprintRun, commits: int) -> FingerprintRun:
        """Stores a run and returns it with its name. Durable on return. Raises OSError, RetriableError."""
        name = f"{commits:012d}-{uuid.uuid4().hex}.run"
        path, data = f"{self._directory}/{name}", _HEAD + run.fingerprints
        # Of a request that was sent again, the answer is that the file is there.
        if not self._storage.create(path, data) and self._storage.read(path) != data:
            raise RetriableError(f"{self._storage.url(path)} exists, though its name is random")
        return FingerprintRun(run.fingerprints, name)

    def read(self, name: str, count: int) -> FingerprintRun:
        """Reads the run that an offset names. Raises FatalError if it is gone or damaged."""
        path = path_below(self._directory, name)
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            data = b""
        if not data.startswith(_HEAD) or len(data) != len(_HEAD) + 8 * count:
            what = "is damaged" if data else "is gone"
            raise FatalError(
                f"{self._storage.url(path)}, which says what {count} files were read, {what}: put it back from where "
                "the checkpoint was copied, penstock/sources/ included, or start with a new checkpoint"
            )
        return FingerprintRun(data[len(_HEAD) :], name)

    def sweep(self, kept: Collection[str], commits: int) -> int:
        """Removes runs that no offset that Spark keeps can name: neither ``kept`` nor written in the last 128 batches.

        That includes runs of a process that was killed before its offset was stored. A process that slept passes the
        ``commits`` of its own time, so it removes nothing that a later one wrote. Returns how many were removed.
        """
        self._storage.sweep(self._directory)
        names = self._storage.list_names(self._directory)
        gone = [name for name in names if name not in kept and _commits_of(name) + _KEPT_COMMITS < commits]
        self._storage.delete(f"{self._directory}/{name}" for name in gone)
        return len(gone)


def still_referenced(replaced: Sequence[tuple[str, int]], commits: int) -> list[tuple[str, int]]:
    """Filters replaced runs, each with the commits by then: returns those that an offset may still name."""
    return [(name, at) for name, at in replaced if at + _KEPT_COMMITS >= commits]


def _commits_of(name: str) -> int:
    head = name.partition("-")[0]
    return int(head) if head.isdigit() else 1 << 62  # another program's: left alone
