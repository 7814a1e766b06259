"""Multipart uploads of S3: each is recorded by a marker, completed at most once, and aborted when it is garbage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penstock.errors import RetriableError
from penstock.storage import S3Storage, translated
from penstock_filesystem.sink._committable import UploadedPart
from penstock_filesystem.sink._layout import Layout
from penstock_filesystem.sink.staging._spooled import PartedUpload

__all__ = ["Upload", "abort_uploads", "marker_of", "open_upload_ids"]


class Upload(PartedUpload):
    """An upload to the key of ``target``. Nothing of it can be seen before it is completed.

    A marker object with the key is written first: stores list open uploads by their exact key only (some of them), so
    without it the upload of a crashed attempt could not be found. The marker is looked at again once the upload is
    open: if a clean-up has revoked it or taken it away meanwhile, the attempt is a zombie, and aborts its upload
    itself. That a marker is there means this only if no late request can bring one back: see :meth:`mark`.
    """

    def __init__(self, layout: Layout, marker: str, target: str) -> None:
        super().__init__(target)
        storage = layout.storage
        assert isinstance(storage, S3Storage)
        self._storage = storage
        self._client = storage.client
        self._marker_path = layout.full(marker)
        self.path = layout.full(target)
        self.bucket, self.key = storage.split(self.path)
        self.marker = marker
        self.id = ""
        #: Otherwise an answer may have been lost, and an upload be open that only a clean-up finds, by the marker.
        self.was_begun_once = False

    def mark(self) -> bool:
        """Writes the marker, once. Returns whether that request was answered, and no other one was made: else neither
        the marker nor the key may be used. Raises RetriableError, which means the same.
        """
        return self._storage.create_by_one_request(self._marker_path, marker_of(self.key))

    def open(self) -> None:
        """Begins the upload, which has its marker. Raises RetriableError; call :meth:`abort` then. If this attempt was
        cleaned up, it raises that once the upload is aborted.
        """
        tries = 0

        def create() -> Any:
            nonlocal tries
            tries += 1
            return self._client.create_multipart_upload(Bucket=self.bucket, Key=self.key)

        answer = self._storage.request(self.path, create)
        self.id = answer["UploadId"]
        self.was_begun_once = tries == 1 and not answer["ResponseMetadata"].get("RetryAttempts")
        if self._storage.size(self._marker_path) != len(marker_of(self.key)):
            # No clean-up finds the upload any more: this attempt alone knows of it.
            self._storage.retry.call(self.abort)
            raise RetriableError(f"{self._storage.url(self.path)}: this attempt was cleaned up, it is not the last")

    def copy(self, source: str, offset: int, size: int) -> None:
        """Adds bytes ``offset`` to ``size`` of the object ``source`` (bucket/key), copied inside the store.

        At least 5 MiB, and nothing may be pending from :meth:`write`.
        """
        number = len(self.parts) + 1
        bucket, key = S3Storage.split(source)
        answer = self._storage.request(
            source,
            lambda: self._client.upload_part_copy(
                Bucket=self.bucket,
                Key=self.key,
                UploadId=self.id,
                PartNumber=number,
                CopySource={"Bucket": bucket, "Key": key},
                CopySourceRange=f"bytes={offset}-{size - 1}",
            ),
        )
        self.parts.append(UploadedPart(number, answer["CopyPartResult"]["ETag"], size - offset))

    def _send(self, number: int, body: bytes) -> str:
        return self._storage.request(
            self.path,
            lambda: str(
                self._client.upload_part(
                    Bucket=self.bucket, Key=self.key, UploadId=self.id, PartNumber=number, Body=body
                )["ETag"]
            ),
        )

    def complete(self) -> None:
        """Makes the object appear. For an object of this attempt's own, which only it completes."""

        def once() -> None:
            try:
                complete_upload(self._storage, self.path, self.id, self.parts)
            except FileNotFoundError:
                if self._storage.size(self.path) != self.size:
                    raise
                # An earlier try has completed it, and its answer was lost.

        self._storage.retry.call(once)

    def abort(self) -> None:
        """Throws the upload away. Does nothing if it is gone."""
        if self.id:
            abort_uploads(self._storage, self.path, [self.id])


def marker_of(key: str, *, is_revoked: bool = False) -> bytes:
    """Returns what a marker holds. A revoked one has another length, which is all that a writer has to ask for."""
    return json.dumps({"format": 1, "key": key} | ({"revoked": True} if is_revoked else {})).encode()


def complete_upload(storage: S3Storage, path: str, upload_id: str, parts: list[UploadedPart]) -> None:
    """Completes an upload. Raises FileNotFoundError if it is not open, RetriableError."""
    bucket, key = storage.split(path)
    listed = [{"PartNumber": part.number, "ETag": part.etag} for part in parts]
    with translated(storage.url(path)):
        storage.client.complete_multipart_upload(
            Bucket=bucket, Key=key, UploadId=upload_id, MultipartUpload={"Parts": listed}
        )


def open_upload_ids(storage: S3Storage, path: str) -> Iterator[str]:
    """Yields the ids of the open uploads to exactly ``path``."""
    bucket, key = storage.split(path)
    with translated(storage.url(path)):
        for page in storage.client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=key):
            yield from (upload["UploadId"] for upload in page.get("Uploads", []) if upload["Key"] == key)


def abort_uploads(storage: S3Storage, path: str, upload_ids: list[str]) -> int:
    """Aborts uploads; unknown ones are fine. Returns how many were open. Raises RetriableError."""
    bucket, key = storage.split(path)
    aborted = 0
    for upload_id in upload_ids:
        try:
            with translated(storage.url(path)):
                storage.client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
            aborted += 1
        except FileNotFoundError:
            continue
    return aborted
