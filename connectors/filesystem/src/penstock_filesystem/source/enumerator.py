"""Hands out the ranges of the files found, oldest file first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from heapq import merge

from penstock.errors import PenstockError, RetriableError
from penstock.source import EnumeratorContext, SplitEnumerator
from penstock_filesystem.source.clean import FileCleaner
from penstock_filesystem.source.discovery import Discovery, FoundFile
from penstock_filesystem.source.memory import SourceMemory
from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.split import FileSplit
from penstock_filesystem.source.state import FileEnumeratorState

__all__ = ["FileSplitEnumerator"]

_LOG = logging.getLogger(__name__)
_FIRST_DISCOVERY_MS = 600_000
#: How long listings may fail in a row before the stream does.
_LISTING_PATIENCE_S = 300.0


class FileSplitEnumerator(SplitEnumerator[FileSplit, FileEnumeratorState]):
    """See :class:`penstock.source.SplitEnumerator`. Files in the order of modification time, then path.

    Looking for files happens in the background; handing out costs the same however many files were read.

    A path is read once, whatever its time and whenever it comes: every path that was read is remembered, also if a
    listing leaves it out for a while. A file that is written to again after that is not read again: it is counted
    (``rewritten_files``), and a warning names it.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        discovery: Discovery,
        settings: FileSourceSettings,
        is_splittable: Callable[[str], bool],
        cleaner: FileCleaner | None,
        memory: SourceMemory,
        checkpoint: FileEnumeratorState | None,
    ) -> None:
        state = checkpoint or FileEnumeratorState()
        self._context = context
        self._discovery = discovery
        self._settings = settings
        self._is_splittable = is_splittable
        self._cleaner = cleaner
        self._memory = memory
        self._edge = state.edge
        self._rest = state.rest
        self._returned = list(state.returned)
        self._pending: dict[str, FoundFile] = {}
        self._order: list[FoundFile] = []
        self._next = 0
        self._pending_bytes = 0
        self._looked = False
        self._started = False
        self._frozen = False
        self._error: PenstockError | None = None
        self._failing_since: float | None = None

    def start(self) -> None:
        """See the base class."""
        self._context.call_async(
            self._look_in_background, self._accept, interval_ms=self._settings.discovery_interval_ms
        )

    def _look_in_background(self) -> None:
        if not self._frozen:
            self._discovery.look()

    def prepare_for_available_now(self) -> None:
        """See the base class."""
        self._frozen = True
        try:
            self._discovery.look()
        except OSError as error:
            raise self._listing_error(error) from error
        self._take_found()

    def handle_split_request(self) -> FileSplit | None:
        """See the base class. Raises what the first look failed with, or what all of them have failed with for long."""
        if not self._started:
            if not self._context.await_handlers(self._has_started, _FIRST_DISCOVERY_MS):
                raise RetriableError(f"listing {', '.join(self._settings.paths)} took more than ten minutes")
            self._started = self._error is None
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._returned:
            return self._returned.pop(0)
        if self._rest is None:
            whole = self._next_file()
            if whole is None:
                return None
            self._memory.add(whole.path)
            self._rest = whole
        return self._cut(self._rest)

    def _has_started(self) -> bool:
        # What a run before has left to be stored is stored before the first offset: the next one would begin again.
        return self._error is not None or (self._looked and not self._memory.is_busy)

    def _cut(self, rest: FileSplit) -> FileSplit:
        """The next range of a file; what is left stays in ``_rest``."""
        most = self._settings.max_split_bytes
        # A tenth more is better than a tiny range of its own.
        if rest.length * 10 <= most * 11 or not self._is_splittable(rest.path):
            self._rest = None
            return rest
        self._rest = FileSplit(rest.path, rest.mtime_ns, rest.size, rest.start + most, rest.length - most)
        return FileSplit(rest.path, rest.mtime_ns, rest.size, rest.start, most)

    def _next_file(self) -> FileSplit | None:
        while self._next < len(self._order):
            file = self._order[self._next]
            self._next += 1
            if self._pending.get(file.path) != file:
                continue  # it was found again, changed, and waits at another place
            del self._pending[file.path]
            self._pending_bytes -= file.size
            return _whole(file)
        self._order, self._next = [], 0
        return None

    def _accept(self, _: None, error: BaseException | None) -> None:
        if error is None:
            self._failing_since = None
            if isinstance(self._error, RetriableError):
                self._error = None  # nobody has asked since a listing failed
            if not self._frozen:
                self._take_found()
        elif isinstance(error, PenstockError) and not isinstance(error, RetriableError):
            self._error = error
        else:
            self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        """One that fails between others is no reason to end a stream, and one after which none succeeds is."""
        self._context.metrics.add("failed_listings")
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not self._looked or now - self._failing_since > _LISTING_PATIENCE_S:
            self._error = self._listing_error(error)
        else:
            _LOG.warning(
                "%s; files that are known are read, and the next try is in a while", self._listing_error(error)
            )

    def _listing_error(self, error: BaseException) -> RetriableError:
        return RetriableError(f"{', '.join(self._settings.paths)} could not be listed: {error}")

    def _take_found(self) -> None:
        self._looked = True
        for path in self._discovery.take_removed():
            if gone := self._pending.pop(path, None):
                self._pending_bytes -= gone.size
        found = self._discovery.take()
        if self._edge is not None:
            for file in self._edge.split([file for file in found if not self._memory.contains(file.path)]):
                self._memory.add(file.path)
            self._edge = None
        new: list[FoundFile] = []
        for file in found:
            if file.path in self._pending:
                self._pending_bytes -= self._pending[file.path].size
            elif self._memory.contains(file.path):
                if file.changed:
                    self._note_rewritten(file)
                continue
            new.append(file)
            self._pending[file.path] = file
            self._pending_bytes += file.size
        if new:
            self._order = list(merge(self._order[self._next :], new))
            self._next = 0
        self._memory.tidy()

    def _note_rewritten(self, file: FoundFile) -> None:
        if not self._context.metrics.snapshot().get("rewritten_files"):
            _LOG.warning(
                "%s was written to again after it was handed out: a file is read once, so what was added may be "
                "missing. Write new files instead; others of the kind are counted as rewritten_files",
                file.path,
            )
        self._context.metrics.add("rewritten_files")

    def add_splits_back(self, splits: Sequence[FileSplit]) -> None:
        """See the base class."""
        self._returned = [*splits, *self._returned]

    def snapshot_state(self) -> FileEnumeratorState:
        """See the base class. What it is bounded by: :class:`FileEnumeratorState`."""
        return self._memory.snapshot(
            FileEnumeratorState(rest=self._rest, returned=tuple(self._returned), edge=self._edge)
        )

    def is_exhausted(self) -> bool:
        """See the base class."""
        return self._frozen and not (self._returned or self._rest or self._pending)

    def notify_checkpoint_complete(self, splits: Sequence[FileSplit]) -> None:
        """See the base class."""
        self._memory.note_commit()
        self._memory.tidy()
        if self._cleaner is not None:
            self._cleaner.clean(splits)

    def describe_backlog(self) -> dict[str, int]:
        """``files`` and ``bytes`` found and not handed out; ``tracked_files`` remembered as read."""
        rest = self._rest.length if self._rest else 0
        return {
            "files": len(self._pending) + (1 if rest else 0),
            "bytes": self._pending_bytes + rest,
            "tracked_files": len(self._memory),
        }

    def close(self) -> None:
        """See the base class."""
        if self._cleaner is not None:
            self._cleaner.close()


def _whole(file: FoundFile) -> FileSplit:
    return FileSplit(file.path, file.mtime_ns, file.size, 0, file.size)
