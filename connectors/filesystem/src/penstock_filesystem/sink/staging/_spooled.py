"""Staging and committing on object stores: files are spooled to the local disk, uploaded when they are closed, and
appear when the upload is completed.
"""

from __future__ import annotations

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import BinaryIO, Generic, Literal, TypeVar, cast

from penstock.errors import RetriableError
from penstock.retry import NO_RETRIES
from penstock.sink import Found, WriterContext
from penstock.storage import AzureStorage, S3Storage
from penstock_filesystem.sink._committable import Chunk, PendingPart, UploadedPart
from penstock_filesystem.sink._committer import FileSystemCommitter
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._staging import StagedFile, Staging, chunk_bytes, joined_pieces

__all__ = ["PART_BYTES", "PartedUpload", "SpooledStaging", "UploadCommitter", "open_spool"]

#: Size of the parts of an upload. S3 wants 10,000 parts at most, Azure 50,000.
PART_BYTES = 8 << 20
#: What S3 wants at least, for all parts but the last.
MIN_PART_BYTES = 5 << 20


def open_spool() -> BinaryIO:
    """Opens a new local file without a name, in Python's temporary directory."""
    return cast(BinaryIO, tempfile.TemporaryFile(prefix="penstock-", buffering=1 << 20))


class PartedUpload(ABC):
    """An object that is sent in parts, to ``target``. Nothing of it can be seen before it is completed."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.parts: list[UploadedPart] = []
        self._pending = bytearray()

    @property
    def size(self) -> int:
        """Bytes of the parts so far."""
        return sum(part.size for part in self.parts)

    def write(self, data: bytes) -> None:
        """Adds bytes; sends parts as they fill. Memory: one part."""
        self._pending += data
        while len(self._pending) >= PART_BYTES + MIN_PART_BYTES:
            self._flush(PART_BYTES)

    def flush(self) -> None:
        """Sends what is pending as the last part."""
        if self._pending or not self.parts:
            self._flush(len(self._pending))

    def _flush(self, length: int) -> None:
        number = len(self.parts) + 1
        self.parts.append(UploadedPart(number, self._send(number, bytes(self._pending[:length])), length))
        del self._pending[:length]

    @abstractmethod
    def _send(self, number: int, body: bytes) -> str:
        """Sends one part, counted from 1; returns what names it when the upload is completed."""

    @abstractmethod
    def complete(self) -> None:
        """Makes the object appear. For an object of this attempt's own, which only it completes."""


UploadT = TypeVar("UploadT", bound=PartedUpload)


class SpooledStaging(Staging, Generic[UploadT]):
    """Spools files to the local disk (in Python's temporary directory) until they are closed.

    Chunks are hidden objects; parts are uploads to their final name that are not completed.

    Disk: ``maxPartSize`` for each open bucket at most. The spool files have no name: a crash leaves none.
    """

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._chunks: list[str] = []
        self._spools: list[StagedFile] = []

    @property
    @abstractmethod
    def _storage(self) -> S3Storage | AzureStorage:
        """The storage of the layout."""

    @abstractmethod
    def _start(self, target: str) -> UploadT:
        """Begins an upload to ``target``, or to a name next to it."""

    @abstractmethod
    def _pending(self, upload: UploadT, rows: int) -> PendingPart:
        """Sends the rest of ``upload``, and returns the part that it is."""

    @abstractmethod
    def _completed(self, upload: UploadT) -> None:
        """Removes what an upload that was completed leaves."""

    def create(self) -> StagedFile:
        """Opens a new temporary file."""
        file = StagedFile("", open_spool())
        self._spools.append(file)
        return file

    def chunk(self, file: StagedFile) -> str:
        """Uploads the file as a hidden object."""
        path = self.names.hidden("chunk")
        self._chunks.append(path)
        self._storage.put_file(self.layout.full(path), file.stream)
        self._drop(file)
        return path

    def part(self, file: StagedFile, final: str, rows: int) -> PendingPart:
        """Uploads the file to its final name, or one next to it, without completing the upload."""
        upload = self._start(final)
        file.stream.seek(0)
        while piece := file.stream.read(PART_BYTES):
            upload.write(piece)
        self._drop(file)
        return self._pending(upload, rows)

    def _drop(self, file: StagedFile) -> None:
        file.stream.close()
        self._spools.remove(file)

    def join_to_chunk(self, chunks: Sequence[Chunk]) -> tuple[str, int]:
        """Joins the chunks by an upload that is completed at once: its name is hidden, and the attempt's own."""
        upload = self._start(self.names.hidden("chunk"))
        self._chunks.append(upload.target)
        self._join(upload, chunks)
        upload.flush()
        upload.complete()
        self._completed(upload)
        return upload.target, upload.size

    def join_to_part(self, chunks: Sequence[Chunk], final: str) -> PendingPart:
        """Joins the chunks by an upload to the final name, or one next to it, without completing it."""
        upload = self._start(final)
        self._join(upload, chunks)
        return self._pending(upload, sum(chunk.rows for chunk in chunks))

    def _join(self, upload: UploadT, chunks: Sequence[Chunk]) -> None:
        for chunk, offset in joined_pieces(chunks):
            for piece in chunk_bytes(self.layout, chunk, offset):
                upload.write(piece)

    def sync(self) -> None:
        """Does nothing: what the store has acknowledged is durable."""

    def abort(self) -> None:
        """Removes chunks, and what names the uploads."""
        for file in self._spools:
            file.discard()
        try:
            self._abort_uploads()
        except (OSError, RetriableError):
            return  # garbage as soon as the decision log moves on, and found then

    @abstractmethod
    def _abort_uploads(self) -> None:
        """Ends the uploads, and removes what names them."""

    def _delete(self, paths: Sequence[str]) -> None:
        """Removes objects, without waiting for a store that is away."""
        self._storage.retrying(NO_RETRIES).delete(map(self.layout.full, paths))


class UploadCommitter(FileSystemCommitter):
    """Completes uploads, several at the same time."""

    def look(self, committables: Sequence[PendingPart]) -> list[Found]:
        """Looks at each part by requests. Raises DataLostError if the store does not say what happened."""
        return self._in_parallel(self._look, committables)

    def publish(self, committables: Sequence[PendingPart]) -> list[Found]:
        """Completes the uploads."""
        return self._publish_in_parallel(committables)

    def _publish(self, part: PendingPart) -> Found:
        try:
            self._complete(part)
        except (OSError, RetriableError):
            # The answer may have been lost, or come from an earlier try of this very request.
            found = self._look(part)
            if found is Found.OPEN:
                raise
            return found
        return Found.COMMITTED

    def seal(self, committables: Sequence[PendingPart]) -> None:
        """Makes it impossible to complete the uploads that are not complete yet."""
        self._in_parallel(self._seal, committables)

    @abstractmethod
    def _seal(self, part: PendingPart) -> None:
        """Does so for one part; leaves it as it is if it is published."""

    @abstractmethod
    def _look(self, part: PendingPart) -> Found:
        """Returns the outcome of one part. Raises DataLostError if the store does not say what happened."""

    @abstractmethod
    def _complete(self, part: PendingPart) -> None:
        """Makes the part appear, in one step. Raises OSError or RetriableError, also if it is there already."""
