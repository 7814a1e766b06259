"""The base of all readers: a file's contents are read in the fetcher thread and decoded in the main thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from penstock.errors import BadConfigurationError, BadDataError
from penstock.metrics import Metrics
from penstock.serialization import shortened
from penstock_filesystem.formats._inference import SchemaInference
from penstock_filesystem.formats._input_file import InputFile
from penstock_filesystem.formats._options import ReadOptions

__all__ = ["Decoder", "FormatReader", "NewColumnsError", "Rows", "SplitState", "missing_column"]


@dataclass
class SplitState:
    """The file that a split is of, and how far its decoding is: ``header_pending`` until its header line was met.

    ``size`` and ``mtime_ns`` (since 1970 UTC) are what the file had when it was planned.
    """

    path: str
    url: str
    size: int
    mtime_ns: int
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


def missing_column(name: str, there: Iterable[str], options: ReadOptions, url: str) -> None:
    """Returns if a column that a file lacks is null. Raises BadDataError otherwise."""
    if options.missing_columns == "fail":
        columns = shortened(", ".join(map(str, there)))  # an Avro file may call a column anything
        raise BadDataError(
            f"{url}: the column '{name}' is neither in the file nor in the name of a directory; the file has {columns}."
            " Correct the schema, or set missingColumns to null if some files lack it"
        )


class NewColumnsError(Exception):
    """A file has columns that the schema lacks: ``names``, with those of structs before a dot.

    Ends no task by itself: the emitter has the columns remembered, and raises an error that says so.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = sorted(set(names))
        super().__init__(f"the schema lacks {', '.join(self.names)}")


class Decoder(ABC):
    """Turns elements into rows of the schema it was made for. One per task, main thread."""

    @abstractmethod
    def decode(self, element: Any, state: SplitState) -> Iterator[Rows]:
        """Yields the rows of ``element``. Raises BadDataError; NewColumnsError if the options refuse those."""


class FormatReader(ABC):
    """Reads files of one format. Pickled to the tasks: holds options only.

    ``reads_empty_files``: whether a file of no bytes is a row. ``holds_schema``: whether a file says what columns it
    has, so that a look at its schema costs little. ``has_header``: whether files begin with a header line.
    """

    reads_empty_files = False
    holds_schema = False
    has_header = False

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Returns whether a file of this name may be read in ranges."""

    @abstractmethod
    def elements(self, file: InputFile, start: int, end: int, schema: pa.Schema) -> Iterator[Any]:
        """Yields what the decoder needs of the bytes from ``start`` to ``end``, a few MiB at a time.

        Yields the same again if called again. ``schema`` holds the data columns that are wanted. Raises OSError,
        pa.ArrowInvalid, EOFError or ValueError for files that cannot be read.
        """

    @abstractmethod
    def decoder(self, schema: pa.Schema, metrics: Metrics, *, offsets: bool, elsewhere: Collection[str]) -> Decoder:
        """Creates a decoder of the data columns in ``schema`` (with the corrupt-record column if it is wanted).

        ``elsewhere`` are columns of the read that do not come from the file, also if it has some of these names.
        """

    def fixed_schema(self) -> pa.Schema | None:
        """Returns the schema if the format decides it."""
        return None

    def inference(self, progress: Callable[[int], object]) -> SchemaInference:
        """Starts to infer a schema from files. ``progress`` gets the bytes of each piece of a file that was looked at.

        Raises BadConfigurationError if the format can't.
        """
        raise BadConfigurationError(f"format {self.options.name} has no schema to infer: give one with .schema(...)")

    def validate(self, schema: pa.Schema) -> None:
        """Raises BadConfigurationError for data columns that the format cannot hold."""
        return
