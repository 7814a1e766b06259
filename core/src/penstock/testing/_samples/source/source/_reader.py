"""Fetches what is in splits, in a task."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.source import RecordsBySplits, SplitReader
from penstock.testing._samples.source.source._split import LinesSplit

__all__ = ["LinesSplitReader"]


class LinesSplitReader(SplitReader[bytes, LinesSplit]):
    """One element for each split: its bytes."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._splits: list[LinesSplit] = []

    def handle_splits_changes(self, splits: Sequence[LinesSplit]) -> None:
        self._splits += splits

    def fetch(self) -> RecordsBySplits[bytes]:
        split = self._splits.pop(0)
        with open(self._path, "rb") as file:
            file.seek(split.start)
            return RecordsBySplits([(split.split_id, file.read(split.size_bytes))], [split.split_id])

    def wake_up(self) -> None:
        """Does nothing: a fetch never waits."""

    def close(self) -> None:
        """Does nothing: no file is kept open."""
