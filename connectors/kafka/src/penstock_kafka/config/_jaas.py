"""Reads ``sasl.jaas.config``: one login module with its options, as the Java client would."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

__all__ = ["LoginModule", "parse_jaas"]

_CONTROL_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""
    (?P<blank> \s+ | //[^\n]* | /\*.*?\*/ )
  | (?P<quoted> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
  | (?P<mark> [=;] )
  | (?P<word> [^\s=;"']+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class LoginModule:
    """A login module. ``options`` may hold secrets: they are not in the repr."""

    class_name: str
    options: Mapping[str, str] = field(repr=False)

    @property
    def short_name(self) -> str:
        """The class's name without its package, which vendors shade."""
        return self.class_name.rpartition(".")[2]


def parse_jaas(text: str) -> LoginModule:
    """Returns the login module in ``text``: ``org.…Module required name="value" …;``.

    Quotes are single or double; inside them a backslash escapes, as in Java (``\\"``, ``\\\\``, ``\\n``, octal).
    Raises ValueError whose message says at which character it went wrong and never shows a part of ``text``.
    """
    tokens = list(_tokens(text))
    if len(tokens) < 2 or tokens[0][0] != "word":
        raise ValueError("it must begin with the class of a login module, as in org…PlainLoginModule required …;")
    if tokens[1][1].lower() not in _CONTROL_FLAGS:
        raise ValueError(f"at character {tokens[1][2]}: write 'required' after the login module's class")
    options, rest = _options(tokens[2:], len(text))
    if rest:
        raise ValueError(f"at character {rest[0][2]}: write one login module, nothing after its semicolon")
    return LoginModule(tokens[0][1], options)


_Token = tuple[str, str, int]


def _options(tokens: list[_Token], end: int) -> tuple[dict[str, str], list[_Token]]:
    """Returns the options before the first semicolon, and the tokens after it."""
    options: dict[str, str] = {}
    position = 0
    while position < len(tokens):
        kind, name, at = tokens[position]
        if (kind, name) == ("mark", ";"):
            return options, tokens[position + 1 :]
        following = tokens[position + 1 : position + 3]
        if kind == "mark" or [token[:2] for token in following[:1]] != [("mark", "=")]:
            raise ValueError(
                f'at character {at}: expected name="value"; a quote inside a value is written \\", a backslash \\\\'
            )
        if len(following) < 2 or following[1][0] == "mark":
            raise ValueError(f"at character {following[0][2]}: a value is missing after the '='")
        options[name] = following[1][1]
        position += 3
    raise ValueError(f"at character {end}: it must end with a semicolon")


def _tokens(text: str) -> Iterator[_Token]:
    """Kind, value and position (from 1) of each token; blanks and comments are left out."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"at character {at + 1}: the quote that begins here is never closed")
        kind = str(match.lastgroup)
        if kind == "quoted":
            yield kind, _ESCAPE.sub(_unescape, match.group()[1:-1]), at + 1
        elif kind != "blank":
            yield kind, match.group(), at + 1
        at = match.end()


def _unescape(match: re.Match[str]) -> str:
    escaped = match.group(1)
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _LETTERS.get(escaped, escaped)
