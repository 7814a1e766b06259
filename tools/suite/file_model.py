"""Models of a local disk and of S3, for :mod:`penstock.testing.simulation`; the file sink on them is the real one.

A file that is being written is there from its first moment, and whole once it is finished. A rename is one step. S3
shows an object once its upload is completed, which an upload is once.
"""

from __future__ import annotations

import datetime
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any, BinaryIO, ClassVar

import pyarrow as pa
from botocore.exceptions import ClientError

from penstock.storage import S3Storage, Storage
from penstock.system import system
from penstock.testing.simulation import Event, Scheduler, SimulatedTarget, target
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink import FileSystemTransactionalSink, create_sink
from penstock_filesystem.sink._committable import PendingPart

__all__ = ["DiskTarget", "FileTarget", "Reading", "RepeatingS3Target", "S3Target", "put_file", "short"]

_SCHEMA = pa.schema([("id", pa.int64())])


def _now_ns() -> int:
    return system().now_us() * 1000


class FileTarget(SimulatedTarget):
    """The base of the targets: ``files`` is what is there, by path; ``taken`` what a reader has read and removed."""

    root: ClassVar[str]

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.files: dict[str, bytes] = {}
        self.taken: dict[str, bytes] = {}
        self.lists_may_be_behind = True
        #: What the last list of each directory had.
        self.lists: dict[str, list[str]] = {}
        # Parts at once, or chunks that a later batch or the end of the run merges.
        self.options = {"path": "file:/out", "format": "json"}
        if scheduler.choices.pick(2):
            self.options["maxPartSize"] = "1"

    def storage(self) -> Storage:
        """What the sink writes to."""
        raise NotImplementedError

    def create_sink(self) -> FileSystemTransactionalSink:
        """See the base class."""
        sink = create_sink(SinkOptions.from_values(SINK_OPTIONS.parse(self.options, owner="sink")), _SCHEMA)
        layout = sink._layout
        object.__setattr__(layout, "storage", self.storage())
        object.__setattr__(layout, "root", self.root)
        sink.clock = _now_ns
        return sink

    def name_of(self, committable: PendingPart) -> str:
        """See the base class."""
        return f"{self.root}/{committable.final}"

    def shown(self) -> list[tuple[str, int]]:
        """See the base class."""
        everything = [*self.visible(), *self.taken.items()]
        return [(path, json.loads(line)["id"]) for path, data in everything for line in data.splitlines()]

    def visible(self) -> list[tuple[str, bytes]]:
        """Returns paths and contents of what readers see."""
        return [(path, data) for path, data in self.files.items() if "/.penstock/" not in path]

    def left(self) -> list[str]:
        """See the base class."""
        return sorted(path for path in self.files if "/.penstock/" in path)

    def events(self) -> list[Event]:
        """See the base class."""
        return [Event("a reader takes a file away", lambda: bool(self.visible()), self._take)]

    def _take(self) -> None:
        path = min(path for path, _ in self.visible())
        self.taken[path] = self.files.pop(path)

    def paths_in(self, directory: str) -> list[str]:
        """Returns the paths right below ``directory``, which ends with a slash, inside of a call: never those of
        before, which :meth:`~penstock.storage.Storage.list_names` rules out.
        """
        return sorted(path for path in self.files if path.startswith(directory) and "/" not in path[len(directory) :])

    def paths_below(self, prefix: str) -> list[str]:
        """Returns the paths that begin with ``prefix``, inside of a call. A store's list may be behind: now and then
        these are the paths of the list before.
        """
        paths = sorted(path for path in self.files if path.startswith(prefix))
        before, self.lists[prefix] = self.lists.get(prefix, paths), paths
        may_be_behind = self.lists_may_be_behind and before != paths
        return before if may_be_behind and self.scheduler.has_trouble("stale list") else paths

    def ask(
        self,
        label: str,
        effect: Callable[[], Any],
        torn: Callable[[], Any] | None = None,
        *,
        may_be_late: bool = True,
    ) -> Any:
        """One call to the disk, or one request."""

        def noted() -> Any:
            before = len(self.visible())
            answer = effect()
            self.changes += len(self.visible()) != before
            return answer

        return self.scheduler.call(label, noted, torn=torn, may_be_late=may_be_late)


class Reading:
    """What of a pyarrow file system is used: opening for reading."""

    @staticmethod
    def open_input_file(path: str) -> pa.BufferReader:
        """Opens a file that is there."""
        there = target()

        def read() -> bytes:
            if path not in there.files:
                raise FileNotFoundError(path)
            data: bytes = there.files[path]
            return data

        return pa.BufferReader(there.ask(f"read {short(path)}", read))


def short(path: str) -> str:
    """Returns a path without what all have in common."""
    return path.partition("/.penstock/")[2] or path


# A local disk.


class DiskTarget(FileTarget):
    """A local disk, or HDFS: files are hidden, and published by a rename."""

    root = "/out"

    def storage(self) -> Storage:
        """See the base class."""
        return _Disk()


class _Disk(Storage):
    @property
    def fs(self) -> Any:
        return Reading()

    def url(self, path: str) -> str:
        return f"file:{path}"

    def read(self, path: str) -> bytes:
        return bytes(Reading.open_input_file(path).read())

    def list_names(self, directory: str) -> list[str]:
        there, prefix = target(), f"{directory}/"
        paths = there.ask(f"list {short(prefix)}", lambda: there.paths_in(prefix))
        return [path[len(prefix) :] for path in paths]

    def create(self, path: str, data: bytes) -> bool:
        there = target()

        def create() -> bool:
            is_new = path not in there.files
            there.files.setdefault(path, data)
            return is_new

        created: bool = there.ask(f"create {short(path)}", create, lambda: None)
        return created

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        there = target()
        there.ask(f"put {short(path)}", lambda: there.files.__setitem__(path, data), lambda: None)

    def remove_empty(self, directory: str) -> None:
        """Does nothing: directories are where their files are."""

    def size(self, path: str) -> int | None:
        there = target()
        size: int | None = there.ask(
            f"size of {short(path)}", lambda: len(there.files[path]) if path in there.files else None
        )
        return size

    def open_new(self, path: str) -> BinaryIO:
        there = target()
        there.ask(f"open {short(path)}", lambda: there.files.__setitem__(path, b""))
        return _NewFile(path)

    def finish(self, file: BinaryIO) -> None:
        assert isinstance(file, _NewFile)
        there, path, data = target(), file.path, file.getvalue()
        there.ask(
            f"write {short(path)}",
            lambda: there.files.__setitem__(path, data),
            lambda: there.files.__setitem__(path, data[: len(data) // 2]),
        )

    def move(self, source: str, target_: str) -> None:
        there = target()

        def move() -> None:
            if source not in there.files:
                raise FileNotFoundError(source)
            there.files[target_] = there.files.pop(source)

        there.ask(f"move {short(source)} to {short(target_)}", move)

    def add_name(self, source: str, target_: str) -> None:
        there = target()

        def add() -> None:
            if source not in there.files:
                raise FileNotFoundError(source)
            there.files[target_] = there.files[source]

        there.ask(f"link {short(source)} to {short(target_)}", add)

    def list_tree(self, directory: str) -> list[str]:
        there = target()
        paths: list[str] = there.ask(f"list {short(directory)}", lambda: there.paths_below(f"{directory}/"))
        return paths

    def delete(self, paths: Iterable[str]) -> None:
        there = target()
        for path in paths:
            there.ask(f"delete {short(path)}", lambda path=path: there.files.pop(path, None))


class _NewFile(BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


# S3.


class S3Target(FileTarget):
    """A bucket: parts are multipart uploads, chunks and markers are objects."""

    root = "bucket/out"

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.uploads: dict[str, tuple[str, list[bytes]]] = {}
        self.written: dict[str, int] = {}
        self.begun = 0
        #: How often the client has sent the request that is being carried out before.
        self.repeats = 0
        self.begun_too_late: dict[str, str] = {}

    def storage(self) -> Storage:
        """See the base class."""
        return _Bucket()

    def left(self) -> list[str]:
        """Open uploads are billed."""
        found = [f"upload to {key}" for name, (key, _) in self.uploads.items() if not self._is_unknown(name)]
        return [*super().left(), *found]

    def _is_unknown(self, upload_id: str) -> bool:
        """Whether it began when its attempt had been cleaned up, and its process was killed before it could notice: no
        request could find it, but for those that list the whole bucket. It is left to the bucket's lifecycle rule.
        """
        process = self.begun_too_late.get(upload_id)
        fates = [(what[:5], how) for who, what, how in self.scheduler.trace if who.partition("/")[0] == process]
        return process in self.scheduler.killed or ("begin", "done, and fails") in fates

    def begin_upload(self, path: str, process: str) -> str:
        """Returns the id of a new upload, of the process with that name."""
        self.begun += 1
        upload_id = f"u{self.begun}"
        self.uploads[upload_id] = (path, [])
        markers = [json.loads(data) for name, data in self.files.items() if name.endswith(".upload")]
        if not any(f"bucket/{one['key']}" == path and "revoked" not in one for one in markers):
            self.begun_too_late[upload_id] = process
        return upload_id


class _Bucket(S3Storage):
    def __init__(self) -> None:
        super().__init__({"endpoint": "http://127.0.0.1:1", "key": "k", "secret": "s"})

    def __reduce__(self) -> Any:
        return (_Bucket, ())

    @property
    def fs(self) -> Any:
        return Reading()

    @property
    def client(self) -> Any:
        return _Client()


def _etag_of(data: bytes) -> str:
    """Returns a version's name."""
    return f'"{zlib.crc32(data)}"'


def _refusal(code: str, what: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "simulated"}}, what)


class _Client:
    """What of boto3's client is used. Keys are kept with their bucket in front."""

    def put_object(self, *, Bucket: str, Key: str, Body: Any, IfNoneMatch: str = "") -> dict[str, Any]:
        data = Body if isinstance(Body, bytes) else Body.read()
        there, path = target(), f"{Bucket}/{Key}"

        def put() -> int:
            if IfNoneMatch == "*" and path in there.files:
                raise _refusal("PreconditionFailed", "PutObject")
            put_file(there, path, data)
            repeats: int = there.repeats
            return repeats

        repeats = there.ask(f"{'create' if IfNoneMatch else 'put'} {short(path)}", put)
        return {"ResponseMetadata": {"RetryAttempts": repeats}}

    def head_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        there, path = target(), f"{Bucket}/{Key}"

        def head() -> dict[str, Any]:
            if path not in there.files:
                raise _refusal("404", "HeadObject")
            written = datetime.datetime.fromtimestamp(there.written[path] / 1_000_000, datetime.timezone.utc)
            return {
                "ContentLength": len(there.files[path]),
                "LastModified": written,
                "ETag": _etag_of(there.files[path]),
            }

        found: dict[str, Any] = there.ask(f"head {short(path)}", head)
        return found

    def get_object(self, *, Bucket: str, Key: str, Range: str = "", IfMatch: str = "") -> dict[str, Any]:
        there, path = target(), f"{Bucket}/{Key}"

        def get() -> bytes:
            if path not in there.files:
                raise _refusal("NoSuchKey", "GetObject")
            data: bytes = there.files[path]
            if IfMatch and IfMatch != _etag_of(data):
                raise _refusal("PreconditionFailed", "GetObject")
            first, last = Range.removeprefix("bytes=").split("-") if Range else ("0", str(len(data)))
            return data[int(first) : int(last) + 1]

        return {"Body": BytesIO(there.ask(f"get {short(path)}", get))}

    def delete_objects(self, *, Bucket: str, Delete: Mapping[str, Any]) -> dict[str, Any]:
        there, paths = target(), [f"{Bucket}/{one['Key']}" for one in Delete["Objects"]]

        def delete(some: Iterable[str]) -> None:
            for path in some:
                there.files.pop(path, None)

        there.ask(
            f"delete {short(paths[0])} and {len(paths) - 1} more", lambda: delete(paths), lambda: delete(paths[1::2])
        )
        return {}

    def get_paginator(self, name: str) -> _Paginator:
        return _Paginator(name)

    def create_multipart_upload(self, *, Bucket: str, Key: str) -> dict[str, Any]:
        there, path = target(), f"{Bucket}/{Key}"

        process = there.scheduler.current.root.name if there.scheduler.processes else ""
        label = f"begin an upload to {short(path)}"
        # Not long after its request was given up: that one could be found by nobody, either (S3Target._is_unknown).
        upload, repeats = there.ask(
            label, lambda: (there.begin_upload(path, process), there.repeats), may_be_late=False
        )
        return {"UploadId": upload, "ResponseMetadata": {"RetryAttempts": repeats}}

    def upload_part(
        self,
        *,
        Bucket: str,
        Key: str,
        UploadId: str,
        PartNumber: int,
        Body: bytes,
    ) -> dict[str, str]:
        there = target()

        def send() -> None:
            if UploadId not in there.uploads:
                raise _refusal("NoSuchUpload", "UploadPart")
            there.uploads[UploadId][1][PartNumber - 1 : PartNumber] = [Body]

        there.ask(f"send part {PartNumber} of {UploadId}", send)
        return {"ETag": f"{UploadId}.{PartNumber}"}

    def complete_multipart_upload(
        self,
        *,
        Bucket: str,
        Key: str,
        UploadId: str,
        MultipartUpload: Mapping[str, Any],
    ) -> None:
        there = target()

        def complete() -> None:
            if UploadId not in there.uploads:
                raise _refusal("NoSuchUpload", "CompleteMultipartUpload")
            path, parts = there.uploads.pop(UploadId)
            put_file(there, path, b"".join(parts))

        there.ask(f"complete {UploadId}", complete)

    def abort_multipart_upload(self, *, Bucket: str, Key: str, UploadId: str) -> None:
        there = target()

        def abort() -> None:
            if there.uploads.pop(UploadId, None) is None:
                raise _refusal("NoSuchUpload", "AbortMultipartUpload")

        there.ask(f"abort {UploadId}", abort)


class _Paginator:
    def __init__(self, name: str) -> None:
        self._name = name

    def paginate(self, *, Bucket: str, Prefix: str, Delimiter: str = "") -> Iterator[dict[str, Any]]:
        there, prefix = target(), f"{Bucket}/{Prefix}"
        if self._name == "list_objects_v2":
            listed = there.paths_in if Delimiter else there.paths_below
            paths = there.ask(f"list {short(prefix)}", lambda: listed(prefix))
            yield {"Contents": [{"Key": path[len(Bucket) + 1 :]} for path in paths]}
            return
        found = there.ask(
            f"list uploads to {short(prefix)}",
            lambda: [(name, path) for name, (path, _) in sorted(there.uploads.items()) if path.startswith(prefix)],
        )
        yield {"Uploads": [{"UploadId": name, "Key": path[len(Bucket) + 1 :]} for name, path in found]}


def put_file(there: Any, path: str, data: bytes) -> None:
    """Has a file there, written now."""
    there.files[path] = data
    there.written[path] = there.scheduler.clock_us


class RepeatingS3Target(S3Target):
    """A bucket whose client sends a request again when its answer is lost, as boto3 does, without a word.

    What the caller gets is the second answer.
    """

    def ask(
        self,
        label: str,
        effect: Callable[[], Any],
        torn: Callable[[], Any] | None = None,
        *,
        may_be_late: bool = True,
    ) -> Any:
        """See the base class."""

        def send() -> Any:
            if not self.scheduler.has_trouble("sent twice"):
                return effect()
            with suppress(OSError, ClientError):
                effect()
            self.repeats = 1
            try:
                return effect()
            finally:
                self.repeats = 0

        return super().ask(label, send, torn, may_be_late=may_be_late)
