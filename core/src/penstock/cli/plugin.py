"""What the commands of connectors share with the core's (see the entry points ``penstock.commands``)."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from penstock.cli._draw import human_bytes, human_count, human_duration, plural
from penstock.cli._screen import Screen, as_text, say, say_json
from penstock.printable import printable

__all__ = [
    "Screen",
    "as_text",
    "human_bytes",
    "human_count",
    "human_duration",
    "option_pairs",
    "plural",
    "say",
    "say_json",
]


def option_pairs(texts: Iterable[str] | None) -> dict[str, str]:
    """Returns the values of ``--option NAME=VALUE``, which may be given several times. Raises typer.BadParameter."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{printable(text)!r} is not NAME=VALUE", param_hint="--option")
        pairs[name] = value
    return pairs
