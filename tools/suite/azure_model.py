"""A model of Azure's blob storage, for :mod:`penstock.testing.simulation`; storage and sink on it are the real ones.

Blocks that are not committed are kept by the name of their blob. Each commit of the name takes some and discards the
others, in one step.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from azure.core import MatchConditions
from azure.core.exceptions import AzureError, HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobBlock

from penstock.storage import AzureStorage, Storage
from penstock.storage._azure_client import _translated
from penstock.testing.simulation import Scheduler, target
from suite.file_model import FileTarget, Reading, put_file, short

__all__ = ["AzureTarget", "RepeatingAzureTarget"]


class AzureTarget(FileTarget):
    """A container: parts are blocks that are committed, chunks and markers are blobs."""

    root = "container/out"

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.blocks: dict[str, dict[str, bytes]] = {}
        self.written: dict[str, int] = {}

    def storage(self) -> Storage:
        """See the base class."""
        return _Container()

    def visible(self) -> list[tuple[str, bytes]]:
        """Without the empty blob that is there for a moment while blocks are discarded."""
        return [(path, data) for path, data in super().visible() if data]

    def left(self) -> list[str]:
        """Without blocks: the store discards them after a week."""
        return [*super().left(), *(path for path, data in self.files.items() if not data)]


class _Container(AzureStorage):
    def __init__(self) -> None:
        super().__init__("account", {"key": "a2V5"})

    def __reduce__(self) -> Any:
        return (_Container, ())

    @property
    def fs(self) -> Any:
        return Reading()

    @contextmanager
    def _asking(self, path: str) -> Iterator[Any]:
        with _translated(self.url(path), []):
            yield _Blob(path)

    @contextmanager
    def _listing(self, path: str) -> Iterator[tuple[Any, str]]:
        container, _, name = path.partition("/")
        with _translated(self.url(path), []):
            yield SimpleNamespace(container_name=container, list_blobs=_list_blobs, walk_blobs=_walk_blobs), f"{name}/"


def _list_blobs(prefix: str, *, include: Sequence[str]) -> Iterator[Any]:
    there = target()
    return _blobs(there.ask(f"list {short(prefix)}", lambda: there.paths_below(f"container/{prefix}")))


def _walk_blobs(prefix: str, *, include: Sequence[str], delimiter: str) -> Iterator[Any]:
    there = target()
    return _blobs(there.ask(f"list {short(prefix)}", lambda: there.paths_in(f"container/{prefix}")))


def _blobs(paths: Sequence[str]) -> Iterator[Any]:
    return iter([SimpleNamespace(name=path.removeprefix("container/"), metadata={}) for path in paths])


class _Blob:
    """What of the client of a blob is used."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _ask(self, label: str, effect: Callable[[Any], Any]) -> Any:
        there = target()
        return there.ask(f"{label} {short(self._path)}", lambda: effect(there))

    def get_blob_properties(self) -> Any:
        def properties(there: Any) -> Any:
            self._check_exists(there)
            written = datetime.datetime.fromtimestamp(there.written[self._path] / 1_000_000, datetime.timezone.utc)
            size = len(there.files[self._path])
            return SimpleNamespace(name=self._path, size=size, metadata={}, last_modified=written)

        return self._ask("head", properties)

    def _check_exists(self, there: Any) -> None:
        if self._path not in there.files:
            raise ResourceNotFoundError("BlobNotFound")

    def upload_blob(self, data: Any, *, overwrite: bool, max_concurrency: int = 1) -> None:
        body = data if isinstance(data, bytes) else data.read()

        def put(there: Any) -> None:
            if not overwrite and self._path in there.files:
                raise ResourceExistsError("BlobAlreadyExists")
            there.blocks.pop(self._path, None)
            put_file(there, self._path, body)

        self._ask("put", put)

    def download_blob(self, *, max_concurrency: int) -> Any:
        def get(there: Any) -> bytes:
            self._check_exists(there)
            data: bytes = there.files[self._path]
            return data

        return SimpleNamespace(readall=BytesIO(self._ask("get", get)).read)

    def stage_block(self, block: str, data: bytes) -> None:
        self._ask("stage a block of", lambda there: there.blocks.setdefault(self._path, {}).update({block: data}))

    def get_block_list(self, kind: str) -> Any:
        assert kind == "uncommitted"

        def staged(there: Any) -> list[Any]:
            found: Mapping[str, bytes] = there.blocks.get(self._path, {})
            if not found and self._path not in there.files:
                raise ResourceNotFoundError("BlobNotFound")
            return [SimpleNamespace(id=one) for one in found]

        return [], self._ask("list blocks of", staged)

    def commit_block_list(self, blocks: Sequence[BlobBlock], *, match_condition: MatchConditions) -> None:
        assert match_condition is MatchConditions.IfMissing

        def commit(there: Any) -> None:
            if self._path in there.files:
                raise ResourceExistsError("BlobAlreadyExists")
            staged = there.blocks.get(self._path, {})
            if not all(one.id in staged for one in blocks):
                error = HttpResponseError("InvalidBlockList")
                error.error_code = "InvalidBlockList"  # type: ignore[attr-defined]
                raise error
            put_file(there, self._path, b"".join(staged[one.id] for one in blocks))
            there.blocks.pop(self._path, None)

        self._ask("commit" if blocks else "discard the blocks of", commit)

    def delete_blob(self, *, delete_snapshots: str) -> None:
        def delete(there: Any) -> None:
            self._check_exists(there)
            del there.files[self._path]

        self._ask("delete", delete)


class RepeatingAzureTarget(AzureTarget):
    """A container whose client sends a request again when its answer is lost.

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
            if self.scheduler.has_trouble("sent twice"):
                with suppress(AzureError):
                    effect()
            return effect()

        return super().ask(label, send, torn, may_be_late=may_be_late)
