"""Reads splits: checks the file, opens it, and brings its elements."""

from __future__ import annotations

import logging
import threading
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from lzma import LZMAError
from typing import Any

import pyarrow as pa

from penstock.errors import BadDataError, DataLostError, RetriableError
from penstock.metrics import Metrics
from penstock.source import RecordsBySplits, SplitReader
from penstock.storage import Storage
from penstock_filesystem.source.formats import FileFormat
from penstock_filesystem.source.opened import OpenedFile
from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.split import FileSplit

__all__ = ["FileSplitReader"]

_LOG = logging.getLogger(__name__)
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


class FileSplitReader(SplitReader[Any, FileSplit]):
    """See :class:`penstock.source.SplitReader`. One element a fetch; I/O and decompression happen here.

    A file that is not as it was planned, is gone, or cannot be read ends as ``changedFiles``, ``ignoreMissingFiles``
    and ``ignoreCorruptFiles`` say, and is counted (``changed_files``, ``missing_files``, ``corrupt_files``), each once
    per task. Metric ``bytes_read``: the bytes of the ranges that were finished.
    """

    def __init__(
        self, storage: Storage, format_: FileFormat, settings: FileSourceSettings, schema: pa.Schema, metrics: Metrics
    ) -> None:
        self._storage = storage
        self._format = format_
        self._settings = settings
        self._schema = schema
        self._metrics = metrics
        self._splits: deque[FileSplit] = deque()
        self._elements: Iterator[Any] | None = None
        self._delivered = 0
        self._counted: set[tuple[str, str]] = set()
        self._woken = threading.Event()

    def handle_splits_changes(self, splits: Sequence[FileSplit]) -> None:
        """See the base class."""
        self._splits.extend(splits)

    def fetch(self) -> RecordsBySplits[Any]:
        """See the base class. Raises BadDataError, DataLostError, RetriableError."""
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
            self._judge(split, error)
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
        if not info.is_file:
            raise FileNotFoundError(split.path)
        if (info.size, info.mtime_ns or 0) != (split.size, split.mtime_ns) and not self._takes_changed(
            split, info.size
        ):
            return iter(())
        if split.length == 0 and not self._format.reads_empty_files:
            return iter(())
        return self._format.elements(OpenedFile(self._storage, split.path, info.size), split, self._schema)

    def _takes_changed(self, split: FileSplit, size: int) -> bool:
        self._count("changed_files", split)
        url = self._storage.url(split.path)
        if self._settings.changed_files == "fail":
            raise BadDataError(
                f"{url} changed after it was planned (then {split.size} bytes, now {size}): write files elsewhere and "
                "move them in when they are whole, or set changedFiles to read or skip"
            )
        _LOG.warning("%s changed after it was planned: %s", url, self._settings.changed_files)
        return self._settings.changed_files == "read"

    def _judge(self, split: FileSplit, error: Exception) -> None:
        """Returns if the rest of the split is to be skipped; raises what the task should fail with otherwise."""
        url = self._storage.url(split.path)
        if isinstance(error, (BadDataError, DataLostError)):
            raise error
        if isinstance(error, FileNotFoundError):
            self._count("missing_files", split)
            if not self._settings.ignore_missing_files:
                raise DataLostError(
                    f"{url} disappeared after it was planned: bring it back, or set ignoreMissingFiles to true"
                ) from error
            _LOG.warning("%s disappeared after it was planned: skipped", url)
        elif isinstance(error, _CORRUPT) or (isinstance(error, OSError) and _says_corrupt(error)):
            self._count("corrupt_files", split)
            if not self._settings.ignore_corrupt_files:
                raise BadDataError(
                    f"{url} cannot be read as {self._settings.format}: {error}; mend or remove it, or set "
                    "ignoreCorruptFiles to true"
                ) from error
            _LOG.warning("%s cannot be read, the rest of it is skipped: %s", url, error)
        elif isinstance(error, OSError):
            raise RetriableError(f"{url} could not be read: {error}") from error
        else:
            raise error

    def _count(self, metric: str, split: FileSplit) -> None:
        if (metric, split.path) not in self._counted:
            self._counted.add((metric, split.path))
            self._metrics.add(metric)

    def wake_up(self) -> None:
        """See the base class."""
        self._woken.set()

    def close(self) -> None:
        """See the base class."""
        self._elements = None
        self._splits.clear()


def _says_corrupt(error: OSError) -> bool:
    text = str(error).lower()
    return error.errno is None and any(word in text for word in _CORRUPT_WORDS)
