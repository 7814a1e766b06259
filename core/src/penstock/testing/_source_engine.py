"""A query's reading side without Spark's JVM: one process that plans, reads, notes, crashes and is started again.

It drives the very objects that Spark drives (:mod:`penstock.spark`), in the order in which Spark does, with every
offset as the JSON text that Spark would store and every task's reader pickled. So the cases of the kit run in seconds.
"""

from __future__ import annotations

import contextlib
import json
import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.source import ReaderContext, Source, SourceReader
from penstock.spark import BatchReader, StreamReader
from penstock.testing._calls import calling

__all__ = ["SourceQuery"]


@dataclass
class SourceQuery:
    """One streaming query that reads ``source``. What a crash leaves are ``offsets``, the engine's offset log, and
    ``done``, how many of its batches the engine has noted as done. ``retry`` is the option ``retryTimeout``.
    """

    source: Source[Any, Any]
    schema: pa.Schema
    parallelism: int = 2
    available_now: bool = False
    offsets: list[str] = field(default_factory=list)
    done: int = 0
    retry: RetryPolicy = NO_RETRIES

    def __post_init__(self) -> None:
        self._reader: StreamReader | None = None
        self.metrics = Metrics()
        self.restart()

    def restart(self, *, parallelism: int | None = None) -> None:
        """A new driver process; the old one ends its threads, as far as it still can."""
        self.stop()
        self.parallelism = parallelism or self.parallelism
        source = pickle.loads(pickle.dumps(self.source))
        self._reader = StreamReader(source, self.schema, self.parallelism, None, retry=self.retry)
        if self.available_now:
            self._reader.prepareForTriggerAvailableNow()

    def release(self) -> StreamReader:
        """Returns what Spark calls, of a driver that continues when it is thought dead. The caller ends its threads."""
        released, self._reader = self.reader, None
        return released

    @property
    def reader(self) -> StreamReader:
        """What Spark calls."""
        assert self._reader is not None
        return self._reader

    def plan(self) -> int | None:
        """Plans the next batch, stores its offset; ``None`` if there is nothing to read. One that is pending stays."""
        if self.done < len(self.offsets):
            return self.done
        start = self._offset(self.done)
        with calling("the plan of a batch"):
            end = json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
        if json.loads(end) == start:
            return None
        self.offsets.append(end)
        return len(self.offsets) - 1

    def forget(self) -> None:
        """Keeps no text of an offset that no batch needs any more, as an engine that has them in files."""
        self.offsets[: self.done - 1] = [""] * (self.done - 1)

    def wait(self, seconds: float) -> None:
        """Until a background call of the enumerator has a result, or for so long if there is none."""
        self.reader.await_news(seconds)

    def _offset(self, number: int) -> dict[str, Any]:
        """Returns where batch ``number`` starts."""
        value: dict[str, Any] = json.loads(self.offsets[number - 1]) if number else self.reader.initialOffset()
        return value

    def tasks(self, batch: int) -> list[list[Any]]:
        """Returns the splits of each task of a planned batch."""
        partitions = self.reader.partitions(self._offset(batch), self._offset(batch + 1))
        return [partition.splits for partition in partitions]

    def read_task(self, splits: list[Any]) -> Iterator[pa.RecordBatch]:
        """Runs one attempt of one task, in a process of its own: everything is created again."""
        source = pickle.loads(pickle.dumps(self.source))
        rows = SourceReader(source, ReaderContext(self.schema, self.metrics, self.retry)).read(
            pickle.loads(pickle.dumps(splits))
        )
        with contextlib.closing(rows):
            while True:
                with calling("the reader of a task"):
                    part = next(rows, None)
                if part is None:
                    return
                yield part

    def read(self, batch: int) -> list[dict[str, Any]]:
        """Returns every row of a planned batch."""
        return [row for splits in self.tasks(batch) for part in self.read_task(splits) for row in part.to_pylist()]

    def commit(self, batch: int) -> None:
        """The engine notes the batch as done, and tells the source."""
        self.done = batch + 1
        self.tell(self.reader, batch)

    def tell(self, reader: StreamReader, batch: int) -> None:
        """Tells a driver that a batch is done, and asks it what waits, as the engine does for its progress."""
        with calling("the notice of a batch that is done"):
            reader.commit(self._offset(batch + 1))
            reader.reportLatestOffset()

    def run_batch(self) -> list[dict[str, Any]] | None:
        """Runs one batch from its plan to the engine's note; ``None`` if there is nothing to read now."""
        batch = self.plan()
        if batch is None:
            return None
        rows = self.read(batch)
        self.commit(batch)
        return rows

    def read_all_now(self) -> list[dict[str, Any]]:
        """Runs a batch read: ``spark.read``."""
        reader = BatchReader(pickle.loads(pickle.dumps(self.source)), self.schema, self.parallelism, None, self.retry)
        with calling("the plan of a batch read"):
            partitions: list[Any] = reader.partitions()
        return [row for one in partitions for part in self.read_task(one.splits) for row in part.to_pylist()]

    def stop(self) -> None:
        """Ends the driver's threads."""
        if self._reader is not None:
            with calling("the end of the enumerator"):
                self._reader.stop()
            self._reader = None
