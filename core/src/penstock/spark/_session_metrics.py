"""``penstock.serve_metrics`` and ``penstock.export_metrics``: the numbers of a session's streaming queries."""

from __future__ import annotations

import contextlib
import functools
import json
import operator
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from penstock._monitoring import (
    METRICS,
    MOST_PARTITIONS,
    DecisionReader,
    Decisions,
    MetricsServer,
    QueryMeter,
    Registry,
    Sample,
    counted,
    observe,
)
from penstock.checkpoint import chain_of, home_of, named_sinks
from penstock.errors import PenstockError
from penstock.printable import get_logger
from penstock.spark._driver_counts import open_counts_folder, read_driver_counts, remove_counts_folder
from penstock.spark._ends import remove_listener, when_session_ends
from penstock.spark._registration import counts_folder, task_counts
from penstock.spark._workers import classic_context
from penstock.storage import open_storage

__all__ = ["SessionMetrics", "export_metrics", "serve_metrics"]

_log = get_logger("penstock")
#: When it is asked for, what the decision logs say is looked up again if it is older.
_FRESH_S = 10.0
#: The part of a query that plans and commits its batches, on the driver.
_COMMITS = "commits"

#: By session. Its end takes it out.
_attached: dict[SparkSession, SessionMetrics] = {}


def serve_metrics(
    spark: SparkSession,
    *,
    port: int = 9464,
    host: str = "127.0.0.1",
    partitions: int = MOST_PARTITIONS,
    storage_options: Mapping[str, str] | None = None,
) -> MetricsServer:
    """Serves the metrics of the session's streaming queries over HTTP, for Prometheus to scrape.

    It ends with the session, or with the returned server's ``stop()``. Port 0 takes a free one. ``partitions`` bounds
    how many partitions of a source have series of their own. ``storage_options`` are what reading the checkpoints
    needs, such as ``s3.key``. Of both, the first call for a session decides.

    Needs ``penstock[prometheus]``. Raises BadConfigurationError without it, and if the port is in use.
    There is no password: a client that reaches the port can read names of queries and partitions, and numbers.
    """
    return SessionMetrics.of(spark, partitions, storage_options).serve(host, port)


def export_metrics(
    spark: SparkSession,
    meter_provider: Any = None,
    *,
    partitions: int = MOST_PARTITIONS,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Makes the metrics of the session's streaming queries OpenTelemetry instruments of ``meter_provider``.

    ``None`` is the provider that is set for the process. The provider's readers ask for the values, in threads of
    their own; after the session's end there are none. The other arguments are those of
    :func:`penstock.serve_metrics`. Needs ``penstock[opentelemetry]``, and raises BadConfigurationError without it.
    """
    SessionMetrics.of(spark, partitions, storage_options).export(meter_provider)


@dataclass
class _Log:
    """The decision log of a query, or those of its batch function's sinks.

    ``lock`` is held while they are read, by the worker or by the start of a run.
    """

    checkpoint: str | None
    lock: threading.Lock = field(default_factory=threading.Lock)
    readers: dict[str, DecisionReader] = field(default_factory=dict)
    is_queued: bool = False
    has_warned: bool = False

    def look(self, storage_options: Mapping[str, str]) -> Decisions | None:
        """Returns the news of all together; ``None`` if nothing was decided yet. Raises what the storage raises."""
        assert self.checkpoint is not None
        storage, path = open_storage(self.checkpoint, storage_options)

        def new(name: str, *, from_start: bool) -> DecisionReader:
            return DecisionReader(chain_of(storage, home_of(path, name)), from_start=from_start)

        if not self.readers:
            self.readers = {name: new(name, from_start=False) for name in ("", *named_sinks(storage, path))}
        own = self.readers[""].look()
        if own is not None:
            return own  # a query has either
        for name in named_sinks(storage, path):
            self.readers.setdefault(name, new(name, from_start=True))
        found = [news for name, one in self.readers.items() if name and (news := one.look()) is not None]
        return functools.reduce(operator.add, found) if found else None


@dataclass
class _Run:
    """A run of a query."""

    query_id: str
    meter: QueryMeter
    log: _Log


class SessionMetrics(StreamingQueryListener):
    """Counts what happens to the streaming queries of a session.

    Events come on Spark's listener threads. The decision logs are read after each batch, in one thread of its own, as
    a storage that hangs must not hold up events or a scrape. A row costs nothing.
    """

    def __init__(self, spark: SparkSession, partitions: int, storage_options: Mapping[str, str] | None) -> None:
        self._spark = spark
        self._storage_options = dict(storage_options or {})
        self._is_asked_for = False
        self._context = classic_context(spark)
        self._folder = counts_folder(self._context)
        if self._folder:
            open_counts_folder(self._folder)
        self._registry = Registry(partitions=partitions)
        self._runs: dict[str, _Run] = {}
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="penstock-metrics")
        self._refreshed = time.monotonic()
        self._servers: list[MetricsServer] = []
        self._is_over = False

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        partitions: int = MOST_PARTITIONS,
        storage_options: Mapping[str, str] | None = None,
    ) -> SessionMetrics:
        """Returns those of ``spark``, which are made once. Queries that run already are counted from now on."""
        if spark not in _attached:
            metrics = _attached[spark] = cls(spark, partitions, storage_options)
            spark.streams.addListener(metrics)
            for query in spark.streams.active:
                metrics._begin(str(query.id), query.name, str(query.runId), query)
            when_session_ends(spark, metrics.close)
        return _attached[spark]

    def samples(self) -> Iterator[Sample]:
        """Returns every value there is now. Any thread; never waits for a storage."""
        if self._is_over:
            return
        self._refresh()
        labels: dict[str, str] = {}
        for sample in self._registry.samples():
            if sample.metric.name == "query.info":
                labels[sample.labels[1]] = sample.labels[0]
            yield sample
        counts: dict[tuple[str, tuple[str, ...]], float] = {}
        parts = {**task_counts(self._context), _COMMITS: read_driver_counts(self._folder) if self._folder else {}}
        for part, by_query in parts.items():
            for query_id, of_query in by_query.items():
                for name, amount in of_query.items() if query_id in labels else ():
                    one = counted(name, amount)
                    key = one.metric, (labels[query_id], part, *one.labels)
                    counts[key] = counts.get(key, 0) + one.amount
        for (name, found), value in counts.items():
            yield Sample(METRICS[name], found, value)

    def commit_counts(self) -> dict[str, int]:
        """Returns the counters of planning and committing on the driver, by name, of all queries."""
        total: dict[str, int] = {}
        for of_query in (read_driver_counts(self._folder) if self._folder else {}).values():
            for name, amount in of_query.items():
                total[name] = total.get(name, 0) + amount
        return total

    def serve(self, host: str, port: int) -> MetricsServer:
        """Starts a server that ends with the session. Raises as :func:`serve_metrics` does."""
        server = MetricsServer(self.samples, host=host, port=port)
        self._servers.append(server)
        self._begin_to_look()
        return server

    def export(self, meter_provider: Any = None) -> None:
        """Creates instruments. Raises as :func:`export_metrics` does."""
        observe(self.samples, meter_provider)
        self._begin_to_look()

    def _begin_to_look(self) -> None:
        """Reads decision logs from now on: before that, no client can see the numbers."""
        self._is_asked_for = True
        for run in list(self._runs.values()):
            self._look(run)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Begins a run, before its first batch: Spark waits for this."""
        query = None
        with contextlib.suppress(Exception):  # over Connect the query may be another client's
            query = self._spark.streams.get(str(event.id))
        self._begin(str(event.id), event.name, str(event.runId), query, str(event.timestamp))

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Takes in a batch."""
        progress = json.loads(event.progress.json)
        run = self._runs.get(str(progress["runId"]))
        if run is not None:
            run.meter.take_progress(progress)
            self._ask(run)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Notes a sign of life; the publisher may have closed what was due."""
        run = self._runs.get(str(event.runId))
        if run is not None:
            run.meter.saw(str(event.timestamp))
            self._ask(run)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Ends a run. What it publishes at its end is looked for as long as its series are kept."""
        self._registry.end(str(event.id), str(event.runId), failed=event.exception is not None)
        run = self._runs.get(str(event.runId))
        if run is not None:
            self._ask(run)

    def close(self) -> None:
        """Ends everything: there are no values after that."""
        self._is_over = True
        _attached.pop(self._spark, None)
        for server in self._servers:
            server.stop()
        if self._folder:
            remove_counts_folder(self._folder)
        self._worker.shutdown(wait=False, cancel_futures=True)
        remove_listener(self._spark, self)

    def _begin(self, query_id: str, name: str | None, run_id: str, query: Any, time_text: str = "") -> None:
        self._registry.begin(query_id, name, run_id)
        run = _Run(query_id, QueryMeter(self._registry, query_id), _Log(_checkpoint_of(query)))
        if time_text:
            run.meter.saw(time_text)
        self._runs = {key: one for key, one in self._runs.items() if self._registry.knows(one.query_id)}
        # The last events of the run before may be still to come.
        *older, before = [None, *(key for key, one in self._runs.items() if one.query_id == query_id)]
        self._runs = {key: one for key, one in self._runs.items() if key not in older}
        if before is not None and self._runs[before].log.checkpoint == run.log.checkpoint:
            # It continues where that had come to: what is published in between counts as well.
            run.log = self._runs[before].log
        self._runs[run_id] = run
        self._look(run)

    def _refresh(self) -> None:
        """A batch that hangs in its commit reports nothing; what is decided and open shows it."""
        if time.monotonic() - self._refreshed > _FRESH_S:
            self._refreshed = time.monotonic()
            for run in list(self._runs.values()):
                if self._registry.knows(run.query_id):
                    self._ask(run)

    def _ask(self, run: _Run) -> None:
        """Lets the worker look at the decision log, once however often it was asked while it waits."""
        with self._lock:
            if run.log.checkpoint is not None and not run.log.is_queued and not self._is_over:
                run.log.is_queued = True
                self._worker.submit(self._look_later, run)

    def _look_later(self, run: _Run) -> None:
        with self._lock:
            run.log.is_queued = False
        self._look(run)

    def _look(self, run: _Run) -> None:
        log = run.log
        if log.checkpoint is None or not self._is_asked_for:
            return
        with log.lock:
            try:
                news = log.look(self._storage_options)
            except (PenstockError, OSError) as error:
                run.meter.miss_decisions()
                if not log.has_warned:
                    _log.warning("metrics: the decisions of %s can't be read: %s", log.checkpoint, error)
                log.has_warned = True
                return
        if news is not None:
            run.meter.take_decisions(news)


def _checkpoint_of(query: Any) -> str | None:
    """Returns where the query's checkpoint is; ``None`` over Spark Connect, which does not say."""
    if not hasattr(query, "_jsq"):
        return None
    return str(query._jsq.streamingQuery().resolvedCheckpointRoot())
