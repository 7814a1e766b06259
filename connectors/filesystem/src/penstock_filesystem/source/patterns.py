"""Spark's (Java's) patterns for dates and times as strptime formats."""

from __future__ import annotations

import re

from penstock.errors import BadConfigurationError

__all__ = ["to_strptime", "is_vectorizable"]

_LETTERS = {
    "yyyy": "%Y",
    "uuuu": "%Y",
    "yy": "%y",
    "MM": "%m",
    "M": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "d": "%d",
    "HH": "%H",
    "H": "%H",
    "hh": "%I",
    "h": "%I",
    "mm": "%M",
    "m": "%M",
    "ss": "%S",
    "s": "%S",
    "a": "%p",
    "D": "%j",
    "DDD": "%j",
    "E": "%a",
    "EEE": "%a",
    "EEEE": "%A",
    "X": "%z",
    "XX": "%z",
    "XXX": "%z",
    "Z": "%z",
    "xx": "%z",
    "xxx": "%z",
}
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)


def to_strptime(option: str, pattern: str) -> str:
    """``"dd/MM/yyyy HH:mm"`` → ``"%d/%m/%Y %H:%M"``; a run of ``S`` is a fraction (``%f``).

    Raises BadConfigurationError that names ``option`` for letters without a counterpart and for optional parts.
    """
    out = ""
    for match in _TOKEN.finditer(pattern):
        text = match.group()
        if match.group(1) is not None:
            out += (match.group(1).replace("''", "'") or "'").replace("%", "%%")
        elif match.group(2) is None:
            if text in "[]":
                raise BadConfigurationError(f"option '{option}': optional parts ([ ]) are not supported in {pattern!r}")
            out += text.replace("%", "%%")
        elif set(text) == {"S"}:
            out += "%f"
        elif text in _LETTERS:
            out += _LETTERS[text]
        else:
            raise BadConfigurationError(f"option '{option}': {text!r} is not supported in {pattern!r}")
    return out


def is_vectorizable(format_: str) -> bool:
    """Whether Arrow's strptime understands the format; fractions and zones need Python's, value by value."""
    return "%f" not in format_ and "%z" not in format_
