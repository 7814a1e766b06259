"""The live display of a real run as SVG, light and dark, for the README."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from penstock.cli._new_pipeline import new_pipeline
from penstock.cli._panel import RunView, panel
from penstock.cli._progress import BatchProgress

__all__ = ["draw_live", "run_pipeline"]

_FLOW = ("penstock.filesystem in", "SQL", "penstock.filesystem out")
_TITLE = "The live display of penstock run"
_COMMAND = "penstock run pipeline.yaml"
_FILES, _ROWS = 60, 20_000
#: Background, text, and the eight colours of a terminal: black, red, green, yellow, blue, magenta, cyan, white.
_THEMES = {
    "light": ("#f6f8fa", "#24292f", "#24292f #cf222e #1a7f37 #9a6700 #0969da #8250df #1b7c83 #6e7781"),
    "dark": ("#14191b", "#e2e8e8", "#14191b #ff7b72 #56d364 #e3b341 #79c0ff #d2a8ff #39c5cf #b1bac4"),
}
_FORM = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title desc">
<title id="title">TITLE</title>
<desc id="desc">DESCRIPTION</desc>
<style>
.{unique_id}-matrix {{ font: {char_height}px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }}
.{unique_id}-title {{ font: 600 16px system-ui, "DejaVu Sans", sans-serif; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
SIDES
</g>
</svg>
"""


def run_pipeline(folder: Path) -> list[str]:
    """Runs the pipeline that ``penstock new pipeline`` writes, over more files, and returns the lines of ``--json``."""
    new_pipeline("orders", folder)
    for number in range(_FILES):
        rows = "".join(f"{n},2026-01-05T09:12:00Z,bolt,{n % 50},0.25\n" for n in range(_ROWS * (2 + number % 5) // 4))
        (folder / "orders" / "in" / f"{number:03}.csv").write_text(f"id,at,item,amount,price\n{rows}", "utf-8")
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "run", "--json", "pipeline.yaml"]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=folder / "orders", env=environment, capture_output=True, text=True, timeout=900, check=True
    )
    return done.stdout.splitlines()


def draw_live(lines: list[str], folder: Path) -> None:
    """Writes ``live-light.svg`` and ``live-dark.svg``: the display after two thirds of the run's batches."""
    batches = [BatchProgress(**value) for line in lines if "state" not in (value := json.loads(line))]
    shown = batches[: len(batches) * 2 // 3]
    view = RunView("orders", _FLOW, "processing")
    view.started = time.monotonic() - sum(batch.batch_ms for batch in shown) / 1000 - 4
    for batch in shown:
        view.add(batch)
    for name, (back, text, colours) in _THEMES.items():
        console = Console(
            record=True, width=84, file=io.StringIO(), force_terminal=True, color_system="standard", highlight=False
        )
        console.print(panel(view))
        text_lines = console.export_text(clear=False).splitlines()
        spoken = " ".join(re.sub("[^\\w\\s,./:]", " ", " ".join(text_lines)).split())
        form = _FORM.replace("SIDES", _sides(text_lines, colours.split()[6])).replace("TITLE", _TITLE)
        form = form.replace("DESCRIPTION", escape(spoken))
        drawn = console.export_svg(
            title=_COMMAND, theme=_theme(back, text, colours), code_format=form, unique_id=f"live-{name}"
        )
        (folder / f"live-{name}.svg").write_text(drawn, "utf-8")


def _sides(lines: list[str], colour: str) -> str:
    """Returns the sides of the frame as lines: characters leave gaps between the rows."""
    width, height = 12.2, 24.4
    ends = f"V{(len(lines) - 0.4) * height:.1f}"
    left, right = width * 0.5, (len(lines[0]) - 0.5) * width
    top = height * 0.6
    return f'<path d="M{left:.1f} {top:.1f}{ends}M{right:.1f} {top:.1f}{ends}" stroke="{colour}" stroke-width="1.6"/>'


def _theme(back: str, text: str, colours: str) -> TerminalTheme:
    normal = [_rgb(colour) for colour in colours.split()]
    return TerminalTheme(_rgb(back), _rgb(text), normal, normal)


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
