"""Axes with round marks: numbers, whole counts, bytes, durations, and times of day."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from penstock.cli._draw import human_bytes

__all__ = ["Kind", "Scale", "duration", "short_number", "short_time", "time_scale"]

#: Steps of a time axis in seconds, up to a day. Longer steps are 1, 2 or 5 times a power of ten days.
_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_DAY = 86_400
#: The name of a duration's unit, its milliseconds, and from how many milliseconds it is used.
_DURATIONS = (("h", 3_600_000, 7_200_000), ("min", 60_000, 120_000), ("s", 1000, 1000), ("ms", 1, 0))
#: Less than this part of the values themselves is no difference: floating-point numbers have no more digits.
_SAME = 1e-9


@dataclass(frozen=True)
class Scale:
    """An axis from ``low`` to ``high``, with the place and the label of each mark."""

    low: float
    high: float
    marks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """Returns where ``value`` is, from 0 (low) to 1 (high); a value outside the axis is put at its end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def _round_step(span: float, most: int, least: float = 0.0) -> float:
    """Returns the smallest of 1, 2 and 5 times a power of ten of which at most ``most`` fit into ``span``."""
    exponent = math.floor(math.log10(span / most))
    steps = (mantissa * 10.0**power for power in (exponent, exponent + 1) for mantissa in (1, 2, 5))
    return max(least, next(step for step in steps if span / step <= most * (1 + _SAME)))


def _covering(low: float, high: float, step: float) -> list[float]:
    """Returns the multiples of ``step`` from the last at or below ``low`` to the first at or above ``high``."""
    first, last = math.floor(low / step + _SAME), math.ceil(high / step - _SAME)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class Kind:
    """What values are, which decides the steps of an axis and how a value is written."""

    shown: Callable[[float], str]
    #: The size of the unit in which an axis up to this value counts.
    unit: Callable[[float], float] = lambda _: 1.0
    #: No step is smaller.
    least: float = 0.0

    def scale(self, low: float, high: float, most: int = 4) -> Scale:
        """Returns an axis whose first and last marks cover ``low`` to ``high``, with at most ``most`` + 2 steps."""
        size = self.unit(max(abs(low), abs(high)))
        low, high = low / size, high / size
        span = max(high - low, _SAME * max(abs(low), abs(high))) or 1.0
        places = [place * size for place in _covering(low, high, _round_step(span, most, self.least))]
        return Scale(places[0], places[-1], tuple((place, self._label(place)) for place in places))

    def _label(self, place: float) -> str:
        return self.shown(place).replace(".0 ", " ") if place else "0"


def short_number(value: float) -> str:
    """``1500`` → ``1.5k``."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit * (1 - 5e-4):
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def duration(milliseconds: float) -> str:
    """``380`` → ``380 ms``, ``50600`` → ``50.6 s``, ``150000`` → ``2.5 min``."""
    for name, size, limit in _DURATIONS:
        if abs(milliseconds) >= limit:
            return f"{milliseconds / size:.3g} {name}"
    raise AssertionError("the last limit is 0")


def short_time(seconds: float) -> str:
    """Returns day and time, UTC."""
    return _written(seconds, "%Y-%m-%d %H:%M:%S")


def _written(seconds: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime(form)
    except (ValueError, OverflowError, OSError):
        return ""  # before the year 1, or after 9999


def _unit_of_duration(most: float) -> float:
    return next(float(size) for _, size, limit in _DURATIONS if most >= limit)


def _unit_of_bytes(most: float) -> float:
    return 1024.0 ** max(0, min(4, int(math.log2(most) // 10))) if most >= 1 else 1.0


#: The kinds of values on the page.
NUMBER = Kind(short_number)
COUNT = Kind(short_number, least=1.0)
BYTES = Kind(human_bytes, _unit_of_bytes)
DURATION = Kind(duration, _unit_of_duration)


def time_scale(first: float, last: float, most: int = 5) -> Scale:
    """Returns an axis of whole seconds since the epoch that covers both times, with marks at round times of day."""
    low, high = math.floor(first), max(math.ceil(last), math.floor(first) + 1)
    span = high - low
    step = next((step for step in _TIME_STEPS if span / step <= most), None)
    if step is None:
        step = max(1, round(_round_step(span / _DAY, most))) * _DAY
    form = "%d %b" if step >= _DAY else "%H:%M" if step >= 60 else "%H:%M:%S"
    places = range(-(-low // step) * step, high + 1, step)
    labels = [_written(place, "%d %b" if place % _DAY == 0 and place != low else form) for place in places]
    return Scale(low, high, tuple(zip(map(float, places), labels, strict=True)))
