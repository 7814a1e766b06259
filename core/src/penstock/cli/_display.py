"""How a run shows itself: a live panel on a terminal, log lines elsewhere, JSON lines on request."""

from __future__ import annotations

import json
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import IO, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from penstock.cli._draw import human_duration, human_lag, plural
from penstock.cli._panel import RunView, panel
from penstock.cli._progress import BatchProgress
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
        return (
            f"{view.name}: {outcome} after {human_duration(time.monotonic() - view.started)}, "
            f"{plural(view.rows, 'row')} in {plural(view.batches, 'batch')}, {plural(view.commits, 'commit')}"
        )


class PlainReporter(Reporter):
    """One line for each batch, with the time of day."""

    def __init__(self, view: RunView, out: IO[str] | None = None) -> None:
        super().__init__(view)
        self._out = out or sys.stdout

    def batch(self, progress: BatchProgress) -> None:
        self.view.add(progress)
        lag = f"lag {human_lag(progress.lag)}, " if progress.lag else ""
        rows, commits = plural(progress.rows, "row"), plural(progress.commits, "commit")
        query = f"{progress.query}: " if progress.query else ""
        self.line(
            f"{query}batch {progress.batch}: {rows} in {progress.batch_ms:,} ms "
            f"({progress.rows_per_second:,.0f} rows/s), {lag}{commits}"
        )

    def line(self, text: str) -> None:
        say(f"{datetime.now():%H:%M:%S} {text}", out=self._out)

    def end(self, outcome: str, error: str = "") -> None:
        """The error itself goes to the standard error output."""
        self.line(self.summary(outcome))


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
