"""What a run's batches say over time: the charts of a dashboard, a bounded number with a bounded number of lines."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from penstock.cli._charts import LIGHT, Chart
from penstock.cli._progress import BatchProgress
from penstock.cli._scales import BYTES, COUNT, DURATION, NUMBER, Kind, Scale, short_time, time_scale

__all__ = ["charts_of", "seconds_of"]

#: What waits is of a split if its name ends in a number (``orders-0``).
_OF_A_SPLIT = re.compile(r".+-\d+", re.DOTALL)
#: With more lines than this, a chart shows the range of all, the median, and the worst few.
_MOST_LINES = len(LIGHT)
_WORST = 3
#: Charts of what waits at the sources, one for each unit.
_MOST_UNITS = 6

_Lines = dict[str, list[tuple[float, float]]]


def charts_of(batches: Sequence[BatchProgress]) -> list[Chart]:
    """Returns the charts with something in them, in the order of the page."""
    timed = [(seconds_of(batch.time), batch) for batch in batches]
    waiting, of_splits, frontiers = _Lines(), _Lines(), _Lines()
    rates, times, counted = _Lines(), _Lines(), _Lines()
    for at, batch in timed:
        rates.setdefault(batch.query or "rows/s", []).append((at, batch.rows_per_second))
        times.setdefault(batch.query or "time", []).append((at, batch.batch_ms))
        commits = f"commits of {batch.query}" if batch.query else "commits"
        counted.setdefault(commits, []).append((at, batch.commits))
        for name, amount in batch.lag.items():
            (of_splits if _OF_A_SPLIT.fullmatch(name) else waiting).setdefault(name, []).append((at, amount))
        for name, reached in (batch.event_time.get("frontiers") or {}).items():
            frontiers.setdefault(name, []).append((at, seconds_of(reached)))
    for name in ("transactions_opened", "transactions_committed", "transactions_aborted"):
        counted[name.replace("_", " ")] = [(at, batch.metrics[name]) for at, batch in timed if name in batch.metrics]
    pending = {
        label: [(at, batch.pending[name]) for at, batch in timed if name in batch.pending]
        for name, label in (("committables", "decided, not published"), ("parts", "committed, not visible"))
    }
    charts = [
        _after_the_first("Throughput", "rows/s", NUMBER, rates),
        _after_the_first("Batch time", "", DURATION, times),
        *(_of_unit(name, {name: points}) for name, points in list(waiting.items())[:_MOST_UNITS]),
        _summed_up("Waiting by split", "", COUNT, of_splits),
        _of_frontiers(frontiers),
        _summed_up("Commits and transactions", "of this run", COUNT, counted),
        _summed_up("Pending at the sink", "", COUNT, pending),
    ]
    return [chart for chart in charts if not chart.is_empty]


def seconds_of(text: str) -> float:
    """Returns the seconds since the epoch of a time as progress lines write it."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def _of_unit(name: str, lines: _Lines) -> Chart:
    is_bytes = name.endswith("bytes")
    return Chart("Waiting at the sources", name, BYTES if is_bytes else COUNT, lines)


def _after_the_first(title: str, unit: str, kind: Kind, lines: _Lines) -> Chart:
    """Sets each line's first batch apart. It starts Python, so it takes as long as many others."""
    apart = {name: points[0] for name, points in lines.items() if len(points) > 1}
    rest = {name: points[1:] if name in apart else points for name, points in lines.items()}
    made = _summed_up(title, unit, kind, rest)
    return replace(made, apart={name: point for name, point in apart.items() if name in made.lines})


def _of_frontiers(lines: _Lines) -> Chart:
    values = [value for points in lines.values() for _, value in points]
    axis = time_scale(min(values), max(values), most=4) if values else None
    kind = Kind(short_time)
    return _summed_up("Event time reached by split", "UTC", kind, lines, behind=True, axis=axis)


def _summed_up(
    title: str, unit: str, kind: Kind, lines: _Lines, *, behind: bool = False, axis: Scale | None = None
) -> Chart:
    """Returns a chart of all lines or, if there are many, of their range, their median and the worst few now.

    The worst are the highest or, with ``behind``, the lowest.
    """
    lines = {name: points for name, points in lines.items() if points}
    if len(lines) <= _MOST_LINES:
        return Chart(title, unit, kind, dict(sorted(lines.items())) if behind else lines, axis=axis)
    sign = 1 if behind else -1
    worst = sorted(lines, key=lambda name: (sign * lines[name][-1][1], name))[:_WORST]
    by_time: dict[float, list[float]] = {}
    for points in lines.values():
        for at, value in points:
            by_time.setdefault(at, []).append(value)
    lowest, highest, median = [], [], []
    for at, values in sorted(by_time.items()):
        lowest.append((at, min(values)))
        highest.append((at, max(values)))
        median.append((at, statistics.median(values)))
    shown = {"median": median, **{name: lines[name] for name in worst}}
    name = f"all {len(lines):,}, lowest to highest; the {'last' if behind else 'highest'} {_WORST} by name"
    return Chart(title, unit, kind, shown, (lowest, highest), name, axis=axis)
