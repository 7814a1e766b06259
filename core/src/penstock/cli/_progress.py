"""Spark's progress of a batch as the few numbers that a person or a monitor wants.

One JSON line for each batch (``penstock run --json``)::

    {"time": "2026-01-31T12:00:00.123Z",      when the batch began
     "batch": 7,                              its number
     "rows": 1200,                            rows read
     "rows_per_second": 3870.9,               rows by the time the batch took
     "batch_ms": 310,                         that time
     "commits": 7,                            decisions that this run has carried out (penstock sinks), else batches
     "lag": {"files": 3, "bytes": 81920},     what waits at the sources, as each of them counts it
     "metrics": {"rows_read": 1200, ...},     counters since the start, as the connectors name them
     "pending": {"committables": 0, "parts": 3},  decided and not published, and committed and not visible
     "event_time": {"frontiers": {...}, ...}, how far splits are, of a source that aligns them; empty otherwise
     "query": "files",                         whose batch it is, if a pipeline has a query for each sink
     "pipeline": "copy"}                       the pipeline's name

The last line of a run is ``{"time", "state", "rows", "batches", "commits", "metrics", "open"}``, with ``"error"`` if it
failed; ``state`` is ``finished``, ``stopped`` or ``failed``. All counts are those of this run. ``open`` has an entry
for each query that has left something unpublished:
``{"checkpoint", "decisions": 0, "pieces": 12, "command": "penstock finish ck"}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from penstock._monitoring import NOTICEABLE, source_progress

__all__ = ["BatchProgress", "batch_progress", "noticeable", "query_state"]


@dataclass(frozen=True)
class BatchProgress:
    """One batch; the fields are those of the JSON line."""

    time: str
    batch: int
    rows: int
    rows_per_second: float
    batch_ms: int
    commits: int
    lag: dict[str, float] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    event_time: dict[str, Any] = field(default_factory=dict)
    pending: dict[str, float] = field(default_factory=dict)
    query: str = ""
    pipeline: str = ""

    def to_json(self) -> str:
        """Returns one line of JSON."""
        value = asdict(self)
        return json.dumps({name: part for name, part in value.items() if part or name not in ("query", "pipeline")})


def batch_progress(
    progress: Mapping[str, Any],
    commits: int,
    counters: Mapping[str, int],
    pending: Mapping[str, int] | None = None,
) -> BatchProgress:
    """Combines Spark's progress (a ``StreamingQueryProgress``), counters, and what the decision log says."""
    lag: dict[str, float] = {}
    metrics: dict[str, float] = dict(counters)
    event_time: dict[str, Any] = {}
    for source in progress["sources"]:
        read = source_progress(source)
        _add(lag, read.lag)
        _add(metrics, read.counters)
        for kind, found in read.event_time.items():
            known = event_time.setdefault(kind, type(found)())
            known.update(found) if isinstance(known, dict) else known.extend(found)
    rows = int(progress["numInputRows"] or 0)
    batch_ms = int(progress["batchDuration"])
    return BatchProgress(
        time=str(progress["timestamp"]),
        batch=int(progress["batchId"]),
        rows=rows,
        rows_per_second=round(rows * 1000 / batch_ms, 1) if batch_ms else 0.0,
        batch_ms=batch_ms,
        commits=commits,
        lag=lag,
        metrics=metrics,
        event_time=event_time,
        pending=dict(pending or {}),
    )


def _add(total: dict[str, float], counts: Mapping[str, float]) -> None:
    for name, amount in counts.items():
        total[name] = total.get(name, 0) + amount


def noticeable(metrics: Mapping[str, float]) -> dict[str, float]:
    """Returns the counters that a person should see and that are not zero, by their names in words."""
    return {name.replace("_", " "): metrics[name] for name in NOTICEABLE if metrics.get(name)}


_WAITING = {
    "Waiting for data": "waiting for data",
    "Waiting for next trigger": "waiting for the trigger",
    "Processing new data": "processing",
    "Getting offsets": "looking for new data",
    "Initializing": "starting the query",
}


def query_state(message: str) -> str:
    """Spark's status message of a query, without the parts that are for developers."""
    return next((text for start, text in _WAITING.items() if message.startswith(start)), "running")
