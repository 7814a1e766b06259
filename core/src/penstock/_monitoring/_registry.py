"""The numbers of this process's queries, to be exported."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock._monitoring._definitions import METRICS, Kind, Metric

__all__ = ["MOST_ENDED", "MOST_PARTITIONS", "RETENTION_S", "Registry", "Sample"]

#: Partitions of a source with series of their own.
MOST_PARTITIONS = 1000
#: For how long the series of a query stay after its end: the last batch must be scraped.
RETENTION_S = 300.0
#: Queries that have ended whose series are kept.
MOST_ENDED = 100

_Labels = tuple[str, ...]


class Sample(NamedTuple):
    """A value of a metric; ``labels`` in the order of the metric's."""

    metric: Metric
    labels: _Labels
    value: float


@dataclass
class _Query:
    """What is known of a query. The labels leave out its own, the first."""

    id: str
    label: str
    ended_at: float | None = None
    values: dict[str, dict[_Labels, float]] = field(default_factory=dict)


class Registry:
    """Counters and gauges by query. Thread-safe.

    A query that starts again while its series are kept continues to count. They leave :data:`RETENTION_S` after its
    end, and earlier when more than :data:`MOST_ENDED` queries have ended.
    ``partitions`` bounds the series of each source.
    """

    def __init__(self, *, partitions: int = MOST_PARTITIONS, clock: Callable[[], float] = time.monotonic) -> None:
        self.partitions = partitions
        self._clock = clock
        self._lock = threading.Lock()
        self._queries: dict[str, _Query] = {}
        self._totals = dict.fromkeys((name for name, one in METRICS.items() if not one.labels), 0.0)

    def begin(self, query_id: str, name: str | None, run: str) -> None:
        """Notes that a run of a query has begun. Its label is its name, or its id if another query has that name."""
        with self._lock:
            self._drop_old()
            taken = {one.label for one in self._queries.values() if one.id != query_id}
            query = self._queries.pop(query_id, None) or _Query(query_id, query_id)
            query.label = name if name and name not in taken else query_id
            query.ended_at = None
            query.values["query.info"] = {(query_id, run): 1.0}
            query.values["query.running"] = {(): 1.0}
            self._queries[query_id] = query
            self._totals["queries.started"] += 1

    def end(self, query_id: str, run: str, *, failed: bool) -> None:
        """Notes that a run of the query has ended. Another one may have begun meanwhile."""
        with self._lock:
            self._totals["queries.failed"] += failed
            query = self._queries.get(query_id)
            if query is not None and (query_id, run) in query.values["query.info"]:
                query.values["query.running"] = {(): 0.0}
                query.ended_at = self._clock()
            self._drop_old()

    def knows(self, query_id: str) -> bool:
        """Returns whether the query has series."""
        with self._lock:
            self._drop_old()
            return query_id in self._queries

    def add(self, query_id: str, name: str, amount: float, *labels: str) -> None:
        """Adds to a counter. Of a query that has no series, to none."""
        self._check(name, labels, Kind.COUNTER)
        with self._lock:
            if query_id in self._queries:
                values = self._queries[query_id].values.setdefault(name, {})
                values[labels] = values.get(labels, 0.0) + amount

    def set(self, query_id: str, name: str, value: float, *labels: str) -> None:
        """Sets a gauge."""
        self._check(name, labels, Kind.GAUGE)
        with self._lock:
            if query_id in self._queries:
                self._queries[query_id].values.setdefault(name, {})[labels] = float(value)

    def replace(self, query_id: str, name: str, source: str, values: Mapping[str, float]) -> None:
        """Sets a gauge that has one more label than its source. Series of the source that are not in ``values`` go."""
        self._check(name, (source, ""), Kind.GAUGE)
        with self._lock:
            if query_id in self._queries:
                kept = self._queries[query_id].values
                others = {labels: value for labels, value in kept.get(name, {}).items() if labels[0] != source}
                kept[name] = others | {(source, label): float(value) for label, value in values.items()}

    def samples(self) -> Iterator[Sample]:
        """Returns every value there is now."""
        with self._lock:
            self._drop_old()
            found = [Sample(METRICS[name], (), value) for name, value in self._totals.items()]
            for query in self._queries.values():
                for name, values in query.values.items():
                    found += [Sample(METRICS[name], (query.label, *labels), value) for labels, value in values.items()]
        return iter(found)

    def _check(self, name: str, labels: _Labels, kind: Kind) -> None:
        metric = METRICS[name]
        if metric.kind is not kind or len(metric.labels) != len(labels) + 1:
            raise ValueError(f"{name} is a {metric.kind.value} with the labels {', '.join(metric.labels)}")

    def _drop_old(self) -> None:
        ended = sorted((query.ended_at, query.id) for query in self._queries.values() if query.ended_at is not None)
        earliest = self._clock() - RETENTION_S
        for number, (ended_at, query_id) in enumerate(ended):
            if ended_at < earliest or number < len(ended) - MOST_ENDED:
                del self._queries[query_id]
