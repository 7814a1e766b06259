"""Java's date-time patterns, which users of Spark and Flink know: one table for reading and for writing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError

__all__ = ["TimeReader", "TimeWriter"]

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DAYS, _LONG_DAYS = "mon|tue|wed|thu|fri|sat|sun", "monday|tuesday|wednesday|thursday|friday|saturday|sunday"


class _Field(NamedTuple):
    """What a run of letters stands for. ``pads``: it is written with all its digits."""

    part: str
    regex: str
    strftime: str
    pads: bool = True


def _names(part: str, alternatives: str, strftime: str) -> _Field:
    return _Field(part, f"(?i:{alternatives})", strftime)


def _two_digits(letter: str, part: str, strftime: str) -> dict[str, _Field]:
    return {
        letter * 2: _Field(part, "[0-5][0-9]" if part in ("minute", "second") else "[0-9]{2}", strftime),
        letter: _Field(part, "0*[0-9]{1,2}", strftime, pads=False),
    }


_FIELDS = {
    **dict.fromkeys(("yyyy", "uuuu"), _Field("year", "[0-9]{4}", "%Y")),
    **dict.fromkeys(("y", "u"), _Field("year", "0*[0-9]{1,4}", "%Y", pads=False)),
    "yy": _Field("year_of_century", "[0-9]{2}", "%y"),
    **_two_digits("M", "month", "%m"),
    "MMM": _names("month_name", "|".join(_MONTHS), "%b"),
    "MMMM": _names("month_name", _LONG_MONTHS, "%B"),
    **_two_digits("d", "day", "%d"),
    "DDD": _Field("day_of_year", "[0-9]{3}", "%j"),
    "D": _Field("day_of_year", "0*[0-9]{1,3}", "%j", pads=False),
    **dict.fromkeys(("E", "EE", "EEE"), _names("day_name", _DAYS, "%a")),
    "EEEE": _names("day_name", _LONG_DAYS, "%A"),
    **_two_digits("H", "hour", "%H"),
    **_two_digits("h", "hour_of_half", "%I"),
    "a": _names("half", "am|pm", "%p"),
    **_two_digits("m", "minute", "%M"),
    **_two_digits("s", "second", "%S"),
}
#: Offsets from UTC. X is Z for none.
_OFFSETS = {
    "X": "Z|[+-][0-9]{2}(?:[0-9]{2})?",
    "XX": "Z|[+-][0-9]{4}",
    "XXX": "Z|[+-][0-9]{2}:[0-9]{2}",
    "x": "[+-][0-9]{2}(?:[0-9]{2})?",
    "xx": "[+-][0-9]{4}",
    "xxx": "[+-][0-9]{2}:[0-9]{2}",
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), "[+-][0-9]{4}"),
}
#: Fields as wide as their letters. A pattern of these that names a whole date can be read by Arrow's strptime.
_FIXED = {"yyyy", "uuuu", "MM", "dd", "HH", "mm", "ss"}
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")
_SMALLEST = (("second", "second"), ("minute", "minute"), ("hour", "hour"), ("half", "hour"), ("offset", "hour"))


class _Token(NamedTuple):
    """A literal, if ``letters`` is empty."""

    letters: str
    literal: str = ""


def _tokens(option: str, pattern: str) -> Iterator[_Token]:
    position = 0
    for match in _TOKENS.finditer(pattern):
        if match.start() != position:
            break
        position = match.end()
        text, quoted, letter = match.group(), match.group(1), match.group(2)
        if letter is not None:
            if letter != "S" and text not in _FIELDS and text not in _OFFSETS:
                raise BadConfigurationError(
                    f"option '{option}': {text!r} in {pattern!r} is not supported (known: "
                    f"{', '.join([*_FIELDS, *_OFFSETS])}, and S for each digit of a fraction; put other text in single "
                    "quotes)"
                )
            yield _Token(text)
        elif quoted is not None:
            yield _Token("", quoted.replace("''", "'") or "'")
        elif "[" in text or "]" in text:
            raise BadConfigurationError(f"option '{option}': optional parts ([ ]) are not supported in {pattern!r}")
        else:
            yield _Token("", text)
    if position != len(pattern):
        raise BadConfigurationError(f"option '{option}': a single quote in {pattern!r} is not closed")


class TimeReader:
    """Reads texts in a pattern, as strictly as Spark: as many digits as letters. But one letter stands for as many as
    there are, and a fraction may have fewer.

    What the pattern does not name is that of 1970-01-01 00:00. Names are English, in upper or lower case. Raises
    BadConfigurationError that names ``option`` for a pattern it does not support.
    """

    def __init__(self, option: str, pattern: str) -> None:
        regex, parts = "", list[str]()
        tokens = list(_tokens(option, pattern))
        for letters, literal in tokens:
            if not letters:
                regex += re.escape(literal)
                continue
            if letters in _OFFSETS:
                part, digits = "offset", _OFFSETS[letters]
            elif letters[0] == "S":
                part, digits = "fraction", f"[0-9]{{1,{len(letters)}}}"
            else:
                part, digits = _FIELDS[letters][:2]
            if part in parts:
                raise BadConfigurationError(
                    f"option '{option}': {letters!r} in {pattern!r} is read twice ({part.replace('_', ' ')})"
                )
            parts.append(part)
            regex += f"(?P<{part}>{digits})"
        self._parts = frozenset(parts)
        self._regex = regex
        self._compiled = re.compile(regex)
        is_fixed = all(not letters or letters in _FIXED for letters, _ in tokens) and {"year", "month", "day"} <= {
            *parts
        }
        self._fixed = _Fixed.of(tokens) if is_fixed else None

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
                return pa.array([None if text is None else self.value(text) for text in texts.to_pylist()], type_)
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
            month = pc.add(pc.index_in(short, value_set=pa.array(_MONTHS)), 1).cast(pa.string())
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

    def value(self, text: str) -> datetime:
        """One text: a time without a zone, or if it holds an offset one in UTC. Raises ValueError."""
        match = self._compiled.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is not in the pattern")
        found = match.groupdict()
        year = int(found.get("year") or 1970)
        if "year_of_century" in found:
            year = 2000 + int(found["year_of_century"])
        month = int(found.get("month") or 1)
        if "month_name" in found:
            month = _MONTHS.index(found["month_name"][:3].lower()) + 1
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
        return value if "offset" not in found else (value - _offset(found["offset"])).replace(tzinfo=timezone.utc)


class _Fixed(NamedTuple):
    """Reads columns in a pattern of fixed width, several times as fast as with the parts of a regular expression."""

    strptime: str
    day_at: int

    @classmethod
    def of(cls, tokens: list[_Token]) -> _Fixed:
        format_, width, day_at = "", 0, 0
        for letters, literal in tokens:
            day_at = width if letters == "dd" else day_at
            format_ += _FIELDS[letters].strftime if letters else literal.replace("%", "%%")
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


def _offset(text: str) -> timedelta:
    if text == "Z":
        return timedelta(0)
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{text!r} is not an offset")
    offset = timedelta(hours=hours, minutes=minutes)
    return -offset if text[0] == "-" else offset


#: Times to a part of their text. Takes them exact (us or ns) and cut to the second, both in their zone.
_Piece = Callable[[pa.Array, pa.Array], pa.Array]


class TimeWriter:
    """Writes dates and timestamps in a pattern, those with a zone in that zone, as Spark does; without a loop.

    Raises BadConfigurationError that names ``option`` for a pattern it does not support.
    """

    def __init__(self, option: str, pattern: str) -> None:
        tokens = list(_tokens(option, pattern))
        self._pieces = list(_pieces(tokens))
        self.floor = _floor(tokens)
        """The unit, in the words of ``floor_temporal``, within which all times have the same text."""

    def write(self, values: pa.Array) -> pa.Array:
        """Timestamps or dates as strings; null stays null."""
        is_timestamp = pa.types.is_timestamp(values.type)
        unit = "ns" if is_timestamp and values.type.unit == "ns" else "us"
        zone = values.type.tz if is_timestamp and values.type.tz else "UTC"
        if not (is_timestamp and values.type.tz):
            values = values.cast(pa.timestamp(unit)).view(pa.timestamp(unit, zone))
        exact = values.cast(pa.timestamp(unit, zone))
        seconds = pc.floor_temporal(exact, unit="second").cast(pa.timestamp("s", zone))
        texts = [piece(exact, seconds) for piece in self._pieces]
        return texts[0] if len(texts) == 1 else pc.binary_join_element_wise(*texts, "")


def _pieces(tokens: list[_Token]) -> Iterator[_Piece]:
    """As few as possible: what one call of strftime can write is one piece."""
    together = ""
    for letters, literal in tokens:
        field = _FIELDS.get(letters)
        if not letters:
            together += literal.replace("%", "%%")
        elif field is not None and field.pads:
            together += field.strftime
        else:
            if together:
                yield partial(_formatted, together)
            together = ""
            if field is not None:
                yield partial(_unpadded, field.strftime)
            elif letters in _OFFSETS:
                yield partial(_written_offset, letters)
            else:
                yield partial(_fraction, len(letters))
    if together or not tokens:
        yield partial(_formatted, together)


def _formatted(format_: str, exact: pa.Array, seconds: pa.Array) -> pa.Array:
    return pc.strftime(seconds, format=format_)


def _unpadded(format_: str, exact: pa.Array, seconds: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(pc.strftime(seconds, format=format_), "^0+(.)", r"\1")


def _fraction(digits: int, exact: pa.Array, seconds: pa.Array) -> pa.Array:
    unit = exact.type.unit
    whole = seconds.cast(pa.timestamp(unit, seconds.type.tz)).cast(pa.int64())
    # One more digit in front keeps the zeros.
    rest = pc.add(pc.subtract(exact.cast(pa.int64()), whole), 10 ** (6 if unit == "us" else 9))
    return pc.utf8_rpad(pc.utf8_slice_codeunits(rest.cast(pa.string()), 1, 1 + digits), digits, "0")


def _written_offset(letters: str, exact: pa.Array, seconds: pa.Array) -> pa.Array:
    text = written = pc.strftime(seconds, format="%z")
    if letters in ("X", "x"):
        written = pc.replace_substring_regex(text, "^(...)00$", r"\1")
    elif letters in ("XXX", "xxx"):
        written = pc.replace_substring_regex(text, "^(...)(..)$", r"\1:\2")
    return pc.if_else(pc.equal(text, "+0000"), "Z", written) if letters[0] == "X" else written


def _floor(tokens: list[_Token]) -> str:
    digits = max((len(letters) for letters, _ in tokens if letters.startswith("S")), default=0)
    if digits:
        return "millisecond" if digits <= 3 else "microsecond" if digits <= 6 else "nanosecond"
    parts = {_FIELDS[letters].part if letters in _FIELDS else "offset" for letters, _ in tokens if letters}
    parts |= {"hour"} if "hour_of_half" in parts else set()
    return next((unit for part, unit in _SMALLEST if part in parts), "day")
