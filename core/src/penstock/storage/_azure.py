"""Azure's blob storage, with and without a hierarchical namespace."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow.fs as pafs

from penstock.storage._azure_client import Account, asking
from penstock.storage._contract import REQUESTS_AT_ONCE
from penstock.storage._prefixes import PrefixStorage
from penstock.system import in_parallel, system

if TYPE_CHECKING:
    from azure.storage.blob import BlobClient, BlobProperties, ContainerClient

__all__ = ["AzureStorage"]

_COPY_BYTES = 4 << 20
#: What marks a blob that stands for a directory, in accounts with a hierarchical namespace and by other clients.
_FOLDER = "hdi_isfolder"


class AzureStorage(PrefixStorage["BlobProperties"]):
    """:meth:`create` is a conditional put (``If-None-Match: *``). Paths are ``container/name``.

    ``host`` is the account's, as in ``abfss://container@account.dfs.core.windows.net/name``. ``settings`` are those
    below ``azure.`` (``endpoint``, ``key``, ``sas``).

    Arrow has a file system of its own for Azure. Its errors show the signature of a SAS token, and it would need the
    credentials once more.
    """

    longest_name = longest_path = 1024
    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, host: str, settings: Mapping[str, str]) -> None:
        self._host = host.lower().replace(".blob.", ".dfs.", 1)
        self._settings = dict(settings)

    def __reduce__(self) -> Any:
        return (AzureStorage, (self._host, self._settings), {"retry": self.retry})

    def __repr__(self) -> str:
        return f"AzureStorage({self._host!r})"

    @property
    def _account(self) -> str:
        return self._host.partition(".")[0]

    @property
    def _endpoint(self) -> str:
        """The address of the blob service, without a slash at its end."""
        return self._settings.get("endpoint", f"https://{self._host.replace('.dfs.', '.blob.', 1)}").rstrip("/")

    @functools.cached_property
    def _known(self) -> Account:
        return Account(self._account, self._endpoint, self._settings.get("key", ""), self._settings.get("sas", ""))

    @contextlib.contextmanager
    def _asking(self, path: str) -> Iterator[BlobClient]:
        """The client of the blob at ``path``. Raises as :func:`penstock.storage._azure_client.asking` does."""
        container, _, name = path.partition("/")
        with asking(self._known, self.url(path)) as client:
            yield client.get_blob_client(container, name)

    @contextlib.contextmanager
    def _listing(self, path: str) -> Iterator[tuple[ContainerClient, str]]:
        """The client of the container, and what the names of the blobs below ``path`` begin with."""
        container, _, name = path.partition("/")
        with asking(self._known, self.url(path)) as client:
            yield client.get_container_client(container), f"{name}/" if name else ""

    def url(self, path: str) -> str:
        container, _, name = path.partition("/")
        return f"abfss://{container}@{self._host}/{name}"

    def _look_up(self, path: str) -> BlobProperties | None:
        if "/" not in path:
            return None  # a container
        try:
            with self._asking(path) as blob:
                found = blob.get_blob_properties()
        except FileNotFoundError:
            return None
        return None if _is_directory(found) else found

    def read(self, path: str) -> bytes:
        with self._asking(path) as blob:
            return bytes(blob.download_blob(max_concurrency=1).readall())

    def size(self, path: str) -> int | None:
        found = self._look_up(path)
        return None if found is None else int(found.size)

    def _read_range(self, path: str, offset: int, length: int, known: BlobProperties) -> bytes:
        from azure.core import MatchConditions

        with self._asking(path) as blob:
            asked = blob.download_blob(
                offset, length, etag=known.etag, match_condition=MatchConditions.IfNotModified, max_concurrency=1
            )
            return bytes(asked.readall())

    def _children(self, directory: str) -> list[tuple[str, BlobProperties | None]]:
        from azure.storage.blob import BlobPrefix

        found: list[tuple[str, BlobProperties | None]] = []
        with self._listing(directory) as (container, prefix):
            for one in container.walk_blobs(prefix, include=["metadata"], delimiter="/"):
                path = f"{container.container_name}/{one.name.rstrip('/')}"
                if isinstance(one, BlobPrefix):
                    found.append((path, None))
                elif not _is_directory(one):
                    found.append((path, one))
        return found

    def create(self, path: str, data: bytes) -> bool:
        try:
            with self._asking(path) as blob:
                blob.upload_blob(data, overwrite=False)
        except FileExistsError:
            return False
        return True

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        with self._asking(path) as blob:
            blob.upload_blob(data, overwrite=True)

    def put_file(self, path: str, stream: BinaryIO) -> None:
        """Writes what ``stream`` has from its beginning on, as :meth:`put` does. Memory: a few MiB."""
        stream.seek(0)
        with self._asking(path) as blob:
            blob.upload_blob(stream, overwrite=True, max_concurrency=1)

    # Blocks. Those of a name that are not committed are seen by no list and no reader, and each commit of the name
    # discards those it does not take. Without one, the store discards them a week after the last was staged.

    def stage_block(self, path: str, block: str, data: bytes) -> None:
        """Has ``data`` as a block for the blob at ``path``. All blocks of a blob have ids (``block``) of one length."""
        with self._asking(path) as blob:
            blob.stage_block(block, data)

    def staged_blocks(self, path: str) -> set[str]:
        """Returns the ids of the blocks at ``path`` that are not committed."""
        try:
            with self._asking(path) as blob:
                _, staged = blob.get_block_list("uncommitted")
        except FileNotFoundError:
            return set()
        return {one.id for one in staged}

    def commit_blocks(self, path: str, blocks: Sequence[str]) -> None:
        """Makes the blob at ``path`` appear, in one step. Raises FileExistsError if there is one (which an earlier try
        of this very call may have made), FileNotFoundError if the blocks are not there.
        """
        from azure.core import MatchConditions
        from azure.storage.blob import BlobBlock

        with self._asking(path) as blob:
            blob.commit_block_list(list(map(BlobBlock, blocks)), match_condition=MatchConditions.IfMissing)

    def discard_blocks(self, path: str) -> None:
        """Discards the blocks at ``path`` that are not committed, so that no request in flight can commit them.

        There is no request for that. So an empty blob is there for a moment. Does nothing to a blob that is not empty.
        """
        with contextlib.suppress(FileExistsError):
            self.commit_blocks(path, [])
        if self.size(path) == 0:  # of which there is no other kind: the blocks are gone
            self._delete(path)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes each by a request of its own, several at the same time: not every account takes a batch of them."""
        in_parallel(self._delete, paths, self.requests_at_once, "penstock-azure")

    def _delete(self, path: str) -> None:
        try:
            with self._asking(path) as blob:
                blob.delete_blob(delete_snapshots="include")
        except FileNotFoundError:
            return

    def move_over(self, source: str, target: str) -> None:
        self.put_file(target, io.BufferedReader(self.fs.handler.open(source), _COPY_BYTES))
        self.delete([source])

    def _info(self, path: str, known: BlobProperties) -> pafs.FileInfo:
        return pafs.FileInfo(path, pafs.FileType.File, mtime=known.last_modified, size=int(known.size))

    def _objects_below(self, directory: str) -> Iterator[tuple[str, BlobProperties]]:
        with self._listing(directory) as (container, prefix):
            for one in container.list_blobs(prefix, include=["metadata"]):
                if not _is_directory(one):
                    yield f"{container.container_name}/{one.name}", one

    def _is_there(self, directory: str) -> bool:
        """Returns whether there is such a directory: names begin so, or a blob stands for it."""
        try:
            with self._listing(directory) as (container, prefix):
                if next(iter(container.list_blobs(prefix, results_per_page=1)), None) is not None or not prefix:
                    return True
            with self._asking(directory) as blob:
                return bool(blob.exists())
        except FileNotFoundError:
            return False

    def age_s(self, path: str) -> float | None:
        """Returns a blob's age, by the store's clock and this machine's; ``None`` if there is none."""
        found = self._look_up(path)
        return None if found is None else system().now_us() / 1_000_000 - float(found.last_modified.timestamp())


def _is_directory(blob: BlobProperties) -> bool:
    return blob.name.endswith("/") or _FOLDER in (blob.metadata or {})
