"""A store for the decision log, each of whose calls is a step."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow.fs as pafs

from penstock.retry import RetryPolicy
from penstock.storage import MemoryStorage, Storage
from penstock.testing.simulation._scheduler import Scheduler

__all__ = ["SimulatedStorage"]

_living: dict[str, SimulatedStorage] = {}


def _find(name: str, retry: RetryPolicy) -> SimulatedStorage:
    return _living[name].retrying(retry)


class SimulatedStorage(Storage):
    """Files in memory. ``calls`` counts the calls by name; ``quiet`` directories are the engine's, not the sink's."""

    def __init__(self, scheduler: Scheduler, name: str = "store") -> None:
        self._scheduler = scheduler
        self._name = name
        self.inner = MemoryStorage()
        self.calls: dict[str, int] = {}
        self._volatile: list[str] = []
        _living[name] = self

    @property
    def volatile(self) -> str | None:
        """The last file that was written and need not have come to the disk."""
        return self._volatile[0] if self._volatile else None

    def __reduce__(self) -> Any:
        return (_find, (self._name, self.retry))

    @property
    def fs(self) -> pafs.FileSystem:
        """Not offered."""
        return self.inner.fs

    def url(self, path: str) -> str:
        return self.inner.url(path)

    def _call(self, what: str, path: str, effect: Callable[[], Any], torn: Callable[[], Any] | None = None) -> Any:
        self.calls[what] = self.calls.get(what, 0) + 1
        short = path.partition("/penstock/")[2] or path
        return self._scheduler.call(f"{what} {short}", effect, torn=torn, of="store")

    def read(self, path: str) -> bytes:
        data: bytes = self._call("read", path, lambda: self.inner.read(path))
        return data

    def size(self, path: str) -> int | None:
        size: int | None = self._call("size", path, lambda: self.inner.size(path))
        return size

    def list_names(self, directory: str) -> list[str]:
        names: list[str] = self._call("list", directory, lambda: self.inner.list_names(directory))
        return names

    def create(self, path: str, data: bytes) -> bool:
        """A process killed inside leaves nothing that anybody sees.

        A request whose answer was lost may have been sent again: the answer is then that something is there.
        """

        def create() -> bool:
            return self.inner.create(path, data) and not self._scheduler.has_trouble("sent twice")

        created: bool = self._call("create", path, create, lambda: None)
        return created

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:

        def put() -> None:
            # A name that has come to the disk stays there, whatever takes its place.
            if not durable and path not in self.inner.files:
                self._volatile[:] = [path]
            elif durable and self.volatile == path:
                self._volatile.clear()
            self.inner.put(path, data)

        self._call("put", path, put, lambda: None)

    def delete(self, paths: Iterable[str]) -> None:
        """A process killed inside has deleted some of them, in any order."""
        all_ = list(paths)
        if not all_:
            return
        some = all_[1::2]
        self._call("delete", all_[0], lambda: self.inner.delete(all_), lambda: self.inner.delete(some))

    def make_durable(self, path: str) -> None:
        self._call("make durable", path, lambda: self.inner.make_durable(path))
