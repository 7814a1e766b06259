"""Lines over time as SVG, without scripts: what a page of numbers is drawn with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from html import escape

from penstock.printable import printable

__all__ = ["COLOURS", "Chart", "as_html", "as_svg", "short_number", "short_time"]

#: Colours that readers with colour blindness can distinguish (after Okabe and Ito).
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f")
#: Points of a line; of more, the highest of neighbours are drawn.
MOST_POINTS = 400
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 640, 220, 92, 24, 8


@dataclass(frozen=True)
class Chart:
    """Lines by name, each a list of (seconds since the epoch, value). ``shown`` writes a value for an axis."""

    title: str
    unit: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    shown: Callable[[float], str]
    from_zero: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(self.lines.values())


def as_html(text: str) -> str:
    """Returns outside text for a page: between tags, or in quotes as an attribute. The only way onto it."""
    return escape(printable(text))


def short_number(value: float) -> str:
    """``1500`` → ``1.5k``."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def short_time(seconds: float) -> str:
    """Day and time, UTC."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%m-%d %H:%M:%S")


def as_svg(chart: Chart) -> str:
    """Returns the chart with its axes; each point tells its value when pointed at."""
    drawn = {name: _thinned(points) for name, points in chart.lines.items() if points}
    times = [at for points in drawn.values() for at, _ in points]
    values = [value for points in drawn.values() for _, value in points]
    first, last = min(times), max(times)
    low, high = (min(0.0, *values), max(values)) if chart.from_zero else (min(values), max(values))
    span_x, span_y = (last - first) or 1.0, (high - low) or 1.0

    def x(at: float) -> float:
        return LEFT + (at - first) / span_x * (WIDTH - LEFT - 8)

    def y(value: float) -> float:
        return TOP + (high - value) / span_y * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{as_html(chart.title)}">']
    for step in range(5):
        value = low + span_y * step / 4
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 8}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        parts.append(f'<text class="y" x="{LEFT - 6}" y="{y(value) + 4:.1f}">{as_html(chart.shown(value))}</text>')
    for step, anchor in enumerate(("start", "middle", "end")):
        at = first + span_x * step / 2
        label = short_time(at)
        parts.append(f'<text x="{x(at):.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{label}</text>')
    for number, (name, points) in enumerate(drawn.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in points)
        parts.append(f'<polyline points="{path}" stroke="{colour}"/>')
        for at, value in points:
            told = as_html(f"{name}: {chart.shown(value)} at {short_time(at)}")
            parts.append(
                f'<circle cx="{x(at):.1f}" cy="{y(value):.1f}" r="2" fill="{colour}"><title>{told}</title></circle>'
            )
    return "".join([*parts, "</svg>"])


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    each = -(-len(points) // MOST_POINTS)
    groups = (points[at : at + each] for at in range(0, len(points), each))
    return [max(group, key=lambda point: point[1]) for group in groups]
