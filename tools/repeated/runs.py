"""Pairs of runs of statements that are alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from repeated.shapes import Block, Statement

__all__ = ["Place", "Repeated", "find"]

#: The least weight of a run that is copied to the word, and of one with other names.
SAME_WORDS, SAME_SHAPE = 24, 40
#: A shape in more places than these is that of everyday statements; a run needs another one.
_EVERYDAY = 30


@dataclass(frozen=True, order=True)
class Place:
    """Lines of a file, and the function or class that they are in."""

    path: str
    owner: str
    first: int
    last: int

    @property
    def name(self) -> str:
        """How ``explained.json`` calls it."""
        return f"{self.path}:{self.owner}"

    def holds(self, other: Place) -> bool:
        """Returns whether the lines of ``other`` are among its own."""
        return self.path == other.path and self.first <= other.first and other.last <= self.last

    def __str__(self) -> str:
        return f"{self.path}:{self.first}-{self.last} ({self.owner or 'module'})"


@dataclass(frozen=True)
class Repeated:
    """Two places with the same logic; ``is_copy`` if no name differs either."""

    one: Place
    other: Place
    is_copy: bool
    weight: int


def find(blocks: Sequence[Block]) -> list[Repeated]:
    """Returns the pairs, heaviest first; without those that are a part of another pair."""
    found: list[Repeated] = []
    for pair in sorted(_pairs(blocks), key=lambda pair: (-pair.weight, pair.one, pair.other)):
        if not any(kept.one.holds(pair.one) and kept.other.holds(pair.other) for kept in found):
            found.append(pair)
    return found


def _pairs(blocks: Sequence[Block]) -> Iterator[Repeated]:
    where: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, block in enumerate(blocks):
        for at, statement in enumerate(block.statements):
            where[statement.shape].append((number, at))
    seen: set[tuple[int, int, int, int]] = set()
    for places in where.values():
        if len(places) > _EVERYDAY:
            continue
        for index, (left, at) in enumerate(places):
            for right, other_at in places[index + 1 :]:
                one, other = blocks[left].statements, blocks[right].statements
                begin = _first_alike(one, at, other, other_at)
                if (key := (left, at - begin, right, other_at - begin)) not in seen:
                    seen.add(key)
                    yield from _alike(blocks[left], at - begin, blocks[right], other_at - begin)


def _first_alike(one: Sequence[Statement], at: int, other: Sequence[Statement], other_at: int) -> int:
    back = 0
    while at > back and other_at > back and one[at - back - 1].shape == other[other_at - back - 1].shape:
        back += 1
    return back


def _alike(one: Block, at: int, other: Block, other_at: int) -> Iterator[Repeated]:
    """The runs that begin here, each as long as its names can be exchanged."""
    most = min(len(one.statements) - at, len(other.statements) - other_at)
    if one is other:
        most = min(most, other_at - at)
    length = 0
    while length < most and one.statements[at + length].shape == other.statements[other_at + length].shape:
        length += 1
    begin = 0
    while begin < length:
        names = _Names()
        end = begin
        while end < length and names.add(one.statements[at + end], other.statements[other_at + end]):
            end += 1
        run = one.statements[at + begin : at + end], other.statements[other_at + begin : other_at + end]
        weight = sum(statement.weight for statement in run[0])
        if end > begin and weight >= (SAME_WORDS if names.are_equal else SAME_SHAPE):
            yield Repeated(*sorted((_place(one, run[0]), _place(other, run[1]))), names.are_equal, weight)
        begin = max(end, begin + 1)


class _Names:
    """Which name of the one run stands for which of the other."""

    def __init__(self) -> None:
        self._there: dict[str, str] = {}
        self._back: dict[str, str] = {}
        self.are_equal = True

    def add(self, one: Statement, other: Statement) -> bool:
        """Takes the names of two statements in; returns False if one would stand for two, and then it is not usable."""
        pairs = list(zip(one.words, other.words, strict=True))
        there, back = dict(self._there), dict(self._back)
        for name, named in pairs:
            if there.setdefault(name, named) != named or back.setdefault(named, name) != name:
                return False
        self._there, self._back = there, back
        self.are_equal = self.are_equal and one.words == other.words
        return True


def _place(block: Block, run: Sequence[Statement]) -> Place:
    nodes = [statement.node for statement in run]
    return Place(block.path, block.owner, nodes[0].lineno, nodes[-1].end_lineno or nodes[-1].lineno)
