"""A query on real Spark, to which the kit's cases do what they do to one without: run, kill, start again.

A process is killed with SIGKILL from within, at a step of the author's own objects: the Python worker of a task, which
Spark then runs again elsewhere, or the one in which Spark plans and commits, which ends the query.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming import StreamingQuery

from penstock import batch_writer, errors
from penstock._commit import TwoPhaseCommit
from penstock._letters import create_sink
from penstock.checkpoint import chain_of, home_of, names_of, open_identity, query_id_of
from penstock.connector import Connector
from penstock.errors import FatalError, PenstockError
from penstock.sink import CheckpointLocation, SinkContext, TwoPhaseCommitSink
from penstock.source import Source
from penstock.spark import CountsParam
from penstock.storage import LocalStorage
from penstock.testing._faults import Steps, faulty_sink, faulty_source
from penstock.testing._sink_engine import Shares
from penstock.testing._spark_source import RowsDataSource, data_source, put_rows, with_its_package

__all__ = ["KillingFuse", "SparkSinkQuery", "SparkSourceQuery"]

#: In a trace: the class of an error, with its module.
_RAISED = re.compile(r"^([\w.]+Error): ", re.MULTILINE)
_STARTS = 6
_PATIENCE_S = 120.0


@dataclass(frozen=True)
class KillingFuse(Steps):
    """Kills the process that first comes to a step whose name begins with ``what``; ``burnt`` is a file that says
    that it has, so that the next process continues.
    """

    what: str
    burnt: Path

    def step(self, what: str) -> None:
        """Something is about to be done, or was just done."""
        if what.startswith(self.what):
            with contextlib.suppress(FileExistsError):
                self.burnt.touch(exist_ok=False)
                os.kill(os.getpid(), signal.SIGKILL)


def _with_fuse(connector: type[Connector], fuse: KillingFuse | None) -> type[Connector]:
    if fuse is None:
        return connector
    steps = fuse

    class UnderTest(connector):  # type: ignore[valid-type, misc]
        def create_sink(self, options: Any, schema: pa.Schema) -> Any:
            return faulty_sink(super().create_sink(options, schema), steps)

        def create_source(self, options: Any) -> Source[Any, Any]:
            return faulty_source(super().create_source(options), steps)

    UnderTest.__module__ = __name__
    return UnderTest


@contextlib.contextmanager
def _named_errors() -> Iterator[None]:
    """Raises an error of Spark's Python processes, which comes as text, with its own type."""
    try:
        yield
    except PySparkException as error:
        kind = next(filter(None, map(_penstock_error, _RAISED.findall(str(error)))), None)
        if kind is None:
            raise
        raise kind(str(error)) from error


def _penstock_error(name: str) -> type[PenstockError] | None:
    """Returns the class of :mod:`penstock.errors` that ``name``, as a trace gives it, is or derives from."""
    module, _, short = name.rpartition(".")
    found = getattr(sys.modules.get(module), short, None)
    bases = found.__mro__ if isinstance(found, type) else ()
    return next((base for base in bases if base.__module__ == errors.__name__), None)


class _SparkQuery:
    """What both directions share: the data source under test, and its counters."""

    def __init__(self, spark: SparkSession, connector: type[Connector], fuse: KillingFuse | None) -> None:
        self.spark = spark
        self.fuse = fuse
        context: Any = spark.sparkContext
        self._accumulator = context.accumulator({}, CountsParam())
        with with_its_package(context, connector):
            spark.dataSource.register(data_source(_with_fuse(connector, fuse), self._accumulator))

    @property
    def metrics(self) -> dict[str, int]:
        """The counters of all tasks that ended."""
        return CountsParam.totals(self._accumulator.value)


class SparkSinkQuery(_SparkQuery):
    """One streaming query into the sink under test, with the methods of
    :class:`penstock.testing.SinkQuery` that make sense where Spark decides the rest. With a ``sink_name``, its batch
    function writes.
    """

    def __init__(
        self,
        spark: SparkSession,
        connector: type[Connector],
        options: Mapping[str, str],
        schema: pa.Schema,
        folder: Path,
        fuse: KillingFuse | None = None,
        sink_name: str = "",
    ) -> None:
        super().__init__(spark, connector, fuse)
        declared = connector.sink_options
        assert declared is not None
        parsed = declared.parse(dict(options), owner="sink under test")
        self.sink = create_sink(connector(), parsed, schema)
        self.schema = schema
        self.checkpoint = folder / "checkpoint"
        self._options = options
        self._rows = folder / "rows"
        self._put = 0
        self._sink_name = sink_name
        spark.dataSource.register(RowsDataSource)

    @property
    def rows_written(self) -> int:
        """What the metrics say."""
        return self.metrics.get("rows_written", 0)

    def restart(self) -> None:
        """Does nothing: every run is a start."""

    def run(self, batch_id: int, shares: Shares) -> None:
        """One micro-batch with these rows, by a query that is started for it and stopped."""
        assert batch_id == self._put, "batches come in order"
        put_rows(self._rows, batch_id, self.schema, shares)
        self._put += 1
        self._start_and_end()

    def run_all(self, batches: Sequence[Shares]) -> None:
        """All batches that were not given yet, by one query, started again whenever a process was killed."""
        for batch_id, shares in enumerate(batches):
            if batch_id >= self._put:
                put_rows(self._rows, batch_id, self.schema, shares)
                self._put += 1
        self._start_and_end()
        self.finish()

    def _start_and_end(self) -> None:
        for start in range(_STARTS):
            try:
                with _named_errors():
                    return self._run_once()
            except PySparkException:
                if self.fuse is None or not self.fuse.burnt.exists() or start == _STARTS - 1:
                    raise

    def _run_once(self) -> None:
        rows = self.spark.readStream.format(RowsDataSource.name()).option("path", str(self._rows)).load()
        if self._sink_name:
            writer = rows.writeStream.foreachBatch(self._write)
        else:
            writer = rows.writeStream.format("penstock.under_test").options(**self._options)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def _write(self, rows: DataFrame, batch_id: int) -> None:
        writer = batch_writer(rows, batch_id, checkpoint=str(self.checkpoint), name=self._sink_name)
        writer.format("penstock.under_test").options(**self._options).save()

    def finish(self) -> None:
        """Publishes what is carried from batch to batch, as ``penstock finish`` does."""
        if isinstance(self.sink, TwoPhaseCommitSink):
            storage, path = LocalStorage(), str(self.checkpoint)
            names = names_of(open_identity(storage, path, query_id_of(storage, path)).names, self._sink_name)
            home = home_of(path, self._sink_name)
            context = SinkContext(names, self.schema, checkpoint=CheckpointLocation(storage, home))
            TwoPhaseCommit(self.sink.start(context), context, chain_of(storage, home)).take_over()

    def frame(self, shares: Shares) -> DataFrame:
        """Returns all rows of ``shares``, in one partition."""
        table = pa.Table.from_batches([batch for share in shares for batch in share], self.schema)
        return self.spark.createDataFrame(table.to_pylist(), from_arrow_schema(self.schema)).coalesce(1)

    def write_batch(self, shares: Shares) -> None:
        """``df.write``: one batch, without a checkpoint, with as many tasks as ``shares``."""
        self.save(self.frame(shares).repartition(len(shares)))

    def save(self, rows: DataFrame) -> None:
        """``rows`` written to the target."""
        with _named_errors():
            rows.write.format("penstock.under_test").options(**self._options).mode("append").save()


@dataclass
class _Collected:
    """The rows of each micro-batch: one that is run again replaces itself, as in a sink that is exactly once."""

    batches: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    changed: threading.Event = field(default_factory=threading.Event)

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.batches[batch_id] = [row.asDict(recursive=True) for row in rows.collect()]
        self.changed.set()

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [row for batch in self.batches.values() for row in batch]


class SparkSourceQuery(_SparkQuery):
    """One streaming query from the source under test, whose rows are collected; or a batch read of it."""

    def __init__(
        self,
        spark: SparkSession,
        connector: type[Connector],
        options: Mapping[str, str],
        schema: pa.Schema,
        checkpoint: Path,
        fuse: KillingFuse | None = None,
    ) -> None:
        super().__init__(spark, connector, fuse)
        self._options = options
        self._schema = schema
        self._checkpoint = checkpoint
        self._collected = _Collected()

    def _load(self, reader: Any) -> DataFrame:
        frame: DataFrame = (
            reader.format("penstock.under_test").options(**self._options).schema(from_arrow_schema(self._schema)).load()
        )
        return frame

    def read_all_now(self) -> list[dict[str, Any]]:
        """``spark.read``."""
        with _named_errors():
            return [row.asDict(recursive=True) for row in self._load(self.spark.read).collect()]

    def run(self, until: Callable[[Counter[int]], bool], id_of: Callable[[dict[str, Any]], int]) -> Counter[int]:
        """A query that is stopped once ``until`` holds for the ids of all rows so far (or after two minutes); started
        again whenever a process was killed. Returns those ids.
        """
        for _ in range(_STARTS):
            query = self._start(available_now=False)
            try:
                for _ in range(int(_PATIENCE_S / 0.2)):
                    self._collected.changed.wait(0.2)
                    self._collected.changed.clear()
                    if until(self._ids(id_of)) or not query.isActive:
                        break
                failed = query.exception()
            finally:
                query.stop()
            if failed is None:
                break
            if self.fuse is None or not self.fuse.burnt.exists():
                with _named_errors():
                    raise failed
        return self._ids(id_of)

    def run_available_now(self, id_of: Callable[[dict[str, Any]], int]) -> Counter[int]:
        """A query over what is there, that ends by itself. Returns the ids of all rows so far."""
        query = self._start(available_now=True)
        with _named_errors():
            if not query.awaitTermination(int(_PATIENCE_S)):
                query.stop()
                raise FatalError(f"the query has not ended within {_PATIENCE_S:.0f} s")
        return self._ids(id_of)

    def _ids(self, id_of: Callable[[dict[str, Any]], int]) -> Counter[int]:
        return Counter(id_of(row) for row in self._collected.rows)

    def _start(self, *, available_now: bool) -> StreamingQuery:
        writer = self._load(self.spark.readStream).writeStream.foreachBatch(self._collected)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        return (writer.trigger(availableNow=True) if available_now else writer).start()
