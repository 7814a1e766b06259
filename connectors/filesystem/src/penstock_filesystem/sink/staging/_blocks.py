"""Staging and committing on Azure: parts are blocks that are not committed, which the commit makes a blob."""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Sequence
from typing import Literal

from penstock.errors import DataLostError
from penstock.metrics import Metrics
from penstock.sink import Found, WriterContext
from penstock.storage import AzureStorage
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._spooled import PartedUpload, SpooledStaging, UploadCommitter

__all__ = ["BlockCommitter", "BlockStaging"]

#: The store discards blocks a week after the last one of a blob came. An older marker proves nothing.
_MARKER_PROVES_FOR_S = 6 * 86_400


class Blocks(PartedUpload):
    """Blocks for the blob at ``path``, which is ``target`` in full."""

    def __init__(self, storage: AzureStorage, path: str, target: str) -> None:
        super().__init__(target)
        self._storage = storage
        self._path = path

    def _send(self, number: int, body: bytes) -> str:
        block = base64.b64encode(b"%06d" % number).decode()
        self._storage.stage_block(self._path, block, body)
        return block

    def complete(self) -> None:
        """Commits the blocks."""
        with contextlib.suppress(FileExistsError):  # an earlier try has done it, and its answer was lost
            self._storage.commit_blocks(self._path, [part.etag for part in self.parts])


class BlockStaging(SpooledStaging[Blocks]):
    """Stages blocks under a part's final name. Its marker comes last: it proves that all of them are there.

    The store discards the blocks of attempts that failed, within a week.
    """

    def __init__(self, layout: Layout, context: WriterContext, role: Literal["writer", "roller"]) -> None:
        super().__init__(layout, context, role)
        self._markers: list[str] = []

    @property
    def _storage(self) -> AzureStorage:
        assert isinstance(self.layout.storage, AzureStorage)
        return self.layout.storage

    def _start(self, target: str) -> Blocks:
        return Blocks(self._storage, self.layout.full(target), target)

    def _pending(self, upload: Blocks, rows: int) -> PendingPart:
        upload.flush()
        marker = self.names.hidden("blocks")
        self._markers.append(marker)
        _put_marker(self._storage, self.layout.full(marker), upload.target)
        return PendingPart("blocks", upload.target, upload.size, rows, parts=tuple(upload.parts), marker=marker)

    def _completed(self, upload: Blocks) -> None:
        """Does nothing: a blob that is committed leaves no blocks."""

    def _abort_uploads(self) -> None:
        self._delete([*self._markers, *self._chunks])


def _put_marker(storage: AzureStorage, path: str, final: str) -> None:
    storage.put(path, json.dumps({"format": 1, "blob": final}).encode())


class BlockCommitter(UploadCommitter):
    """Commits blocks, each list of them once. What is not to be published any more has no marker."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        super().__init__(layout, query_id, metrics)
        assert isinstance(layout.storage, AzureStorage)
        self._storage = layout.storage

    def _look(self, part: PendingPart) -> Found:
        path = self._layout.full(part.final)
        size = self._storage.size(path)
        if size is not None:
            return Found.COMMITTED if size == part.size else Found.LOST
        # In this order: who publishes the part meanwhile takes the blocks away, who seals it the marker first.
        are_staged = self._are_staged(part)
        age_s = self._storage.age_s(self._layout.full(part.marker))
        if age_s is None:
            return Found.LOST
        if are_staged:
            return Found.OPEN
        if self._is_proof(age_s):
            return Found.COMMITTED  # and a reader has taken it away
        raise DataLostError(
            f"{part.describe()} is neither open nor there any more: a reader may have removed it, or the store has "
            "discarded its blocks, which it keeps for a week. Look whether its rows were read, and run: "
            "penstock resolve CHECKPOINT"
        )

    def _are_staged(self, part: PendingPart) -> bool:
        staged = self._storage.staged_blocks(self._layout.full(part.final))
        return staged.issuperset(block.etag for block in part.parts)

    @staticmethod
    def _is_proof(age_s: float | None) -> bool:
        """Returns whether a marker proves that blocks which are not there any more were committed."""
        return age_s is not None and age_s < _MARKER_PROVES_FOR_S

    def _publish(self, part: PendingPart) -> Found:
        if not self._storage.exists(self._layout.full(part.marker)):
            return self._look(part)  # it was given up, or all is done and cleaned up
        return super()._publish(part)

    def _complete(self, part: PendingPart) -> None:
        self._storage.commit_blocks(self._layout.full(part.final), [block.etag for block in part.parts])

    def _seal(self, part: PendingPart) -> None:
        """Deletes the marker, and discards the blocks: no request in flight can commit them after that.

        The marker goes first: without it, a blob that is not there means that there never was one.
        """
        path, marker = self._layout.full(part.final), self._layout.full(part.marker)
        size, are_staged = self._storage.size(path), self._are_staged(part)
        if size == part.size or (not are_staged and self._is_proof(self._storage.age_s(marker))):
            return  # it is published, and stays so
        self._storage.delete([marker])
        if are_staged or size is not None:
            self._storage.discard_blocks(path)
        if self._storage.size(path) == part.size:  # it was published in between
            _put_marker(self._storage, marker, part.final)

    def discard(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """Deletes markers and chunks. The blocks are left to the store: it would show an empty blob for a moment."""
        self._delete([*(part.marker for part in committables), *(chunk.path for chunk in states)])

    def _remove(self, paths: Sequence[str]) -> None:
        self._delete(paths)
