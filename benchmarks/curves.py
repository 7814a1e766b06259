"""How a measure grows, as a picture: a panel for each measure, a line for each side, both scales logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.drawing import STYLE

__all__ = ["Panel", "as_curves"]

_WIDTH, _LEGEND, _LEFT, _RIGHT = 800, 24, 66, 20
#: Of a row: all of it, above its grid, and below.
_ROW, _ABOVE, _BELOW = 226, 28, 46
_IN_A_ROW = 2
_STYLE = """
    .line { fill: none; stroke-width: 2; } .line.more { stroke: #0f766e; } .line.less { stroke: #b45309; }
    @media (prefers-color-scheme: dark) { .line.more { stroke: #2fb5a5; } .line.less { stroke: #f0a04b; } }"""
#: By side, in this order: the class of its colour.
_COLOURS = ("more", "less")


@dataclass(frozen=True)
class Panel:
    """One measure. ``sides`` has the points of each side, by its name: how much there is, and what was measured."""

    title: str
    unit: str
    sides: Mapping[str, Sequence[tuple[float, float]]]


def as_curves(title: str, across: str, panels: Sequence[Panel]) -> str:
    """Returns an SVG with the panels next to each other. ``across`` says what grows to the right: ``partitions``."""
    described = "; ".join(
        f"{panel.title}, {side}: " + ", ".join(f"{_short(x)} {across} {_short(y)} {panel.unit}" for x, y in points)
        for panel in panels
        for side, points in panel.sides.items()
    )
    height = _LEGEND + _ROW * math.ceil(len(panels) / _IN_A_ROW)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"',
        '  aria-labelledby="title desc">',
        f'  <title id="title">{escape(title)}</title>',
        f'  <desc id="desc">{escape(described)}</desc>',
        f"  <style>{STYLE}{_STYLE}\n  </style>",
    ]
    sides = list(dict.fromkeys(side for panel in panels for side in panel.sides))
    for number, side in enumerate(sides):
        left = _LEFT + 150 * number
        parts.append(f'  <path class="line {_COLOURS[number]}" d="M{left} 14h24"/>')
        parts.append(f'  <text x="{left + 30}" y="18">{escape(side)}</text>')
    width = _WIDTH / min(len(panels), _IN_A_ROW)
    for number, panel in enumerate(panels):
        row, column = divmod(number, _IN_A_ROW)
        parts += _drawn(panel, across, (column * width, _LEGEND + row * _ROW), width, sides)
    return "\n".join([*parts, "</svg>", ""])


def _drawn(panel: Panel, across: str, corner: tuple[float, float], width: float, sides: Sequence[str]) -> list[str]:
    points = [point for drawn in panel.sides.values() for point in drawn]
    x_marks = sorted({x for x, _ in points})
    y_marks = _decades([y for _, y in points])
    left, right = corner[0] + _LEFT, corner[0] + width - _RIGHT
    top, bottom = corner[1] + _ABOVE, corner[1] + _ROW - _BELOW

    def x(value: float) -> float:
        return left + _share(value, x_marks) * (right - left)

    def y(value: float) -> float:
        return bottom - _share(value, y_marks) * (bottom - top)

    parts = [f'  <text class="soft" x="{left:.1f}" y="{top - 12}">{escape(f"{panel.title} ({panel.unit})")}</text>']
    for mark in y_marks:
        parts.append(f'  <path class="grid" d="M{left:.1f} {y(mark):.1f}H{right:.1f}"/>')
        parts.append(f'  <text class="soft end" x="{left - 6:.1f}" y="{y(mark) + 4:.1f}">{_short(mark)}</text>')
    for mark in x_marks:
        parts.append(f'  <text class="soft mid" x="{x(mark):.1f}" y="{bottom + 16}">{_short(mark)}</text>')
    middle = (left + right) / 2
    parts.append(f'  <text class="soft mid" x="{middle:.1f}" y="{bottom + 32}">{escape(across)}</text>')
    for side, drawn in panel.sides.items():
        colour = _COLOURS[sides.index(side)]
        line = " L".join(f"{x(at):.1f} {y(value):.1f}" for at, value in sorted(drawn))
        parts.append(f'  <path class="line {colour}" d="M{line}"/>')
        parts += [f'  <circle class="{colour}" cx="{x(at):.1f}" cy="{y(value):.1f}" r="3"/>' for at, value in drawn]
    return parts


def _decades(values: Sequence[float]) -> list[float]:
    """Returns the powers of ten around ``values``, two at least."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return [10.0**power for power in range(low, max(high, low + 1) + 1)]


def _share(value: float, marks: Sequence[float]) -> float:
    """Returns where ``value`` is between the first mark (0) and the last (1)."""
    if marks[0] == marks[-1]:
        return 0.5
    return math.log(max(value, marks[0]) / marks[0]) / math.log(marks[-1] / marks[0])


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:g} M"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
