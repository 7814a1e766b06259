"""Ratios as a picture: a bar for each case, to the right of the line at 1 where Penstock is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

__all__ = ["STYLE", "as_picture", "ratio_text"]

_ROW, _TOP, _NAMES, _BARS, _WIDTH = 26, 34, 425, 300, 800
_LONGEST = 60
_MARKS = tuple(mantissa * 10.0**power for power in range(-2, 5) for mantissa in (1, 2, 5))
#: Texts, grid and colours of a picture; they follow the reader's.
STYLE = """
    text { font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2937; }
    .soft { fill: #4b5563; font-size: 12px; } .mid { text-anchor: middle; } .end { text-anchor: end; }
    .grid { stroke: #d5dede; } .one { stroke: #4b5563; stroke-width: 1.5; }
    .more { fill: #0f766e; } .less { fill: #b45309; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e2e8e8; } .soft { fill: #a3b3b3; } .grid { stroke: #3a4646; } .one { stroke: #a3b3b3; }
      .more { fill: #2fb5a5; } .less { fill: #f0a04b; }
    }"""


def ratio_text(ratio: float) -> str:
    """Returns two digits: ``2.4 ×``, ``0.46 ×``, ``230 ×``."""
    shown = f"{ratio:.2g}" if ratio < 10 else f"{round(ratio, 1 - math.floor(math.log10(ratio))):,.0f}"
    return f"{shown}.0 ×" if shown == "1" else f"{shown} ×"


def _short(name: str) -> str:
    """Returns what the column has room for; the whole name is in the table."""
    return escape(name if len(name) <= _LONGEST else f"{name[: name.rindex(' ', 0, _LONGEST)].rstrip(',')} …")


def as_picture(title: str, ratios: Sequence[tuple[str, float]]) -> str:
    """Returns an SVG of the cases, whose ratios are drawn on a logarithmic scale. Its colours follow the reader's."""
    least, most = min(1.0, *(ratio for _, ratio in ratios)), max(1.0, *(ratio for _, ratio in ratios))
    low = max(mark for mark in _MARKS if mark <= least * 1.0001)
    high = min(mark for mark in _MARKS if mark >= most * 0.9999)
    if low == high:
        low, high = 0.5, 2.0
    marks = [mark for mark in _MARKS if low <= mark <= high]
    if len(marks) > 8:
        marks = [mark for mark in marks if f"{mark:.0e}"[0] == "1"]
    height = _TOP + _ROW * len(ratios) + 10

    def x(ratio: float) -> float:
        return _NAMES + math.log(ratio / low) / math.log(high / low) * _BARS

    described = "; ".join(f"{name}: {ratio_text(ratio)}" for name, ratio in ratios)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img"',
        '  aria-labelledby="title desc">',
        f'  <title id="title">{escape(title)}</title>',
        f'  <desc id="desc">{escape(described)}</desc>',
        f"  <style>{STYLE}\n  </style>",
    ]
    for mark in marks:
        kind = "one" if mark == 1 else "grid"
        parts.append(f'  <path class="{kind}" d="M{x(mark):.1f} {_TOP - 6}V{height - 8}"/>')
        parts.append(f'  <text class="soft mid" x="{x(mark):.1f}" y="{_TOP - 14}">{mark:g} ×</text>')
    for number, (name, ratio) in enumerate(ratios):
        top = _TOP + _ROW * number
        start, end = sorted((x(1), x(ratio)))
        kind = "more" if ratio >= 1 else "less"
        parts.append(f'  <text class="end" x="{_NAMES - 10}" y="{top + 16}">{_short(name)}</text>')
        parts.append(
            f'  <rect class="{kind}" x="{start:.1f}" y="{top + 3}" rx="2"'
            f' width="{max(2, end - start):.1f}" height="17"/>'
        )
        parts.append(f'  <text x="{max(end, x(1)) + 6:.1f}" y="{top + 16}">{ratio_text(ratio)}</text>')
    return "\n".join([*parts, "</svg>", ""])
