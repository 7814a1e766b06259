"""A query of :mod:`penstock.testing._source_engine` in processes of its own: what one of them does."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from penstock.source import Source
from penstock.testing._machines import GlobalState
from penstock.testing._open_things import growth_of
from penstock.testing._source_base import LOOK_AGAIN_S
from penstock.testing._source_engine import SourceQuery

__all__ = ["SourceJob", "plan_batch", "read_batch", "read_many"]


@dataclass(frozen=True)
class SourceJob:
    """A query between two processes: what the engine has stored of it."""

    source: Source[Any, Any]
    schema: pa.Schema
    offsets: tuple[str, ...] = ()
    done: int = 0

    @contextlib.contextmanager
    def open(self) -> Iterator[SourceQuery]:
        """A new driver."""
        query = SourceQuery(self.source, self.schema, offsets=list(self.offsets), done=self.done)
        try:
            yield query
        finally:
            query.stop()


def plan_batch(job: SourceJob, looks: int) -> SourceJob | None:
    """Plans the next batch. ``None`` if there was none in so many looks."""
    with job.open() as query:
        for _ in range(looks):
            if query.plan() is not None:
                return replace(job, offsets=tuple(query.offsets))
            query.wait(LOOK_AGAIN_S)
    return None


def read_batch(job: SourceJob) -> tuple[SourceJob, list[dict[str, Any]]]:
    """Reads the batch that was planned, and tells the source that it is done. Returns its rows."""
    with job.open() as query:
        rows = query.read(job.done)
        query.commit(job.done)
    return replace(job, done=job.done + 1), rows


def read_many(job: SourceJob, warm_up: int, more: int) -> list[str]:
    """Plans a batch and reads it ``warm_up`` and then ``more`` times. Returns what there is more of for each time,
    and what has changed for the whole process.

    Each time a task is left in the middle, the driver ends, and another one begins from the start.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-kit-") as folder:
        tempfile.tempdir = folder  # to count what is left there
        shared = GlobalState()

        def read(times: int) -> None:
            for _ in range(times):
                shared.look()
                with job.open() as query:
                    for splits in query.tasks(job.done):
                        left = query.read_task(splits)
                        next(left, None)
                        left.close()  # type: ignore[attr-defined]
                    query.read(job.done)
                with replace(job, offsets=(), done=0).open() as anew:
                    anew.plan()
            shared.look()

        read(warm_up)
        return [*growth_of(lambda: read(more), folder, most=more // 4), *shared.changes()]
