"""Publishes decided parts, and removes what is garbage."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from penstock.metrics import Metrics
from penstock.sink import Committer, Kept
from penstock_filesystem.sink._layout import Layout, base_of
from penstock_filesystem.sink._state import Chunk, PendingPart

__all__ = ["FileCommitter"]


class FileCommitter(Committer[PendingPart, Chunk]):
    """What committing is alike on every store."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        self._layout = layout
        self._directory = layout.query_directory(query_id)
        self._metrics = metrics

    def are_there(self, states: Sequence[Chunk]) -> list[bool]:
        """See the contract. One listing."""
        there = set(self._hidden_files())
        return [chunk.path in there for chunk in states]

    def clear(self, kept: Kept[PendingPart, Chunk]) -> int:
        """See the contract."""
        named = {chunk.path for chunk in kept.states}
        for part in kept.committables:
            named |= {part.hidden, part.witness, part.sealed, part.marker}
        garbage = [path for path in self._hidden_files() if path not in named and _is_below(path, kept.base)]
        if garbage:
            self._remove(garbage)
        return len(garbage)

    @abstractmethod
    def _hidden_files(self) -> list[str]:
        """Everything in the query's hidden directory, relative to the sink's path."""

    @abstractmethod
    def _remove(self, paths: Sequence[str]) -> None:
        """Removes garbage."""

    def _delete(self, paths: Iterable[str]) -> None:
        self._layout.storage.delete(self._layout.full(path) for path in paths)


def _is_below(path: str, base: int) -> bool:
    made_for = base_of(path)
    return made_for is not None and made_for < base
