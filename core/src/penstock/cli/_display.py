"""How a run shows itself: a live panel on a terminal, log lines elsewhere, JSON lines on request."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli._draw import human_duration, human_lag, plural
from penstock.cli._panel import RunView, panel
from penstock.cli._progress import BatchProgress, noticeable
from penstock.cli._screen import Screen, say
from penstock.printable import printable

__all__ = ["JsonReporter", "LiveReporter", "PlainReporter", "Reporter"]


class Reporter(ABC):
    """Shows a run. Called from the main thread, :meth:`line` from any."""

    def __init__(self, view: RunView) -> None:
        self.view = view

    def __enter__(self) -> Reporter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027 - most reporters hold nothing
        """Gives the terminal back."""

    def state(self, text: str) -> None:
        """Shows what the query is doing now, in a few words."""
        self.view.state = text

    def waits(self, lines: Sequence[str]) -> None:
        """Shows what is tried again at the moment. Lines of the log say the same where there is no panel."""
        self.view.waits = lines

    @abstractmethod
    def batch(self, progress: BatchProgress) -> None:
        """A batch has ended."""

    @abstractmethod
    def line(self, text: str) -> None:
        """Something that Spark or user code printed, or a step of the run."""

    @abstractmethod
    def end(self, outcome: str, error: str = "") -> None:
        """The run is over: ``finished``, ``stopped`` or ``failed``."""

    def summary(self, outcome: str) -> str:
        """Returns the run in one line."""
        view = self.view
        commits = plural(view.commits, "commit")
        published = ", all published" if view.commits and not view.left_open and outcome != "failed" else ""
        return (
            f"{view.name}: {outcome} after {human_duration(time.monotonic() - view.started)}, "
            f"{plural(view.rows, 'row')} in {plural(view.batches, 'batch')}, {commits}{published}"
            f"{_noticed_words(noticeable(view.metrics))}"
        )

    def left_open(self) -> list[str]:
        """Returns a line for each query that has left something open: what, and the command that publishes it."""
        return [f"{self.view.name}: {left}" for left in self.view.left_open]


class PlainReporter(Reporter):
    """Lines with the time of day: what a start waits for, then a line for each batch, but at most one in
    ``seconds_between``; several batches share one.
    """

    def __init__(self, view: RunView, out: IO[str] | None = None, *, seconds_between: float = 5.0) -> None:
        super().__init__(view)
        self._out = out or sys.stdout
        self._seconds_between = seconds_between
        self._last_line = -seconds_between
        self._noticed: dict[str, float] = {}
        self._unsaid: dict[str, list[BatchProgress]] = {}

    def __enter__(self) -> Reporter:
        self.line(f"{self.view.name}: {' → '.join(self.view.flow)}")
        self.line(self.view.state)
        return self

    def state(self, text: str) -> None:
        """Says what a run does until its first batch has ended, and that it stops."""
        if text != self.view.state and (not self.view.batches or text == "stopping"):
            self.line(text)
        super().state(text)
        self._say_batches()

    def batch(self, progress: BatchProgress) -> None:
        self.view.add(progress)
        self._unsaid.setdefault(progress.query, []).append(progress)
        self._say_batches()

    def _say_batches(self, *, all_of_them: bool = False) -> None:
        if self._unsaid and (all_of_them or time.monotonic() - self._last_line >= self._seconds_between):
            lines = [(f"{query}: " if query else "") + _batch_words(batches) for query, batches in self._unsaid.items()]
            lines[-1] += self._newly_noticed()
            for line in lines:
                self.line(line)
            self._unsaid.clear()
            self._last_line = time.monotonic()

    def _newly_noticed(self) -> str:
        """Returns what has come to the counters since the last call. They are those of all queries of a run."""
        before, self._noticed = self._noticed, noticeable(self.view.metrics)
        return _noticed_words({name: count - before.get(name, 0) for name, count in self._noticed.items()})

    def line(self, text: str) -> None:
        say(f"{datetime.now():%H:%M:%S} {text}", out=self._out)

    def end(self, outcome: str, error: str = "") -> None:
        """The error itself goes to the standard error output."""
        self._say_batches(all_of_them=True)
        for text in (self.summary(outcome), *self.left_open()):
            self.line(text)


def _noticed_words(noticed: Mapping[str, float]) -> str:
    return "".join(f", {name}: {count:,.0f}" for name, count in noticed.items() if count)


def _batch_words(batches: Sequence[BatchProgress]) -> str:
    """Says in a line what successive batches of a query have done."""
    first, last = batches[0], batches[-1]
    rows, took = sum(batch.rows for batch in batches), sum(batch.batch_ms for batch in batches)
    which = f"batch {last.batch}" if len(batches) == 1 else f"batches {first.batch} to {last.batch}"
    rate = last.rows_per_second if len(batches) == 1 else rows * 1000 / took if took else 0
    lag = f"lag {human_lag(last.lag)}, " if last.lag else ""
    return f"{which}: {plural(rows, 'row')} in {took:,} ms ({rate:,.0f} rows/s), {lag}{plural(last.commits, 'commit')}"


class JsonReporter(Reporter):
    """JSON lines on the standard output (form: :mod:`penstock.cli._progress`); all else goes to standard error."""

    def batch(self, progress: BatchProgress) -> None:
        self.view.add(progress)
        say(progress.to_json())

    def line(self, text: str) -> None:
        say(text, error=True)

    def end(self, outcome: str, error: str = "") -> None:
        view = self.view
        value: dict[str, Any] = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "state": outcome,
            "rows": view.rows,
            "batches": view.batches,
            "commits": view.commits,
            "metrics": view.metrics,
            "open": [
                {
                    "checkpoint": left.checkpoint,
                    "decisions": left.pending,
                    "pieces": left.pieces,
                    "command": left.command,
                }
                for left in view.left_open
            ],
        }
        say(json.dumps(value | ({"error": error} if error else {})))


class LiveReporter(Reporter):
    """A panel that is redrawn in place; printed lines scroll above it."""

    def __init__(self, view: RunView, console: Console | None = None) -> None:
        super().__init__(view)
        self._console = console or Screen()
        self._live = Live(
            console=self._console,
            get_renderable=lambda: panel(self.view),
            refresh_per_second=4,
            redirect_stdout=True,
            redirect_stderr=True,
        )

    def __enter__(self) -> Reporter:
        self._live.start()
        return self

    def close(self) -> None:
        """Leaves the last panel on the screen."""
        self._live.stop()

    def batch(self, progress: BatchProgress) -> None:
        self.view.add(progress)

    def line(self, text: str) -> None:
        self._console.print(Text(printable(text), style="dim"))

    def end(self, outcome: str, error: str = "") -> None:
        self.view.state = outcome
        self._live.refresh()
        self._live.stop()
        self._console.print(Text(printable(self.summary(outcome)), style="red" if outcome == "failed" else "green"))
        for text in self.left_open():
            self._console.print(Text(printable(text), style="yellow"), soft_wrap=True)
