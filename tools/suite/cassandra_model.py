"""A model of Cassandra's table of what was sent, for :mod:`penstock.testing.simulation`, with the real committer.

What the model does is what servers do, as far as rows without values go: each write and each deletion has a stamp of
the node that takes it, and a row is there if its stamp is above that of every deletion of its range, whatever came
first. Nodes' clocks differ. ``test_simulation.py`` compares it with a server.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from penstock.sink import SinkContext
from penstock.testing.simulation import Scheduler, SendTarget, target
from penstock.testing.simulation._sent import SendingSink
from penstock_cassandra.sink._committer import CassandraCheckpointCommitter

__all__ = ["CassandraTarget", "ModelClient", "ModelNotes"]

_BEHIND_US = 30_000_000


class ModelNotes:
    """The table ``penstock_sent_segments``."""

    def __init__(self) -> None:
        self._stamps: dict[tuple[str, int, str], int] = {}
        self._deleted: list[tuple[str, int, int]] = []

    def insert(self, query: str, base: int, segment: str, stamp: int) -> None:
        """Writes a row."""
        key = query, base, segment
        self._stamps[key] = max(stamp, self._stamps.get(key, stamp))

    def delete(self, query: str, below: int, stamp: int) -> None:
        """Deletes the rows of a query whose base is below ``below``."""
        self._deleted.append((query, below, stamp))

    def of(self, query: str) -> list[tuple[int, str]]:
        """Returns the rows of a query in the order of their keys."""
        return sorted((base, one) for of, base, one in self._stamps if of == query and self._is_there(of, base, one))

    def _is_there(self, query: str, base: int, segment: str) -> bool:
        stamps = [stamp for of, below, stamp in self._deleted if of == query and base < below]
        return self._stamps[query, base, segment] > max(stamps, default=-1)


class ModelClient:
    """What the committer asks of :class:`~penstock_cassandra.client.Client`; ``ask`` makes one request."""

    settings = SimpleNamespace(consistency="LOCAL_QUORUM")

    def __init__(self, ask: Any) -> None:
        self._ask = ask

    def rows(self, cql: str, values: Sequence[Any], consistency: str) -> list[tuple[Any, ...]]:
        """Carries out a statement on the notes."""
        query, base = values[:2]
        if cql.startswith("INSERT "):
            done = self._ask(f"note {values}", lambda notes, stamp: notes.insert(*values, stamp))
        elif cql.startswith("DELETE ") and cql.endswith(" WHERE query = ? AND base < ?"):
            done = self._ask(f"forget below {base}", lambda notes, stamp: notes.delete(query, base, stamp))
        else:
            assert cql.startswith("SELECT ") and cql.endswith(" WHERE query = ? AND base = ? AND segment = ?"), cql
            row = base, values[2]
            done = self._ask(f"noted? {row}", lambda notes, stamp: [one for one in notes.of(query) if one == row])
        return done or []

    def local_rows(self, *queries: tuple[str, Sequence[Any]]) -> list[list[tuple[Any, ...]]]:
        """Returns no row: there is no table of the first edition."""
        return self._ask("look for a table", lambda notes, stamp: [[] for _ in queries])  # type: ignore[no-any-return]


class CassandraTarget(SendTarget):
    """A table to which rows are sent, and one for what was sent."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.notes = ModelNotes()

    def create_sink(self) -> SendingSink:
        """See the base class."""
        return _NotingSink()

    def left(self) -> list[str]:
        """See the base class."""
        return [segment for _, segment in self.notes.of(self.query_id)]

    def ask(self, label: str, effect: Any) -> Any:
        """One request, which a node stamps as it takes it."""

        def take() -> Any:
            is_behind = self.scheduler.has_trouble("stamped by a slow clock")
            return effect(self.notes, self.scheduler.clock_us - _BEHIND_US * is_behind)

        return self.scheduler.call(label, take)


class _NotingSink(SendingSink):
    def create_checkpoint_committer(self, context: SinkContext) -> _Committer:
        client: Any = ModelClient(lambda label, effect: target().ask(label, effect))
        return _Committer(client, "notes", context.query_id, context.retry)


class _Committer(CassandraCheckpointCommitter):
    def close(self) -> None:
        """Nothing to free."""
