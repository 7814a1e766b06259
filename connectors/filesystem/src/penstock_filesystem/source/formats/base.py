"""What a file format is to the source: how it is read (fetcher thread) and decoded (main thread)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.storage import Storage
from penstock_filesystem.source.opened import OpenedFile
from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.split import FileSplit

__all__ = ["Decoder", "FileFormat", "Rows", "SplitState"]


@dataclass
class SplitState:
    """Where the decoding of a split is: ``header_pending`` until the header line of a CSV file was met."""

    split: FileSplit
    url: str
    header_pending: bool


@dataclass(frozen=True)
class Rows:
    """Decoded rows: the requested data columns by name, and where each row starts if that was asked for.

    ``offsets`` are int64: bytes in the file for line formats (in the decompressed text, in UTF-8 for UTF-16 and
    UTF-32), numbers of rows for the others.
    """

    columns: dict[str, pa.Array]
    count: int
    offsets: pa.Array | None = None


class Decoder(ABC):
    """Turns elements into rows of the schema it was made for. One per task, main thread."""

    @abstractmethod
    def decode(self, element: Any, state: SplitState) -> Iterator[Rows]:
        """The rows of ``element``. Raises BadDataError."""


class FileFormat(ABC):
    """One file format. Holds settings only.

    ``reads_empty_files``: whether a file of no bytes is a row.
    """

    reads_empty_files = False

    def __init__(self, settings: FileSourceSettings) -> None:
        self.settings = settings

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Whether a file of this name may be read in ranges."""

    @abstractmethod
    def elements(self, file: OpenedFile, split: FileSplit, schema: pa.Schema) -> Iterator[Any]:
        """What the decoder needs of a split, a few MiB at a time; the same again if called again.

        ``schema`` holds the data columns that are wanted. Raises OSError, pa.ArrowInvalid, EOFError or ValueError for
        files that cannot be read.
        """

    @abstractmethod
    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool) -> Decoder:
        """A decoder of the data columns in ``schema`` (with the corrupt-record column if it is wanted)."""

    def fixed_schema(self) -> pa.Schema | None:
        """The schema if the format decides it."""
        return None

    def infer(self, storage: Storage, files: Sequence[OpenedFile]) -> pa.Schema:
        """The schema of ``files``, which are not empty."""
        raise BadConfigurationError(f"format {self.settings.format} has no schema to infer: give one with .schema(...)")

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for data columns that the format cannot hold."""
        return
