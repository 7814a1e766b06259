"""Dates and timestamps out of text, ISO or in a pattern: whole columns, and single values for rows that do not fit."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from penstock.serialization.values._time_reader import TimeReader

__all__ = ["TimeParser", "check_zone"]

#: As in Spark, the day or the month and the day may be left out.
_DATE = re.compile(r"(\d{4,})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ].*)?)?)?")
_TIMESTAMP = re.compile(
    r"(\d{4,})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?)?)?)?"
)
_ENDS_WITH_ZONE = re.compile(r"(Z|[+-]\d{2}:?\d{2})\s*$")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def check_zone(name: str) -> None:
    """Checks an option's value. Raises ValueError if ``name`` is not a time zone's."""
    if name != "UTC":
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError("an IANA time zone such as Europe/Rome") from None


def _offset(text: str) -> timezone:
    if text in ("Z", "UTC"):
        return timezone.utc
    digits = text[1:].replace(":", "")
    hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
    return timezone((1 if text[0] == "+" else -1) * timedelta(hours=hours, minutes=minutes))


class TimeParser:
    """Reads dates and timestamps, ISO texts unless there is a reader for them.

    ``zone_name`` is the zone of texts that name none, for columns with a zone. What fits as a part of a column also
    fits as a single value, and is the same.
    """

    def __init__(
        self, zone_name: str, date_reader: TimeReader | None = None, timestamp_reader: TimeReader | None = None
    ) -> None:
        self.date_reader = date_reader
        self.timestamp_reader = timestamp_reader
        self._zone_name = zone_name
        self._zone = timezone.utc if zone_name == "UTC" else ZoneInfo(zone_name)

    def column(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        """Returns a column of texts as dates or timestamps. Raises pa.ArrowInvalid if one of them does not fit."""
        if pa.types.is_date(type_):
            reader = self.date_reader
            return texts.cast(type_) if reader is None else reader.column(texts).cast(type_, safe=False)
        if self.timestamp_reader is not None:
            column = self.timestamp_reader.column(texts)
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
        """Timestamps without a zone as ``type_``: in the parser's zone if that has one."""
        if type_.tz is not None and self._zone_name != "UTC":
            column = pc.assume_timezone(column, self._zone_name, ambiguous="earliest", nonexistent="latest")
        return column.cast(type_)

    def date(self, text: str) -> date:
        """Returns a date. Raises ValueError."""
        if self.date_reader is not None:
            return self.date_reader.value(text).date()
        match = _DATE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a date")
        return date(int(match[1]), int(match[2] or 1), int(match[3] or 1))

    def timestamp(self, text: str, type_: pa.DataType) -> datetime:
        """Returns a timestamp for ``type_``. Raises ValueError, also for a zone where the type has none."""
        value = self._iso(text) if self.timestamp_reader is None else self.timestamp_reader.value(text)
        if type_.tz is None:
            if value.tzinfo is not None:
                raise ValueError(f"{text!r} names a zone")
            return value
        return (value if value.tzinfo else value.replace(tzinfo=self._zone)).astimezone(timezone.utc)

    @staticmethod
    def _iso(text: str) -> datetime:
        match = _TIMESTAMP.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a timestamp")
        year, month, day = (int(part or 1) for part in match.groups()[:3])
        hour, minute, second = (int(part or 0) for part in match.groups()[3:6])
        micros = int((match[7] or "0").ljust(6, "0")[:6])
        return datetime(year, month, day, hour, minute, second, micros, _offset(match[8]) if match[8] else None)

    @staticmethod
    def from_epoch(seconds: int) -> datetime:
        """Returns a point in time from seconds since 1970. Raises OverflowError."""
        return _EPOCH + timedelta(seconds=seconds)
