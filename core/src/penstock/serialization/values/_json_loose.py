"""JSON as Spark's parser takes it: what it allows beyond the standard, by options of these names."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.serialization.values._json_read import NOT_JSON, WrittenNumber, written_int

__all__ = ["JsonDialect", "LooseJson"]


@dataclass(frozen=True)
class JsonDialect:
    """What a text may hold beyond the standard, with Spark's defaults.

    ``comments`` are those of Java. ``unquoted_names`` are letters, digits and some signs. ``control_characters`` stand
    in texts as they are, ``any_escape`` is a backslash before any character, ``leading_zeros`` are those of numbers,
    ``non_numeric`` are NaN, Infinity and INF.
    """

    single_quotes: bool = True
    non_numeric: bool = True
    comments: bool = False
    unquoted_names: bool = False
    leading_zeros: bool = False
    any_escape: bool = False
    control_characters: bool = False


#: A text that is not closed is matched up to the end: what is behind its quote is looked at once.
_IN_DOUBLE = r'"[^"\\]*(?:\\.[^"\\]*)*"?'
_IN_SINGLE = r"'[^'\\]*(?:\\.[^'\\]*)*'?"
_COMMENT = r"/\*.*?(?:\*/|\Z)|//[^\r\n]*"
_NOT_FINITE = r"[+-]INF\b|\+Infinity\b"
_ZEROS = r"(?<![\w.+-])-?0[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_NAME = r"(?<=[{,])(?P<blanks>\s*)(?P<name>[A-Za-z0-9_$@#*+-]+)(?=\s*:)"
#: Before the place, in a list, of a number that is written in another way; so many zeros are in no other exponent.
_KEPT = "1e" + "0" * 60
_ESCAPED_OR_QUOTE = re.compile(r'\\.|"', re.DOTALL)
_ESCAPES = frozenset('"\\/bfnrtu')


class LooseJson:
    """Parses texts of a dialect. ``parse_int``, ``parse_float`` and, for NaN and Infinity, ``parse_constant`` get
    numbers as they are written; without them, numbers keep their digits, as :func:`value_converter` wants them.

    For one thread: it keeps numbers of the text that it parses.
    """

    def __init__(
        self,
        dialect: JsonDialect,
        *,
        parse_int: Callable[[str], Any] = written_int,
        parse_float: Callable[[str], Any] = WrittenNumber,
        parse_constant: Callable[[str], Any] = str,
    ) -> None:
        self._dialect = dialect
        self._parse_int, self._parse_float, self._parse_constant = parse_int, parse_float, parse_constant
        self._decoder = json.JSONDecoder(
            strict=not dialect.control_characters,
            parse_int=parse_int,
            parse_float=self._number,
            parse_constant=parse_constant if dialect.non_numeric else _refuse_constant,
        )
        self._kept: list[str] = []
        texts = rf"(?P<text>{_IN_DOUBLE}|{_IN_SINGLE})" if dialect.single_quotes else rf"(?P<text>{_IN_DOUBLE})"
        more = [
            pattern
            for is_taken, pattern in (
                (dialect.non_numeric, _NOT_FINITE),
                (dialect.leading_zeros, _ZEROS),
                (dialect.unquoted_names, _NAME),
            )
            if is_taken
        ]
        self._comments = re.compile(f"{texts}|{_COMMENT}", re.DOTALL) if dialect.comments else None
        self._loose = re.compile("|".join([texts, *more]), re.DOTALL)

    def load(self, text: str) -> Any:
        """Returns the value that ``text`` begins with, behind blanks. Raises one of :data:`NOT_JSON`."""
        text = text.lstrip()
        self._kept.clear()
        try:
            return self._decoder.raw_decode(text)[0]
        except NOT_JSON:
            if _KEPT in text:  # it would stand for a number of our own
                raise
            strict = text
            if self._comments is not None:
                strict = self._comments.sub(lambda found: found["text"] or " ", strict).lstrip()
            strict = self._loose.sub(self._as_strict, strict)
            if strict == text:
                raise
            return self._decoder.raw_decode(strict)[0]

    def is_blank(self, text: str) -> bool:
        """Returns whether a text holds nothing, besides comments if they are taken."""
        return not text.strip() or (self._comments is not None and not self._comments.sub(" ", text).strip())

    def _number(self, text: str) -> Any:
        if not self._kept or not text.startswith(_KEPT):
            return self._parse_float(text)
        written = self._kept[int(text.removeprefix(_KEPT))]
        if written.endswith(("INF", "Infinity")):
            return self._parse_constant(written)
        return self._parse_int(written) if written.lstrip("-").isdecimal() else self._parse_float(written)

    def _as_strict(self, found: re.Match[str]) -> str:
        groups = found.groupdict()
        if (text := groups["text"]) is not None:
            # As in Spark, control characters are taken in double quotes only.
            is_taken = text[0] == '"' or min(text) >= " "
            return f'"{_ESCAPED_OR_QUOTE.sub(self._escaped, text[1:-1])}"' if is_taken else text
        if groups.get("name") is not None:
            return f'{groups["blanks"]}"{groups["name"]}"'
        self._kept.append(found[0])
        return f"{_KEPT}{len(self._kept) - 1}"

    def _escaped(self, found: re.Match[str]) -> str:
        written = found[0]
        if written == '"':
            return '\\"'
        is_taken = self._dialect.any_escape or (written[1] == "'" and self._dialect.single_quotes)
        return written[1] if is_taken and written[1] not in _ESCAPES else written


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number")
