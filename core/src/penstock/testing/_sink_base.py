"""What the cases of a sink share that run on the contracts alone."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.sink import IdempotentSink
from penstock.testing._faults import Crash
from penstock.testing._lines import own_files
from penstock.testing._sink_cases import SinkCases
from penstock.testing._sink_engine import SinkQuery
from penstock.testing._sink_processes import QueryJob
from penstock.testing._target import SinkTarget
from penstock.testing._verdict import does_not_apply

__all__ = ["CARRIED_OUT", "DECIDED", "SinkBase", "query_crashing"]

#: Steps: the decision is durable and nothing of it was done; everything was done and not noted.
DECIDED, CARRIED_OUT = "after create", "before put "


class SinkBase(SinkCases):
    """A query, and how its rows are compared."""

    def _query(
        self, target: SinkTarget, folder: Path, schema: pa.Schema | None = None, before: SinkQuery | None = None
    ) -> SinkQuery:
        """Returns a query in ``folder``; the one that was there ``before``, changed."""
        schema = schema if schema is not None else self.schema
        sink = self._create_for(self._parse(target.options), schema)
        query = SinkQuery(sink, schema, folder)
        if before is not None:
            query = SinkQuery(sink, schema, folder, before.query_id, before.done)
        if Capability.EXACTLY_ONCE in self.connector.capabilities:
            assert query.commits, "the connector declares exactly-once, but its sink is not a TwoPhaseCommitSink"
        return query

    @pytest.fixture
    def query(self, target: SinkTarget, tmp_path: Path) -> SinkQuery:
        """Returns a query that writes to ``target``, with its checkpoint next to it."""
        return self._query(target, tmp_path / "penstock-checkpoint")

    def _crash_points(self, steps: Sequence[str]) -> Iterable[int]:
        """At which of these steps the cases that crash at every step end the driver, by index."""
        return range(len(steps))

    def _job(self, target: SinkTarget, checkpoint: Path) -> QueryJob:
        sink = self._create_for(self._parse(target.options), self.schema)
        own = own_files(self.connector, type(sink))
        batches = [[list(share) for share in shares] for shares in self._batches()]
        return QueryJob(sink, self.schema, checkpoint, uuid.uuid4().hex, batches, own)

    @staticmethod
    def _needs_hidden_rows(query: SinkQuery) -> None:
        """Cases about what is hidden until the commit are not for sinks that write in place, under a key."""
        if isinstance(query.sink, IdempotentSink):
            does_not_apply("an idempotent sink writes in place")


class query_crashing:
    """Ends the driver of ``query`` at the first step that begins like that; fails if it never comes to one."""

    def __init__(self, query: SinkQuery, step: str) -> None:
        self._query = query
        self._step = step

    def __enter__(self) -> None:
        real = self._query.fuse.step

        def step(what: str) -> None:
            real(what)
            if what.startswith(self._step):
                raise Crash(what)

        self._query.fuse.step = step  # type: ignore[method-assign]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> bool:
        if kind is None:
            raise AssertionError(f"the driver never came to the step '{self._step}'")
        return issubclass(kind, Crash)
