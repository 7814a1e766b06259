"""What an author tells the kit of the system that a source reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["SourceOrigin"]


@dataclass(frozen=True)
class SourceOrigin:
    """Where rows come from: empty at first, and nothing else writes there.

    ``options`` are those that a user would give to read there, as text: from the beginning, with discovery as often as
    it can be. ``put`` adds a row for each of the numbers, in this order; they are there on return.
    """

    options: Mapping[str, str]
    put: Callable[[Sequence[int] | range], object]
