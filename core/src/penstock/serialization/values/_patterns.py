"""Java's date-time patterns, which users of Spark and Flink know: one table for reading and for writing.

``TimeReader`` and ``TimeWriter`` stand on it, so that whatever one of them knows, the other knows too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from penstock.errors import BadConfigurationError

__all__ = ["FIELDS", "MONTHS", "OFFSETS", "Token", "tokens_of"]

#: As texts have them, in lower case.
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
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


#: By their letters.
FIELDS = {
    **dict.fromkeys(("yyyy", "uuuu"), _Field("year", "[0-9]{4}", "%Y")),
    **dict.fromkeys(("y", "u"), _Field("year", "0*[0-9]{1,4}", "%Y", pads=False)),
    "yy": _Field("year_of_century", "[0-9]{2}", "%y"),
    **_two_digits("M", "month", "%m"),
    "MMM": _names("month_name", "|".join(MONTHS), "%b"),
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
#: Regular expressions of offsets from UTC. X is Z for none.
OFFSETS = {
    "X": "Z|[+-][0-9]{2}(?:[0-9]{2})?",
    "XX": "Z|[+-][0-9]{4}",
    "XXX": "Z|[+-][0-9]{2}:[0-9]{2}",
    "x": "[+-][0-9]{2}(?:[0-9]{2})?",
    "xx": "[+-][0-9]{4}",
    "xxx": "[+-][0-9]{2}:[0-9]{2}",
    **dict.fromkeys(("Z", "ZZ", "ZZZ"), "[+-][0-9]{4}"),
}
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


class Token(NamedTuple):
    """A literal, if ``letters`` is empty."""

    letters: str
    literal: str = ""


def tokens_of(option: str, pattern: str) -> Iterator[Token]:
    """Yields the parts of a pattern. Raises BadConfigurationError that names ``option`` for what is not supported."""
    position = 0
    for match in _TOKENS.finditer(pattern):
        if match.start() != position:
            break
        position = match.end()
        text, quoted, letter = match.group(), match.group(1), match.group(2)
        if letter is not None:
            if letter != "S" and text not in FIELDS and text not in OFFSETS:
                raise BadConfigurationError(
                    f"option '{option}': {text!r} in {pattern!r} is not supported (known: "
                    f"{', '.join([*FIELDS, *OFFSETS])}, and S for each digit of a fraction; put other text in single "
                    "quotes)"
                )
            yield Token(text)
        elif quoted is not None:
            yield Token("", quoted.replace("''", "'") or "'")
        elif "[" in text or "]" in text:
            raise BadConfigurationError(f"option '{option}': optional parts ([ ]) are not supported in {pattern!r}")
        else:
            yield Token("", text)
    if position != len(pattern):
        raise BadConfigurationError(f"option '{option}': a single quote in {pattern!r} is not closed")
