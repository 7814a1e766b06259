"""S3 as far as a sink's driver and tasks ask it, in this process: no server's own speed is measured.

The client library signs and parses as always; only what would go over the network is answered here. Unlike a real store
it keeps the bytes of small objects only. Any thread.
"""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.sax.saxutils import escape

__all__ = ["ModelS3", "model_s3"]

#: Status, headers and body.
Answer = tuple[int, dict[str, str], str]
#: Of objects whose bytes are kept.
_SMALL_BYTES = 4096


class ModelS3:
    """One bucket. ``request_s``: how long each request takes."""

    def __init__(self) -> None:
        self.request_s = 0.0
        self.requests = 0
        #: Requests at the same time: now, and most of them.
        self.at_once = self.most_at_once = 0
        self._sizes: dict[str, int] = {}
        self._small: dict[str, bytes] = {}
        self._uploads: dict[str, dict[str, int]] = {}
        self._lock = threading.Lock()

    def answer(self, method: str, url: str, body: bytes, size: int) -> Answer:
        """Returns status, headers and body. Raises NotImplementedError for what no sink asks."""
        with self._lock:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        time.sleep(self.request_s)
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        # The bucket is in the path, or in the host's name.
        key = unquote(parts.path).lstrip("/")
        key = (
            key.removeprefix("bench").lstrip("/") if parts.hostname and not parts.hostname.startswith("bench") else key
        )
        with self._lock:
            self.at_once -= 1
            self.requests += 1
            return self._answer(method, key, query, body, size)

    def _answer(self, method: str, key: str, query: dict[str, str], body: bytes, size: int) -> Answer:
        uploads = self._uploads.get(key, {})
        if method == "GET" and "uploads" in query:
            prefix = query.get("prefix", "")
            found = "".join(
                f"<Upload><Key>{escape(prefix)}</Key><UploadId>{one}</UploadId></Upload>"
                for one in self._uploads.get(prefix, {})
            )
            return 200, {}, f"<ListMultipartUploadsResult>{found}</ListMultipartUploadsResult>"
        if method == "GET" and "list-type" in query:
            prefix = query.get("prefix", "")
            found = "".join(
                f"<Contents><Key>{escape(name)}</Key><Size>{length}</Size></Contents>"
                for name, length in self._sizes.items()
                if name.startswith(prefix)
            )
            return 200, {}, f"<ListBucketResult>{found}</ListBucketResult>"
        if method == "POST" and "uploads" in query:
            upload = f"upload-{self.requests}"
            self._uploads.setdefault(key, {})[upload] = 0
            return (
                200,
                {},
                f"<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>",
            )
        if method == "POST" and "delete" in query:
            names = [part.split("</Key>")[0] for part in body.decode().split("<Key>")[1:]]
            for name in names:
                self._sizes.pop(name, None)
                self._small.pop(name, None)
            return 200, {}, "<DeleteResult></DeleteResult>"
        if method == "POST" and query.get("uploadId") in uploads:
            self._sizes[key] = uploads.pop(query["uploadId"])
            return 200, {}, "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>"
        if method == "PUT" and "uploadId" in query:
            uploads[query["uploadId"]] += size
            return 200, {"ETag": '"e"'}, ""
        if method == "PUT":
            self._sizes[key] = size
            # After the length of a chunk, where there is one.
            data = body if len(body) == size else body.partition(b"\r\n")[2][:size]
            self._small[key] = data if size < _SMALL_BYTES else b""
            return 200, {"ETag": '"e"'}, ""
        if method == "DELETE" and "uploadId" in query:
            uploads.pop(query["uploadId"], None)
            return 204, {}, ""
        if method == "GET" and key in self._small:
            return 200, {}, self._small[key].decode()
        if method == "HEAD":
            return (200, {"Content-Length": str(self._sizes[key])}, "") if key in self._sizes else (404, {}, "")
        raise NotImplementedError(f"{method} {key} {query}")


class _Raw(io.BytesIO):
    def stream(self, *_: Any, **__: Any) -> Iterator[bytes]:
        """Yields what is left, as a response of urllib3 does."""
        yield self.read()


@contextlib.contextmanager
def model_s3() -> Iterator[ModelS3]:
    """Lets every client of this process ask a new model."""
    from botocore.awsrequest import AWSResponse
    from botocore.httpsession import URLLib3Session

    model, plain = ModelS3(), URLLib3Session.send

    def send(session: Any, request: Any) -> Any:
        body = request.body
        data = body.read() if hasattr(body, "read") else body if isinstance(body, bytes) else bytes(body or b"")
        # Otherwise the checksum that comes after the data would count.
        sent = request.headers.get("X-Amz-Decoded-Content-Length", len(data))
        status, headers, text = model.answer(request.method, request.url, data, int(sent))
        return AWSResponse(request.url, status, {"Content-Length": str(len(text)), **headers}, _Raw(text.encode()))

    URLLib3Session.send = send
    try:
        yield model
    finally:
        URLLib3Session.send = plain
