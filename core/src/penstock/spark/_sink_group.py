"""``penstock.SinkGroup``: a batch function's writes to several sinks, decided together.

The user's process plans the batch before the first write, and decides it after the last one. In between each member is
written to by a write of its own, whose tasks leave everything hidden, and which decides nothing.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock._commit import BatchPlan, TaskResult, TwoPhaseCommit, start_sink
from penstock._plugins import find_connector
from penstock.checkpoint import (
    BatchInFunction,
    Prepared,
    check_sink_name,
    load_group,
    members_of,
    remember_group,
)
from penstock.connector import Connector
from penstock.errors import BadConfigurationError, RetriableError
from penstock.metrics import Metrics
from penstock.retry import RetryPolicy
from penstock.sink import CheckpointLocation, SinkContext
from penstock.spark._driver_counts import add_driver_counts
from penstock.spark._foreach_batch import RunningBatch, attempting, in_group, run_of, run_of_attempt
from penstock.spark._known_query import KnownQuery, QueryReplacedError, forget_query, known_query
from penstock.spark._locations import Home
from penstock.spark._registration import counts_folder
from penstock.spark._workers import classic_context
from penstock.storage import open_storage, storage_options_of_one

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["GroupBatch", "SinkGroup"]

_NO_SCHEMA = pa.schema([])
#: The blocks that this process is in: the run, the checkpoint, the group's name and the batch.
_open_blocks: set[tuple[str, str, str, int]] = set()


class SinkGroup:
    """Sinks that get each batch together: one link of one decision log decides for all of them.

    ``sinks`` maps a name to a format and its options, as ``.format(...)`` and ``.options(...)`` take them::

        kafka = {"kafka.bootstrap.servers": brokers, "topic": "orders", "delivery": "exactly-once"}
        files = {"path": "orders/", "format": "parquet"}
        sinks = {"topic": ("penstock.kafka", kafka), "files": ("penstock.filesystem", files)}
        group = penstock.SinkGroup("orders", checkpoint="ck/", sinks=sinks)

        def write(df, batch_id):
            with group.batch(df, batch_id) as batch:
                batch.write("topic", df.select("key", "value"))
                batch.write("files", df)

    When the block ends without an error, the batch is decided, and published to one sink after the other, in the order
    of ``sinks``. Readers may see it in the first before they see it in the last. After a crash in between, the next
    start publishes the rest. If the block's own code fails, nothing of the batch is visible, except in a sink that
    writes in place under a key, as Cassandra's does: there the next run of the batch replaces the rows.

    Picklable: the function that uses it may run in another process. Raises BadConfigurationError for names and formats
    that can't be. ``name`` names the decision log below ``checkpoint``, which is the streaming query's.
    """

    def __init__(self, name: str, *, checkpoint: str, sinks: Mapping[str, tuple[str, Mapping[str, str]]]) -> None:
        self.name = check_sink_name(name)
        self.checkpoint = checkpoint
        self.sinks = {check_sink_name(one): (form, dict(options)) for one, (form, options) in sinks.items()}
        if not sinks:
            raise BadConfigurationError("a group needs a sink: sinks={'name': ('penstock.kafka', {...}), ...}")
        for one, (form, _) in self.sinks.items():
            if not form.lower().startswith("penstock."):
                raise BadConfigurationError(f"sink '{one}' has the format {form}: a group has sinks of Penstock only")

    @contextlib.contextmanager
    def batch(self, df: DataFrame, batch_id: int) -> Iterator[GroupBatch]:
        """The writes of one batch. ``df`` is any frame of the session, ``batch_id`` what Spark passes to the function.

        Raises as ``save()`` of :func:`penstock.batch_writer` does, at once or at the end of the block; also if a write
        has failed and was not repeated, or still runs.
        """
        driver = _GroupDriver(self, df.sparkSession, int(batch_id))
        with self._only_block(driver), attempting(driver.run, self.checkpoint, self.name, int(batch_id)):
            batch = GroupBatch(self, driver.running, driver.plan())
            try:
                try:
                    yield batch
                finally:
                    batch.close()
                batch.check_complete()
                driver.commit(batch.plan, batch.written)
            except BaseException:
                with contextlib.suppress(OSError, RetriableError):
                    driver.abort(batch.plan, batch.written)
                raise

    @contextlib.contextmanager
    def _only_block(self, driver: _GroupDriver) -> Iterator[None]:
        """Refuses a block inside another one of the same batch: the inner plan would void the outer block's writes."""
        block = driver.run, driver.running.checkpoint, self.name, driver.running.number
        if block in _open_blocks:
            raise BadConfigurationError(
                f"the group '{self.name}' is in a block of batch {block[-1]} already: make all of its writes in one "
                "block, one after the other"
            )
        _open_blocks.add(block)
        try:
            yield
        finally:
            _open_blocks.discard(block)


class GroupBatch:
    """One batch of a :class:`SinkGroup`, between its plan and its decision. Threads may write to different sinks."""

    def __init__(self, group: SinkGroup, running: RunningBatch, plan: BatchPlan) -> None:
        self._group = group
        self._running = running
        self.plan = plan
        self.written: list[str] = []
        self._running_writes: set[str] = set()
        self._failed: set[str] = set()
        self._is_over = False

    def write(self, name: str, rows: DataFrame) -> None:
        """Writes ``rows`` to a sink of the group, hidden until the block ends. A sink may be left out.

        Raises BadConfigurationError for a sink that the group lacks, for one that was written to already, and once the
        block has ended.
        """
        if name not in self._group.sinks:
            names = ", ".join(self._group.sinks)
            raise BadConfigurationError(f"the group '{self._group.name}' has no sink '{name}', only {names}")
        if name in self.written or name in self._running_writes:
            raise BadConfigurationError(f"sink '{name}' has been written to in this batch already: write to it once")
        self._running_writes.add(name)
        try:
            # Looked at last: from here on the end of the block sees this write.
            if self._is_over:
                raise BadConfigurationError(
                    f"sink '{name}' is written to after the block of its batch has ended: write inside the block, and "
                    "wait for your threads there"
                )
            self._failed.add(name)
            self._save(name, rows)
            self._failed.discard(name)
            self.written.append(name)
        finally:
            self._running_writes.discard(name)

    def _save(self, name: str, rows: DataFrame) -> None:
        form, options = self._group.sinks[name]
        planned = {**asdict(self.plan.planned), "sequence": self.plan.sequence}
        writer = in_group(rows.write.mode("append"), self._running, name, json.dumps(planned))
        writer.format(form).options(**options).save()

    def close(self) -> None:
        """Refuses further writes: the block has ended."""
        self._is_over = True

    def check_complete(self) -> None:
        """Raises unless every write that has begun has returned: the others' rows would be missing in the decision."""
        if running := sorted(self._running_writes):
            raise BadConfigurationError(
                f"the block ends while '{running[0]}' is still being written to: wait for your threads inside the block"
            )
        if failed := sorted(self._failed):
            raise RetriableError(
                f"the write to '{failed[0]}' has failed and was not repeated before the block ended: write again, or "
                "let the error end the block. Nothing of the batch is decided"
            )


@dataclass(frozen=True)
class _Configured:
    """A sink of the group, as the user wrote it, with its options located."""

    name: str
    options: Mapping[str, str]
    retry: RetryPolicy


class _GroupDriver:
    """The driver's side for one batch."""

    def __init__(self, group: SinkGroup, spark: Any, batch_id: int) -> None:
        context = classic_context(spark)
        home = Home.of(context, spark.conf.get("spark.hadoop.fs.defaultFS", "") or "")
        self._configured = {name: _configured(form, options, home) for name, (form, options) in group.sinks.items()}
        self._retry = max((one.retry for one in self._configured.values()), key=lambda one: one.timeout_s)
        checkpoint, (query, self.run) = home.locate(group.checkpoint), run_of(context)
        self._metrics = Metrics()
        self._counts_folder = counts_folder(context)
        run = run_of_attempt(self.run, group.checkpoint, group.name, batch_id)
        self.running = RunningBatch(checkpoint, batch_id, group.name, query, run)
        options = storage_options_of_one(checkpoint, (one.options for one in self._configured.values()))
        self._storage, self._path = open_storage(checkpoint, options, self._retry)
        self._query = self._known()

    def _known(self) -> KnownQuery:
        return known_query(self._storage, self._path, sink=self.running.sink_name, query_id=self.running.query)

    @property
    def _prepared(self) -> Prepared:
        return Prepared(self._storage, self._query.home)

    def _protocol(self) -> TwoPhaseCommit:
        query = self._query = self._known()
        # Members that the group has no more are opened as they were stored.
        names = dict.fromkeys([*self._configured, *(members_of(self._storage, query.home) or ())])
        options = {name: one.options for name, one in self._configured.items()}
        connectors = {name: one.name for name, one in self._configured.items()}
        union, _ = load_group(self._storage, query.home, names, options, connectors)
        location = CheckpointLocation(self._storage, query.home)
        context = SinkContext(query.names, _NO_SCHEMA, metrics=self._metrics, checkpoint=location, retry=self._retry)
        return TwoPhaseCommit(
            start_sink(union, context),
            context,
            query.chain,
            query.memory,
            session=_SESSION,
            before_claim=lambda: self._begin(query, list(names)),
            in_batch=True,
        )

    def _begin(self, query: KnownQuery, names: list[str]) -> None:
        query.begin_group()
        remember_group(self._storage, query.home, names)
        self._prepared.forget()

    @contextlib.contextmanager
    def _counting(self) -> Iterator[None]:
        try:
            yield
        finally:
            add_driver_counts(self._counts_folder, self._query.query_id, self._metrics.take())

    def plan(self) -> BatchPlan:
        """Before the first write."""
        with self._counting():
            try:
                return self._plan()
            except QueryReplacedError:
                forget_query(self._query)
                return self._plan()

    def _plan(self) -> BatchPlan:
        protocol = self._protocol()
        self.running.check_query(self._query.query_id)
        return protocol.plan(BatchInFunction(self._query.spark_log, self.running.number, self.running.run))

    def commit(self, plan: BatchPlan, written: list[str]) -> None:
        """After the last write. Publishes to one sink after the other."""
        with self._counting():
            self._protocol().commit(self.running.number, self._results(plan, written))
            self._prepared.forget()

    def abort(self, plan: BatchPlan, written: list[str]) -> None:
        """A write has failed, or the commit. Touches nothing that was decided."""
        with self._counting():
            self._protocol().abort(self.running.number, self._results(plan, written))

    def _results(self, plan: BatchPlan, written: list[str]) -> list[TaskResult]:
        results = [TaskResult(0, uuid.uuid4().hex, plan.planned, offsets=plan.offsets)]
        # In the order of the group's sinks: what comes first is published first.
        for number, name in enumerate((one for one in self._configured if one in written), 1):
            try:
                outputs, metrics = self._prepared.get(plan.planned.plan_id, name)
            except FileNotFoundError:
                raise RetriableError(
                    f"what was written to '{name}' was removed: another run of the query has begun"
                ) from None
            results.append(TaskResult(number, uuid.uuid4().hex, plan.planned, outputs, metrics=metrics))
        return results


#: A process plans its next batch without a claim.
_SESSION = uuid.uuid4().hex


def _configured(form: str, options: Mapping[str, str], home: Home) -> _Configured:
    found = find_connector(form)
    connector: Connector = found.load()
    if connector.sink_options is None:
        raise BadConfigurationError(f"{form} has no sink")
    located = home.locate_options(options, connector.sink_options)
    parsed = connector.sink_options.parse(located, owner=f"sink {form}", mode="batch")
    return _Configured(found.name, located, RetryPolicy.from_values(parsed))
