"""Text to typed values: whole columns at once, and single cells for rows that did not fit."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from penstock_filesystem.source.options import FileSourceSettings
from penstock_filesystem.source.patterns import is_vectorizable, to_strptime

__all__ = ["CellConverter", "TemporalConverter", "cell_converter", "fit_decimal"]

#: A cell's text to a value that ``pa.array`` takes. Raises ValueError.
CellConverter = Callable[[str], Any]

#: As many digits as a decimal column holds at most (``decimal256``). Python's default, 28, fails above.
_DIGITS = Context(prec=76)

_INTEGER = re.compile(r"[+-]?\d+|-?0[xX][0-9a-fA-F]+")
_DATE = re.compile(r"(\d{4,})-(\d{1,2})(?:-(\d{1,2}))?(?:[T ].*)?")
_TIMESTAMP = re.compile(
    r"(\d{4,})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)?\s*(Z|UTC|[+-]\d{1,2}(?::?\d{2})?)?)?"
)
_ENDS_WITH_ZONE = re.compile(r"(Z|[+-]\d{2}:?\d{2})\s*$")


def _zone(text: str) -> timezone:
    if text in ("Z", "UTC"):
        return timezone.utc
    digits = text[1:].replace(":", "")
    hours, minutes = (int(digits), 0) if len(digits) <= 2 else (int(digits[:-2]), int(digits[-2:]))
    return timezone((1 if text[0] == "+" else -1) * timedelta(hours=hours, minutes=minutes))


class TemporalConverter:
    """Dates and timestamps in ISO form or in the patterns of the options, with the zone of those that name none."""

    def __init__(self, settings: FileSourceSettings) -> None:
        def translated(option: str, pattern: str | None) -> str | None:
            return to_strptime(option, pattern) if pattern else None

        self.date_format = translated("dateFormat", settings.date_format)
        self.timestamp_format = translated("timestampFormat", settings.timestamp_format)
        self.zone_name = settings.time_zone
        self._zone = ZoneInfo(settings.time_zone)

    def column(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        """Converts a column. Raises pa.ArrowInvalid or ValueError if one cell does not fit."""
        if pa.types.is_date(type_):
            if self.date_format is None:
                return pc.cast(texts, type_)
            return self._parse(texts, self.date_format, self.date).cast(type_, safe=False)
        if self.timestamp_format is not None:
            zoned = type_.tz is not None
            parsed = self._parse(texts, self.timestamp_format, self.zoned if zoned else self.naive)
            return self.localize(parsed, type_) if parsed.type.tz is None else parsed.cast(type_)
        first = next((text.as_py() for text in texts if text.is_valid), "")
        attempts = [self._without_zone, self._with_zone] if type_.tz is not None else [self._without_zone]
        if _ENDS_WITH_ZONE.search(first):
            attempts.reverse()
        try:
            return attempts[0](texts, type_)
        except pa.ArrowInvalid:
            return attempts[-1](texts, type_)

    def _without_zone(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        return self.localize(pc.cast(texts, pa.timestamp("us")), type_)

    def _with_zone(self, texts: pa.Array, type_: pa.DataType) -> pa.Array:
        return pc.cast(texts, type_)

    def localize(self, column: pa.Array, type_: pa.DataType) -> pa.Array:
        """Timestamps without a zone as ``type_``: in the session's zone if that has one."""
        if type_.tz is None:
            return column.cast(type_)
        if self.zone_name != "UTC":
            column = pc.assume_timezone(column, self.zone_name, ambiguous="earliest", nonexistent="latest")
        return column.cast(type_)

    def _parse(self, texts: pa.Array, format_: str, cell: CellConverter) -> pa.Array:
        if is_vectorizable(format_):
            return pc.strptime(texts, format=format_, unit="us")
        # Arrow's strptime knows neither fractions nor zones: value by value, in Python.
        values = [None if text is None else cell(text) for text in texts.to_pylist()]
        return pa.array(values, pa.timestamp("us", "UTC" if cell == self.zoned else None))

    def date(self, text: str) -> date:
        """A date. Raises ValueError."""
        if self.date_format is not None:
            return datetime.strptime(text.strip(), self.date_format).date()
        match = _DATE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a date")
        return date(int(match[1]), int(match[2]), int(match[3] or 1))

    def zoned(self, text: str) -> datetime:
        """A point in time. Raises ValueError."""
        value = self._datetime(text)
        if value.tzinfo is None:
            value = value.replace(tzinfo=self._zone)
        return value.astimezone(timezone.utc)

    def naive(self, text: str) -> datetime:
        """A timestamp that has no zone. Raises ValueError, also for one that names a zone."""
        value = self._datetime(text)
        if value.tzinfo is not None:
            raise ValueError(f"{text!r} names a zone")
        return value

    def _datetime(self, text: str) -> datetime:
        if self.timestamp_format is not None:
            return datetime.strptime(text.strip(), self.timestamp_format)
        match = _TIMESTAMP.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} is not a timestamp")
        year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
        micros = int((match[7] or "0").ljust(6, "0")[:6])
        zone = _zone(match[8]) if match[8] else None
        return datetime(year, month, day, hour, minute, second, micros, tzinfo=zone)


def fit_decimal(value: Decimal, type_: pa.DataType) -> Decimal:
    """``value`` rounded (half up) to the scale of ``type_``. Raises ValueError if it is too large."""
    try:
        fitted = value.quantize(Decimal(1).scaleb(-type_.scale), ROUND_HALF_UP, _DIGITS)
    except InvalidOperation:
        raise ValueError(f"{value} does not fit {type_}") from None
    if len(fitted.as_tuple().digits) > type_.precision or not fitted.is_finite():
        raise ValueError(f"{value} does not fit {type_}")
    return fitted


def _integer(type_: pa.DataType) -> CellConverter:
    limit = 1 << (type_.bit_width - 1)

    def convert(text: str) -> int:
        stripped = text.strip()
        if _INTEGER.fullmatch(stripped) is None:
            raise ValueError(f"{text!r} is not a whole number")
        value = int(stripped, 16 if "x" in stripped.lower() else 10)
        if not -limit <= value < limit:
            raise ValueError(f"{text!r} is out of range")
        return value

    return convert


def _float(text: str) -> float:
    if "_" in text:
        raise ValueError(f"{text!r} is not a number")
    return float(text)


def _boolean(text: str) -> bool:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise ValueError(f"{text!r} is neither true nor false")
    return value == "true"


def _decimal(type_: pa.DataType) -> CellConverter:
    def convert(text: str) -> Decimal:
        try:
            return fit_decimal(Decimal(text.strip()), type_)
        except InvalidOperation:
            raise ValueError(f"{text!r} is not a number") from None

    return convert


def cell_converter(type_: pa.DataType, temporal: TemporalConverter) -> CellConverter:
    """The converter of one cell. Takes everything that the conversion of whole columns takes, and more."""
    if pa.types.is_integer(type_):
        return _integer(type_)
    if pa.types.is_floating(type_):
        return _float
    if pa.types.is_boolean(type_):
        return _boolean
    if pa.types.is_decimal(type_):
        return _decimal(type_)
    if pa.types.is_date(type_):
        return temporal.date
    if pa.types.is_timestamp(type_):
        return temporal.naive if type_.tz is None else temporal.zoned
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return str.encode
    return str


def base64_bytes(text: str) -> bytes:
    """Base64, as JSON holds binary. Raises ValueError."""
    return base64.b64decode(text, validate=True)
