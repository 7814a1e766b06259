"""Texts that someone else may have chosen, and stored forms that someone has changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from penstock.serialization import Versioned

__all__ = ["PATHS", "TEXTS", "changed", "files_below"]

#: Names that lead out of a directory, or to no file at all. ``victim`` is a file next to the directory.
PATHS = (
    "../victim",
    "x/../../victim",
    ".penstock/../../victim",
    ".penstock/q/5/../../../../victim",
    "/../victim",
    "..",
    ".",
    "",
    "a//../../victim",
    "a\0b",
    "./victim",
)

#: What a terminal, a page, a log or a parser may take for more than text.
TEXTS = (
    "\x1b[2J\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
    "\x9b31m",
    "\x9d0;title\x9c",
    "one\ntwo: ERROR all is lost",
    "over\rwritten",
    "\x85next",
    "a\u2028b\u2029c",
    "\u202etxt.exe",
    "\u2066\u2069\u200f",
    "null\0byte",
    "bell\x07\x08\x08",
    "\x7f",
    "half \ud800",
    "[bold red]markup[/] [/nothing]",
    "[link=http://x]y[/link]",
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "</title></svg><script>alert(1)</script>",
    "'; DROP TABLE t; --",
    '"; DROP TABLE t; --',
    "`; DROP",
    "%s %d %(x)s {0} {x}",
)


def changed(stored: Versioned) -> Iterator[tuple[str, Versioned]]:
    """Yields copies of a stored form of JSON in which one text is one of :data:`PATHS`, with words for the change."""
    fields = json.loads(stored.data)
    for where in _texts(fields):
        for path in PATHS:
            copy = json.loads(stored.data)
            holder = copy
            for step in where[:-1]:
                holder = holder[step]
            holder[where[-1]] = path
            yield f"{where} is {path!r}", Versioned(stored.version, json.dumps(copy).encode())


def _texts(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str) and where:
        yield where
    elif isinstance(value, dict):
        for key, below in value.items():
            yield from _texts(below, (*where, key))
    elif isinstance(value, list):
        for number, below in enumerate(value):
            yield from _texts(below, (*where, number))


def files_below(directory: Path) -> dict[str, bytes]:
    """Returns every file, by its path in ``directory``, with its bytes."""
    return {
        os.path.relpath(path, directory): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }
