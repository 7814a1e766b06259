"""The base of the committers: what committing has in common on every store."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.metrics import Metrics
from penstock.sink import Committer, Found, Kept
from penstock.system import in_parallel
from penstock_filesystem.sink._committable import Chunk, PendingPart
from penstock_filesystem.sink._layout import Layout, base_of

__all__ = ["FileSystemCommitter"]

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


class FileSystemCommitter(Committer[PendingPart, Chunk]):
    """Publishes decided parts and removes garbage. Subclasses know how their store makes a part appear in one step."""

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        self._layout = layout
        self._directory = layout.query_directory(query_id)
        self._metrics = metrics

    def are_there(self, states: Sequence[Chunk]) -> list[bool]:
        """Checks with one listing which chunks are still there."""
        there = self._look_for(states)
        return there if all(there) else self._layout.confirmed(lambda: self._look_for(states))

    def _look_for(self, states: Sequence[Chunk]) -> list[bool]:
        there = set(self._hidden_files())
        return [chunk.path in there for chunk in states]

    def clear(self, kept: Kept[PendingPart, Chunk]) -> int:
        """Removes hidden files that nothing names and that were made for an earlier base: those of lost attempts."""
        named = {chunk.path for chunk in kept.states}
        for part in kept.committables:
            named |= {part.hidden, part.witness, part.sealed, part.marker}
        garbage = [path for path in self._hidden_files() if path not in named and _is_below(path, kept.base)]
        if garbage:
            self._remove(garbage)
        return len(garbage)

    def _hidden_files(self) -> list[str]:
        """Lists everything in the query's hidden directory, relative to the sink's path."""
        paths = self._layout.storage.list_tree(self._layout.full(self._directory))
        return [path[len(self._layout.root) + 1 :] for path in paths]

    def _in_parallel(self, work: Callable[[ItemT], AnswerT], items: Iterable[ItemT]) -> list[AnswerT]:
        """Makes independent requests, of tens of milliseconds each, at the same time."""
        return in_parallel(work, items, self._layout.storage.requests_at_once, "penstock-files")

    def _publish_in_parallel(self, parts: Sequence[PendingPart]) -> list[Found]:
        found = self._in_parallel(self._publish, parts)
        self._metrics.add("parts_published", found.count(Found.COMMITTED))
        return found

    @abstractmethod
    def _publish(self, part: PendingPart) -> Found:
        """Gives one part its final name, unless it has it; returns how it is afterwards."""

    @abstractmethod
    def _remove(self, paths: Sequence[str]) -> None:
        """Removes garbage."""

    def _delete(self, paths: Iterable[str]) -> None:
        self._layout.storage.delete(self._layout.full(path) for path in paths)


def _is_below(path: str, base: int) -> bool:
    made_for = base_of(path)
    return made_for is not None and made_for < base
