"""Tracks the files that a running source has read: in its state, or next to the checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from penstock.errors import BadConfigurationError
from penstock.printable import get_logger
from penstock.source import EnumeratorContext
from penstock.storage import open_storage, path_below
from penstock_filesystem.source._split import FileSystemEnumeratorState, StoredRun
from penstock_filesystem.source.tracking._run_store import RunStore, still_referenced
from penstock_filesystem.source.tracking._tracked_files import FingerprintRun, TrackedFiles, merge_runs

__all__ = ["FileTracker"]

_log = get_logger("penstock.filesystem")
_MANY_FILES = 100_000


class FileTracker:
    """Tracks every path that was read, and keeps the set small by merging and storing its runs.

    A run is in the state until it is stored, and named there afterwards: whatever fails or is killed in between, the
    state is whole. A file that a merge has replaced stays until no offset that Spark keeps can name it.

    Every attribute belongs to the coordinator thread. Merging, storing and sweeping run in the background on immutable
    runs that they were given; their results come back to the coordinator thread, which puts them in place. One of them
    runs at a time (``_busy``), so no run is replaced twice.
    """

    def __init__(
        self, context: EnumeratorContext, store: RunStore | None, place: str | None, state: FileSystemEnumeratorState
    ) -> None:
        self._context = context
        self._store = store
        self._place = place
        self._commits = state.commits
        self._replaced = list(state.replaced)
        self._files = TrackedFiles([_run(stored, store) for stored in state.runs], state.newest)
        self._busy = False
        self._swept = False
        self._warned = False

    @classmethod
    def open(
        cls,
        context: EnumeratorContext,
        checkpoint_location: str | None,
        store_options: Mapping[str, str | None] | None,
        state: FileSystemEnumeratorState | None,
    ) -> FileTracker:
        """Restores the tracker of ``state``. Raises BadConfigurationError without the checkpoint it is next to."""
        state = state or FileSystemEnumeratorState()
        if checkpoint_location is None:
            if any(run.name for run in state.runs):
                raise BadConfigurationError(
                    "what this query has read is kept next to its checkpoint: set the option 'checkpointLocation' of "
                    "the reader, as in the runs before, to the checkpoint of the query"
                )
            return cls(context, None, state.place, state)
        place = state.place or uuid.uuid4().hex
        storage, root = open_storage(checkpoint_location, store_options)
        return cls(context, RunStore(storage, path_below(f"{root}/penstock/sources", place)), place, state)

    def __len__(self) -> int:
        return len(self._files)

    def contains(self, path: str) -> bool:
        """Returns whether a path was read."""
        return self._files.contains(path)

    def add(self, path: str) -> None:
        """Marks a path as read."""
        self._files.add(path)

    def note_commit(self) -> None:
        """Counts a batch that was committed."""
        self._commits += 1

    @property
    def is_busy(self) -> bool:
        """Whether runs are being merged, stored or swept in the background."""
        return self._busy

    def maintain(self) -> None:
        """Starts the next merge, store or sweep in the background, if one is due and none is running."""
        if self._busy:
            return
        inputs = self._files.runs_to_rewrite(stored=self._store is not None)
        if inputs:
            self._busy = True
            store, commits = self._store, self._commits
            self._context.call_async(
                lambda: _merge(inputs, store, commits), lambda run, error: self._accept(inputs, run, error)
            )
        elif self._store is not None and (
            not self._swept or self._replaced != still_referenced(self._replaced, self._commits)
        ):
            self._busy = self._swept = True
            self._replaced = still_referenced(self._replaced, self._commits)
            kept = {name for name, _ in self._replaced} | {run.name for run in self._files.runs if run.name}
            store, commits = self._store, self._commits
            self._context.call_async(lambda: store.sweep(kept, commits), self._note_swept)
        elif self._store is None and len(self._files) > _MANY_FILES and not self._warned:
            self._warned = True
            _log.warning(
                "%d files were read, and each of the query's offsets names them all (%.1f MB): set the option "
                "'checkpointLocation' of the reader to the query's checkpoint, and they are kept next to it",
                len(self._files),
                len(self._files) * 11 / 1e6,
            )

    def _accept(self, inputs: list[FingerprintRun], output: FingerprintRun | None, error: BaseException | None) -> None:
        self._busy = False
        if output is None:
            self._context.metrics.add("failed_tidyings")
            _log.warning("what was read stays in the query's offsets until it can be stored: %s", error)
            return
        self._files.replace(inputs, output)
        self._replaced += [(run.name, self._commits) for run in inputs if run.name]
        self.maintain()

    def _note_swept(self, _: int | None, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            _log.warning("files with what was read that are not needed any more could not be removed: %s", error)

    def snapshot(self, state: FileSystemEnumeratorState) -> FileSystemEnumeratorState:
        """Returns ``state`` with everything that is tracked."""
        return replace(
            state,
            newest=self._files.newest_fingerprints(),
            runs=tuple(
                StoredRun(len(run), run.name, b"" if run.name else run.fingerprints) for run in self._files.runs
            ),
            place=self._place,
            commits=self._commits,
            replaced=tuple(self._replaced),
        )


def _run(stored: StoredRun, store: RunStore | None) -> FingerprintRun:
    if stored.name is None or store is None:
        return FingerprintRun(stored.fingerprints)
    return store.read(stored.name, stored.count)


def _merge(inputs: list[FingerprintRun], store: RunStore | None, commits: int) -> FingerprintRun:
    run = merge_runs(inputs)
    return run if store is None else store.write(run, commits)
