"""Turns what Spark and the decision log say of one query into numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from penstock._monitoring._counters import counted
from penstock._monitoring._decisions import Decisions
from penstock._monitoring._progress import SourceProgress, is_batch, source_progress
from penstock._monitoring._registry import Registry

__all__ = ["QueryMeter"]

#: Lag in all, by the sources' name of the unit.
_LAG = {
    "records": "source.lag.records",
    "bytes": "source.lag",
    "files": "source.lag.files",
    "splits": "source.lag.splits",
}
_PARTITION_LAG = {"records": "source.partition.lag.records", "bytes": "source.partition.lag"}


class QueryMeter:
    """One run of a query. Single thread."""

    def __init__(self, registry: Registry, query_id: str) -> None:
        self._registry = registry
        self._id = query_id
        self._counters: dict[tuple[str, str], float] = {}

    def saw(self, time_text: str) -> None:
        """Notes a sign of life, at Spark's time of it."""
        self._registry.set(self._id, "query.last_sign.timestamp", seconds_of(time_text))

    def take_progress(self, progress: Mapping[str, Any]) -> None:
        """Takes in a ``StreamingQueryProgress``."""
        # Spark notes when a batch began; that it reports it is a sign of later.
        took = float(progress.get("batchDuration") or 0) / 1000
        self._registry.set(self._id, "query.last_sign.timestamp", seconds_of(progress["timestamp"]) + took)
        if not is_batch(progress):
            return
        self._registry.add(self._id, "batches", 1)
        self._registry.add(self._id, "batch.time", took)
        self._registry.set(self._id, "batch.last", took)
        for phase, milliseconds in progress["durationMs"].items():
            self._registry.add(self._id, "batch.phase.time", milliseconds / 1000, phase)
        watermark = (progress.get("eventTime") or {}).get("watermark")
        if watermark:
            self._registry.set(self._id, "query.watermark.timestamp", seconds_of(watermark))
        for number, source in enumerate(progress["sources"]):
            self._take_source(str(number), source_progress(source))

    def _take_source(self, source: str, found: SourceProgress) -> None:
        self._registry.add(self._id, "source.rows", found.rows, source)
        self._take_lag(source, found.lag)
        self._registry.replace(self._id, "source.tracked", source, found.tracked)
        for name, amount in found.counters.items():
            new = amount - self._counters.get((source, name), 0.0)
            self._counters[source, name] = amount
            one = counted(name, new if new >= 0 else amount)  # the source has begun to count again
            self._registry.add(self._id, one.metric, one.amount, f"source {source}", *one.labels)
        if found.event_time:
            reached = {name: seconds_of(at) for name, at in (found.event_time.get("frontiers") or {}).items()}
            self._set_partitions("source.partition.event_time.timestamp", source, reached)
            for word in ("held", "idle"):
                names = found.event_time.get(word) or ()
                self._registry.set(self._id, f"source.partitions.{word}", len(names), source)

    def _take_lag(self, source: str, lag: Mapping[str, float]) -> None:
        for unit, metric in _LAG.items():
            if unit in lag:
                self._registry.set(self._id, metric, lag[unit], source)
        others = {name: amount for name, amount in lag.items() if name not in _LAG}
        # Partitions are those that make up the total; a source may count something else as well.
        of = next((unit for unit in _PARTITION_LAG if unit in lag and lag[unit] == sum(others.values())), None)
        if of is None:
            self._registry.replace(self._id, "source.lag.other", source, others)
            return
        if others:
            self._set_partitions(_PARTITION_LAG[of], source, others)
            self._registry.set(self._id, "source.partitions", len(others), source)
            left_out = max(0, len(others) - self._registry.partitions)
            self._registry.set(self._id, "source.partitions.left_out", left_out, source)

    def _set_partitions(self, metric: str, source: str, values: Mapping[str, float]) -> None:
        """Keeps those that are first by name. Those with the highest values would be others each time, and in
        the end all of them.
        """
        kept = sorted(values, key=lambda name: (len(name), name))[: self._registry.partitions]
        self._registry.replace(self._id, metric, source, {name: values[name] for name in kept})

    def take_decisions(self, news: Decisions) -> None:
        """Takes in what the decision log says."""
        for metric, amount in (
            ("sink.commits", news.commits),
            ("sink.lost.commits", news.lost),
            ("sink.committed.rows", news.rows),
            ("sink.committed", news.size_bytes),
            ("sink.published", news.published),
        ):
            self._registry.add(self._id, metric, amount)
        self._registry.set(self._id, "sink.pending.committables", news.pending)
        self._registry.set(self._id, "sink.pending.parts", news.parts)
        self._registry.set(self._id, "sink.log.unreadable", 0)

    def miss_decisions(self) -> None:
        """Notes that the decision log could not be read."""
        self._registry.set(self._id, "sink.log.unreadable", 1)


def seconds_of(time_text: str) -> float:
    """Returns Spark's time (``2026-01-31T12:00:00.123Z``) as seconds since 1970."""
    return datetime.fromisoformat(time_text.replace("Z", "+00:00")).timestamp()
