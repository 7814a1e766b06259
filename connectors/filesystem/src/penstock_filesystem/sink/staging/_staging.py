"""The base of staging: one attempt leaves its files where no reader sees them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal

from penstock.errors import DataLostError
from penstock.sink import WriterContext
from penstock_filesystem.formats import WholeFile
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._layout import AttemptNames, Layout

__all__ = ["StagedFile", "Staging", "chunk_bytes", "joined_pieces", "open_chunk"]

_COPY_BYTES = 4 << 20


class StagedFile:
    """A binary file that an attempt is writing, with the methods that pyarrow and fastavro call. Counts its bytes."""

    closed = False

    def __init__(self, path: str, stream: Any) -> None:
        self.path = path
        self.stream = stream
        self.size = 0
        self._discarded = False

    def write(self, data: Any) -> int:
        """Writes bytes or a buffer."""
        if not self._discarded:
            self.stream.write(data)
        length = memoryview(data).nbytes
        self.size += length
        return length

    def tell(self) -> int:
        """Returns the number of bytes written so far."""
        return self.size

    def flush(self) -> None:
        """Hands on what is buffered; :meth:`Staging.sync` makes it durable."""
        if not self._discarded:
            self.stream.flush()

    def discard(self) -> None:
        """Closes the file and ignores later writes: Parquet's writer still flushes when it is collected."""
        self._discarded = True
        self.stream.close()

    def seekable(self) -> bool:
        """Always returns False."""
        return False

    def writable(self) -> bool:
        """Always returns True."""
        return True

    def readable(self) -> bool:
        """Always returns False."""
        return False


class Staging(ABC):
    """Makes the files of one attempt, hidden or not yet there at all. Single thread.

    What :meth:`chunk`, :meth:`part` and the ``join`` methods return is durable after :meth:`sync`.
    """

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        # A writer is not made a second time once rows have come: what it asks of its store is repeated there.
        self.layout = replace(layout, storage=layout.storage.retrying(context.retry))
        self.names = AttemptNames(layout, context, role)

    @abstractmethod
    def create(self) -> StagedFile:
        """Opens a new file to write to."""

    @abstractmethod
    def chunk(self, file: StagedFile) -> str:
        """Keeps ``file`` as a hidden chunk and returns its path."""

    @abstractmethod
    def part(self, file: StagedFile, final: str, rows: int) -> PendingPart:
        """Keeps ``file`` as a part that commit publishes as ``final``."""

    @abstractmethod
    def join_to_chunk(self, chunks: Sequence[Chunk]) -> tuple[str, int]:
        """Joins ``chunks``, under one header, to a new hidden chunk: path and size. The chunks are not touched."""

    @abstractmethod
    def join_to_part(self, chunks: Sequence[Chunk], final: str) -> PendingPart:
        """Joins ``chunks``, under one header, to a part. The chunks are not touched."""

    @abstractmethod
    def sync(self) -> None:
        """Makes everything kept durable."""

    @abstractmethod
    def abort(self) -> None:
        """Removes everything that this attempt made. Does not raise."""


def open_chunk(layout: Layout, chunk: Chunk) -> Any:
    """Opens a chunk's file for reading with seeks. Raises DataLostError if it is not there or has another size."""
    path = layout.full(chunk.path)
    file = _opened(layout, path) or layout.confirmed(lambda: _opened(layout, path))
    if file is None:
        raise DataLostError(
            f"{layout.storage.url(path)} with {chunk.rows} committed rows of an open part is gone: was the option "
            "'path' changed, or .penstock deleted? Restore it, or start with a new checkpoint"
        )
    if file.size() != chunk.size:
        raise DataLostError(f"{layout.storage.url(path)} has {file.size()} bytes where {chunk.size} were committed")
    return file


def _opened(layout: Layout, path: str) -> Any:
    try:
        return layout.storage.open_file(path)
    except FileNotFoundError:
        return None


def joined_pieces(chunks: Sequence[Chunk]) -> Iterator[tuple[Chunk, int]]:
    """Yields chunks with the offset from which each goes into a joined file: the first whole, others without header."""
    for number, chunk in enumerate(chunks):
        yield chunk, chunk.header if number else 0


def chunk_bytes(layout: Layout, chunk: Chunk, offset: int) -> Iterator[bytes]:
    """Reads a chunk's bytes from ``offset``, in pieces of 4 MiB at most."""
    with WholeFile(open_chunk(layout, chunk), chunk.size, layout.storage.url(layout.full(chunk.path))) as source:
        source.seek(offset)
        while piece := source.read(_COPY_BYTES):
            yield piece
