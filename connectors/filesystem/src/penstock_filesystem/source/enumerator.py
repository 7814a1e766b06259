"""Hands out the ranges of the files found, oldest file first."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from heapq import merge

from penstock.errors import BadDataError, PenstockError, RetriableError
from penstock.source import EnumeratorContext, SplitEnumerator
from penstock_filesystem.source.clean import FileCleaner
from penstock_filesystem.source.discovery import Discovery, FoundFile
from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.seen import SeenFiles
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

    *Changed files.* A path is read once while it is remembered; a file that is written to later than that, in place,
    counts as new and is read as a whole, as in Spark.

    *Late files.* A new file at or below the edge of what is remembered (``latenessWindow`` before the newest file read,
    or ``maxTrackedFiles`` files back) is told from one that was read by what this process listed before; after a
    restart by a sketch in the state, as long as no more than some 500 files were late or removed meanwhile. Where that
    fails, files at or below the edge count as read, and a warning says how many there are.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        discovery: Discovery,
        settings: FileSourceSettings,
        is_splittable: Callable[[str], bool],
        cleaner: FileCleaner | None,
        checkpoint: FileEnumeratorState | None,
    ) -> None:
        state = checkpoint or FileEnumeratorState()
        self._context = context
        self._discovery = discovery
        self._settings = settings
        self._is_splittable = is_splittable
        self._cleaner = cleaner
        window_ns = settings.lateness_window_ms * 1_000_000
        self._seen = SeenFiles(window_ns, settings.max_tracked_files, state.edge, state.chunks, state.below_edge)
        self._rest = state.rest
        self._returned = list(state.returned)
        self._late = list(state.late)
        self._pending: dict[str, FoundFile] = {}
        self._order: list[FoundFile] = []
        self._next = 0
        self._pending_bytes = 0
        self._looked = False
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
        if not self._looked:
            done = self._context.await_handlers(lambda: self._looked or self._error is not None, _FIRST_DISCOVERY_MS)
            if not done:
                raise RetriableError(f"listing {', '.join(self._settings.paths)} took more than ten minutes")
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        if self._returned:
            return self._returned.pop(0)
        if self._rest is None:
            whole = self._late.pop(0) if self._late else self._next_file()
            if whole is None:
                return None
            self._seen.add((whole.mtime_ns, whole.path))
            self._rest = whole
        return self._cut(self._rest)

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
        first, self._looked = not self._looked, True
        for path in self._discovery.take_removed():
            if gone := self._pending.pop(path, None):
                self._pending_bytes -= gone.size
        new: list[FoundFile] = []
        late: list[FoundFile] = []
        for file in self._discovery.take():
            if file.path in self._pending:
                self._pending_bytes -= self._pending[file.path].size
            elif self._seen.is_below_edge((file.mtime_ns, file.path)):
                if file.changed:
                    self._replace_late(file)
                else:
                    late.append(file)
                continue
            elif self._seen.contains(file.path):
                continue
            new.append(file)
            self._pending[file.path] = file
            self._pending_bytes += file.size
        if new:
            self._order = list(merge(self._order[self._next :], new))
            self._next = 0
        if first and late:
            late = self._never_read(late)
        if late:
            self._handle_late(late)

    def _replace_late(self, file: FoundFile) -> None:
        """A late file that changed while it waits is read as it is now; one that was dealt with stays so."""
        self._late = [_whole(file) if waiting.path == file.path else waiting for waiting in self._late]

    def _never_read(self, files: list[FoundFile]) -> list[FoundFile]:
        """Those of the files below the edge that came while the stream was down."""
        paths, complete = self._seen.find_late([file.path for file in files])
        if not complete:
            _LOG.warning(
                "%d file(s) at or below the edge are taken as read unless they are named below: "
                "too many were removed, or came late, to tell",
                len(files),
            )
        wanted = set(paths)
        return [file for file in files if file.path in wanted]

    def _handle_late(self, files: list[FoundFile]) -> None:
        self._context.metrics.add("late_files", len(files))
        edge = self._seen.edge
        words = f"{len(files)} late file(s), the first {files[0].path}: not newer than {edge[1] if edge else ''}, "
        words += "the newest of the files no longer remembered (latenessWindow, maxTrackedFiles)"
        if self._settings.late_files == "fail":
            self._error = BadDataError(f"{words}; set lateFiles to read or skip, or widen the window")
            return
        self._seen.add_late(file.path for file in files)
        _LOG.warning("%s: %s", words, "read" if self._settings.late_files == "read" else "skipped")
        if self._settings.late_files == "read":
            self._late += map(_whole, files)

    def add_splits_back(self, splits: Sequence[FileSplit]) -> None:
        """See the base class."""
        self._returned = [*splits, *self._returned]

    def snapshot_state(self) -> FileEnumeratorState:
        """See the base class. Bounded by ``maxTrackedFiles``: 8 bytes each."""
        return FileEnumeratorState(
            edge=self._seen.edge,
            chunks=self._seen.freeze(),
            below_edge=self._seen.freeze_below_edge() if self._seen.edge is not None else b"",
            rest=self._rest,
            returned=tuple(self._returned),
            late=tuple(self._late),
        )

    def is_exhausted(self) -> bool:
        """See the base class."""
        waiting = self._returned or self._rest or self._late or self._pending
        return self._frozen and not waiting

    def notify_checkpoint_complete(self, splits: Sequence[FileSplit]) -> None:
        """See the base class."""
        if self._cleaner is not None:
            self._cleaner.clean(splits)

    def describe_backlog(self) -> dict[str, int]:
        """``files`` and ``bytes`` found and not handed out; ``tracked_files`` remembered; the edge in ms since 1970."""
        rest = self._rest.length if self._rest else 0
        backlog = {
            "files": len(self._pending) + len(self._late) + (1 if rest else 0),
            "bytes": self._pending_bytes + rest + sum(split.length for split in self._late),
            "tracked_files": len(self._seen),
        }
        if self._seen.edge is not None:
            backlog["edge_ms"] = self._seen.edge[0] // 1_000_000
        return backlog

    def close(self) -> None:
        """See the base class."""
        if self._cleaner is not None:
            self._cleaner.close()


def _whole(file: FoundFile) -> FileSplit:
    return FileSplit(file.path, file.mtime_ns, file.size, 0, file.size)
