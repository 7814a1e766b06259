"""``penstock dashboard``: a query's progress lines as one page of charts that needs no server and no network."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from penstock.cli._charts import COLOURS, Chart, as_html, as_svg, short_number, short_time
from penstock.cli._draw import human_duration
from penstock.cli._progress import BatchProgress, batch_progress
from penstock.errors import BadConfigurationError
from penstock.serialization import MALFORMED

__all__ = ["Run", "page", "read_run", "write_dashboard"]

#: What waits is of a split if its name ends in a number (``orders-0``).
_OF_A_SPLIT = re.compile(r".+-\d+", re.DOTALL)
#: Counters that you should look at if they are not zero.
_TELLING = (
    *("bad_rows", "dead_letters", "retries", "data_losses", "records_lost", "rewritten_files", "changed_files"),
    "missing_files",
    *("corrupt_files", "failed_records", "failed_rows", "rows_not_applied", "transactions_aborted"),
)
#: Splits with a line of their own; those with the highest values.
_MOST_SPLITS = len(COLOURS)


@dataclass
class Run:
    """The batches of a file of progress lines, and how the run ended (``state`` is empty while it runs)."""

    batches: list[BatchProgress] = field(default_factory=list)
    state: str = ""
    error: str = ""


def read_run(lines: Iterable[str], name: str = "the file") -> Run:
    """Reads lines as ``penstock run --json`` writes them, or Spark's own progress as JSON, one object a line.

    Raises BadConfigurationError for a line that is neither, unless it is the last one: that may be half written.
    """
    run = Run()
    bad: int | None = None
    for number, line in enumerate(lines, 1):
        if bad is not None:
            raise BadConfigurationError(
                f"{name}, line {bad}: neither a line of 'penstock run --json' nor Spark's progress"
            )
        if line.strip():
            try:
                _add(run, json.loads(line))
            except MALFORMED:
                bad = number
    if bad is not None and not run.batches:
        raise BadConfigurationError(f"{name}, line {bad}: neither a line of 'penstock run --json' nor Spark's progress")
    return run


def _add(run: Run, value: Mapping[str, Any]) -> None:
    if "state" in value:
        run.state, run.error = _text(value["state"]), _text(value.get("error", ""))
    elif "batchId" in value:
        if value["numInputRows"] or not run.batches:  # Spark repeats the last batch while nothing comes
            run.batches.append(_checked(batch_progress(value, len(run.batches) + 1, {})))
    else:
        run.batches.append(_checked(BatchProgress(**value)))


def _checked(batch: BatchProgress) -> BatchProgress:
    """Raises ValueError, TypeError or AttributeError for values that can't be drawn: the file may be anyone's."""
    numbers = (batch.batch, batch.rows, batch.rows_per_second, batch.batch_ms, batch.commits)
    for number in (*numbers, *batch.lag.values(), *batch.metrics.values(), *batch.pending.values()):
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise ValueError(f"{number!r} is no number")
    _text(batch.query)
    for time_text in (batch.time, *(batch.event_time.get("frontiers") or {}).values()):
        _seconds(_text(time_text))
    for word in ("held", "idle"):
        for name in batch.event_time.get(word) or ():
            _text(name)
    return batch


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def write_dashboard(source: Path, target: Path, *, watch: bool, interval_s: float = 2.0) -> None:
    """Writes the page; with ``watch`` again and again, until the run has ended, and the page reloads itself.

    Raises BadConfigurationError for a file that can't be read or is none of progress lines.
    """
    while True:
        try:
            with source.open(encoding="utf-8") as lines:
                run = read_run(lines, str(source))
        except OSError as error:
            raise BadConfigurationError(f"{source} can't be read: {error.strerror}") from None
        going_on = watch and not run.state
        # An error of writing names the page's path, and goes to the command line as it is.
        target.write_text(page(run, source.name, reload_s=interval_s if going_on else None), "utf-8")
        if not going_on:
            return
        time.sleep(interval_s)


def page(run: Run, title: str, *, reload_s: float | None = None) -> str:
    """Returns the whole page, HTML with its style and its pictures inside."""
    charts = [chart for chart in _charts(run) if not chart.is_empty]
    reload = f'<meta http-equiv="refresh" content="{reload_s:g}">' if reload_s else ""
    body = "".join(_figure(chart) for chart in charts) or "<p>No batch has ended yet.</p>"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_POLICY}{reload}'
        f'<meta name="viewport" content="width=device-width"><title>{as_html(title)}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{as_html(title)}</h1>{_tiles(run)}<main>{body}</main></body></html>\n"
    )


def _charts(run: Run) -> list[Chart]:
    batches = [(_seconds(batch.time), batch) for batch in run.batches]
    waiting: dict[str, list[tuple[float, float]]] = {}
    of_splits: dict[str, list[tuple[float, float]]] = {}
    frontiers: dict[str, list[tuple[float, float]]] = {}
    for at, batch in batches:
        for name, amount in batch.lag.items():
            (of_splits if _OF_A_SPLIT.fullmatch(name) else waiting).setdefault(name, []).append((at, amount))
        for name, reached in (batch.event_time.get("frontiers") or {}).items():
            frontiers.setdefault(name, []).append((at, _seconds(reached)))
    counted: dict[str, list[tuple[float, float]]] = {}
    for at, batch in batches:
        commits = f"commits of {batch.query}" if batch.query else "commits"
        counted.setdefault(commits, []).append((at, float(batch.commits)))
    for name in ("transactions_opened", "transactions_committed", "transactions_aborted"):
        points = [(at, batch.metrics[name]) for at, batch in batches if name in batch.metrics]
        counted[name.replace("_", " ")] = points
    pending = {
        label: [(at, batch.pending[name]) for at, batch in batches if name in batch.pending]
        for name, label in (("committables", "decided, not published"), ("parts", "committed, not visible"))
    }
    rates: dict[str, list[tuple[float, float]]] = {}
    times: dict[str, list[tuple[float, float]]] = {}
    for at, batch in batches:
        rates.setdefault(batch.query or "rows/s", []).append((at, batch.rows_per_second))
        times.setdefault(batch.query or "ms", []).append((at, batch.batch_ms))
    return [
        Chart("Throughput", "rows/s", rates, short_number),
        Chart("Batch time", "ms", times, short_number),
        *(Chart("Waiting at the sources", name, {name: points}, short_number) for name, points in waiting.items()),
        Chart("Waiting by split", "", _highest(of_splits), short_number),
        Chart("Event time reached by split", "UTC", _highest(frontiers), short_time, from_zero=False),
        Chart("Commits and transactions", "since the start", counted, short_number),
        Chart("Pending at the sink", "", pending, short_number),
    ]


def _highest(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    ranked = sorted(lines, key=lambda name: -max(value for _, value in lines[name]))[:_MOST_SPLITS]
    return {name: lines[name] for name in sorted(ranked)}


def _tiles(run: Run) -> str:
    rows, took = sum(batch.rows for batch in run.batches), sum(batch.batch_ms for batch in run.batches) / 1000
    last = run.batches[-1] if run.batches else None
    tiles = {"state": run.state or "running", "rows": f"{rows:,}", "batches": f"{len(run.batches):,}"}
    tiles["time in batches"] = human_duration(took)
    if last is not None:
        tiles["commits"] = f"{sum({batch.query: batch.commits for batch in run.batches}.values()):,}"
        tiles |= {name.replace("_", " "): f"{last.metrics[name]:,}" for name in _TELLING if last.metrics.get(name)}
        tiles |= {
            f"{word} splits": ", ".join(last.event_time[word]) for word in ("held", "idle") if last.event_time.get(word)
        }
    if run.error:
        tiles["error"] = run.error
    shown = "".join(f"<div><dt>{as_html(name)}</dt><dd>{as_html(text)}</dd></div>" for name, text in tiles.items())
    return f'<dl class="{as_html(run.state or "running")}">{shown}</dl>'


def _figure(chart: Chart) -> str:
    keys = [name for name, points in chart.lines.items() if points]
    legend = "".join(
        f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{as_html(name)}</span>'
        for number, name in enumerate(keys)
    )
    unit = f" <small>{as_html(chart.unit)}</small>" if chart.unit else ""
    shown = f"<p>{legend}</p>" if len(keys) > 1 else ""
    return f"<figure><figcaption>{as_html(chart.title)}{unit}</figcaption>{as_svg(chart)}{shown}</figure>"


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


#: Names of splits and errors come from elsewhere. They are escaped, and if one were not, the browser runs no script.
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'\">"
)
_STYLE = """
:root{color-scheme:light dark;--line:#8884;--soft:#888}
body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:1400px;padding:0 1rem}
h1{font-size:1.3rem}main{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.5rem}
dl{display:flex;flex-wrap:wrap;gap:.75rem 2rem}dt{color:var(--soft);font-size:.85rem}dd{margin:0;font-size:1.15rem}
dl.failed div:first-child dd{color:#d55e00}
figure{margin:0;border:1px solid var(--line);border-radius:8px;padding:.75rem}figcaption{font-weight:600}
small{color:var(--soft);font-weight:400}svg{width:100%;height:auto;display:block}
svg text{font-size:11px;fill:var(--soft)}
svg text.y{text-anchor:end}svg .grid{stroke:var(--line)}polyline{fill:none;stroke-width:1.5}circle{fill-opacity:.6}
figure p{display:flex;flex-wrap:wrap;gap:.25rem 1rem;margin:.5rem 0 0;font-size:.85rem}
figure i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
"""
