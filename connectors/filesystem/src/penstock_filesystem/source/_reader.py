"""Reads splits: checks the file, opens it, and fetches its elements."""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from lzma import LZMAError
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs

from penstock.errors import BadConfigurationError, BadDataError, DataLostError, RetriableError
from penstock.metrics import Metrics
from penstock.printable import get_logger
from penstock.source import RecordsBySplits, SplitReader
from penstock.storage import Storage
from penstock_filesystem.formats import FormatReader, InputFile
from penstock_filesystem.options import SourceOptions
from penstock_filesystem.source._absence import check_is_gone
from penstock_filesystem.source._new_columns import NewColumns
from penstock_filesystem.source._partitions import PartitionColumns
from penstock_filesystem.source._split import FileSplit

__all__ = ["FileSystemSplitReader"]

_log = get_logger("penstock.filesystem")
#: What the libraries raise for contents they cannot make sense of.
_CORRUPT = (pa.ArrowInvalid, pa.ArrowNotImplementedError, EOFError, ValueError, LZMAError, zlib.error, KeyError)
#: Arrow reports broken compressed streams as I/O errors; these words are in the messages.
_CORRUPT_WORDS = (
    "compress",
    "decode",
    "zlib",
    "inflate",
    "bz2",
    "zstd",
    "corrupt",
    "truncated",
    "thrift",
    "parquet",
    "magic",
)


class FileSystemSplitReader(SplitReader[Any, FileSplit]):
    """Fetches one element at a time, in the fetcher thread: I/O and decompression happen here.

    ``changedFiles``, ``ignoreMissingFiles`` and ``ignoreCorruptFiles`` decide about a file that is not as it was
    planned, is gone, or cannot be read. It is counted (``changed_files``, ``missing_files``, ``corrupt_files``) once
    per task. Metric ``bytes_read``: the bytes of the ranges that were finished.

    Every attribute belongs to the fetcher thread, but ``_woken``, which any thread may set.
    """

    def __init__(
        self,
        storage: Storage,
        format_reader: FormatReader,
        options: SourceOptions,
        schema: pa.Schema,
        partitions: PartitionColumns | None,
        metrics: Metrics,
        roots: Sequence[str],
        new_columns: NewColumns | None,
    ) -> None:
        self._storage = storage
        self._roots = roots
        self._new_columns = new_columns
        self._format_reader = format_reader
        self._options = options
        self._schema = schema
        self._partitions = partitions
        self._metrics = metrics
        self._splits: deque[FileSplit] = deque()
        self._elements: Iterator[Any] | None = None
        self._delivered = 0
        self._counted: set[tuple[str, str]] = set()
        self._woken = threading.Event()

    def handle_splits_changes(self, splits: Sequence[FileSplit]) -> None:
        """Adds splits to the queue. Raises BadConfigurationError for a range of a file that is read as a whole."""
        for split in splits:
            if split.length < split.size and not self._format_reader.is_splittable(split.path):
                raise BadConfigurationError(
                    f"{self._storage.url(split.path)} was begun with other options, in ranges, and with these "
                    f"(format={self._options.format.name}) it would be read as a whole, some rows again: set the "
                    "options back until the query has read it"
                )
        self._splits.extend(splits)

    def fetch(self) -> RecordsBySplits[Any]:
        """Returns the next element of the first split. Raises BadDataError, DataLostError, RetriableError."""
        if self._woken.is_set() or not self._splits:
            self._woken.clear()
            return RecordsBySplits()
        split = self._splits[0]
        try:
            if self._elements is None:
                # After a failure the split is opened again, and what was delivered of it is skipped.
                self._elements = islice(self._open(split), self._delivered, None)
            element = next(self._elements, None)
        except BaseException as error:
            self._elements = None
            if not isinstance(error, Exception):
                raise
            self._handle_error(split, error)
            element = None
        if element is None:
            self._finish(split)
            return RecordsBySplits(finished_splits=[split.split_id])
        self._delivered += 1
        return RecordsBySplits(records=[(split.split_id, element)])

    def _finish(self, split: FileSplit) -> None:
        self._splits.popleft()
        self._elements, self._delivered = None, 0
        self._metrics.add("bytes_read", split.length)

    def _open(self, split: FileSplit) -> Iterator[Any]:
        info = self._storage.fs.get_file_info(split.path)
        if _is_changed(info, split):
            info = self._storage.fs.get_file_info(split.path)  # an answer may have been cut off
        if not info.is_file:
            raise FileNotFoundError(split.path)
        if _is_changed(info, split) and not self._takes_changed(split, info.size):
            return iter(())
        if split.length == 0 and not self._format_reader.reads_empty_files:
            return iter(())
        file = InputFile(self._storage, split.path, info.size)
        if self._new_columns is not None:
            self._new_columns.check(file)
        schema = self._schema if self._partitions is None else self._partitions.without(split.path, self._schema)
        return self._format_reader.elements(file, split.start, split.end, schema)

    def _takes_changed(self, split: FileSplit, size: int) -> bool:
        self._count("changed_files", split)
        url = self._storage.url(split.path)
        if self._options.changed_files == "fail":
            raise BadDataError(
                f"{url} changed after it was planned (then {split.size} bytes, now {size}): write files elsewhere and "
                "move them in when they are whole, or set changedFiles to read or skip"
            )
        _log.warning("%s changed after it was planned: %s", url, self._options.changed_files)
        return self._options.changed_files == "read"

    def _handle_error(self, split: FileSplit, error: Exception) -> None:
        """Returns if the rest of the split is to be skipped; else raises the error that the task fails with."""
        url = self._storage.url(split.path)
        if isinstance(error, (BadDataError, DataLostError)):
            raise error
        if isinstance(error, FileNotFoundError):
            check_is_gone(self._storage, split.path, self._roots)
            self._count("missing_files", split)
            if not self._options.ignore_missing_files:
                raise DataLostError(
                    f"{url} disappeared after it was planned: bring it back, or set ignoreMissingFiles to true"
                ) from error
            _log.warning("%s disappeared after it was planned: skipped", url)
        elif isinstance(error, _CORRUPT) or (isinstance(error, OSError) and _says_corrupt(error, split.path)):
            self._count("corrupt_files", split)
            if not self._options.ignore_corrupt_files:
                raise BadDataError(
                    f"{url} cannot be read as {self._options.format.name}: {error}; fix or remove it, or set "
                    "ignoreCorruptFiles to true"
                ) from error
            _log.warning("%s cannot be read, the rest of it is skipped: %s", url, error)
        elif isinstance(error, OSError):
            raise RetriableError(f"{url} could not be read: {error}") from error
        else:
            raise error

    def _count(self, metric: str, split: FileSplit) -> None:
        if (metric, split.path) not in self._counted:
            self._counted.add((metric, split.path))
            self._metrics.add(metric)

    def wake_up(self) -> None:
        """Makes the next fetch return at once. May be called from any thread."""
        self._woken.set()

    def close(self) -> None:
        """Closes the file that is open."""
        self._elements = None
        self._splits.clear()


def _is_changed(info: pafs.FileInfo, split: FileSplit) -> bool:
    return (info.size, info.mtime_ns or 0) != (split.size, split.mtime_ns)


def _says_corrupt(error: OSError, path: str) -> bool:
    """Returns whether an error is about a file's bytes, and not about the way to them, whatever the file is called."""
    text = str(error)
    if error.errno is not None or "AWS Error" in text:
        return False
    for name in (path, path.partition("/")[2], path.rpartition("/")[2]):  # of S3, the key without the bucket
        text = text.replace(name, "") if name else text
    return any(word in text.lower() for word in _CORRUPT_WORDS)
