"""Lines over time as HTML and SVG, without scripts: what a page of numbers is drawn with.

Only lines are SVG, and stretched to the space there is; labels are HTML, and as large on a phone as on a desk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from penstock.cli._scales import Kind, Scale, short_time
from penstock.printable import printable

__all__ = ["DARK", "LIGHT", "Chart", "Points", "as_figure", "as_html", "thinned"]

#: One after the other in time: (seconds since the epoch, value).
Points = Sequence[tuple[float, float]]

#: Colours that readers with colour blindness can distinguish (after Okabe and Ito), on white and on black.
LIGHT = ("#0072b2", "#d55e00", "#00855f", "#b5578d", "#a87400", "#3a8fc0", "#8c564b", "#6b6b6b")
DARK = ("#56b4e9", "#ff8c42", "#2fc99a", "#e39ac4", "#f0b840", "#9fd8ff", "#d3a99a", "#b0b0b0")
#: Columns of a chart. Of the points in one, a line keeps the lowest and the highest.
COLUMNS = 240
#: Columns that show their values when pointed at.
_STRIPS = 60
#: A line with more points is drawn without a dot for each.
_MOST_DOTS = 60
_LONGEST_NAME = 60
_WIDTH, _HEIGHT = 1000, 200


@dataclass(frozen=True)
class Chart:
    """Lines by name. ``band`` is the area between two lines: the least and the greatest of what has no line.

    ``apart`` holds points by line that are shown and do not count for the scale.
    """

    title: str
    unit: str
    kind: Kind
    lines: Mapping[str, Points]
    band: tuple[Points, Points] = ((), ())
    band_name: str = ""
    apart: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: The axis of the values, if they are not numbers from zero.
    axis: Scale | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(self.lines.values())

    def scale(self) -> Scale:
        """Returns the axis of the values."""
        if self.axis is not None:
            return self.axis
        values = [value for points in (*self.lines.values(), *self.band) for _, value in points]
        low, high = min(values), max(values)
        return self.kind.scale(min(0.0, low), high)


def as_html(text: str) -> str:
    """Returns outside text for a page: between tags, or in quotes as an attribute. The only way onto it."""
    return escape(printable(text))


def as_figure(chart: Chart, times: Scale) -> str:
    """Returns the chart over ``times``, with its axes and legend; each column shows its values when pointed at."""
    values = chart.scale()
    drawn = {name: thinned(points, times) for name, points in chart.lines.items() if points}
    inside = [_band(chart, times, values)] if chart.band[0] else []
    inside += [f'<path class="grid" d="M0 {_y(place, values)}H{_WIDTH}"/>' for place, _ in values.marks]
    inside += [f'<path class="grid" d="M{_x(place, times)} 0V{_HEIGHT}"/>' for place, _ in times.marks]
    for number, (name, points) in enumerate(drawn.items()):
        inside += _line(points, number % len(LIGHT), times, values)
        if name in chart.apart:
            at, value = chart.apart[name]
            inside.append(f'<path class="apart c{number % len(LIGHT)}" d="{_dot(at, value, times, values)}"/>')
    inside += _strips(chart, times)
    unit = f" <small>{as_html(chart.unit)}</small>" if chart.unit else ""
    return (
        f"<figure><figcaption>{as_html(chart.title)}{unit}{_note(chart, values)}</figcaption>"
        f'<div class="plot"><div class="y">{_labels(values, "bottom")}</div>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"'
        f' aria-label="{as_html(chart.title)}">{"".join(inside)}</svg>'
        f'<div class="x">{_labels(times, "left")}</div></div>{_legend(chart, drawn)}</figure>'
    )


def thinned(points: Points, times: Scale) -> Points:
    """Returns the points of a line, or the lowest and the highest of each column if there are more than these."""
    if len(points) <= 2 * COLUMNS:
        return points
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(times.share(point[0]) * COLUMNS), []).append(point)
    kept: list[tuple[float, float]] = []
    for column in columns.values():
        ends = {min(column, key=lambda point: point[1]), max(column, key=lambda point: point[1])}
        kept += sorted(ends)
    return kept


def _x(at: float, times: Scale) -> str:
    return f"{times.share(at) * _WIDTH:.1f}"


def _y(value: float, values: Scale) -> str:
    return f"{(1 - values.share(value)) * _HEIGHT:.1f}"


def _path(points: Iterable[tuple[float, float]], times: Scale, values: Scale) -> str:
    return " ".join(f"{_x(at, times)},{_y(value, values)}" for at, value in points)


def _dot(at: float, value: float, times: Scale, values: Scale) -> str:
    """Returns a path of hardly any length: its round ends are drawn as a dot that is not stretched."""
    return f"M{_x(at, times)} {_y(value, values)}h.01"


def _line(points: Points, colour: int, times: Scale, values: Scale) -> list[str]:
    parts = [f'<polyline class="c{colour}" points="{_path(points, times, values)}"/>']
    if len(points) <= _MOST_DOTS:
        dots = "".join(_dot(at, value, times, values) for at, value in points)
        parts.append(f'<path class="dot c{colour}" d="{dots}"/>')
    return parts


def _band(chart: Chart, times: Scale, values: Scale) -> str:
    lowest, highest = (thinned(points, times) for points in chart.band)
    return f'<polygon points="{_path([*lowest, *reversed(highest)], times, values)}"/>'


def _strips(chart: Chart, times: Scale) -> list[str]:
    """Returns the columns with points in them, each with the range of every line there."""
    found: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for name, points in chart.lines.items():
        for point in (*([chart.apart[name]] if name in chart.apart else ()), *points):
            column = min(_STRIPS - 1, int(times.share(point[0]) * _STRIPS))
            found.setdefault(column, {}).setdefault(name, []).append(point)
    width = _WIDTH / _STRIPS
    strips = []
    for column, lines in sorted(found.items()):
        at = min(point[0] for points in lines.values() for point in points)
        told = [short_time(at), *(f"{_short(name)}: {_range(points, chart.kind)}" for name, points in lines.items())]
        strips.append(
            f'<rect class="at" x="{column * width:.1f}" width="{width:.1f}" height="{_HEIGHT}">'
            f"<title>{as_html(' · '.join(told))}</title></rect>"
        )
    return strips


def _range(points: Points, kind: Kind) -> str:
    low, high = kind.shown(min(value for _, value in points)), kind.shown(max(value for _, value in points))
    return low if low == high else f"{low} – {high}"


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME]}…"


def _labels(scale: Scale, edge: str) -> str:
    return "".join(
        f'<span style="{edge}:{scale.share(place) * 100:.2f}%">{as_html(label)}</span>' for place, label in scale.marks
    )


def _note(chart: Chart, values: Scale) -> str:
    """Returns the values of points that are set apart, and whether the scale has no place for them."""
    if not chart.apart:
        return ""
    above = ", above the scale" if any(value > values.high for _, value in chart.apart.values()) else ""
    shown = [chart.kind.shown(value) for _, value in chart.apart.values()]
    text = f"{', '.join(shown[:3])}{' …' if len(shown) > 3 else ''}{above}"
    return f'<em><i class="c0"></i>first batch {as_html(text)}</em>'


def _legend(chart: Chart, drawn: Mapping[str, Points]) -> str:
    """Returns each line's name and last value. A line alone needs no name."""
    if len(drawn) == 1 and not chart.band[0]:
        return ""
    band = f'<span><i class="band"></i>{as_html(chart.band_name)}</span>' if chart.band[0] else ""
    keys = "".join(
        f'<span><i class="c{number % len(LIGHT)}"></i>{as_html(_short(name))} '
        f"<strong>{as_html(chart.kind.shown(points[-1][1]))}</strong></span>"
        for number, (name, points) in enumerate(drawn.items())
    )
    return f"<p>{band}{keys}</p>"
