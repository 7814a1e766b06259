"""Publishes decided parts, takes back undecided ones, and removes what crashes left."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

from penstock.metrics import Metrics
from penstock.sink import CommitOutcome, Committer
from penstock_filesystem.sink._layout import Layout, batch_of
from penstock_filesystem.sink._state import Chunk, PendingPart

__all__ = ["FileCommitter"]


class FileCommitter(Committer[PendingPart, Chunk]):
    """What committing is alike on every store. Each of the steps can be repeated after a crash.

    A part counts as published if its final name is there with the expected size (no other attempt can make that name).
    So one that a reader deletes between a crash and the commit that is repeated after it is reported as lost.
    """

    def __init__(self, layout: Layout, query_id: str, metrics: Metrics) -> None:
        self._layout = layout
        self._directory = layout.query_directory(query_id)
        self._metrics = metrics

    def commit(self, committables: Sequence[PendingPart]) -> list[CommitOutcome]:
        """See the base class."""
        outcomes = self._publish_all(committables)
        self._settle(committables)
        # The chunks that the parts replace go last, and stay if anything is amiss: they may be all there is.
        if CommitOutcome.LOST not in outcomes:
            self._delete(path for part in committables for path in (*part.consumed, part.hidden, part.marker) if path)
        self._metrics.add("parts_published", outcomes.count(CommitOutcome.COMMITTED))
        return outcomes

    def _publish_all(self, parts: Sequence[PendingPart]) -> list[CommitOutcome]:
        return [self._publish(part) for part in parts]

    @abstractmethod
    def _publish(self, part: PendingPart) -> CommitOutcome:
        """Makes the part visible under its final name."""

    def _settle(self, parts: Sequence[PendingPart]) -> None:
        """Makes the final names durable."""

    @abstractmethod
    def _take_back(self, part: PendingPart) -> None:
        """Throws away a part that was not decided."""

    def abort(self, committables: Sequence[PendingPart], states: Sequence[Chunk]) -> None:
        """See the base class."""
        for part in committables:
            self._take_back(part)
        self._delete(chunk.path for chunk in states)

    def clean_up(self, live_states: Sequence[Chunk], *, before_batch: int) -> int:
        """See the base class."""
        live = {chunk.path for chunk in live_states}
        removed = 0
        for path in self._hidden_files():
            batch = batch_of(path)
            if path not in live and batch is not None and batch < before_batch:
                self._remove(path)
                removed += 1
        self._remove_empty_directories(before_batch)
        return removed

    @abstractmethod
    def _hidden_files(self) -> list[str]:
        """Everything in the query's hidden directory."""

    def _remove(self, path: str) -> None:
        self._delete([path])

    def _remove_empty_directories(self, before_batch: int) -> None:
        """Where there are directories."""

    def _delete(self, paths: Iterable[str]) -> None:
        self._layout.storage.delete(self._layout.full(path) for path in paths)
