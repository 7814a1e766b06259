"""What a third-party format implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import pyarrow as pa

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet, OptionValues

__all__ = ["FileEncoder", "FileFormat", "FileReader", "FileWriter"]


class FileReader(ABC):
    """Reads files of a format. Made on the driver, pickled to the tasks.

    ``takes_stream``: False for a reader that seeks: it gets the file as it is. True for one that reads from the
    beginning to the end: it gets what is in a compressed file, by the suffix of its name (``.gz``, ``.zst`` …).
    """

    takes_stream: ClassVar[bool] = False

    @abstractmethod
    def read(self, file: BinaryIO, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the rows of a file, in an order that is always the same, some MiB at a time.

        ``schema`` has the columns that are wanted: others may be left out. A column of another type is cast, one that
        is missing is an error that says so. After a failure it is called again, and batches that were read before are
        skipped. In a task, on a thread that only reads. Raises ValueError, EOFError, OSError or pyarrow's errors for a
        file that can't be read; OSError with an ``errno`` is tried again.
        """

    def infer_schema(self, file: BinaryIO) -> pa.Schema:
        """Returns the columns of a file, for users who give no schema. On the driver. Raises as :meth:`read` does."""
        raise BadConfigurationError("the format has no schema to infer: give one with .schema(...)")


class FileEncoder(ABC):
    """Writes one file. In a task, by one thread."""

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Adds rows. Raises BadDataError for one that can't be written."""

    @abstractmethod
    def finish(self) -> None:
        """Completes the file, and leaves it open: it is closed by the caller."""


class FileWriter(ABC):
    """Writes files of a format. Made on the driver, pickled to the tasks.

    ``extension`` ends the names of files: ``".orc"``. ``appends``: whether a file is still one if the bytes of another
    one follow: then an open part may continue in the next batch. Otherwise each batch publishes its files, and the
    user has to say so (``rollOnCheckpoint``).
    """

    extension: ClassVar[str] = ""
    appends: ClassVar[bool] = False

    @abstractmethod
    def encoder(self, file: BinaryIO) -> FileEncoder:
        """Begins a file: all of its rows have the schema that the writer was made for."""


class FileFormat:
    """A plugin: makes the readers and the writers of a format, or one of them. Built without arguments, on the driver.

    Name it by an entry point of the group ``penstock.filesystem.formats``; users then write
    ``.option("format", "<name>")``. ``options`` are its own: users write them as ``format.<option>``.
    """

    options: ClassVar[OptionSet] = OptionSet()

    def create_reader(self, options: OptionValues) -> FileReader:
        """Returns a reader. Raises BadConfigurationError if the options do not fit."""
        raise BadConfigurationError(f"{type(self).__name__} can't read: choose another format")

    def create_writer(self, options: OptionValues, schema: pa.Schema) -> FileWriter:
        """Returns a writer of files with the columns of ``schema``.

        Raises BadConfigurationError for options and columns that do not fit, with what to do.
        """
        raise BadConfigurationError(f"{type(self).__name__} can't write: choose another format")
