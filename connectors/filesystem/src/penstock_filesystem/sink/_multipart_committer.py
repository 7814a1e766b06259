"""Committing on S3: completing the multipart upload is what makes a part appear."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.errors import DataLostError, RetriableError
from penstock.metrics import Metrics
from penstock.sink import Found
from penstock.storage import S3Storage
from penstock.system import system
from penstock_filesystem.sink._committer import FileCommitter
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._state import Chunk, PendingPart
from penstock_filesystem.sink._uploads import abort_uploads, complete_upload, open_upload_ids

__all__ = ["MultipartCommitter"]

_CONNECTIONS = 8
#: A marker that is older does not tell what became of an upload: a lifecycle rule may have aborted it.
_TELLS_FOR_S = 86_400

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


class MultipartCommitter(FileCommitter):
    """Completes uploads. An upload is known by its id, so that a late request never hits another one."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        super().__init__(layout, query_id, metrics)
        assert isinstance(layout.storage, S3Storage)
        self._storage = layout.storage

    def _together(self, work: Callable[[ItemT], AnswerT], items: Iterable[ItemT]) -> list[AnswerT]:
        """Requests of tens of milliseconds each, independent of each other."""
        with system().executor(_CONNECTIONS, "penstock-s3") as pool:
            return [one.result() for one in [pool.submit(work, item) for item in items]]

    def look(self, committables: Sequence[PendingPart]) -> list[Found]:
        """See the contract. Raises DataLostError for an upload that is gone without telling why."""
        return self._together(self._look, committables)

    def _look(self, part: PendingPart) -> Found:
        if part.upload_id in set(open_upload_ids(self._storage, self._layout.full(part.final))):
            return Found.OPEN
        if self._storage.size(self._layout.full(part.final)) == part.size:
            return Found.COMMITTED
        age_s = self._storage.age_s(self._layout.full(part.marker))
        if age_s is None:
            return Found.LOST
        if age_s < _TELLS_FOR_S:
            return Found.COMMITTED  # and a reader has taken it away
        raise DataLostError(
            f"{part.describe()} is neither open nor there any more: a reader may have removed it, or a lifecycle rule "
            "of the bucket has aborted the upload (AbortIncompleteMultipartUpload). Look whether its rows were read, "
            "and run: penstock resolve CHECKPOINT"
        )

    def publish(self, committables: Sequence[PendingPart]) -> list[Found]:
        """See the contract."""
        found = self._together(self._publish, committables)
        self._metrics.add("parts_published", found.count(Found.COMMITTED))
        return found

    def _publish(self, part: PendingPart) -> Found:
        try:
            complete_upload(self._storage, self._layout.full(part.final), part.upload_id, list(part.parts))
        except (OSError, RetriableError):
            # The answer may have been lost on its way, or come from an earlier try of this very request.
            found = self._look(part)
            if found is Found.OPEN:
                raise
            return found
        return Found.COMMITTED

    def seal(self, committables: Sequence[PendingPart]) -> None:
        """See the contract. The marker first: without it, a missing object means that there never was one."""
        for part in committables:
            self._delete([part.marker])
            abort_uploads(self._storage, self._layout.full(part.final), [part.upload_id])

    def discard(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """See the contract."""
        for part in committables:
            abort_uploads(self._storage, self._layout.full(part.final), [part.upload_id])
        self._delete([*(part.marker for part in committables), *(chunk.path for chunk in states)])

    def _hidden_files(self) -> list[str]:
        paths = self._storage.list_tree(self._layout.full(self._directory))
        return [path[len(self._layout.root) + 1 :] for path in paths]

    def _remove(self, paths: Sequence[str]) -> None:
        markers = [path for path in paths if path.endswith(".upload")]
        targets = [target for target in self._together(self._target, markers) if target]
        self._together(self._end_uploads, targets)
        self._delete(paths)
        # Again: a zombie that has opened its upload before the marker went would not notice.
        self._together(self._end_uploads, targets)

    def _target(self, marker: str) -> str:
        """Where the upload that a marker tells of goes to; empty if another clean-up has taken the marker away."""
        try:
            key = json.loads(self._storage.read(self._layout.full(marker)))["key"]
        except FileNotFoundError:
            return ""
        return f"{self._storage.split(self._layout.root)[0]}/{key}"

    def _end_uploads(self, path: str) -> None:
        abort_uploads(self._storage, path, list(open_upload_ids(self._storage, path)))
