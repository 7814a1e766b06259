"""Finds files: paths, globs and nested directories, listed as cheaply as the store allows."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

import pyarrow.fs as pafs

from penstock.printable import get_logger
from penstock.storage import LocalStorage, Storage
from penstock_filesystem.source.discovery._globs import (
    covers,
    glob_to_regex,
    has_wildcards,
    is_hidden,
    without_wildcards,
)
from penstock_filesystem.source.discovery._progress import progress_of_listing

__all__ = ["FileDiscovery", "FoundFile", "ModifiedBetween"]

_log = get_logger("penstock.filesystem")
#: A directory written to within this time before a listing may have changed again without its time moving.
_RACY_NS = 2_000_000_000
_LOOKS_AT_ONCE = 10


class FoundFile(NamedTuple):
    """A listed file. Sorts in the order of hand-out. ``changed``: an earlier listing had another size or time."""

    mtime_ns: int
    path: str
    size: int
    changed: bool = False


@dataclass
class _Directory:
    mtime_ns: int
    listed_ns: int
    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list)


class ModifiedBetween(NamedTuple):
    """Times between which a file was modified, both excluded, in microseconds since 1970; ``None`` is no limit.

    As in Spark, a file's time has no part of a millisecond.
    """

    after_us: int | None = None
    before_us: int | None = None

    def holds(self, mtime_ns: int) -> bool:
        """Returns whether a file of this time is wanted."""
        time_us = mtime_ns // 1_000_000 * 1_000
        return (self.after_us is None or time_us > self.after_us) and (
            self.before_us is None or time_us < self.before_us
        )


class FileDiscovery:
    """Lists the files below ``roots`` and finds those that are new since the last listing.

    Hidden names (:func:`is_hidden`) are skipped, and directories of such names with everything in them; so are names
    that are not UTF-8, and a warning names their directory. Without ``recursive``, only directories that hold a column
    (``day=1``) are looked into. A local directory whose time has not moved is not listed again: a file in it that was
    changed in place is noticed when it is read. Memory grows with the files that are there, not with those that were.
    The first listing says every ten seconds how far it is.

    Thread-safe: one listing runs at a time, and what it found waits for :meth:`take`. ``_one_at_a_time`` is held for a
    whole listing, so that two of them never report a file twice, and guards what it compares with. ``_lock`` guards the
    results, ``_waiting``, ``_removed`` and ``_missing``; it is held for moments, as a trigger takes them.
    """

    def __init__(
        self,
        storage: Storage,
        roots: list[str],
        *,
        recursive: bool,
        name_glob: str | None = None,
        modified: ModifiedBetween | None = None,
    ) -> None:
        self._storage = self.storage = storage
        self._roots = roots
        self._recursive = recursive
        self._name_filter = glob_to_regex(name_glob) if name_glob else None
        self._modified = modified
        self._wants_all = self._name_filter is None and modified is None
        self._one_at_a_time = threading.Lock()
        self._lock = threading.Lock()
        self._not_utf8: set[str] = set()
        self._devices: dict[str, int] = {}
        self._were_there: set[str] = set()
        self._known: dict[str, tuple[int, int]] = {}
        self._listed: dict[str, _Directory] = {}
        self._waiting: list[FoundFile] = []
        self._removed: list[str] = []
        self._missing: list[str] = []
        self._began_s = -math.inf  # the last listing that did not fail, on the clock of time.monotonic()

    def list_files(self, *, fresh_s: float = 0.0) -> None:
        """Lists everything once; new and changed files are added to what :meth:`take` returns.

        A listing that began less than ``fresh_s`` before this call is as good: it is waited for if it still runs.

        Raises OSError or RetriableError if a directory that was there is not, or is on another file system: what can't
        be seen for a while must not count as removed, or it would be read again when it is back.
        """
        asked_s = time.monotonic()
        with self._one_at_a_time:
            if asked_s - self._began_s < fresh_s:
                return
            began_s = time.monotonic()
            found: dict[str, tuple[int, int]] = {}
            with progress_of_listing(self._roots, found) if self._began_s == -math.inf else contextlib.nullcontext():
                missing = self._list_all(found)
            self._began_s = began_s
            if self._known:
                known = self._known.get
                differing = ((path, v) for path, v in found.items() if known(path) != v)
                new = [FoundFile(v[0], path, v[1], path in self._known) for path, v in differing]
            else:
                new = [FoundFile(v[0], path, v[1]) for path, v in found.items()]
            removed = []
            if len(found) - sum(not file.changed for file in new) < len(self._known):
                removed = [path for path in self._known if path not in found]
            self._known = found
            self._report(new, removed)
            with self._lock:
                self._missing = missing

    def look_at(self, paths: Iterable[str]) -> None:
        """Adds those of ``paths`` that are there, new or changed, and that a listing would show, without listing.

        A path that Arrow can't ask for is left to the next listing. Raises OSError or RetriableError if the store does
        not answer.
        """
        covered = {path for path in paths if self._covers(path)}
        if not covered:
            return
        with self._one_at_a_time:
            with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
                infos = list(pool.map(self._info, sorted(covered)))
            new = []
            for info in filter(None, infos):
                value = (info.mtime_ns or 0, info.size)
                if info.type != pafs.FileType.File or not self._wants(info.base_name, value[0]):
                    continue
                if self._known.get(info.path) != value:
                    new.append(FoundFile(value[0], info.path, value[1], info.path in self._known))
                    self._known[info.path] = value
            self._report(new, [])

    def _report(self, new: list[FoundFile], removed: list[str]) -> None:
        """Adds to the results. A path is in one of them at most: where it was seen last counts."""
        with self._lock:
            if removed:
                gone = set(removed)
                self._waiting = [file for file in self._waiting if file.path not in gone]
            if self._removed:
                back = {file.path for file in new}
                self._removed = [path for path in self._removed if path not in back]
            self._removed += removed
            self._waiting += new

    def _info(self, path: str) -> pafs.FileInfo | None:
        try:
            return self._storage.fs.get_file_info(path)
        except ValueError:  # a key with an empty part, which Arrow takes from a listing only
            return None

    def _covers(self, path: str) -> bool:
        if not self._wants_name(path.rsplit("/", 1)[-1]):
            return False
        return any(covers(root, path, recursive=self._recursive) for root in self._roots)

    def listed_since(self, seconds: float) -> bool:
        """Returns whether a listing that succeeded began in the last ``seconds``."""
        return time.monotonic() - self._began_s < seconds

    def missing_roots(self) -> list[str]:
        """Returns the roots that did not exist, or matched nothing, when everything was last listed."""
        with self._lock:
            return list(self._missing)

    def take(self) -> list[FoundFile]:
        """Returns what was found since the last call, in the order of hand-out."""
        with self._lock:
            taken, self._waiting = self._waiting, []
        taken.sort()
        return taken

    def take_removed(self) -> list[str]:
        """Returns the paths that have disappeared since the last call."""
        with self._lock:
            taken, self._removed = self._removed, []
        return taken

    def _list_all(self, found: dict[str, tuple[int, int]]) -> list[str]:
        """Adds every file to ``found``. Returns the roots that do not exist, or match nothing."""
        visited: dict[str, _Directory] = {}
        self._check_roots()
        missing = []
        for root in self._roots:
            exists = False
            for path in self._expand(root):
                if isinstance(self._storage, LocalStorage):
                    exists |= self._list_local(path, found, visited)
                else:
                    exists |= self._list_remote(path, found)
            if not exists:
                missing.append(root)
        self._check_roots()  # or what went away meanwhile would count as removed
        self._listed = visited
        return missing

    def _check_roots(self) -> None:
        for root in map(without_wildcards, self._roots):
            if isinstance(self._storage, LocalStorage):
                self._check_is_mounted(root)
            else:
                self._check_is_there(root)

    def _goes_into(self, name: str) -> bool:
        return self._recursive or "=" in name

    def _wants(self, name: str, mtime_ns: int) -> bool:
        return self._wants_name(name) and (self._modified is None or self._modified.holds(mtime_ns))

    def _wants_name(self, name: str) -> bool:
        return self._name_filter is None or self._name_filter.fullmatch(name) is not None

    def _check_is_there(self, root: str) -> None:
        if root in self._were_there:
            self._storage.check_is_there(root)
        elif not self._storage.is_away(root):
            self._were_there.add(root)

    def _check_is_mounted(self, root: str) -> None:
        try:
            status = os.stat(root)
        except (FileNotFoundError, NotADirectoryError):
            if root in self._devices:
                raise
            return
        if not S_ISDIR(status.st_mode):
            self._check_is_no_file(root)
        elif self._devices.setdefault(root, status.st_dev) != status.st_dev:
            raise OSError(
                errno.ESTALE, "on another file system than before: is it mounted? Then restart the query", root
            )

    def _check_is_no_file(self, root: str) -> None:
        # A file in the place of a directory that is away would be read as one of those in it.
        if root in self._devices:
            raise NotADirectoryError(errno.ENOTDIR, "no directory any more", root)

    def _list_local(self, root: str, found: dict[str, tuple[int, int]], visited: dict[str, _Directory]) -> bool:
        """Adds what is below. Returns whether there is such a file or directory."""
        try:
            status = os.stat(root)
        except (FileNotFoundError, NotADirectoryError):
            return False
        if S_ISREG(status.st_mode):
            self._check_is_no_file(root)
            if self._wants(os.path.basename(root), status.st_mtime_ns):
                found[root] = (status.st_mtime_ns, status.st_size)
            return True
        waiting: list[tuple[str, os.stat_result, frozenset[tuple[int, int]]]] = [(root, status, frozenset())]
        while waiting:
            path, status, above = waiting.pop()
            itself = (status.st_dev, status.st_ino)
            # A symbolic link to a directory above it would be followed until the system refuses.
            if path in visited or not S_ISDIR(status.st_mode) or itself in above:
                continue
            chain = above | {itself}
            # Gone between its parent's listing and its own: as if it had not been there.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                directory = visited[path] = self._list_directory(path, status.st_mtime_ns)
                found.update(directory.files)
                waiting += [
                    (child, os.stat(child), chain)
                    for child in directory.directories
                    if self._goes_into(os.path.basename(child)) and os.path.exists(child)
                ]
        return True

    def _list_directory(self, path: str, mtime_ns: int) -> _Directory:
        before = self._listed.get(path)
        if before is not None and before.mtime_ns == mtime_ns and before.listed_ns - mtime_ns > _RACY_NS:
            return before
        directory = _Directory(mtime_ns, time.time_ns())
        # One call that stats in C++ without the interpreter's lock: quicker than scandir, and other threads continue.
        for info in self._storage.fs.get_file_info(pafs.FileSelector(path, allow_not_found=True)):
            try:
                name = info.base_name
            except UnicodeDecodeError:
                self._warn_of_names(path)
                continue
            if is_hidden(name):
                continue
            kind = info.type  # makes an object each time
            if kind == pafs.FileType.Directory:
                directory.directories.append(info.path)
            elif kind == pafs.FileType.File and (self._wants_all or self._wants(name, info.mtime_ns)):
                directory.files[info.path] = (info.mtime_ns, info.size)
        return directory

    # Stores: one recursive listing, which an object store answers in pages.

    def _list_remote(self, root: str, found: dict[str, tuple[int, int]]) -> bool:
        """Adds what is below. Returns whether there is such a file or directory, also one that is only a prefix."""
        info = self._storage.fs.get_file_info(root)
        if info.type == pafs.FileType.NotFound:
            return False
        if info.type == pafs.FileType.File:
            if self._wants(info.base_name, info.mtime_ns or 0):
                found[root] = (info.mtime_ns or 0, info.size)
            return True
        for info in self._infos_below(root):
            if info.type != pafs.FileType.File or not self._wants(info.base_name, info.mtime_ns or 0):
                continue
            if any(map(is_hidden, info.path[len(root) :].strip("/").split("/"))):
                continue
            found[info.path] = (info.mtime_ns or 0, info.size)
        return True

    def _infos_below(self, root: str) -> Iterator[pafs.FileInfo]:
        if self._recursive:
            yield from self._storage.fs.get_file_info(pafs.FileSelector(root, recursive=True, allow_not_found=True))
            return
        waiting = [root]
        while waiting:
            for info in self._storage.fs.get_file_info(pafs.FileSelector(waiting.pop(), allow_not_found=True)):
                yield info
                if info.type == pafs.FileType.Directory and self._goes_into(info.base_name):
                    waiting.append(info.path)

    def _expand(self, root: str) -> Iterator[str]:
        """Yields the existing paths that a glob matches; a path without wildcards as it is."""
        if not has_wildcards(root):
            yield root
            return
        fixed = without_wildcards(root)
        found = [fixed]
        for part in PurePosixPath(root).parts[len(PurePosixPath(fixed).parts) :]:
            if not has_wildcards(part):
                found = [f"{base.rstrip('/')}/{part}" for base in found]
                continue
            regex = glob_to_regex(part)
            found = [path for base in found for path in self._children(base) if regex.fullmatch(path.rsplit("/", 1)[1])]
        yield from sorted(found)

    def _children(self, directory: str) -> list[str]:
        try:
            infos = self._storage.fs.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        except NotADirectoryError:
            return []
        found = []
        for info in infos:
            try:
                if not is_hidden(info.base_name):
                    found.append(info.path)
            except UnicodeDecodeError:
                self._warn_of_names(directory)
        return found

    def _warn_of_names(self, directory: str) -> None:
        """Warns once that something in ``directory`` is not read."""
        if directory not in self._not_utf8:
            self._not_utf8.add(directory)
            _log.warning("%s holds names that are not UTF-8, which are not read: rename them", directory)
