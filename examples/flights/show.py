"""What one sees of the demo: a live display on a terminal, lines elsewhere, and a chart at the end."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from compare import Comparison
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

_BLOCKS = " ▁▂▃▄▅▆▇█"
_LINE_EVERY_SECONDS = 3.0


@dataclass
class State:
    """Everything that is shown. Changed by the demo, read by :class:`Show`."""

    files: int
    kills_planned: int
    seed: int
    started: float = field(default_factory=time.monotonic)
    fed: int = 0
    newest: str = ""
    run: int = 0
    doing: str = "starting"
    kills: int = 0
    #: Rows by batch number: a batch that was killed and written again counts once.
    batches: dict[int, int] = field(default_factory=dict)
    rates: deque[float] = field(default_factory=lambda: deque(maxlen=24))
    waiting: int = 0
    looks: int = 0
    published_rows: int = 0
    published_files: int = 0
    history: deque[str] = field(default_factory=deque)

    @property
    def seconds(self) -> float:
        """Since the demo began."""
        return time.monotonic() - self.started

    def begin_run(self) -> None:
        """The job is started, again."""
        self.run += 1
        self.doing = "Spark starts, the job recovers"
        again = "goes on from its checkpoint" if self.run > 1 else f"seed {self.seed}"
        self._note(f"run {self.run} of the job starts ({again})")

    def batch(self, event: dict[str, Any]) -> None:
        """The job reported a batch."""
        self.batches[event["batch"]] = event["rows"]
        self.rates.append(event["rows_per_second"])
        self.waiting = int(event["lag"].get("files", 0))
        self.doing = f"batch {event['batch']}"

    def killed(self, batches: int) -> None:
        """SIGKILL was sent."""
        self.kills += 1
        when = f"after {batches} batches, in the next one" if batches else "while it started"
        self._note(f"kill {self.kills} of {self.kills_planned}: SIGKILL {when}")
        self.doing = "killed"

    def looked(self, seen: Comparison, files: int) -> None:
        """The published files were read."""
        self.looks += 1
        self.published_rows, self.published_files = seen.rows, files

    def _note(self, text: str) -> None:
        self.history.append(f"{self.seconds:5.1f} s  {text}")


class Show:
    """Shows a state on the standard output. Used from one thread."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._console = Console(highlight=False)
        self._live = (
            Live(console=self._console, get_renderable=self._panel, refresh_per_second=5)
            if self._console.is_terminal
            else None
        )
        self._printed = 0.0
        self._notes = 0

    def __enter__(self) -> Show:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._state.doing = "ended"
        if self._live is not None:
            self._live.stop()

    def refresh(self) -> None:
        """Prints what is new, where there is no live display."""
        if self._live is not None:
            return
        notes = list(self._state.history)
        for note in notes[self._notes :]:
            print(note, flush=True)
        self._notes = len(notes)
        if time.monotonic() - self._printed >= _LINE_EVERY_SECONDS:
            self._printed = time.monotonic()
            print(f"{self._state.seconds:5.1f} s  {self._line()}", flush=True)

    def _line(self) -> str:
        state = self._state
        return (
            f"fed {state.fed}/{state.files} files (to {state.newest}) · {state.doing} · "
            f"{sum(state.batches.values()):,} flights read in {len(state.batches)} batches · "
            f"published {state.published_rows:,} rows in {state.published_files} files"
        )

    def _panel(self) -> Panel:
        state = self._state
        rows = sum(state.batches.values())
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", min_width=9)
        table.add_column(min_width=30)
        table.add_column(style="dim", no_wrap=True)
        bar = ProgressBar(total=state.files, completed=state.fed, width=30)
        table.add_row("arrived", bar, f"{state.fed} of {state.files} files, up to {state.newest}")
        table.add_row("job", Text(f"run {state.run} · {state.doing}", "bold"), f"{state.waiting} files wait")
        table.add_row("flights/s", Text(_sparkline(list(state.rates)), "cyan"), f"{rows:,} flights read")
        published = f"{state.published_rows:,} rows in {state.published_files} files"
        table.add_row("published", Text(published, "green"), f"looked {state.looks} times: nothing doubled")
        table.add_row("kills", Text("✖ " * state.kills + "· " * (state.kills_planned - state.kills), "red"), "")
        notes = Text("\n".join(list(state.history)[-6:]), "dim")
        return Panel(
            Group(table, Text(), notes),
            title="[bold] a year of flights, exactly once [/]",
            subtitle=f" {state.seconds:.0f} s ",
            title_align="left",
            subtitle_align="right",
            border_style="cyan",
            width=92,
        )


def _sparkline(numbers: list[float]) -> str:
    top = max(numbers, default=0) or 1
    return "".join(_BLOCKS[round(number / top * (len(_BLOCKS) - 1))] for number in numbers)


def draw_day(flights: pa.Table, published: pa.Table) -> None:
    """The published counts by airport and local hour of the day, which the flights themselves know for each hour."""
    seconds = flights["hour"].cast(pa.int64())
    local = (
        pa.table({"hour": seconds, "local_hour": flights["local_hour"]}).group_by(["hour", "local_hour"]).aggregate([])
    )
    by_day = published.join(local, keys="hour").group_by(["origin", "local_hour"]).aggregate([("flights", "sum")])
    print("\nFlights by hour of scheduled departure, New York time, from the published files:\n")
    print("      0     6     12    18")
    for origin in sorted(set(by_day["origin"].to_pylist())):
        of_origin = by_day.filter(pc.equal(by_day["origin"], origin))
        counts = dict(zip(of_origin["local_hour"].to_pylist(), of_origin["flights_sum"].to_pylist(), strict=True))
        print(f"{origin}   {_sparkline([counts.get(hour, 0) for hour in range(24)])}  {sum(counts.values()):>7,}")
