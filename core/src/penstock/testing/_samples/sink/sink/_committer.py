"""Hidden files become visible, on the driver, once their batch is decided.

A second, empty file next to a hidden one is its witness: it shows that the file was there, even if a reader has
removed it since.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from glob import glob

from penstock.sink import Committer, Found, Kept

__all__ = ["FilesCommitter"]

#: Of the hidden file, its witness, and the hidden file once it may not be published any more.
_SUFFIXES = ("", ".witness", ".sealed")


class FilesCommitter(Committer[str, None]):
    """Publishes by renaming, which happens once: a late call finds the hidden name gone."""

    def __init__(self, path: str, query_id: str) -> None:
        self._path = path
        self._query_id = query_id

    def _exists(self, name: str) -> bool:
        return os.path.exists(f"{self._path}/{name}")

    def look(self, committables: Sequence[str]) -> list[Found]:
        return [self._look(name) for name in committables]

    def _look(self, name: str) -> Found:
        if self._exists(name):
            return Found.OPEN
        is_published = self._exists(f"{name}.witness") and not self._exists(f"{name}.sealed")
        return Found.COMMITTED if is_published else Found.LOST

    def publish(self, committables: Sequence[str]) -> list[Found]:
        return [self._publish(name) for name in committables]

    def _publish(self, name: str) -> Found:
        try:
            os.rename(f"{self._path}/{name}", f"{self._path}/{name.removeprefix('.')}")
        except FileNotFoundError:
            return self._look(name)
        return Found.COMMITTED

    def seal(self, committables: Sequence[str]) -> None:
        for name in committables:
            with contextlib.suppress(FileNotFoundError):
                os.rename(f"{self._path}/{name}", f"{self._path}/{name}.sealed")

    def discard(self, committables: Sequence[str], states: Sequence[None]) -> None:
        self._remove([f"{name}{suffix}" for name in committables for suffix in _SUFFIXES])

    def clear(self, kept: Kept[str, None]) -> int:
        own = f".{self._query_id}."
        names = glob(f"{own}*", root_dir=self._path)
        named = {f"{name}{suffix}" for name in kept.committables for suffix in _SUFFIXES}
        garbage = [one for one in names if int(one.removeprefix(own).split(".")[0]) < kept.base and one not in named]
        self._remove(garbage)
        return len(garbage)

    def _remove(self, names: Sequence[str]) -> None:
        for name in names:
            if self._exists(name):
                os.unlink(f"{self._path}/{name}")
