"""Dates and timestamps out of text, ISO or in a pattern: whole columns, and single values for rows that do not fit."""

from __future__ import annotations

import re
from datetime import datetime, timezone, tzinfo
from zoneinfo import ZoneInfo

import pyarrow as pa

from penstock.serialization.values._calendar import days_since_1970, micros_since_1970, near_year
from penstock.serialization.values._local_times import LocalTimes
from penstock.serialization.values._time_reader import TimeReader
from penstock.serialization.values._zones import zone_of

__all__ = ["TimeParser"]

#: As in Spark, the day or the month and the day may be left out.
_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?", re.ASCII)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?)?\s*(\D.*)?)?)?)?",
    re.ASCII,
)
_ENDS_WITH_ZONE = re.compile(r"(Z|[+-]\d{2}:?\d{2})\s*$")
_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


class TimeParser:
    """Reads dates and timestamps, ISO texts unless there is a reader for them.

    ``zone_name`` names the ``zone`` of texts that name none, for columns with a zone. ``timestamp_reader`` reads
    columns with a zone, ``ntz_reader`` those without. What fits as a part of a column also fits as a single value, and
    is the same.
    """

    def __init__(
        self,
        zone_name: str,
        date_reader: TimeReader | None = None,
        timestamp_reader: TimeReader | None = None,
        ntz_reader: TimeReader | None = None,
    ) -> None:
        self.date_reader = date_reader
        self.timestamp_reader = timestamp_reader
        self._ntz_reader = ntz_reader
        self._zone_name = zone_name
        self.zone: tzinfo = timezone.utc if zone_name == "UTC" else ZoneInfo(zone_name)
        self._local_times = LocalTimes(self.zone)

    def reader_of(self, type_: pa.DataType) -> TimeReader | None:
        """Returns what reads timestamps of this type, if they are not ISO texts."""
        return self._ntz_reader if type_.tz is None else self.timestamp_reader

    def column(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        """Returns a column of texts as dates or timestamps. Raises pa.ArrowInvalid if one of them does not fit."""
        if pa.types.is_date(type_):
            reader = self.date_reader
            return texts.cast(type_) if reader is None else reader.column(texts).cast(type_, safe=False)
        reader = self.reader_of(type_)
        if reader is not None:
            column = reader.column(texts)
            if column.type.tz is None:
                return self.localize(column, type_)
            if type_.tz is None:
                raise pa.ArrowInvalid("the pattern holds a zone, the column none")
            return column.cast(type_)
        attempts = [self._without_zone, self._with_zone] if type_.tz is not None else [self._without_zone]
        valid = texts.drop_null()
        if len(valid) and _ENDS_WITH_ZONE.search(valid[0].as_py()):
            attempts.reverse()
        try:
            return attempts[0](texts, type_)
        except pa.ArrowInvalid:
            return attempts[-1](texts, type_)

    def _without_zone(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        return self.localize(texts.cast(pa.timestamp("us")), type_)

    def _with_zone(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        return texts.cast(type_)

    def localize(self, column: pa.Array, type_: pa.DataType) -> pa.Array:
        """Returns ``timestamp[us]`` as ``type_``: in the parser's zone if that has one.

        Raises pa.ArrowInvalid for a time before the year 1.
        """
        if type_.tz is not None and self._zone_name != "UTC":
            column = self._local_times.to_utc(column)
        return column.cast(type_)

    def date(self, text: str) -> int:
        """Returns the days since 1970 of a date. Raises ValueError."""
        if self.date_reader is not None:
            return days_since_1970(self.date_reader.value(text)[0])
        match = _DATE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a date")
        year, cycles = near_year(int(match[1]))
        return days_since_1970(datetime(year, int(match[2] or 1), int(match[3] or 1)), cycles)

    def timestamp(self, text: str, type_: pa.DataType) -> int:
        """Returns the time since 1970 in the unit of ``type_``. Raises ValueError, also for a zone where the type has
        none.
        """
        cycles = 0
        reader = self.reader_of(type_)
        if reader is None:
            local, zone, cycles = _iso(text)
        else:
            local, zone = reader.value(text)
        if type_.tz is None and zone is not None:
            raise ValueError(f"{text!r} names a zone")
        return _in_unit(micros_since_1970(local, zone or (self.zone if type_.tz else None), cycles), type_)

    @staticmethod
    def from_epoch(seconds: int, type_: pa.DataType) -> int:
        """Returns seconds since 1970 in the unit of ``type_``. Raises ValueError for a time that is too far away."""
        return _in_unit(seconds * 1_000_000, type_)


def _iso(text: str) -> tuple[datetime, tzinfo | None, int]:
    """Returns a local time, the zone that is named, and how many times 400 years it is later."""
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    year, cycles = near_year(int(match[1]))
    month, day = int(match[2] or 1), int(match[3] or 1)
    hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
    micros = int((match[7] or "0").ljust(6, "0")[:6])
    return datetime(year, month, day, hour, minute, second, micros), zone_of(match[8]) if match[8] else None, cycles


def _in_unit(micros: int, type_: pa.DataType) -> int:
    value = micros * 1000 if type_.unit == "ns" else micros // _MICROS[type_.unit]
    if not -1 << 63 <= value < 1 << 63:
        raise ValueError("a time that is too far away")
    return value
