"""Hands out the ranges of the files found, oldest file first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from heapq import merge

from penstock.errors import PenstockError, RetriableError
from penstock.printable import get_logger
from penstock.source import EnumeratorContext, SplitEnumerator
from penstock_filesystem.options import SourceOptions
from penstock_filesystem.source._absence import listing_error
from penstock_filesystem.source._cleaner import FileCleaner
from penstock_filesystem.source._split import FileSplit, FileSystemEnumeratorState
from penstock_filesystem.source.discovery import FileDiscovery, FoundFile, NotificationQueue
from penstock_filesystem.source.tracking import FileTracker, files_below_edge

__all__ = ["FileSystemSplitEnumerator"]

_log = get_logger("penstock.filesystem")
#: A query does not wait longer for the first listing: it may have other sources.
_FIRST_LISTING_MS = 5_000
_STORING_MS = 600_000
#: A listing that began this long before it was asked for shows what is there now.
_FRESH_S = 1.0
#: How long listings may fail in a row before the stream does.
_LISTING_PATIENCE_S = 300.0


class FileSystemSplitEnumerator(SplitEnumerator[FileSplit, FileSystemEnumeratorState]):
    """Hands out files in the order of modification time, then path. Costs the same however many files were read.

    A path is read once, whatever its time and whenever it comes: every path that was read is tracked, also if a
    listing leaves it out for a while. A file that is written to again after that is not read again: it is counted
    (``rewritten_files``), and a warning names it.

    After the first listing, ``on_missing`` gets the roots that do not exist or match nothing, if there are any, and
    whether the run ends by itself. With a ``queue``, later listings are rare, and the queue says where to look.

    Every attribute belongs to the coordinator thread, but ``_frozen``, which the listing in the background reads as
    well. That listing only fills :class:`FileDiscovery`, which has a lock; what it found is taken over in the handler.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        discovery: FileDiscovery,
        options: SourceOptions,
        is_splittable: Callable[[str], bool],
        cleaner: FileCleaner | None,
        tracker: FileTracker,
        checkpoint: FileSystemEnumeratorState | None,
        on_missing: Callable[[Sequence[str], bool], None],
        queue: NotificationQueue | None = None,
    ) -> None:
        state = checkpoint or FileSystemEnumeratorState()
        self._context = context
        self._discovery = discovery
        self._options = options
        self._is_splittable = is_splittable
        self._cleaner = cleaner
        self._tracker = tracker
        self._on_missing = on_missing
        self._queue = queue
        self._edge = state.edge
        self._rest = state.rest
        self._returned = list(state.returned)
        self._pending: dict[str, FoundFile] = {}
        self._order: list[FoundFile] = []
        self._next = 0
        self._pending_bytes = 0
        self._listed = False
        self._waited = False
        self._started = False
        self._frozen = False  # set before the last listing, after which nothing new is taken
        self._error: PenstockError | None = None
        self._failing_since: float | None = None

    def start(self) -> None:
        """Starts looking for files in the background, once in every ``discoveryInterval``."""
        self._context.call_async(
            self._look_in_background, self._accept, interval_ms=self._options.discovery_interval_ms
        )

    def _look_in_background(self) -> None:
        if self._frozen:
            return
        if self._queue is not None and self._discovery.listed_since(self._options.listing_interval_ms / 1000):
            self._queue.hand_to(self._discovery)
        else:
            self._discovery.list_files()

    def prepare_for_available_now(self) -> None:
        """Lists a last time; what comes later is left for the next run."""
        # The listing that start() has begun will do: a large directory is not listed twice.
        fresh_s = 0.0 if self._frozen else _FRESH_S
        if self._queue is not None and not self._frozen:
            _log.info("%r is not asked: this run reads what is there now, and lists it", self._queue)
        self._frozen = True
        try:
            self._discovery.list_files(fresh_s=fresh_s)
        except (OSError, RetriableError) as error:
            raise self._listing_error(error) from error
        self._take_found()

    def handle_split_request(self) -> FileSplit | None:
        """Returns the next range. Raises the error of the first listing, or of all of them if they fail for long.

        The first call waits for the first listing, for five seconds. A run that reads what is there now has listed it.
        """
        if not self._started:
            timeout_ms = _STORING_MS if self._frozen else 0 if self._waited else _FIRST_LISTING_MS
            if not self._context.await_handlers(self._has_started, timeout_ms):
                if self._frozen:
                    raise RetriableError("storing which files an earlier run had read took more than ten minutes")
                self._waited = True
                return None
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
            self._tracker.add(whole.path)
            self._rest = whole
        return self._cut(self._rest)

    def _has_started(self) -> bool:
        # Runs that an earlier process left unstored are stored before the first offset: the next would start over.
        return self._error is not None or (self._listed and not self._tracker.is_busy)

    def _cut(self, rest: FileSplit) -> FileSplit:
        """Returns the next range of a file; what is left stays in ``_rest``."""
        most = self._options.max_split_bytes
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
                self._error = None  # a listing failed, and the next one succeeded before a split was requested
            if not self._frozen:
                self._take_found()
        elif isinstance(error, PenstockError) and not isinstance(error, RetriableError):
            self._error = error
        else:
            self._note_failure(error)

    def _note_failure(self, error: BaseException) -> None:
        """Ends the stream if listings fail for long, or if the first one does; a single failure is only logged."""
        self._context.metrics.add("failed_listings")
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if not self._listed or now - self._failing_since > _LISTING_PATIENCE_S:
            self._error = self._listing_error(error)
        else:
            _log.warning("%s; files that are known are read, and listing is tried again", self._listing_error(error))

    def _listing_error(self, error: BaseException) -> PenstockError:
        return listing_error(self._discovery.storage, self._options.paths, error)

    def _take_found(self) -> None:
        if not self._listed and (missing := self._discovery.missing_roots()):
            self._on_missing(missing, self._frozen)
        self._listed = True
        found = self._discovery.take()
        if self._edge is not None:
            for file in files_below_edge(self._edge, [f for f in found if not self._tracker.contains(f.path)]):
                self._tracker.add(file.path)
            self._edge = None
        new: list[FoundFile] = []
        for file in found:
            if file.path in self._pending:
                self._pending_bytes -= self._pending[file.path].size
            elif self._tracker.contains(file.path):
                if file.changed:
                    self._note_rewritten(file)
                continue
            new.append(file)
            self._pending[file.path] = file
            self._pending_bytes += file.size
        # Taken after what was found: a listing that ended in between may have missed some of that.
        for path in self._discovery.take_removed():
            if gone := self._pending.pop(path, None):
                self._pending_bytes -= gone.size
        if new:
            self._order = list(merge(self._order[self._next :], new))
            self._next = 0
        self._tracker.maintain()

    def _note_rewritten(self, file: FoundFile) -> None:
        if not self._context.metrics.snapshot().get("rewritten_files"):
            _log.warning(
                "%s was written to again after it was handed out: a file is read once, so what was added may be "
                "missing. Write new files instead; others like it are counted as rewritten_files",
                file.path,
            )
        self._context.metrics.add("rewritten_files")

    def add_splits_back(self, splits: Sequence[FileSplit]) -> None:
        """Puts splits of a batch that was not committed before all others."""
        self._returned = [*splits, *self._returned]

    def snapshot_state(self) -> FileSystemEnumeratorState:
        """Returns the state; :class:`FileSystemEnumeratorState` says how large it gets."""
        return self._tracker.snapshot(
            FileSystemEnumeratorState(rest=self._rest, returned=tuple(self._returned), edge=self._edge)
        )

    def is_exhausted(self) -> bool:
        """Returns whether everything that the last listing found was handed out."""
        return self._frozen and not (self._returned or self._rest or self._pending)

    def notify_checkpoint_complete(self, splits: Sequence[FileSplit]) -> None:
        """Counts the commit, on which the lifetime of stored runs depends, and cleans files that are read."""
        self._tracker.note_commit()
        self._tracker.maintain()
        if self._cleaner is not None:
            self._cleaner.clean(splits)

    def describe_backlog(self) -> dict[str, int]:
        """Returns ``files`` and ``bytes`` found and not handed out, and the ``tracked_files`` that were read."""
        rest = self._rest.length if self._rest else 0
        return {
            "files": len(self._pending) + (1 if rest else 0),
            "bytes": self._pending_bytes + rest,
            "tracked_files": len(self._tracker),
        }

    def close(self) -> None:
        """Lets the cleaner finish."""
        if self._cleaner is not None:
            self._cleaner.close()


def _whole(file: FoundFile) -> FileSplit:
    return FileSplit(file.path, file.mtime_ns, file.size, 0, file.size)
