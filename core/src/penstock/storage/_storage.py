"""One small interface over local file systems, S3 and whatever else pyarrow can open."""

from __future__ import annotations

import functools
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs as pafs

from penstock.errors import BadConfigurationError, RetriableError
from penstock.options import Option

__all__ = ["STORAGE_OPTIONS", "LocalStorage", "MemoryStorage", "S3Storage", "Storage", "open_storage"]

#: Options that a connector which touches files adds to its own.
STORAGE_OPTIONS = (
    Option("s3.endpoint", "Address of an S3-compatible store; default: AWS_ENDPOINT_URL, then Amazon's"),
    Option("s3.region", "Region of the bucket; default: AWS_REGION, then us-east-1"),
    Option("s3.key", "Access key id; default: the AWS environment, profile or role", secret=True),
    Option("s3.secret", "Secret access key; default as for s3.key", secret=True),
    Option("s3.token", "Session token; default as for s3.key", secret=True),
)


class Storage(ABC):
    """A place for files. Paths are those of :attr:`fs` (no scheme; ``bucket/key`` for S3). Thread-safe, picklable."""

    @property
    @abstractmethod
    def fs(self) -> pafs.FileSystem:
        """The pyarrow file system: listing, opening, reading."""

    @abstractmethod
    def url(self, path: str) -> str:
        """``path`` with its scheme, as a user would write it."""

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Writes a whole file atomically, only if nothing is there. False if something is. Durable on return."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Writes a whole file atomically, replacing what is there. Durable on return."""

    def read(self, path: str) -> bytes:
        """The whole file. Raises FileNotFoundError."""
        with self.fs.open_input_stream(path) as stream:
            return bytes(stream.read())

    def size(self, path: str) -> int | None:
        """Size in bytes, ``None`` if there is no such file."""
        info = self.fs.get_file_info(path)
        return int(info.size) if info.type == pafs.FileType.File else None

    def list_names(self, directory: str) -> list[str]:
        """Names of the files right below ``directory``, unordered; empty if it does not exist."""
        infos = self.fs.get_file_info(pafs.FileSelector(directory, allow_not_found=True))
        return [info.base_name for info in infos if info.type == pafs.FileType.File]

    def delete(self, paths: Iterable[str]) -> None:
        """Removes files; missing ones are fine."""
        for path in paths:
            try:
                self.fs.delete_file(path)
            except FileNotFoundError:
                continue

    def open_output(self, path: str) -> Any:
        """A writable binary file (pyarrow's). Parent directories are made. Not atomic."""
        self.fs.create_dir(os.path.dirname(path), recursive=True)
        return self.fs.open_output_stream(path)


def sync_directory(path: str) -> None:
    """Makes names in a local directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class LocalStorage(Storage):
    """A local (or mounted) file system. Atomicity comes from link(2) and rename(2)."""

    @functools.cached_property
    def fs(self) -> pafs.FileSystem:
        """See the base class."""
        return pafs.LocalFileSystem()

    def __reduce__(self) -> Any:
        return (LocalStorage, ())

    def url(self, path: str) -> str:
        """Local paths are shown as they are."""
        return path

    def delete(self, paths: Iterable[str]) -> None:
        """See the base class."""
        for path in paths:
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue

    def _write_temporary(self, path: str, data: bytes) -> str:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            self.delete([temporary])
            raise
        return temporary

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See the base class."""
        temporary = self._write_temporary(path, data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        sync_directory(os.path.dirname(path))
        return True

    def put(self, path: str, data: bytes) -> None:
        """See the base class."""
        os.replace(self._write_temporary(path, data), path)
        sync_directory(os.path.dirname(path))


class MemoryStorage(Storage):
    """Files in this process's memory, for decisions that need not outlive it."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}

    @property
    def fs(self) -> pafs.FileSystem:
        """Not offered."""
        raise NotImplementedError("memory files have no pyarrow file system")

    def url(self, path: str) -> str:
        """``memory:`` and the path."""
        return f"memory:{path}"

    def read(self, path: str) -> bytes:
        """See the base class."""
        try:
            return self._files[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    def size(self, path: str) -> int | None:
        """See the base class."""
        return len(self._files[path]) if path in self._files else None

    def list_names(self, directory: str) -> list[str]:
        """See the base class."""
        return [os.path.basename(path) for path in self._files if os.path.dirname(path) == directory]

    def delete(self, paths: Iterable[str]) -> None:
        """See the base class."""
        for path in paths:
            self._files.pop(path, None)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See the base class."""
        return self._files.setdefault(path, data) is data

    def put(self, path: str, data: bytes) -> None:
        """See the base class."""
        self._files[path] = data


class S3Storage(Storage):
    """S3 and compatible stores. ``put_if_absent`` is a conditional put (``If-None-Match: *``)."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._settings = dict(settings)

    def __reduce__(self) -> Any:
        return (S3Storage, (self._settings,))

    def __repr__(self) -> str:
        return f"S3Storage(endpoint={self._endpoint!r})"

    @property
    def _endpoint(self) -> str | None:
        return (
            self._settings.get("endpoint")
            or os.environ.get("AWS_ENDPOINT_URL_S3")
            or os.environ.get("AWS_ENDPOINT_URL")
        )

    @property
    def _region(self) -> str:
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        return self._settings.get("region") or region or "us-east-1"

    @functools.cached_property
    def fs(self) -> pafs.FileSystem:
        """See the base class."""
        endpoint = urlsplit(self._endpoint) if self._endpoint else None
        credentials = {}
        if "key" in self._settings:
            credentials = {"access_key": self._settings["key"], "secret_key": self._settings.get("secret", "")}
            if "token" in self._settings:
                credentials["session_token"] = self._settings["token"]
        return pafs.S3FileSystem(
            region=self._region,
            endpoint_override=endpoint.netloc if endpoint else None,
            scheme=endpoint.scheme if endpoint else "https",
            **credentials,
        )

    @functools.cached_property
    def client(self) -> Any:
        """The boto3 client, for what pyarrow does not offer: conditional puts and multipart uploads."""
        try:
            import boto3
            from botocore.config import Config
        except ImportError:
            raise BadConfigurationError("writing to S3 needs boto3: pip install 'penstock[s3]'") from None
        return boto3.client(
            "s3",
            region_name=self._region,
            endpoint_url=self._endpoint,
            aws_access_key_id=self._settings.get("key"),
            aws_secret_access_key=self._settings.get("secret"),
            aws_session_token=self._settings.get("token"),
            config=Config(
                retries={"max_attempts": 5, "mode": "standard"},
                connect_timeout=10,
                read_timeout=60,
                s3={"addressing_style": "path"} if self._endpoint else {},
            ),
        )

    def url(self, path: str) -> str:
        """See the base class."""
        return f"s3://{path}"

    @staticmethod
    def split(path: str) -> tuple[str, str]:
        """``bucket/key`` → bucket, key."""
        bucket, _, key = path.partition("/")
        return bucket, key

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See the base class."""
        from botocore.exceptions import ClientError

        bucket, key = self.split(path)
        try:
            self.client.put_object(Bucket=bucket, Key=key, Body=data, IfNoneMatch="*")
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code")
            if code in ("PreconditionFailed", "412"):
                # A retried request may have met its own first attempt: then what is there is ours.
                return self.read(path) == data
            if code in ("ConditionalRequestConflict", "409"):
                raise RetriableError(f"{self.url(path)}: another writer was active at the same time") from error
            raise
        return True

    def put(self, path: str, data: bytes) -> None:
        """See the base class."""
        bucket, key = self.split(path)
        self.client.put_object(Bucket=bucket, Key=key, Body=data)

    def delete(self, paths: Iterable[str]) -> None:
        """See the base class."""
        for path in paths:
            bucket, key = self.split(path)
            self.client.delete_object(Bucket=bucket, Key=key)


class ArrowStorage(Storage):
    """Whatever pyarrow opens by URL (HDFS, …): atomic by a rename that does not overwrite."""

    def __init__(self, root: str) -> None:
        self._root = root

    def __reduce__(self) -> Any:
        return (ArrowStorage, (self._root,))

    @functools.cached_property
    def fs(self) -> pafs.FileSystem:
        """See the base class."""
        return pafs.FileSystem.from_uri(self._root)[0]

    def url(self, path: str) -> str:
        """See the base class."""
        parts = urlsplit(self._root)
        return f"{parts.scheme}://{parts.netloc}{path}"

    def _write_temporary(self, path: str, data: bytes) -> str:
        temporary = f"{os.path.dirname(path)}/.{os.path.basename(path)}.{uuid.uuid4().hex}.tmp"
        with self.open_output(temporary) as stream:
            stream.write(data)
        return temporary

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """See the base class."""
        if self.size(path) is not None:
            return False
        temporary = self._write_temporary(path, data)
        try:
            self.fs.move(temporary, path)
        except OSError:
            self.delete([temporary])
            if self.size(path) is None:
                raise
            return False
        return True

    def put(self, path: str, data: bytes) -> None:
        """See the base class. The old file is gone for a moment; used for nothing that a commit rests on."""
        temporary = self._write_temporary(path, data)
        self.delete([path])
        self.fs.move(temporary, path)


def open_storage(url: str, options: Mapping[str, str | None] | None = None) -> tuple[Storage, str]:
    """The storage of ``url`` and the path in it (absolute, no trailing slash).

    ``options`` are those below ``s3.`` (``endpoint``, ``region``, ``key``, ``secret``, ``token``). A path without a
    scheme is local and relative to the working directory. Raises BadConfigurationError for an unknown scheme.
    """
    # Split by hand: in a path '?' is a wildcard and '#' a character like any other.
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = ("file", url[5:]) if url.startswith("file:") else ("", url)
    scheme = scheme.lower()
    if scheme in ("", "file"):
        return LocalStorage(), os.path.abspath(rest)
    if scheme in ("s3", "s3a", "s3n"):
        settings = {name: text for name, text in (options or {}).items() if text}
        return S3Storage(settings), rest.rstrip("/")
    if scheme in ("hdfs", "viewfs", "gs", "abfs", "abfss"):
        host, _, path = rest.partition("/")
        return ArrowStorage(f"{scheme}://{host}/"), f"/{path}".rstrip("/")
    raise BadConfigurationError(f"{url!r}: no file system for '{scheme}://' (known: file, s3, s3a, hdfs, gs, abfs)")
