"""Days and microseconds since 1970 of local times in any year: Python's own end at the years 1 and 9999.

The calendar is the Gregorian one, also before it began, as in Spark. It repeats itself every 400 years.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, datetime, timedelta, tzinfo

__all__ = ["day_of", "days_since_1970", "micros_since_1970", "near_year"]

_YEARS, _DAYS = 400, 146_097
_EPOCH = datetime(1970, 1, 1)
_MICROS_OF_A_DAY = 86_400_000_000


def near_year(year: int) -> tuple[int, int]:
    """Returns a year that Python knows, and how many times 400 years ``year`` is later."""
    cycles = (year - MINYEAR) // _YEARS if year < MINYEAR else -(min(0, MAXYEAR - year) // _YEARS)
    return year - cycles * _YEARS, cycles


def day_of(days: int) -> datetime:
    """Returns the start of a day, so many days after 1970-01-01. Raises ValueError beyond the years 1 to 9999."""
    return datetime.fromordinal(_EPOCH.toordinal() + days)


def days_since_1970(local: datetime, cycles: int = 0) -> int:
    """Returns the days from 1970-01-01 to the date of ``local``, ``cycles`` times 400 years later."""
    return local.toordinal() - _EPOCH.toordinal() + cycles * _DAYS


def micros_since_1970(local: datetime, zone: tzinfo | None = None, cycles: int = 0) -> int:
    """Returns the microseconds from 1970 to ``local`` (without a zone) in ``zone``, ``cycles`` times 400 years later.

    The zone is UTC by default. Where it changes its offset, that before the change counts: for a time that the clocks
    show twice, and for one that they skip.
    """
    offset = local.replace(tzinfo=zone).utcoffset() or timedelta(0)
    return (local - _EPOCH - offset) // timedelta(microseconds=1) + cycles * _DAYS * _MICROS_OF_A_DAY
