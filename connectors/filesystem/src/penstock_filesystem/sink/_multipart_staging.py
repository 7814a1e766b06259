"""Staging on S3: chunks are hidden objects, parts are multipart uploads that only the commit completes."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Literal

from penstock.errors import RetriableError
from penstock.sink import WriterContext
from penstock.storage import S3Storage, translated
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._staging import StagedFile, Staging, copied, joined_pieces
from penstock_filesystem.sink._state import Chunk, PendingPart
from penstock_filesystem.sink._uploads import MIN_PART_BYTES, PART_BYTES, Upload

__all__ = ["MultipartStaging"]


class MultipartStaging(Staging):
    """Files are spooled to the local disk (in Python's temporary directory) until they are closed.

    Disk: ``maxPartSize`` for each open bucket at most. The spool files have no name: a crash leaves none.
    """

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        assert isinstance(layout.storage, S3Storage)
        self._storage = layout.storage
        self._chunks: list[str] = []
        self._uploads: list[Upload] = []
        self._spools: list[StagedFile] = []

    def create(self) -> StagedFile:
        """See the base class."""
        spool = tempfile.TemporaryFile(prefix="penstock-", buffering=1 << 20)  # noqa: SIM115 - lives until it is kept
        file = StagedFile("", spool)
        self._spools.append(file)
        return file

    def chunk(self, file: StagedFile) -> str:
        """See the base class."""
        path = self.names.hidden("chunk")
        self._chunks.append(path)
        bucket, key = self._storage.split(self.layout.full(path))
        file.stream.seek(0)
        with translated(self._storage.url(self.layout.full(path))):
            self._storage.client.put_object(Bucket=bucket, Key=key, Body=file.stream)
        self._drop(file)
        return path

    def part(self, file: StagedFile, final: str, rows: int) -> PendingPart:
        """See the base class."""
        upload = self._start(final)
        file.stream.seek(0)
        while piece := file.stream.read(PART_BYTES):
            upload.write(piece)
        self._drop(file)
        return self._pending(upload, final, rows)

    def _drop(self, file: StagedFile) -> None:
        file.stream.close()
        self._spools.remove(file)

    def _start(self, target: str) -> Upload:
        upload = Upload(self.layout, self.names.hidden("upload"), target)
        self._uploads.append(upload)
        return upload

    @staticmethod
    def _pending(upload: Upload, final: str, rows: int) -> PendingPart:
        upload.flush()
        return PendingPart(
            "multipart",
            final,
            upload.size,
            rows,
            upload_id=upload.id,
            parts=tuple(upload.parts),
            marker=upload.marker,
        )

    def join_to_chunk(self, chunks: Sequence[Chunk]) -> tuple[str, int]:
        """The upload is completed at once: its key is hidden, and the attempt's own."""
        path = self.names.hidden("chunk")
        self._chunks.append(path)
        upload = self._start(path)
        self._join(upload, chunks)
        upload.flush()
        upload.complete()
        self._storage.delete([self.layout.full(upload.marker)])
        return path, upload.size

    def join_to_part(self, chunks: Sequence[Chunk], final: str) -> PendingPart:
        """See the base class."""
        upload = self._start(final)
        self._join(upload, chunks)
        return self._pending(upload, final, sum(chunk.rows for chunk in chunks))

    def _join(self, upload: Upload, chunks: Sequence[Chunk]) -> None:
        # Large chunks first: they are copied inside the store, and only the last part of an upload may be small.
        ordered = sorted(chunks, key=lambda chunk: chunk.size - chunk.header < MIN_PART_BYTES)
        for chunk, offset in joined_pieces(ordered):
            if chunk.size - chunk.header >= MIN_PART_BYTES:
                upload.copy(self.layout.full(chunk.path), offset, chunk.size)
            else:
                for piece in copied(self.layout, chunk, offset):
                    upload.write(piece)

    def sync(self) -> None:
        """Nothing to do: what S3 has acknowledged is durable."""

    def abort(self) -> None:
        """See the base class."""
        for file in self._spools:
            file.discard()
        try:
            for upload in self._uploads:
                upload.abort()
            markers = [upload.marker for upload in self._uploads]
            self._storage.delete(map(self.layout.full, [*markers, *self._chunks]))
        except (OSError, RetriableError):
            return  # garbage as soon as the decision log goes on, and found by its markers
