"""Committing on S3: completing the multipart upload is what makes a part appear."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penstock.errors import RetriableError
from penstock.metrics import Metrics
from penstock.sink import CommitOutcome
from penstock.storage import S3Storage
from penstock_filesystem.sink._committer import FileCommitter
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink._state import PendingPart
from penstock_filesystem.sink._uploads import abort_uploads, complete_upload, open_upload_ids

__all__ = ["MultipartCommitter"]

_CONNECTIONS = 8


class MultipartCommitter(FileCommitter):
    """Completes uploads. Stores answer a second completion differently; what counts is whether the object is there."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        super().__init__(layout, query_id, metrics)
        assert isinstance(layout.storage, S3Storage)
        self._storage = layout.storage
        self._client = layout.storage.client

    def _publish_all(self, parts: Sequence[PendingPart]) -> list[CommitOutcome]:
        # Requests of tens of milliseconds each, independent of each other.
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            return list(pool.map(self._publish, parts))

    def _delete(self, paths: Iterable[str]) -> None:
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            list(pool.map(lambda path: self._storage.delete([self._layout.full(path)]), paths))

    def _publish(self, part: PendingPart) -> CommitOutcome:
        from botocore.exceptions import BotoCoreError, ClientError

        if self._is_there(part):
            return CommitOutcome.ALREADY_COMMITTED
        bucket, key = self._storage.split(self._layout.full(part.final))
        try:
            complete_upload(self._client, bucket, key, part.upload_id, list(part.parts))
        except (BotoCoreError, ClientError) as error:
            # The answer may have been lost on its way, or come from an earlier try of this very request.
            if self._is_there(part):
                return CommitOutcome.COMMITTED
            if part.upload_id not in set(open_upload_ids(self._client, bucket, key)):
                return CommitOutcome.LOST
            raise RetriableError(f"s3://{bucket}/{key}: the upload could not be completed ({error})") from error
        return CommitOutcome.COMMITTED

    def _is_there(self, part: PendingPart) -> bool:
        return self._storage.size(self._layout.full(part.final)) == part.size

    def _take_back(self, part: PendingPart) -> None:
        bucket, key = self._storage.split(self._layout.full(part.final))
        abort_uploads(self._client, bucket, key, [part.upload_id])
        self._delete([part.marker])

    def _hidden_files(self) -> list[str]:
        bucket, root = self._storage.split(self._layout.root)
        prefix = self._layout.full(self._directory).partition("/")[2] + "/"
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        keys = (entry["Key"] for page in pages for entry in page.get("Contents", []))
        return [key[len(root) + 1 :] if root else key for key in keys]

    def _remove(self, path: str) -> None:
        if not path.endswith(".upload"):
            super()._remove(path)
            return
        bucket, _ = self._storage.split(self._layout.full(path))
        try:
            key = json.loads(self._storage.read(self._layout.full(path)))["key"]
        except FileNotFoundError:
            return  # its attempt took it away just now
        abort_uploads(self._client, bucket, key, list(open_upload_ids(self._client, bucket, key)))
        super()._remove(path)
        # Again: a zombie that opened its upload before the marker went would not notice.
        abort_uploads(self._client, bucket, key, list(open_upload_ids(self._client, bucket, key)))
