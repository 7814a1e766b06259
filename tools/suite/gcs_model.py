"""A model of Google Cloud Storage, for :mod:`penstock.testing.simulation`; storage and sink on it are the real ones.

Each object has a generation, a number that no other one ever has. A move is one step, on conditions.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

from google.api_core.exceptions import NotFound, PreconditionFailed

from penstock.storage import GcsStorage, Storage
from penstock.storage._gcs_client import translated
from penstock.testing.simulation import Scheduler, target
from suite.file_model import FileTarget, Reading, put_file, short

__all__ = ["GcsTarget", "RepeatingGcsTarget"]


class GcsTarget(FileTarget):
    """A bucket: parts are hidden objects that are moved."""

    root = "bucket/out"

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.written: dict[str, int] = {}
        self.generations: dict[str, int] = {}
        self.last = 0

    def storage(self) -> Storage:
        """See the base class."""
        return _Objects()

    def generation(self, path: str) -> int:
        """Returns the generation of the object at ``path``, 0 without one."""
        return self.generations[path] if path in self.files else 0

    def write(self, path: str, data: bytes, condition: int | None) -> int:
        """Has an object there, on the condition that the one before has that generation. Returns its own."""
        if condition is not None and condition != self.generation(path):
            raise PreconditionFailed("conditionNotMet")
        put_file(self, path, data)
        self.last += 1
        self.generations[path] = self.last
        return self.last


class _Objects(GcsStorage):
    def __init__(self) -> None:
        super().__init__({})

    def __reduce__(self) -> Any:
        return (_Objects, ())

    @property
    def fs(self) -> Any:
        return Reading()

    def check_moves(self, directory: str) -> None:
        """Does nothing: a sink asks when no world runs yet."""

    @contextmanager
    def _asking(self, path: str) -> Iterator[Any]:
        bucket, _, name = path.partition("/")
        with translated(self.url(path)):
            yield _Bucket(bucket), name


class _Listed(list["_Blob"]):
    """An answer of one page."""

    #: Of directories; nobody asks for them here.
    prefixes: frozenset[str] = frozenset()


class _Bucket:
    """What of the client of a bucket is used."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.client = SimpleNamespace(bucket=_Bucket)

    def blob(self, name: str, *, chunk_size: int = 0) -> _Blob:
        return _Blob(f"{self.name}/{name}")

    def get_blob(self, name: str, **how: Any) -> _Blob | None:
        blob = self.blob(name)
        with suppress(NotFound):
            blob.ask("head", lambda there: blob.look(there))
            return blob
        return None

    def list_blobs(self, *, prefix: str, delimiter: str = "", **how: Any) -> _Listed:
        there, begin = target(), f"{self.name}/{prefix}"

        def listed() -> _Listed:
            paths = there.paths_in(begin) if delimiter else [path for path in there.files if path.startswith(begin)]
            found = _Listed(_Blob(path) for path in sorted(paths))
            for blob in found:
                blob.look(there)
            return found

        blobs: _Listed = there.ask(f"list {short(begin)}", listed)
        return blobs

    def move_blob(
        self,
        source: _Blob,
        name: str,
        *,
        if_generation_match: int | None = None,
        if_source_generation_match: int | None = None,
        **how: Any,
    ) -> None:
        final = f"{self.name}/{name}"

        def move(there: Any) -> None:
            source.look(there)
            if if_source_generation_match not in (None, source.generation):
                raise PreconditionFailed("conditionNotMet")
            there.write(final, there.files[source.path], if_generation_match)
            del there.files[source.path]

        source.ask(f"move to {short(final)}", move)


class _Blob:
    """What of the client of an object is used."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = path.partition("/")[2]
        self.size = self.generation = 0
        self.time_created = datetime.datetime.min

    def ask(self, label: str, effect: Callable[[Any], Any]) -> Any:
        there = target()
        return there.ask(f"{label} {short(self.path)}", lambda: effect(there))

    def look(self, there: Any) -> None:
        """Takes over what is known of the object. Raises NotFound."""
        if self.path not in there.files:
            raise NotFound("No such object")
        self.size, self.generation = len(there.files[self.path]), there.generations[self.path]
        written_s = there.written[self.path] / 1_000_000
        self.time_created = datetime.datetime.fromtimestamp(written_s, datetime.timezone.utc)

    def upload_from_string(self, data: bytes, kind: str, *, if_generation_match: int | None = None, **how: Any) -> None:
        label = "put" if if_generation_match is None else "create"
        self.generation = self.ask(label, lambda there: there.write(self.path, data, if_generation_match))

    def upload_from_file(self, stream: Any, *, if_generation_match: int, **how: Any) -> None:
        stream.seek(0)
        self.upload_from_string(stream.read(), "", if_generation_match=if_generation_match)

    def rewrite(self, source: _Blob, *, if_generation_match: int, **how: Any) -> tuple[None, int, int]:
        def copy(there: Any) -> int:
            source.look(there)
            generation: int = there.write(self.path, there.files[source.path], if_generation_match)
            return generation

        self.generation = self.ask(f"copy {short(source.path)} to", copy)
        return None, 0, 0

    def download_as_bytes(self, **how: Any) -> bytes:
        def get(there: Any) -> bytes:
            self.look(there)
            data: bytes = there.files[self.path]
            return data

        found: bytes = self.ask("get", get)
        return found

    def delete(self, **how: Any) -> None:
        def delete(there: Any) -> None:
            self.look(there)
            del there.files[self.path]

        self.ask("delete", delete)


class RepeatingGcsTarget(GcsTarget):
    """A bucket whose client sends a request again when its answer is lost.

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
                with suppress(NotFound, PreconditionFailed):
                    effect()
            return effect()

        return super().ask(label, send, torn, may_be_late=may_be_late)
