"""Which differences are announced, by the fragments in ``changelog.d/`` (``<package>.<word>.<kind>.md``).

A difference that can break somebody's code needs a fragment of kind ``changed`` or ``removed`` that names it: in
backticks, the last part of its path (```run```), its class, or its module (```penstock.sink```). Everything else
needs a fragment of kind ``added`` or ``changed`` for its package.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from public_api.differences import Difference

__all__ = ["Fragment", "read_fragments", "unannounced"]

_CODE = re.compile(r"`([^`]+)`")
_NAME = re.compile(r"[\w.]+")


@dataclass(frozen=True)
class Fragment:
    """One announcement: its kind and the names it has in backticks."""

    kind: str
    names: frozenset[str]


def read_fragments(folder: Path, package: str) -> list[Fragment]:
    """Those for ``package``, by its name for pip."""
    found = []
    for path in sorted(folder.glob(f"{package}.*.md")):
        spans = _CODE.findall(path.read_text("utf-8"))
        found.append(Fragment(path.name.split(".")[-2], frozenset(n for s in spans for n in _NAME.findall(s))))
    return found


def unannounced(differences: Iterable[Difference], fragments: Sequence[Fragment]) -> list[Difference]:
    """The differences that nobody tells users of."""
    breaking = [fragment for fragment in fragments if fragment.kind in ("changed", "removed")]
    told = {name for fragment in breaking for name in fragment.names}
    anything = any(fragment.kind in ("added", "changed") for fragment in fragments)
    return [one for one in differences if not (_names(one.path) & told if one.kind == "breaking" else anything)]


def _names(path: str) -> set[str]:
    """How a fragment may call it: ``a.b.C.m`` is ``m``, ``C.m``, ``C``, or in full, as is what holds it."""
    parts = path.split(".")
    in_full = {".".join(parts[:count]) for count in range(2, len(parts) + 1)}
    owners = {part for part in parts[:-1] if part[:1].isupper()}
    return {parts[-1], ".".join(parts[-2:])} | owners | in_full
