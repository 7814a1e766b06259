"""The only way of the command line to the screen: what is printed has no control characters but our own.

Records, topics, files and servers name themselves, and a name may hold what a terminal obeys. Text that others have
chosen goes through :func:`as_text`, which takes it out of Rich's markup and out of its line breaks; what was forgotten
is made harmless by :func:`say`, :func:`say_json` and :class:`Screen` (a test searches for other ways).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import IO, Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.segment import Segment

from penstock.printable import concise, printable

__all__ = ["Screen", "as_text", "json_text", "say", "say_json"]


def as_text(text: object) -> str:
    """Returns outside text for a :class:`Screen`: one line, and no markup."""
    return escape(printable(str(text)))


def say(text: str, *, error: bool = False, lines: bool = False, out: IO[str] | None = None) -> None:
    """Prints one line, or with ``lines`` as many as ``text`` has, to the standard output or standard error."""
    shown = concise(text) if error and not lines else printable(text, lines=lines)
    print(shown, file=out or (sys.stderr if error else sys.stdout), flush=True)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Returns JSON in which only what is printable stands as it is."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if printable(text, lines=True) == text:
        return text
    # Such characters are in strings only, where JSON has escapes for them.
    return "".join(char if printable(char, lines=True) == char else json.dumps(char)[1:-1] for char in text)


def say_json(value: Any, *, indent: int | None = 2) -> None:
    """Prints JSON."""
    print(json_text(value, indent=indent), flush=True)


class Screen(Console):
    """Rich's console for our commands."""

    def __init__(self, *, stderr: bool = False, soft_wrap: bool = False) -> None:
        super().__init__(stderr=stderr, soft_wrap=soft_wrap, highlight=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """See rich. Makes printable what was not; colours and the like are not text, and stay."""
        for segment in super().render(renderable, options):
            text = segment.text if segment.control else printable(segment.text, lines=True)
            yield segment if text == segment.text else Segment(text, segment.style)
