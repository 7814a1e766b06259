"""``penstock dashboard``: a query's progress lines as one page of charts that needs no server and no network."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.checkpoint import LeftOpen
from penstock.cli._charts import DARK, LIGHT, as_figure, as_html
from penstock.cli._draw import human_count, human_duration, plural
from penstock.cli._progress import BatchProgress, batch_progress, noticeable
from penstock.cli._scales import Scale, duration, short_time, time_scale
from penstock.cli._series import charts_of, seconds_of
from penstock.errors import BadConfigurationError
from penstock.serialization import MALFORMED

__all__ = ["Run", "page", "read_run", "write_dashboard"]

#: Names that a tile lists.
_MOST_NAMES = 5
#: No count is larger; what is can't be a count.
_LARGEST = 1e30
#: How long the last batch may make the time axis, in seconds.
_LONGEST_LAST = 86_400 * 365


@dataclass
class Run:
    """The batches of the last run in a file of progress lines, and how it ended (``state`` is empty while it runs).

    ``left_open`` says what its queries have left open. ``name`` is the pipeline's or the query's, if the lines have
    one; ``earlier`` counts runs before it in the file.
    """

    batches: list[BatchProgress] = field(default_factory=list)
    state: str = ""
    error: str = ""
    left_open: list[str] = field(default_factory=list)
    name: str = ""
    earlier: int = 0


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
        run.left_open = [left for one in value.get("open") or () if (left := _left_open(one))]
        run.name = _text(value.get("pipeline", run.name))
        return
    if run.state:
        run.earlier += 1
        run.state, run.error, run.left_open, run.batches = "", "", [], []
    if "batchId" in value:
        if value["numInputRows"] or not run.batches:  # Spark repeats the last batch while nothing comes
            run.name = _text(value.get("name") or run.name)
            run.batches.append(_checked(batch_progress(value, len(run.batches) + 1, {})))
    else:
        batch = _checked(BatchProgress(**value))
        run.name = batch.pipeline or run.name
        run.batches.append(batch)


def _checked(batch: BatchProgress) -> BatchProgress:
    """Raises ValueError, TypeError or AttributeError for values that can't be drawn: the file may be anyone's."""
    numbers = (batch.batch, batch.rows, batch.rows_per_second, batch.batch_ms, batch.commits)
    for number in (*numbers, *batch.lag.values(), *batch.metrics.values(), *batch.pending.values()):
        _number(number)
    _text(batch.query)
    _text(batch.pipeline)
    for time_text in (batch.time, *(batch.event_time.get("frontiers") or {}).values()):
        seconds_of(_text(time_text))
    for word in ("held", "idle"):
        for name in batch.event_time.get(word) or ():
            _text(name)
    return batch


def _left_open(value: Mapping[str, Any]) -> str:
    """Says what a query has left open. Its command is made here: a reader runs it, and the file may be anyone's."""
    checkpoint, decisions, pieces = _text(value["checkpoint"]), _number(value["decisions"]), _number(value["pieces"])
    return str(LeftOpen(checkpoint, int(decisions), int(pieces)))


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
        raise ValueError(f"{value!r} is no number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def write_dashboard(
    source: Path, target: Path, *, watch: bool, interval_s: float = 2.0, written: Callable[[], None] = lambda: None
) -> None:
    """Writes the page, and calls ``written``; with ``watch`` again until the run has ended. The page reloads itself.

    A reader never sees half a page. Raises BadConfigurationError for a file that can't be read or is none of progress
    lines, and OSError for a page that can't be written.
    """
    while True:
        try:
            with source.open(encoding="utf-8") as lines:
                run = read_run(lines, str(source))
        except (OSError, UnicodeDecodeError) as error:
            raise BadConfigurationError(f"{source} can't be read: {getattr(error, 'strerror', error)}") from None
        going_on = watch and not run.state
        text = page(run, source.stem, reload_s=interval_s if going_on else None)
        try:
            _replace(target, text)
        except OSError as error:
            # Names the page, not the file that is to take its place.
            raise OSError(error.errno, error.strerror, str(target)) from None
        written()
        written = _done
        if not going_on:
            return
        time.sleep(interval_s)


def _replace(target: Path, text: str) -> None:
    """Writes a whole file in place of ``target``; into it if it is no file, as ``/dev/stdout``."""
    if target.exists() and not target.is_file():
        target.write_text(text, "utf-8")
        return
    new = target.with_name(f".{target.name}.{os.getpid()}")
    new.write_text(text, "utf-8")
    new.replace(target)


def _done() -> None:
    """Stands for what is called once."""


def page(run: Run, title: str, *, reload_s: float | None = None) -> str:
    """Returns the whole page, HTML with its style and its pictures inside. ``title`` is for a run without a name."""
    times = _times(run)
    body = "".join(as_figure(chart, times) for chart in charts_of(run.batches)) if times else ""
    reload = f'<meta http-equiv="refresh" content="{reload_s:g}">' if reload_s else ""
    name = as_html(run.name or title)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">{_POLICY}{reload}'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{name}</title>'
        f"<style>{_STYLE}</style></head><body><h1>{name}</h1>{_subtitle(run, times)}{_tiles(run)}"
        f"<main>{body or '<p>No batch has ended yet.</p>'}</main></body></html>\n"
    )


def _times(run: Run) -> Scale | None:
    """Returns the axis that all charts share, from the start of the first batch to the end of the last."""
    if not run.batches:
        return None
    starts = [seconds_of(batch.time) for batch in run.batches]
    ends = (start + batch.batch_ms / 1000 for start, batch in zip(starts, run.batches, strict=True))
    last = max(starts)
    return time_scale(min(starts), max(last, min(max(ends), last + _LONGEST_LAST)))


def _subtitle(run: Run, times: Scale | None) -> str:
    if times is None:
        return ""
    earlier = f"; {plural(run.earlier, 'earlier run')} in this file not shown" if run.earlier else ""
    return f"<p class=soft>{short_time(times.low)} to {short_time(times.high)} UTC{earlier}</p>"


def _tiles(run: Run) -> str:
    rows, took = sum(batch.rows for batch in run.batches), sum(batch.batch_ms for batch in run.batches)
    last = run.batches[-1] if run.batches else None
    tiles = {"state": run.state or "running", "rows": human_count(rows), "batches": f"{len(run.batches):,}"}
    if last is not None:
        tiles["commits"] = f"{sum({batch.query: batch.commits for batch in run.batches}.values()):,}"
        tiles["time in batches"] = human_duration(took / 1000)
        later = [batch.batch_ms for batch in run.batches[1:]]
        tiles |= {"median batch": duration(statistics.median(later))} if later else {}
        tiles |= {name: f"{count:,}" for name, count in noticeable(last.metrics).items()}
        tiles |= {"retries": f"{last.metrics['retries']:,}"} if last.metrics.get("retries") else {}
        tiles |= {
            f"{word} splits": _names(last.event_time[word]) for word in ("held", "idle") if last.event_time.get(word)
        }
    if run.error:
        tiles["error"] = run.error
    shown = "".join(f"<div><dt>{as_html(name)}</dt><dd>{as_html(text)}</dd></div>" for name, text in tiles.items())
    if run.left_open:
        left = "".join(f"<dd>{as_html(text)}</dd>" for text in run.left_open)
        shown += f"<div><dt>left open</dt>{left}</div>"
    return f'<dl class="{as_html(run.state or "running")}">{shown}</dl>'


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _colours(colours: Sequence[str], band: str) -> str:
    return "".join(f"--c{number}:{colour};" for number, colour in enumerate(colours)) + f"--band:{band}"


#: Names of splits and errors come from elsewhere. They are escaped, and if one were not, the browser runs no script.
_POLICY = (
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'\">"
)
_STYLE = (
    f"""
:root{{color-scheme:light dark;--line:#8883;--soft:#666;--back:#fff;{_colours(LIGHT, "#0072b21f")}}}
@media(prefers-color-scheme:dark){{:root{{--line:#fff2;--soft:#a5a5a5;--back:#161616;{_colours(DARK, "#56b4e92b")}}}}}
"""
    + "".join(f".c{number}{{--c:var(--c{number})}}" for number in range(len(LIGHT)))
    + """
body{font:15px/1.4 system-ui,sans-serif;margin:1.5rem auto;max-width:1400px;padding:0 1rem;background:var(--back)}
h1{font-size:1.3rem;margin:0;overflow-wrap:anywhere}.soft,dt{color:var(--soft);font-size:.85rem;margin:0}
main{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,430px),1fr));gap:1rem}
dl{display:flex;flex-wrap:wrap;gap:.5rem 2rem;margin:1rem 0}dd{margin:0;font-size:1.15rem;overflow-wrap:anywhere}
dl.failed div:first-child dd{color:var(--c1)}
figure{margin:0;border:1px solid var(--line);border-radius:8px;padding:.6rem .9rem .6rem .5rem;min-width:0}
figcaption{font-weight:600;padding-left:.4rem;display:flex;flex-wrap:wrap;gap:0 .5rem;align-items:baseline}
small,em{color:var(--soft);font:400 .8rem system-ui,sans-serif}em{margin-left:auto}
.plot{display:grid;grid-template:200px 1.4rem/5.4rem 1fr;margin:.7rem 0 0;padding-right:1.2rem}
.y,.x{position:relative;font-size:.75rem;color:var(--soft);white-space:nowrap;font-variant-numeric:tabular-nums}
.y span{position:absolute;right:.5rem;transform:translateY(50%)}
.x{grid-column:2}.x span{position:absolute;top:.25rem;transform:translateX(-50%)}
svg{width:100%;height:200px;display:block;overflow:visible}
svg *{vector-effect:non-scaling-stroke}.grid{stroke:var(--line);fill:none}
polyline{fill:none;stroke:var(--c);stroke-width:1.5;stroke-linejoin:round}polygon,.band{fill:var(--band)}
.dot,.apart{fill:none;stroke:var(--c);stroke-width:5;stroke-linecap:round}.apart{stroke-width:9;opacity:.45}
.at{fill:transparent}.at:hover{fill:var(--line)}
figure p{display:flex;flex-wrap:wrap;gap:.15rem 1rem;margin:.5rem 0 0 .4rem;font-size:.8rem;color:var(--soft)}
figure p span{overflow-wrap:anywhere}strong{font-weight:600;color:CanvasText}
i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em;background:var(--c)}
em i{border-radius:50%;opacity:.45}i.band{background:var(--band)}
"""
)
