"""Finds what there is to read, on the driver, and hands it out split by split."""

from __future__ import annotations

import os
from collections.abc import Sequence

from penstock.source import SplitEnumerator
from penstock.testing._samples.source.source._split import LinesSplit

__all__ = ["LinesSplitEnumerator"]

_SPLIT_BYTES = 64


class LinesSplitEnumerator(SplitEnumerator[LinesSplit, int]):
    """Looks at the file when it is asked: that is cheap here. Where it is not, use ``context.call_async``."""

    def __init__(self, path: str, position: int) -> None:
        self._path = path
        self._position = position
        self._stop: int | None = None

    def start(self) -> None:
        pass

    def _end(self) -> int:
        """Returns where the last whole line ends: one that is being written is read when it is there."""
        if not os.path.exists(self._path):
            return self._position
        with open(self._path, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end > self._position:
                file.seek(end - 1)
                if file.read(1) == b"\n":
                    break
                end -= 1
        return end

    def handle_split_request(self) -> LinesSplit | None:
        stop = self._end() if self._stop is None else self._stop
        if self._position >= stop:
            return None
        with open(self._path, "rb") as file:
            file.seek(min(self._position + _SPLIT_BYTES, stop) - 1)
            file.readline()
            end = file.tell()
        split = LinesSplit(self._position, end)
        self._position = end
        return split

    def add_splits_back(self, splits: Sequence[LinesSplit]) -> None:
        self._position = min(self._position, *(split.start for split in splits)) if splits else self._position

    def snapshot_state(self) -> int:
        return self._position

    def prepare_for_available_now(self) -> None:
        self._stop = self._end()

    def is_exhausted(self) -> bool:
        return self._stop is not None and self._position >= self._stop
