"""Flaws as files: what is wrong, where that was seen, what it is planted in, and the change itself::

what: Rows are visible before the commit.
from: review
base: sink
--- sink/_writer.py
the text that is there exactly once
+++
what is written in its place

``missed`` gives the reason why the kit can't catch it, ``by`` a case that catches it even if it is the only one, and
``many`` the number of rows of the case about memory. Text without a line end at its end is a part of a line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CATALOGUE", "BadFlaw", "Change", "Flaw", "catalogue"]

CATALOGUE = Path(__file__).parents[2] / "core" / "tests" / "flaws"
_HEADER = re.compile(r"(what|from|base|by|many|missed): (.+)")


class BadFlaw(Exception):
    """The file can't be read, or does not fit its base any more."""


@dataclass(frozen=True)
class Change:
    """In ``path``, relative to the package: ``old``, which is there exactly once, becomes ``new``."""

    path: str
    old: str
    new: str

    def apply(self, package: Path) -> None:
        """Raises BadFlaw if the text is not there, or several times, or if this is no Python then."""
        file = package / self.path
        text = file.read_text("utf-8")
        if (found := text.count(self.old)) != 1:
            raise BadFlaw(f"{self.path} has this {found} times, not once:\n{self.old}")
        text = text.replace(self.old, self.new)
        try:
            compile(text, self.path, "exec")
        except SyntaxError as error:
            raise BadFlaw(f"{self.path} is no Python any more: {error}") from None
        file.write_text(text, "utf-8")


@dataclass(frozen=True)
class Flaw:
    """``seen`` says where such a mistake was made; ``many``, how many rows the case about memory needs; ``reason``, why
    it is missed; ``by``, which case must catch it.
    """

    name: str
    what: str
    seen: str
    base: str
    changes: tuple[Change, ...]
    many: int = 20_000
    reason: str = ""
    by: str = ""


def catalogue(folder: Path = CATALOGUE) -> list[Flaw]:
    """Returns all flaws, by name. Raises BadFlaw for a file that can't be read."""
    return [_read(path, folder) for path in sorted(folder.glob("*/*.flaw"))]


def _read(path: Path, folder: Path) -> Flaw:
    head, *parts = re.split(r"^--- ", path.read_text("utf-8"), flags=re.MULTILINE)
    fields = {found[1]: found[2] for found in map(_HEADER.fullmatch, head.splitlines()) if found}
    changes = []
    for part in parts:
        file, _, rest = part.partition("\n")
        old, found, new = rest.partition("\n+++\n")
        if not found:
            raise BadFlaw(f"{path}: a change has no line '+++'")
        changes.append(Change(file.strip(), old, new.removesuffix("\n")))
    if not changes or not {"what", "from", "base"} <= fields.keys():
        raise BadFlaw(f"{path}: say what, from and base, and a change")
    name = str(path.relative_to(folder).with_suffix(""))
    many, reason = int(fields.get("many", Flaw.many)), fields.get("missed", "")
    return Flaw(
        name, fields["what"], fields["from"], fields["base"], tuple(changes), many, reason, fields.get("by", "")
    )
