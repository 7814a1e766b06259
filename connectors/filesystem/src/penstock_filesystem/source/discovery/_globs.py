"""Which paths a glob matches, and which names are never read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from penstock.errors import BadConfigurationError

__all__ = ["check_globs", "covers", "glob_to_regex", "has_wildcards", "is_hidden", "without_wildcards"]

#: A backslash makes the next character literal.
_WILDCARD = re.compile(r"[*?\[{\\]")


def has_wildcards(text: str) -> bool:
    """Returns whether a path, or a part of one, is a glob."""
    return _WILDCARD.search(text) is not None


def glob_to_regex(pattern: str) -> re.Pattern[str]:
    r"""Translates a glob for one name as in Hadoop: ``*``, ``?``, ``[a-c]``, ``[!a]``, ``{x,y}``, ``\*``.

    Raises BadConfigurationError for an incomplete one.
    """
    out, depth, position = "", 0, 0
    while position < len(pattern):
        char = pattern[position]
        position += 1
        if char == "[":
            text, position = _character_class(pattern, position)
            out += text
        elif char == "\\":
            if position == len(pattern):
                raise _incomplete(pattern, "nothing follows its last backslash")
            out += re.escape(pattern[position])
            position += 1
        elif char == "{":
            depth += 1
            out += "(?:"
        elif char == "}" and depth:
            depth -= 1
            out += ")"
        elif char == "," and depth:
            out += "|"
        else:
            out += {"*": "[^/]*", "?": "[^/]"}.get(char, re.escape(char))
    if depth:
        raise _incomplete(pattern, "a '{' has no '}'")
    try:
        return re.compile(out)
    except re.error as error:
        raise _incomplete(pattern, str(error)) from None


def _character_class(pattern: str, start: int) -> tuple[str, int]:
    """Translates what follows a ``[``. Returns it with the position behind its ``]``, which may also be the first."""
    position = start + (pattern[start : start + 1] in ("!", "^"))
    out = "[^" if position > start else "["
    first = position
    while position < len(pattern):
        char = pattern[position]
        if char == "]" and position > first:
            return f"{out}]", position + 1
        if char == "\\" and position + 1 < len(pattern):
            position += 1
            char = pattern[position]
            out += re.escape(char)
        else:
            out += char if char == "-" else re.escape(char)
        position += 1
    raise _incomplete(pattern, "a '[' has no ']'")


def _incomplete(pattern: str, reason: str) -> BadConfigurationError:
    return BadConfigurationError(
        f"glob {pattern!r}: {reason}; put a backslash before a character that you mean literally"
    )


def is_hidden(name: str) -> bool:
    """Returns whether a file or directory of this name is skipped. As in Spark, ``_a=1`` is not: it holds a column."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def check_globs(roots: Iterable[str]) -> None:
    """Raises BadConfigurationError for an incomplete glob."""
    for root in roots:
        for part in PurePosixPath(root).parts:
            glob_to_regex(part)


def covers(root: str, path: str, *, recursive: bool) -> bool:
    """Returns whether a listing of ``root``, a path or a glob, would show the file ``path``."""
    patterns, names = PurePosixPath(root).parts, PurePosixPath(path).parts
    if len(names) < len(patterns):
        return False
    for pattern, name in zip(patterns, names, strict=False):
        if not has_wildcards(pattern):
            if pattern != name:
                return False
        elif is_hidden(name) or not glob_to_regex(pattern).fullmatch(name):
            return False
    below = names[len(patterns) :]
    return not any(map(is_hidden, below)) and (recursive or all("=" in name for name in below[:-1]))


def without_wildcards(root: str) -> str:
    """Returns the part of a root before the first component that has wildcards."""
    parts = PurePosixPath(root).parts
    first = next((number for number, part in enumerate(parts) if has_wildcards(part)), len(parts))
    return str(PurePosixPath(*parts[:first])) if first else ""
