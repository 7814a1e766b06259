"""Staging and committing on S3: parts are multipart uploads, which the commit completes; chunks are hidden objects."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Literal

from penstock.errors import DataLostError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import Found, WriterContext
from penstock.storage import S3Storage
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._spooled import MIN_PART_BYTES, SpooledStaging, UploadCommitter
from penstock_filesystem.sink.staging._staging import chunk_bytes, joined_pieces
from penstock_filesystem.sink.staging._uploads import (
    Upload,
    abort_uploads,
    complete_upload,
    marker_of,
    open_upload_ids,
)

__all__ = ["MultipartCommitter", "MultipartStaging"]

#: An older marker does not prove that an upload was completed: a lifecycle rule may have aborted it.
_MARKER_PROVES_FOR_S = 86_400
#: How many names an upload tries at once, before it waits a little.
_NAMES_TRIED = 5


class MultipartStaging(SpooledStaging[Upload]):
    """Parts are multipart uploads; an upload is found by its marker."""

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._uploads: list[Upload] = []

    @property
    def _storage(self) -> S3Storage:
        assert isinstance(self.layout.storage, S3Storage)
        return self.layout.storage

    def _start(self, target: str) -> Upload:
        targets = itertools.chain([target], (self.names.again(target) for _ in itertools.count()))
        upload = self._storage.retry.call(lambda: self._marked(targets))
        self._uploads.append(upload)
        upload.open()
        return upload

    def _marked(self, targets: Iterator[str]) -> Upload:
        """Returns a new upload, whose marker only one request can create.

        Another one might arrive when a clean-up has taken the marker away: the attempt would then take itself for a
        valid one. So if an answer was lost, the marker is left behind, and the key in it, to which nothing is uploaded.
        """
        for target in itertools.islice(targets, _NAMES_TRIED):
            upload = Upload(self.layout, self.names.hidden("upload"), target)
            if upload.mark():
                return upload
        raise RetriableError(f"{self._storage.url(upload.path)}: too many answers of the store are lost")

    def _pending(self, upload: Upload, rows: int) -> PendingPart:
        upload.flush()
        return PendingPart(
            "multipart",
            upload.target,
            upload.size,
            rows,
            upload_id=upload.id,
            parts=tuple(upload.parts),
            marker=upload.marker,
        )

    def _completed(self, upload: Upload) -> None:
        if upload.was_begun_once:
            self._storage.delete([self.layout.full(upload.marker)])

    def _join(self, upload: Upload, chunks: Sequence[Chunk]) -> None:
        # Large chunks first: they are copied inside the store, and only the last part of an upload may be small.
        ordered = sorted(chunks, key=lambda chunk: chunk.size - chunk.header < MIN_PART_BYTES)
        for chunk, offset in joined_pieces(ordered):
            if chunk.size - chunk.header >= MIN_PART_BYTES:
                upload.copy(self.layout.full(chunk.path), offset, chunk.size)
            else:
                for piece in chunk_bytes(self.layout, chunk, offset):
                    upload.write(piece)

    def _abort_uploads(self) -> None:
        for upload in self._uploads:
            upload.abort()
        # Where an answer was lost, an upload may be open that only a clean-up finds, by the marker.
        markers = [upload.marker for upload in self._uploads if upload.was_begun_once]
        self._delete([*markers, *self._chunks])


class MultipartCommitter(UploadCommitter):
    """Completes uploads. An upload is addressed by its id, so a late request never hits another one."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        super().__init__(layout, query_id, metrics)
        assert isinstance(layout.storage, S3Storage)
        self._storage = layout.storage

    def _look(self, part: PendingPart) -> Found:
        if self._is_open(part):
            return Found.OPEN
        if self._is_there(part):
            return Found.COMMITTED
        age_s = self._storage.age_s(self._layout.full(part.marker))
        if age_s is None:
            return Found.LOST
        if self._is_proof(age_s):
            return Found.COMMITTED  # and a reader has taken it away
        raise DataLostError(
            f"{part.describe()} is neither open nor there any more: a reader may have removed it, or a lifecycle rule "
            "of the bucket has aborted the upload (AbortIncompleteMultipartUpload). Look whether its rows were read, "
            "and run: penstock resolve CHECKPOINT"
        )

    def _is_open(self, part: PendingPart) -> bool:
        return part.upload_id in set(open_upload_ids(self._storage, self._layout.full(part.final)))

    def _is_there(self, part: PendingPart) -> bool:
        return self._storage.size(self._layout.full(part.final)) == part.size

    @staticmethod
    def _is_proof(age_s: float | None) -> bool:
        """Returns whether a marker proves that an upload which is not there any more was completed."""
        return age_s is not None and age_s < _MARKER_PROVES_FOR_S

    def _complete(self, part: PendingPart) -> None:
        complete_upload(self._storage, self._layout.full(part.final), part.upload_id, list(part.parts))

    def _seal(self, part: PendingPart) -> None:
        """Aborts the upload; the marker goes first: without it, a missing object means that there never was one."""
        path, marker = self._layout.full(part.final), self._layout.full(part.marker)
        if not self._is_open(part) and (self._is_there(part) or self._is_proof(self._storage.age_s(marker))):
            return  # it is published, and stays so
        self._delete([part.marker])
        self._end_uploads(path)
        if self._is_there(part):  # it was published in between
            self._storage.put(marker, marker_of(self._storage.split(path)[1]))

    def discard(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """Aborts the uploads and deletes markers and chunks."""
        self._in_parallel(self._end_uploads, [self._layout.full(part.final) for part in committables])
        self._delete([*(part.marker for part in committables), *(chunk.path for chunk in states)])

    def _remove(self, paths: Sequence[str]) -> None:
        # A zombie that begins its upload after these markers were revoked notices, and one that began it before is
        # found. A marker goes last: the clean-up that follows a crash in here begins with it again.
        markers = [path for path in paths if path.endswith(".upload")]
        targets = dict(zip(markers, self._in_parallel(self._revoke, markers), strict=True))
        self._in_parallel(self._end_uploads, filter(None, targets.values()))
        # What another clean-up has taken away may have been written again since, by a request that came late. It is
        # left to the next clean-up, as it was not revoked here.
        self._delete([path for path in paths if targets.get(path, path) is not None])

    def _revoke(self, marker: str) -> str | None:
        """Revokes a marker. Returns where its upload goes; ``None`` if another clean-up has taken the marker away;
        empty if the upload goes elsewhere than to this sink: then someone else has written the marker.
        """
        path = self._layout.full(marker)
        try:
            key = json.loads(self._storage.read(path))["key"]
        except FileNotFoundError:
            return None
        self._storage.put(path, marker_of(key, is_revoked=True))
        target, root = f"{self._storage.split(self._layout.root)[0]}/{key}", f"{self._layout.root}/"
        return target if target.startswith(root) and ".." not in target.split("/") else ""

    def _end_uploads(self, path: str) -> None:
        """Aborts every upload to the key, which only one attempt has: an answer about its beginning may have been lost,
        and then there are two.
        """
        abort_uploads(self._storage, path, list(open_upload_ids(self._storage, path)))
