"""Java's date-time patterns, which Spark's and Flink's users know, turned into what pyarrow formats with."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import BadConfigurationError

__all__ = ["DateTimePattern"]

_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|([^A-Za-z']+)")
_FIELDS = {
    **{"yyyy": "%Y", "uuuu": "%Y", "y": "%Y", "u": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "DDD": "%j"},
    **{"MMM": "%b", "MMMM": "%B", "HH": "%H", "hh": "%I", "mm": "%M", "ss": "%S", "a": "%p"},
    **{"E": "%a", "EEE": "%a", "EEEE": "%A", "XXX": "Z", "X": "Z"},
}
_FRACTIONS = {3: "ms", 6: "us", 9: "ns"}
_UNITS = (("ss", "second"), ("mm", "minute"), ("HH", "hour"), ("hh", "hour"), ("a", "hour"))


@dataclass(frozen=True)
class DateTimePattern:
    """A translated pattern: the strftime form, the unit in which values are formatted, and the smallest field in it."""

    strftime: str
    unit: str
    floor: str

    @classmethod
    def parse(cls, option: str, pattern: str) -> DateTimePattern:
        """Raises BadConfigurationError that names ``option`` and the letters that are not understood."""
        pieces: list[str] = []
        fields: list[str] = []
        unit, position = "s", 0
        for match in _TOKENS.finditer(pattern):
            if match.start() != position:
                break
            position = match.end()
            quoted, letter, text = match.group(1), match.group(2), match.group(0)
            if quoted is not None or letter is None:
                literal = text if quoted is None else (quoted.replace("''", "'") or "'")
                pieces.append(literal.replace("%", "%%"))
            elif letter == "S":
                unit = cls._fraction(option, text, pieces)
            elif text in _FIELDS:
                pieces.append(_FIELDS[text])
                fields.append(text)
            else:
                raise BadConfigurationError(
                    f"option '{option}': {text!r} in {pattern!r} is not supported (known: "
                    f"{', '.join(_FIELDS)}, .SSS, .SSSSSS; put other text in single quotes)"
                )
        if position != len(pattern):
            raise BadConfigurationError(f"option '{option}': a single quote in {pattern!r} is not closed")
        floor = next((name for letters, name in _UNITS if letters in fields), "day")
        return cls("".join(pieces), unit, floor)

    @staticmethod
    def _fraction(option: str, text: str, pieces: list[str]) -> str:
        # %S writes the fraction itself, as many digits as the unit has.
        follows_seconds = len(pieces) >= 2 and pieces[-1] == "." and pieces[-2] == "%S"
        if len(text) not in _FRACTIONS or not follows_seconds:
            raise BadConfigurationError(
                f"option '{option}': fractions are written as ss.SSS, ss.SSSSSS or ss.SSSSSSSSS"
            )
        pieces.pop()
        return _FRACTIONS[len(text)]

    def format(self, values: pa.Array) -> pa.Array:
        """Timestamps (in their own time zone) or dates as strings; null stays null."""
        zone = values.type.tz if pa.types.is_timestamp(values.type) else None
        return pc.strftime(values.cast(pa.timestamp(self.unit, zone), safe=False), format=self.strftime)
