"""What a running source remembers, and where it is kept: in its state, or beside the checkpoint."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping
from dataclasses import replace

from penstock.errors import BadConfigurationError
from penstock.source import EnumeratorContext
from penstock.storage import open_storage
from penstock_filesystem.source.seen import SeenFiles, SeenRun, merge_runs
from penstock_filesystem.source.seen_store import SeenStore, still_named
from penstock_filesystem.source.state import FileEnumeratorState, StoredRun

__all__ = ["SourceMemory"]

_LOG = logging.getLogger(__name__)
_MANY_FILES = 100_000


class SourceMemory:
    """Every path that was read. Coordinator thread; merging and storing happen in the background.

    A run is in the state until it is stored, and named there afterwards: whatever fails or is killed in between, the
    state is whole. A file that a merge has replaced stays until no offset that Spark keeps can name it.
    """

    def __init__(
        self, context: EnumeratorContext, store: SeenStore | None, place: str | None, state: FileEnumeratorState
    ) -> None:
        self._context = context
        self._store = store
        self._place = place
        self._commits = state.commits
        self._replaced = list(state.replaced)
        self._seen = SeenFiles([_run(stored, store) for stored in state.runs], state.newest)
        self._busy = False
        self._swept = False
        self._warned = False

    @classmethod
    def open(
        cls,
        context: EnumeratorContext,
        checkpoint_location: str | None,
        store_options: Mapping[str, str | None] | None,
        state: FileEnumeratorState | None,
    ) -> SourceMemory:
        """The memory of ``state``. Raises BadConfigurationError if it lies beside a checkpoint that was not given."""
        state = state or FileEnumeratorState()
        if checkpoint_location is None:
            if any(run.name for run in state.runs):
                raise BadConfigurationError(
                    "what this query has read is kept beside its checkpoint: set the option 'checkpointLocation' of "
                    "the reader, as in the runs before, to the checkpoint of the query"
                )
            return cls(context, None, state.place, state)
        place = state.place or uuid.uuid4().hex
        storage, root = open_storage(checkpoint_location, store_options)
        return cls(context, SeenStore(storage, f"{root}/penstock/sources/{place}"), place, state)

    def __len__(self) -> int:
        return len(self._seen)

    def contains(self, path: str) -> bool:
        """Whether it was read."""
        return self._seen.contains(path)

    def add(self, path: str) -> None:
        """It is read."""
        self._seen.add(path)

    def note_commit(self) -> None:
        """A batch was committed."""
        self._commits += 1

    @property
    def is_busy(self) -> bool:
        """Whether something is under way in the background."""
        return self._busy

    def tidy(self) -> None:
        """Starts what there is to merge or to store, in the background, one thing after the other."""
        if self._busy:
            return
        work = self._seen.find_work(stored=self._store is not None)
        if work:
            self._busy = True
            store, commits = self._store, self._commits
            self._context.call_async(
                lambda: _merge(work, store, commits), lambda run, error: self._accept(work, run, error)
            )
        elif self._store is not None and (
            not self._swept or self._replaced != still_named(self._replaced, self._commits)
        ):
            self._busy = self._swept = True
            self._replaced = still_named(self._replaced, self._commits)
            kept = {name for name, _ in self._replaced} | {run.name for run in self._seen.runs if run.name}
            store, commits = self._store, self._commits
            self._context.call_async(lambda: store.sweep(kept, commits), self._note_swept)
        elif self._store is None and len(self._seen) > _MANY_FILES and not self._warned:
            self._warned = True
            _LOG.warning(
                "%d files were read, and each of the query's offsets names them all (%.1f MB): set the option "
                "'checkpointLocation' of the reader to the query's checkpoint, and they are kept beside it",
                len(self._seen),
                len(self._seen) * 11 / 1e6,
            )

    def _accept(self, inputs: list[SeenRun], output: SeenRun | None, error: BaseException | None) -> None:
        self._busy = False
        if output is None:
            self._context.metrics.add("failed_tidyings")
            _LOG.warning("what was read stays in the query's offsets until it can be stored: %s", error)
            return
        self._seen.replace(inputs, output)
        self._replaced += [(run.name, self._commits) for run in inputs if run.name]
        self.tidy()

    def _note_swept(self, _: int | None, error: BaseException | None) -> None:
        self._busy = False
        if error is not None:
            _LOG.warning("files with what was read that are not needed any more could not be removed: %s", error)

    def snapshot(self, state: FileEnumeratorState) -> FileEnumeratorState:
        """``state`` with everything that is remembered."""
        return replace(
            state,
            newest=self._seen.freeze_newest(),
            runs=tuple(StoredRun(len(run), run.name, b"" if run.name else run.fingerprints) for run in self._seen.runs),
            place=self._place,
            commits=self._commits,
            replaced=tuple(self._replaced),
        )


def _run(stored: StoredRun, store: SeenStore | None) -> SeenRun:
    if stored.name is None or store is None:
        return SeenRun(stored.fingerprints)
    return store.read(stored.name, stored.count)


def _merge(inputs: list[SeenRun], store: SeenStore | None, commits: int) -> SeenRun:
    run = merge_runs(inputs)
    return run if store is None else store.write(run, commits)
