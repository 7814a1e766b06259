"""What is written twice in a workspace and not explained, and what is explained and no longer there."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from repeated.runs import Repeated, find
from repeated.shapes import Block, blocks_of

__all__ = ["Explained", "problems", "read_explained", "repeated_in"]

#: The connectors that `penstock new` writes: each is copied alone, and shares nothing with another.
_COPIED_ALONE = "_samples"


@dataclass(frozen=True)
class Explained:
    """Places that share a shape, and why the logic is not one."""

    places: tuple[str, ...]
    why: str


def read_explained(path: Path) -> list[Explained]:
    """Returns what a file like ``explained.json`` has."""
    return [Explained(tuple(one["places"]), one["why"]) for one in json.loads(path.read_text("utf-8"))]


def repeated_in(root: Path) -> list[Repeated]:
    """Returns the pairs in the sources of the core and of the connectors below ``root``."""
    blocks: list[Block] = []
    for folder in (root / "core" / "src", *sorted((root / "connectors").glob("*/src"))):
        for path in sorted(folder.rglob("*.py")):
            if _COPIED_ALONE not in path.parts:
                blocks += blocks_of(path.relative_to(root).as_posix(), path.read_text("utf-8"))
    return find(blocks)


def problems(pairs: Sequence[Repeated], explained: Sequence[Explained]) -> Iterator[str]:
    """Yields what is to be done, in words. Copies can't be explained."""
    needed: set[tuple[Explained, str]] = set()
    for pair in pairs:
        names = pair.one.name, pair.other.name
        reasons = [] if pair.is_copy else [one for one in explained if set(names) <= set(one.places)]
        needed |= {(one, name) for one in reasons for name in names}
        if not reasons:
            how = "word for word: write it once" if pair.is_copy else "with other names: write it once, or say why not"
            yield f"{pair.one} and {pair.other} are the same, {how}"
    for one in explained:
        for name in one.places:
            if (one, name) not in needed:
                yield f"{name} is explained ({one.why}), but repeats nothing: take it out of explained.json"
