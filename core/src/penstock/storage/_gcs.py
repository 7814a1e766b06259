"""Google Cloud Storage, with and without a hierarchical namespace."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import pyarrow.fs as pafs

from penstock.errors import BadConfigurationError, RetriableError
from penstock.storage._contract import REQUESTS_AT_ONCE
from penstock.storage._gcs_client import Account, asking, how
from penstock.storage._prefixes import PrefixStorage
from penstock.storage._ranged_file import checked
from penstock.system import in_parallel, system

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket

__all__ = ["GcsStorage"]

#: What is sent at once of a file that is longer. A multiple of 256 KiB, as the store wants it.
_PIECE_BYTES = 8 << 20
#: The generation of a name that has no object.
_NONE = 0
_BYTES = "application/octet-stream"
#: Or the store would unpack an object that says it is compressed, and give other bytes than its size tells.
_AS_THEY_ARE = {"raw_download": True}
_LISTED = "items(name,size,generation,timeCreated),prefixes,nextPageToken"


class Known(NamedTuple):
    """What is known of an object. Its ``generation`` is a number that no other object of that name ever has."""

    size: int
    generation: int
    written_s: float


class GcsStorage(PrefixStorage[Known]):
    """:meth:`create` is an upload on the condition that nothing is there (``ifGenerationMatch=0``), :meth:`move` a
    request of the store's, in one step. Paths are ``bucket/name``.

    ``settings`` are those below ``gcs.`` (``endpoint``, ``credentials``).

    Arrow has a file system of its own for this store, which would need the credentials once more.
    """

    longest_name = longest_path = 1024
    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, settings: Mapping[str, str]) -> None:
        # Noted here: a task elsewhere may have another environment.
        emulator = os.environ.get("STORAGE_EMULATOR_HOST", "")
        self._settings = {"endpoint": emulator, **settings} if emulator else dict(settings)

    def __reduce__(self) -> Any:
        return (GcsStorage, (self._settings,), {"retry": self.retry})

    def __repr__(self) -> str:
        return f"GcsStorage({self._settings.get('endpoint', '')!r})"

    @functools.cached_property
    def _account(self) -> Account:
        endpoint = self._settings.get("endpoint", "")
        if endpoint and "://" not in endpoint:
            endpoint = f"http://{endpoint}"
        return Account(endpoint.rstrip("/"), self._settings.get("credentials", ""))

    @contextlib.contextmanager
    def _asking(self, path: str) -> Iterator[tuple[Bucket, str]]:
        """The bucket and the name of ``path``. Raises as :func:`penstock.storage._gcs_client.asking` does."""
        bucket, _, name = path.partition("/")
        with asking(self._account, self.url(path)) as client:
            yield client.bucket(bucket), name

    def url(self, path: str) -> str:
        return f"gs://{path}"

    def _look_up(self, path: str) -> Known | None:
        if "/" not in path or path.endswith("/"):
            return None
        with self._asking(path) as (bucket, name):
            found = bucket.get_blob(name, **how())
        return None if found is None else _of(found)

    def read(self, path: str) -> bytes:
        with self._asking(path) as (bucket, name):
            return bytes(bucket.blob(name).download_as_bytes(**_AS_THEY_ARE, **how()))

    def size(self, path: str) -> int | None:
        found = self._look_up(path)
        return None if found is None else found.size

    def generation(self, path: str) -> str:
        """Returns the number that the object at ``path`` has, and no other ever; empty if there is none."""
        found = self._look_up(path)
        return "" if found is None else str(found.generation)

    def _read_range(self, path: str, offset: int, length: int, known: Known) -> bytes:
        try:
            with self._asking(path) as (bucket, name):
                blob = bucket.blob(name, generation=known.generation)
                data = bytes(blob.download_as_bytes(start=offset, end=offset + length - 1, **_AS_THEY_ARE, **how()))
        except FileNotFoundError:
            raise RetriableError(f"{self.url(path)} was replaced or removed while it was read") from None
        return checked(data, length, self.url(path))

    def _children(self, directory: str) -> list[tuple[str, Known | None]]:
        with self._asking(directory) as (bucket, name):
            listed = bucket.list_blobs(prefix=_prefix(name), delimiter="/", fields=_LISTED, **how())
            found: list[tuple[str, Known | None]] = [
                (f"{bucket.name}/{blob.name}", _of(blob)) for blob in listed if not blob.name.endswith("/")
            ]
            return [*found, *((f"{bucket.name}/{one.rstrip('/')}", None) for one in sorted(listed.prefixes))]

    def create(self, path: str, data: bytes) -> bool:
        try:
            with self._asking(path) as (bucket, name):
                bucket.blob(name).upload_from_string(data, _BYTES, if_generation_match=_NONE, **how())
        except FileExistsError:
            return False
        return True

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        with self._asking(path) as (bucket, name):
            bucket.blob(name).upload_from_string(data, _BYTES, **how())

    def stage_file(self, path: str, stream: BinaryIO) -> str:
        """Writes what ``stream`` has from its beginning on, under a name that no other process uses.

        Returns the object's generation. A request that comes late makes an object with another one. Memory: a few MiB.
        """
        size = stream.seek(0, os.SEEK_END)
        try:
            with self._asking(path) as (bucket, name):
                blob = bucket.blob(name, chunk_size=_PIECE_BYTES)
                blob.upload_from_file(
                    stream, rewind=True, size=size, content_type=_BYTES, if_generation_match=_NONE, **how()
                )
                return str(blob.generation)
        except FileExistsError:
            return self._staged(path, size)

    def copy_file(self, source: str, target: str) -> str:
        """Copies a file inside the store, to a name that no other process uses. Returns the copy's generation."""
        try:
            return self._copy(source, target, if_generation_match=_NONE)
        except FileExistsError:
            return self._staged(target, self.size(source))

    def _copy(self, source: str, target: str, **conditions: int) -> str:
        """Returns the copy's generation. A long copy takes several requests, of which the last one shows it."""
        with self._asking(source) as (bucket, name):
            there, _, copied = target.partition("/")
            blob, token = bucket.client.bucket(there).blob(copied), None
            while True:
                token, _, _ = blob.rewrite(bucket.blob(name), token=token, **conditions, **how())
                if token is None:
                    return str(blob.generation)

    def _staged(self, path: str, size: int | None) -> str:
        """Returns the generation of what an earlier try of the same request has written."""
        found = self._look_up(path)
        if found is None or found.size != size:
            raise RetriableError(f"{self.url(path)} is not what was written there: try it again")
        return str(found.generation)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes each by a request of its own, several at the same time."""
        in_parallel(self._delete, paths, self.requests_at_once, "penstock-gcs")

    def _delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), self._asking(path) as (bucket, name):
            bucket.blob(name).delete(**how())

    def move(self, source: str, target: str, generation: str = "") -> None:
        """Gives a file another name in the same bucket, in one step of the store.

        Raises FileExistsError if there is an object with that name, or if ``generation`` is given and the one at
        ``source`` is another; FileNotFoundError, which may mean that an earlier try has worked.
        """
        self._move(source, target, if_generation_match=_NONE, if_source_generation_match=int(generation or 0) or None)

    def move_over(self, source: str, target: str) -> None:
        if source.partition("/")[0] == target.partition("/")[0]:
            self._move(source, target)
        else:
            self._copy(source, target)
            self.delete([source])

    def _move(self, source: str, target: str, **conditions: int | None) -> None:
        with self._asking(source) as (bucket, name):
            bucket.move_blob(bucket.blob(name), target.partition("/")[2], **conditions, **how())

    def check_moves(self, directory: str) -> None:
        """Moves a file in ``directory``, then another one to the same name, which must be refused.

        Raises BadConfigurationError if the store can't move a file, does it in two steps, or replaces one by it.
        """
        source = f"{directory}/trial-{system().new_id()}"
        target = f"{source}.moved"
        try:
            self.put(source, b"first")
            self._check_moves(source, target)
        finally:
            with contextlib.suppress(OSError, RetriableError):
                self.delete([source, target])

    def _check_moves(self, source: str, target: str) -> None:
        try:
            self.move(source, target)
        except PermissionError:
            raise
        except OSError:
            if self.size(target) is None:  # no earlier try, whose answer was lost, has done it
                raise self._unfit(source, "does not move files in one step") from None
        if not self.create(source, b"second") and self.read(source) != b"second":
            raise self._unfit(source, "leaves files that it has moved")
        with contextlib.suppress(FileExistsError):
            self.move(source, target)
        if self.read(target) != b"first":
            raise self._unfit(source, "replaces the file that has a name when another one is moved there")

    def _unfit(self, path: str, does: str) -> BadConfigurationError:
        return BadConfigurationError(
            f"{self.url(path.partition('/')[0])}: its store {does}, so that a file could be published twice. "
            "Put the files elsewhere"
        )

    def _info(self, path: str, known: Known) -> pafs.FileInfo:
        written = datetime.datetime.fromtimestamp(known.written_s, datetime.timezone.utc)
        return pafs.FileInfo(path, pafs.FileType.File, mtime=written, size=known.size)

    def _objects_below(self, directory: str) -> Iterator[tuple[str, Known]]:
        with self._asking(directory) as (bucket, name):
            for blob in bucket.list_blobs(prefix=_prefix(name), fields=_LISTED, **how()):
                if not blob.name.endswith("/"):
                    yield f"{bucket.name}/{blob.name}", _of(blob)

    def _is_there(self, directory: str) -> bool:
        """Returns whether there is such a directory: names begin so. A bucket is one if it is there."""
        try:
            with self._asking(directory) as (bucket, name):
                found = next(iter(bucket.list_blobs(prefix=_prefix(name), max_results=1, **how())), None)
        except FileNotFoundError:
            return False
        return found is not None or not name


def _of(blob: Blob) -> Known:
    if None in (blob.size, blob.generation, blob.time_created):
        raise RetriableError(f"gs://{blob.bucket.name}/{blob.name}: the store's answer is not about an object")
    return Known(int(blob.size), int(blob.generation), float(blob.time_created.timestamp()))


def _prefix(name: str) -> str:
    """Returns what the names of the objects below a directory begin with."""
    return f"{name}/" if name else ""
