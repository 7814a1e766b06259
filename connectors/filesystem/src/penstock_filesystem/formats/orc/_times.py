"""Times and days of ORC files: both may be in a calendar and a zone of the writer's.

Source: ORC Specification v1, "Timestamp Columns"; the calendars are those of Java's ``GregorianCalendar``.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone, tzinfo
from typing import cast
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.serialization.values import TimeParser, zone_of
from penstock_filesystem.formats.orc._integers import Numbers

__all__ = ["Times"]

#: 2015-01-01, from which seconds are counted, and 1900-01-01, before which Java knows one offset of a zone.
_BASE_S, _FIRST_OFFSET_S = 1_420_070_400, -2_208_988_800
_FIRST_GREGORIAN_DAY = -141_427
_JULIAN_DAY_OF_1970, _DAYS_TO_1970 = 2_440_588, 719_468
_DAY_S, _QUARTER_S = 86_400, 900
#: What a zone's rules say repeats after 400 years. Python's datetime ends with the year 9999.
_CYCLE_S, _FIRST_YEAR_S, _HIGHEST_S = 146_097 * _DAY_S, -62_135_596_800, 253_370_000_000
_MICROS, _NANOS_PER_MICRO = 1_000_000, 1_000
_ROUNDED_NANOS = 999_999
#: Years of six digits, of which microseconds have 64 bits.
_MOST_S, _MOST_DAYS = 9_000_000_000_000, 100_000_000


class Times:
    """Makes times and days of a stripe's numbers. ``parser`` has the zone of times that name none."""

    def __init__(self, zone: str, parser: TimeParser, *, is_proleptic: bool) -> None:
        self._zone = zone_of(zone or "UTC")
        self._parser = parser
        self._is_proleptic = is_proleptic

    def days(self, days: Numbers) -> npt.NDArray[np.int32]:
        """Returns days since 1970 in the Gregorian calendar. Raises ValueError for one that is too far away."""
        if len(days) and (int(days.min()) < -_MOST_DAYS or int(days.max()) > _MOST_DAYS):
            raise ValueError("a day that is too far away")
        return (days if self._is_proleptic else _gregorian(days)).astype(np.int32)

    def micros(self, seconds: Numbers, nanos: Numbers, *, is_instant: bool, is_plain: bool) -> Numbers:
        """Returns microseconds since 1970 of points in time; ``is_plain``: of what the writer's clocks showed.

        ``seconds`` and ``nanos`` are as they are stored. ``is_instant``: the type is that of points in time.
        Raises ValueError for a time that is too far away.
        """
        if len(seconds) and (int(seconds.min()) < -_MOST_S or int(seconds.max()) > _MOST_S):
            raise ValueError("a time that is too far away")
        zone = timezone.utc if is_instant else self._zone
        nanos = _nanos(nanos)
        seconds = seconds + _BASE_S - _offset_at(zone, _BASE_S)  # no zone changes its offset that night
        # As Java's reader and writer agree: of times before 1970 the seconds are rounded towards 1970.
        seconds = seconds - ((seconds < 0) & (nanos > _ROUNDED_NANOS))
        if is_instant:
            return _micros(seconds, nanos)
        wall = seconds + _offsets(zone, seconds)
        if not self._is_proleptic:
            days = wall // _DAY_S
            wall += (_gregorian(days) - days) * _DAY_S
        if is_plain:
            return _micros(wall, nanos)
        points = self._points(_micros(wall, nanos))
        if zone != self._parser.zone:
            return points
        # In one and the same zone, an hour that is repeated in autumn need not be guessed.
        return np.where(seconds < _FIRST_OFFSET_S, points, _micros(seconds, nanos))

    def _points(self, walls: Numbers) -> Numbers:
        """Returns the points in time, in microseconds, at which the clocks of the parser's zone show ``walls``."""
        # Python knows no year before the first; each zone has had one offset until then, and long after.
        later = np.where(walls < _FIRST_YEAR_S * _MICROS, _CYCLE_S * _MICROS, 0)
        points = self._parser.localize(pa.array(walls + later).view(pa.timestamp("us")), pa.timestamp("us", "UTC"))
        found: Numbers = points.view(pa.int64()).to_numpy() - later
        return found


def _nanos(stored: Numbers) -> Numbers:
    """Returns nanoseconds: the lowest three bits say how many zeros were left out, less one."""
    zeros = stored & 7
    scale: Numbers = np.where(zeros > 0, 10 ** (zeros + 1), 1)
    return (stored >> 3) * scale


def _micros(seconds: Numbers, nanos: Numbers) -> Numbers:
    return seconds * _MICROS + nanos // _NANOS_PER_MICRO


def _offsets(zone: tzinfo, seconds: Numbers) -> Numbers:
    """Returns by how many seconds the clocks of ``zone`` were ahead of UTC at points in time, as Java knows it."""
    if zone == timezone.utc or not isinstance(zone, ZoneInfo):
        return np.full(len(seconds), _offset_at(zone, 0), np.int64)
    # Offsets change at quarters of an hour: one look for each that occurs.
    quarters, which = np.unique(np.maximum(seconds, _FIRST_OFFSET_S - 1) // _QUARTER_S, return_inverse=True)
    return np.array([_java_offset(zone, quarter * _QUARTER_S) for quarter in quarters.tolist()], np.int64)[which]


def _java_offset(zone: tzinfo, second: int) -> int:
    if second < _FIRST_OFFSET_S:
        now = datetime.fromtimestamp(_BASE_S, zone)
        return int((cast(timedelta, now.utcoffset()) - cast(timedelta, now.dst())).total_seconds())
    return _offset_at(zone, second)


def _offset_at(zone: tzinfo, second: int) -> int:
    if second > _HIGHEST_S:
        second -= -(-(second - _HIGHEST_S) // _CYCLE_S) * _CYCLE_S
    return int(cast(timedelta, datetime.fromtimestamp(second, zone).utcoffset()).total_seconds())


def _gregorian(days: Numbers) -> Numbers:
    """Returns days since 1970 of which those before 1582-10-15 were counted by the Julian calendar: the day of the same
    name in the Gregorian one, or the next day where it has none.

    Source: E. G. Richards, "Mapping Time", as in the Explanatory Supplement to the Astronomical Almanac, chapter 15.
    """
    is_julian = days < _FIRST_GREGORIAN_DAY
    if not is_julian.any():
        return days
    fourths = 4 * (days[is_julian] + _JULIAN_DAY_OF_1970 + 1401) + 3
    in_year = fourths % 1461 // 4
    fifths = 5 * in_year + 2
    day = fifths % 153 // 5 + 1
    month = (fifths // 153 + 2) % 12 + 1
    year = fourths // 1461 - 4716 + (14 - month) // 12
    # Days since 0000-03-01 of the Gregorian calendar, whose years here begin in March.
    from_march, march_year = (month + 9) % 12, year - (month < 3)
    since = 365 * march_year + march_year // 4 - march_year // 100 + march_year // 400
    found = days.copy()
    found[is_julian] = since + (153 * from_march + 2) // 5 + day - 1 - _DAYS_TO_1970
    return found
