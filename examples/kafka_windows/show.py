"""What one sees of the demo: a live display on a terminal, lines elsewhere, and the chart at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from views import MINUTES

_BAR = 40
_LINE_EVERY_SECONDS = 3.0

Counts = Counter[tuple[str, int]]


@dataclass
class State:
    """Everything that is shown. Changed by the demo, read by :class:`Show`."""

    expected: Counts
    kills_planned: int
    seed: int
    started: float = field(default_factory=time.monotonic)
    fed: int = 0
    newest: str = ""
    run: int = 0
    doing: str = ""
    kills: int = 0
    counts: Counts = field(default_factory=Counter)
    history: list[str] = field(default_factory=list)

    def begin_run(self) -> None:
        """The job is started, again."""
        self.run += 1
        self.doing = "Spark starts, the job recovers" if self.run > 1 else "Spark starts"
        self._note(f"run {self.run} of the job starts" + (" (goes on from its checkpoint)" if self.run > 1 else ""))

    def kill(self, how: str) -> None:
        """SIGKILL was sent."""
        self.kills += 1
        self.doing = "killed"
        self._note(f"kill {self.kills} of {self.kills_planned}: SIGKILL {how}")

    def _note(self, text: str) -> None:
        self.history.append(f"{time.monotonic() - self.started:5.1f} s  {text}")


def chart(expected: Counts, counts: Counts) -> list[Text]:
    """A line for each minute: a bar of what is published, as long as the truth when it is complete."""
    wanted, got = _by_minute(expected), _by_minute(counts)
    longest = max(wanted.values())
    lines = []
    for minute in range(MINUTES):
        right = got[minute] == wanted[minute]
        bar = Text("█" * round(_BAR * got[minute] / longest), "green" if right else "yellow")
        rest = "·" * max(0, round(_BAR * wanted[minute] / longest) - len(bar))
        mark = Text(" ✓", "green") if right else Text("")
        figures = f"{got[minute]:>6,} of {wanted[minute]:>5,}"
        lines.append(
            Text.assemble(f"10:{minute:02d}  ", bar, (rest, "dim"), " " * (_BAR - len(bar) - len(rest)), figures, mark)
        )
    return lines


def _by_minute(counts: Counts) -> Counter[int]:
    total: Counter[int] = Counter()
    for (_, minute), views in counts.items():
        total[minute] += views
    return total


class Show:
    """Shows a state on the standard output. Used from one thread. ``look`` brings the state up to date."""

    def __init__(self, state: State, look: Callable[[], None]) -> None:
        self._state = state
        self._look = look
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None
        self._notes = 0
        self._printed = 0.0

    def __enter__(self) -> Show:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._state.doing = "all is counted"
            self.refresh()
        if self._live is not None:
            self._live.stop()
        elif kind is None:
            self._console.print("", *chart(self._state.expected, self._state.counts), sep="\n")

    def refresh(self) -> None:
        """Shows what is new."""
        self._look()
        if self._live is not None:
            self._live.update(self._panel(), refresh=True)
            return
        for note in self._state.history[self._notes :]:
            print(note, flush=True)
        self._notes = len(self._state.history)
        if time.monotonic() - self._printed >= _LINE_EVERY_SECONDS:
            self._printed = time.monotonic()
            print(f"{time.monotonic() - self._state.started:5.1f} s  {self._line()}", flush=True)

    def _line(self) -> str:
        state = self._state
        published = f"{state.counts.total():,} counted and published"
        return f"fed {state.fed:,} views (to {state.newest}) · {state.doing} · {published}"

    def _panel(self) -> Panel:
        state = self._state
        table = Table.grid(padding=(0, 2))
        table.add_row("fed", f"{state.fed:,} views, up to {state.newest}")
        table.add_row("job", Text(f"run {state.run} · {state.doing}", "bold"))
        table.add_row("kills", Text("✖ " * state.kills + "· " * (state.kills_planned - state.kills), "red"))
        notes = Text("\n".join(state.history[-4:]), "dim")
        published = Text("published, as a consumer of committed records sees it, of what there is:", "dim")
        lines = chart(state.expected, state.counts)
        return Panel(
            Group(table, Text(), published, *lines, Text(), notes),
            title="[bold] page views per minute, Kafka to Kafka, exactly once [/]",
            subtitle=f" {time.monotonic() - state.started:.0f} s ",
            title_align="left",
            subtitle_align="right",
            border_style="cyan",
            width=84,
        )
