"""Dates and timestamps to text in a pattern, without a loop over rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError
from penstock.serialization.values._patterns import FIELDS, OFFSETS, Token, tokens_of

__all__ = ["TimeWriter"]

_SMALLEST = (("second", "second"), ("minute", "minute"), ("hour", "hour"), ("half", "hour"), ("offset", "hour"))

#: Times to a part of their text. Takes them exact (us or ns) and cut to the second, both in their zone.
_Piece = Callable[[pa.Array, pa.Array], pa.Array]


class TimeWriter:
    """Writes dates and timestamps in a pattern, those with a zone in that zone, as Spark does; without a loop.

    Raises BadConfigurationError that names ``option`` for a pattern it does not support, and for one with an offset
    where the values have no zone (``zoned``).
    """

    def __init__(self, option: str, pattern: str, *, zoned: bool = True) -> None:
        tokens = list(tokens_of(option, pattern))
        offset = next((letters for letters, _ in tokens if letters in OFFSETS), None)
        if offset and not zoned:
            raise BadConfigurationError(f"option '{option}': the values have no zone that '{offset}' could show")
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


def _pieces(tokens: list[Token]) -> Iterator[_Piece]:
    """Splits into as few pieces as possible: one for each call of strftime."""
    together = ""
    for letters, literal in tokens:
        field = FIELDS.get(letters)
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
            elif letters in OFFSETS:
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


def _floor(tokens: list[Token]) -> str:
    digits = max((len(letters) for letters, _ in tokens if letters.startswith("S")), default=0)
    if digits:
        return "millisecond" if digits <= 3 else "microsecond" if digits <= 6 else "nanosecond"
    parts = {FIELDS[letters].part if letters in FIELDS else "offset" for letters, _ in tokens if letters}
    parts |= {"hour"} if "hour_of_half" in parts else set()
    return next((unit for part, unit in _SMALLEST if part in parts), "day")
