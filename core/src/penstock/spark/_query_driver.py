"""What a writer has on the driver: a query's sink, started, and the protocol that plans and commits its batches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from penstock._commit import AnySink, BatchPlan, EngineLog, TaskResult, TwoPhaseCommit, start_sink
from penstock.checkpoint import BatchInFunction
from penstock.metrics import Metrics
from penstock.options import OptionValues
from penstock.retry import RetryPolicy
from penstock.sink import CheckpointLocation, SinkContext
from penstock.spark._driver_counts import add_driver_counts
from penstock.spark._foreach_batch import RunningBatch
from penstock.spark._known_query import KnownQuery, QueryReplacedError, forget_query, known_query
from penstock.storage import open_storage

__all__ = ["QueryDriver"]


class QueryDriver:
    """The driver's side for one batch. ``batch``: the one whose function writes; ``None`` in a query's own sink.

    ``counts_folder`` is where it counts, if the folder is there.
    """

    def __init__(
        self,
        sink: AnySink,
        schema: pa.Schema,
        connector: str,
        options: OptionValues,
        checkpoint: str,
        session: str,
        retry: RetryPolicy,
        batch: RunningBatch | None = None,
        counts_folder: str = "",
    ) -> None:
        self._retry = retry
        self._metrics = Metrics()
        self._counts_folder = counts_folder
        self._storage, self._path = open_storage(checkpoint, options, retry)
        self._schema = schema
        self._begin: Callable[[KnownQuery], None] = lambda query: query.begin(connector, options, schema)
        self._session = session
        self._batch = batch
        self._query = self._known(None)
        self.sink: AnySink = start_sink(sink, self._context())

    def _known(self, names: str | None) -> KnownQuery:
        if self._batch is None:
            return known_query(self._storage, self._path, names=names)
        name, query_id = self._batch.sink_name, self._batch.query
        return known_query(self._storage, self._path, sink=name, names=names, query_id=query_id)

    def _context(self) -> SinkContext:
        location = CheckpointLocation(self._storage, self._query.home)
        return SinkContext(
            self._query.names, self._schema, metrics=self._metrics, checkpoint=location, retry=self._retry
        )

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Hands over what was counted in the block, also in failure."""
        try:
            yield
        finally:
            add_driver_counts(self._counts_folder, self._query.query_id, self._metrics.take())

    def protocol(self, results: Sequence[TaskResult | None] = ()) -> TwoPhaseCommit:
        """Returns the protocol of the query that ``results`` belong to."""
        names = next((result.planned.query_id for result in results if result is not None), None)
        self._query = query = self._known(names)
        return TwoPhaseCommit(
            self.sink,
            self._context(),
            query.chain,
            query.memory,
            session=self._session,
            before_claim=lambda: self._begin(query),
            in_batch=self._batch is not None,
        )

    def plan(self) -> BatchPlan:
        """Returns the plan for the tasks of the batch that Spark has planned."""
        with self.counting():
            try:
                return self._plan()
            except QueryReplacedError:
                forget_query(self._query)
                return self._plan()

    def _plan(self) -> BatchPlan:
        protocol, log = self.protocol(), self._query.spark_log
        engine: EngineLog = log
        if self._batch is not None:
            self._batch.check_query(self._query.query_id)
            engine = BatchInFunction(log, self._batch.number, self._batch.run)
        return protocol.plan(engine)
