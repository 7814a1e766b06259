"""What the commands of connectors share with the core's (see the entry points ``penstock.commands``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import typer

from penstock.cli._draw import human_bytes, human_count, human_duration, plural
from penstock.cli._screen import Screen, as_text, say, say_json
from penstock.errors import BadConfigurationError
from penstock.printable import printable

__all__ = [
    "Screen",
    "as_text",
    "check_flags",
    "human_bytes",
    "human_count",
    "human_duration",
    "option_pairs",
    "plural",
    "say",
    "say_json",
]


def check_flags(first: str, others: Mapping[str, bool]) -> None:
    """Raises BadConfigurationError for those of ``others`` that were given and have no effect with ``first``."""
    idle = [flag for flag, is_given in others.items() if is_given]
    if idle:
        have = "have" if len(idle) > 1 else "has"
        raise BadConfigurationError(f"{' and '.join(idle)} {have} no effect with {first}: leave out one or the other")


def option_pairs(texts: Iterable[str] | None) -> dict[str, str]:
    """Returns the values of ``--option NAME=VALUE``, which may be given several times. Raises typer.BadParameter."""
    pairs: dict[str, str] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{printable(text)!r} is not NAME=VALUE", param_hint="--option")
        if name.lower() in map(str.lower, pairs):
            raise typer.BadParameter(f"{printable(name)!r} is given twice", param_hint="--option")
        pairs[name] = value
    return pairs
