"""What Spark's progress of a batch says of its sources. The display of a run and the metrics both read it here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.serialization import MALFORMED

__all__ = ["SourceProgress", "is_batch", "source_progress"]

#: Before the names of what a source remembers: its own business, and not lag.
_TRACKED = "tracked_"


@dataclass(frozen=True)
class SourceProgress:
    """One source in the progress of a batch.

    ``lag`` is what waits, as the source counts it: in all by unit (``records``, ``bytes``), and by partition.
    ``counters`` are those of its driver side since the run began; ``event_time`` says how far its splits are.
    """

    rows: int
    lag: dict[str, float] = field(default_factory=dict)
    tracked: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    event_time: dict[str, Any] = field(default_factory=dict)


def is_batch(progress: Mapping[str, Any]) -> bool:
    """Returns whether the progress is of a batch. While a query is idle, Spark reports the one to come."""
    return "addBatch" in progress["durationMs"]


def source_progress(source: Mapping[str, Any]) -> SourceProgress:
    """Reads a source of a ``StreamingQueryProgress``: one of Penstock, or one of Spark's own."""
    reported = _reported(source.get("latestOffset"))
    backlog = reported.get("backlog") or {}
    return SourceProgress(
        rows=int(source.get("numInputRows") or 0),
        lag={name: amount for name, amount in backlog.items() if not name.startswith(_TRACKED)}
        | _distances(source.get("metrics") or {}),
        tracked={name[len(_TRACKED) :]: amount for name, amount in backlog.items() if name.startswith(_TRACKED)},
        counters=dict(reported.get("metrics") or {}),
        event_time=dict(reported.get("eventTime") or {}),
    )


def _reported(latest_offset: Any) -> dict[str, Any]:
    """Returns what a penstock source says of itself, which Spark shows as the source's latest offset."""
    if isinstance(latest_offset, str):
        try:
            latest_offset = json.loads(latest_offset)
        except MALFORMED:
            return {}
    return latest_offset if isinstance(latest_offset, dict) and "backlog" in latest_offset else {}


def _distances(metrics: Mapping[str, str]) -> dict[str, float]:
    """Spark's own sources report distances as metrics (``maxOffsetsBehindLatest``)."""
    found: dict[str, float] = {}
    for name, text in metrics.items():
        if "behind" in name.lower() or "outstanding" in name.lower():
            try:
                found[name] = float(text)
            except ValueError:
                continue
    return found
