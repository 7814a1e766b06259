"""Dates and timestamps out of text in a pattern."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.values._calendar import micros_since_1970
from penstock.serialization.values._patterns import FIELDS, MONTHS, OFFSETS, Token, tokens_of
from penstock.serialization.values._zones import zone_of

__all__ = ["TimeReader"]

#: Fields as wide as their letters. A pattern of these that names a whole date can be read by Arrow's strptime.
_FIXED = {"yyyy", "uuuu", "MM", "dd", "HH", "mm", "ss"}


class TimeReader:
    """Reads texts in a pattern, as strictly as Spark: as many digits as letters. But one letter stands for as many as
    there are, and a fraction may have fewer.

    What the pattern does not name is that of 1970-01-01 00:00. Names are English, in upper or lower case. Raises
    BadConfigurationError that names ``option`` for a pattern it does not support.
    """

    def __init__(self, option: str, pattern: str) -> None:
        regex, parts = "", list[str]()
        tokens = list(tokens_of(option, pattern))
        for letters, literal in tokens:
            if not letters:
                regex += re.escape(literal)
                continue
            if letters in OFFSETS:
                part, digits = "offset", OFFSETS[letters]
            elif letters[0] == "S":
                part, digits = "fraction", f"[0-9]{{1,{len(letters)}}}"
            else:
                part, digits = FIELDS[letters][:2]
            if part in parts:
                raise BadConfigurationError(
                    f"option '{option}': {letters!r} in {pattern!r} is read twice ({part.replace('_', ' ')})"
                )
            parts.append(part)
            regex += f"(?P<{part}>{digits})"
        self._parts = frozenset(parts)
        self._regex = regex
        self._compiled = re.compile(regex)
        is_fixed = all(not letters or letters in _FIXED for letters, _ in tokens)
        self._fixed = _Fixed.of(tokens) if is_fixed and {"year", "month", "day"} <= self._parts else None

    @property
    def has_zone(self) -> bool:
        """Whether the texts hold an offset from UTC, so that they name a point in time."""
        return "offset" in self._parts

    def column(self, texts: pa.Array) -> pa.Array:
        """``timestamp[us]``, in UTC if the texts hold an offset. Raises pa.ArrowInvalid if one of them does not fit."""
        type_ = pa.timestamp("us", "UTC" if self.has_zone else None)
        if self._fixed is not None:
            return self._fixed.column(texts.cast(pa.string()), self._regex)
        if "day_of_year" in self._parts:
            try:  # value by value, in Python: rare
                return pa.array([None if text is None else self._micros_of(text) for text in texts.to_pylist()], type_)
            except ValueError as error:
                raise pa.ArrowInvalid(str(error)) from None
        found = pc.extract_regex(texts.cast(pa.string()), f"^(?:{self._regex})$")
        if found.null_count > texts.null_count:
            raise pa.ArrowInvalid("a text is not in the pattern")

        def part(name: str, default: str) -> pa.Array | str:
            if name not in self._parts:
                return default
            return _digits(pc.struct_field(found, name), len(default))

        year = part("year", "1970")
        if "year" in self._parts and pc.any(pc.equal(year, "0000")).as_py():
            raise pa.ArrowInvalid("there is no year 0")
        if "year_of_century" in self._parts:
            year = pc.binary_join_element_wise("20", part("year_of_century", "00"), "")
        month = part("month", "01")
        if "month_name" in self._parts:
            short = pc.utf8_slice_codeunits(pc.utf8_lower(pc.struct_field(found, "month_name")), 0, 3)
            month = pc.add(pc.index_in(short, value_set=pa.array(MONTHS)), 1).cast(pa.string())
            month = _digits(month, 2)
        pieces = [year, "-", month, "-", part("day", "01"), "T", self._hours(found), ":", part("minute", "00")]
        pieces += [":", part("second", "00"), ".", self._micros(found)]
        if self.has_zone:
            pieces.append(pc.struct_field(found, "offset"))
        if not any(isinstance(piece, pa.Array) for piece in pieces):
            pieces[0] = pc.if_else(texts.is_valid(), pieces[0], None)  # a pattern of literals
        return pc.binary_join_element_wise(*pieces, "").cast(type_)

    def _hours(self, found: pa.Array) -> pa.Array | str:
        if "hour" in self._parts:
            return _digits(pc.struct_field(found, "hour"), 2)
        if "hour_of_half" not in self._parts:
            return "00"
        hour = pc.struct_field(found, "hour_of_half").cast(pa.int8())
        if pc.any(pc.or_(pc.less(hour, 1), pc.greater(hour, 12))).as_py():
            raise pa.ArrowInvalid("an hour of half a day is from 1 to 12")
        hour = pc.if_else(pc.equal(hour, 12), pa.scalar(0, pa.int8()), hour)
        if "half" in self._parts:
            is_pm = pc.equal(pc.utf8_lower(pc.struct_field(found, "half")), "pm")
            hour = pc.add(hour, pc.if_else(is_pm, pa.scalar(12, pa.int8()), pa.scalar(0, pa.int8())))
        return _digits(hour.cast(pa.string()), 2)

    def _micros(self, found: pa.Array) -> pa.Array | str:
        if "fraction" not in self._parts:
            return "0"
        return pc.utf8_slice_codeunits(pc.struct_field(found, "fraction"), 0, 6)

    def _micros_of(self, text: str) -> int:
        return micros_since_1970(*self.value(text))

    def value(self, text: str) -> tuple[datetime, tzinfo | None]:
        """Reads one text: returns a local time and, if it has an offset, that. Raises ValueError."""
        match = self._compiled.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not in the pattern")
        found = match.groupdict()
        year = int(found.get("year") or 1970)
        if "year_of_century" in found:
            year = 2000 + int(found["year_of_century"])
        month = int(found.get("month") or 1)
        if "month_name" in found:
            month = MONTHS.index(found["month_name"][:3].lower()) + 1
        hour = int(found.get("hour") or 0)
        if "hour_of_half" in found and "hour" not in found:
            hour = int(found["hour_of_half"])
            if not 1 <= hour <= 12:
                raise ValueError(f"{text!r}: an hour of half a day is from 1 to 12")
            hour = hour % 12 + (12 if found.get("half", "").lower() == "pm" else 0)
        micros = int((found.get("fraction") or "0").ljust(6, "0")[:6])
        day, minute, second = (
            int(found.get(part) or least) for part, least in (("day", 1), ("minute", 0), ("second", 0))
        )
        value = datetime(year, month, day, hour, minute, second, micros)
        if "day_of_year" in found:
            value = value.replace(month=1, day=1) + timedelta(days=int(found["day_of_year"]) - 1)
            if value.year != year:
                raise ValueError(f"{text!r}: the year has no such day")
        return value, zone_of(found["offset"]) if "offset" in found else None


class _Fixed(NamedTuple):
    """Reads columns in a pattern of fixed width, several times as fast as with the parts of a regular expression."""

    strptime: str
    day_at: int

    @classmethod
    def of(cls, tokens: list[Token]) -> _Fixed:
        format_, width, day_at = "", 0, 0
        for letters, literal in tokens:
            day_at = width if letters == "dd" else day_at
            format_ += FIELDS[letters].strftime if letters else literal.replace("%", "%%")
            width += len(letters or literal)
        return cls(format_, day_at)

    def column(self, texts: pa.Array, regex: str) -> pa.Array:
        if pc.all(pc.match_substring_regex(texts, f"^(?:{regex})$")).as_py() is False:
            raise pa.ArrowInvalid("a text is not in the pattern")
        found = pc.strptime(texts, format=self.strptime, unit="us")
        # For strptime 30 February is 2 March.
        days = pc.utf8_slice_codeunits(texts, self.day_at, self.day_at + 2).cast(pa.int64())
        if pc.all(pc.equal(pc.day(found), days)).as_py() is False:
            raise pa.ArrowInvalid("a month has no such day")
        if pc.any(pc.equal(pc.year(found), 0)).as_py():
            raise pa.ArrowInvalid("there is no year 0")
        return found


def _digits(numbers: pa.Array, count: int) -> pa.Array:
    return pc.utf8_lpad(pc.utf8_ltrim(numbers, "0"), count, "0")
