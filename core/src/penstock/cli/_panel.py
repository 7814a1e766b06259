"""The live display: what is known of a run, and how it is drawn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from penstock.checkpoint import LeftOpen
from penstock.cli._draw import bar, human_bytes, human_count, human_duration, human_lag, sparkline
from penstock.cli._progress import BatchProgress, noticeable
from penstock.printable import printable

__all__ = ["RunView", "panel"]

_HISTORY = 120
_WIDTH = 84
#: Leaves room for "median 120,000 ms" on a terminal of 80 columns.
_SPARK_WIDTH = 24
_STATE_STYLES = {"failed": "red", "finished": "green", "stopped": "yellow"}


@dataclass
class RunView:
    """What is known of a run. ``flow`` is drawn on top: source, what is done with it, sink.

    ``waits``: what is tried again at the moment, each with how long it has lasted. ``left_open``: what a run that
    is over has left open, by query.
    """

    name: str
    flow: tuple[str, ...]
    state: str = "starting Spark"
    started: float = field(default_factory=time.monotonic)
    batches: int = 0
    rows: int = 0
    last: BatchProgress | None = None
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    times: deque[float] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    peak_lag: float = 0
    commits_by_query: dict[str, int] = field(default_factory=dict)
    last_by_query: dict[str, BatchProgress] = field(default_factory=dict)
    waits: Sequence[str] = ()
    left_open: Sequence[LeftOpen] = ()

    @property
    def commits(self) -> int:
        """Those of all queries."""
        return sum(self.commits_by_query.values())

    @property
    def metrics(self) -> dict[str, float]:
        """The counters since the start of the run. Those of tasks are the same in each query's last batch; of those
        that each source counts for itself, the largest is taken."""
        counts: dict[str, float] = {}
        for last in self.last_by_query.values():
            counts |= {name: max(amount, counts.get(name, 0)) for name, amount in last.metrics.items()}
        return counts

    def add(self, progress: BatchProgress) -> None:
        """Takes in one batch."""
        self.last = self.last_by_query[progress.query] = progress
        self.commits_by_query[progress.query] = progress.commits
        self.batches += 1
        self.rows += progress.rows
        self.rates.append(progress.rows_per_second)
        self.times.append(progress.batch_ms)
        self.peak_lag = max(self.peak_lag, lag_size(progress.lag))


def lag_size(lag: dict[str, float]) -> float:
    """Returns one number for how much waits: bytes where a source counts them, else the sum of what it counts."""
    return lag["bytes"] if "bytes" in lag else sum(lag.values())


def panel(view: RunView) -> Panel:
    """Returns the live display."""
    style = _STATE_STYLES.get(view.state, "cyan")
    clock = human_duration(time.monotonic() - view.started)
    return Panel(
        Group(_flow(view), Text(), _measures(view), Text(), *_queries(view), _totals(view), *_waits(view)),
        title=Text.assemble((f" {printable(view.name)} ", "bold")),
        subtitle=Text.assemble(" ", ("● ", style), (printable(view.state), style), f" · {clock} "),
        title_align="left",
        subtitle_align="right",
        border_style=style,
        padding=(0, 1),
        width=_WIDTH,
    )


def _flow(view: RunView) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for index, part in enumerate(view.flow):
        text.append(" ══▶ " if index else "", style="cyan")
        text.append(printable(part), style="bold")
    return text


def _measures(view: RunView) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", min_width=8)
    table.add_column(justify="right", min_width=20)
    table.add_column(min_width=_SPARK_WIDTH, no_wrap=True)
    table.add_column(style="dim", no_wrap=True)
    last = view.last
    rate = last.rows_per_second if last else 0
    peak = max(view.rates, default=0)
    table.add_row(
        "rows/s",
        Text(human_count(rate), "bold"),
        Text(sparkline(view.rates, _SPARK_WIDTH).rjust(_SPARK_WIDTH), "cyan"),
        f"peak {human_count(peak)}",
    )
    ordered = sorted(view.times)
    table.add_row(
        "batch",
        Text(f"{last.batch_ms:,} ms" if last else "–", "bold"),
        Text(sparkline(view.times, _SPARK_WIDTH).rjust(_SPARK_WIDTH), "magenta"),
        f"median {ordered[len(ordered) // 2]:,.0f} ms" if ordered else "",
    )
    table.add_row("lag", *_lag_cells(view))
    return table


def _lag_cells(view: RunView) -> tuple[Text, Text, str]:
    if view.last is None:
        return Text("–"), Text(""), ""
    lag, size = view.last.lag, lag_size(view.last.lag)
    fraction = size / view.peak_lag if view.peak_lag else 0.0
    style = "yellow" if fraction > 0.5 else "green"
    peak = human_bytes(view.peak_lag) if "bytes" in lag else human_count(view.peak_lag)
    note = f"peak {peak}" if view.peak_lag else ""
    return Text(printable(human_lag(lag)), "bold"), Text(bar(fraction, _SPARK_WIDTH), style), note


def _queries(view: RunView) -> list[Table | Text]:
    """Returns a row for the last batch of each query, if there are several."""
    if not any(view.last_by_query):
        return []
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_column(justify="right")
    table.add_column(style="dim", no_wrap=True, overflow="ellipsis")
    for name, last in view.last_by_query.items():
        cells = f"batch {last.batch:,}", f"{human_count(last.rows_per_second)} rows/s", f"lag {human_lag(last.lag)}"
        table.add_row(*(Text(printable(cell)) for cell in (name, *cells)))
    return [table, Text()]


def _waits(view: RunView) -> list[Text]:
    """Returns a line about what does not work at the moment and is tried again, if there is something."""
    if not view.waits:
        return []
    number = f" ({len(view.waits)})" if len(view.waits) > 1 else ""
    text = Text(f"waiting{number} ", style="bold yellow", no_wrap=True, overflow="ellipsis")
    return [text.append(printable(" ".join(view.waits[0].split())), style="yellow")]


def _totals(view: RunView) -> Text:
    text = Text()
    metrics = view.metrics
    shown: list[tuple[str, float]] = [("rows", view.rows), ("batches", view.batches), ("commits", view.commits)]
    if "rows_written" in metrics:
        shown.insert(1, ("rows written", metrics["rows_written"]))
    noticed = noticeable(metrics)
    shown += noticed.items()
    for index, (name, number) in enumerate(shown):
        style = "bold yellow" if name in noticed else "bold"
        text.append("   " if index else "")
        text.append(f"{name} ", style="dim")
        text.append(human_count(number), style=style)
    return text
