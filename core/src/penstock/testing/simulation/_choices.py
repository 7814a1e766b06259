"""Where a schedule's choices come from: a seed, a list that is played again, or a search through all of them.

A choice is a number below ``count``; 0 is always the choice in which nothing goes wrong and no process is interrupted.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Sequence

__all__ = ["Choices", "EveryChoice", "PlayedChoices", "SeededChoices"]


class Choices(ABC):
    """Notes in ``made`` what was chosen, so that it can be played again."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def pick(self, count: int, likely: float = 0.5) -> int:
        """Returns a number below ``count``. ``likely``: how probable 0 is, where chance decides."""
        chosen = self._pick(count, likely) if count > 1 else 0
        self.made.append(chosen)
        return chosen

    @abstractmethod
    def _pick(self, count: int, likely: float) -> int:
        """Picks for a ``count`` of 2 and more."""


class SeededChoices(Choices):
    """By chance."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)

    def _pick(self, count: int, likely: float) -> int:
        if self._random.random() < likely:
            return 0
        return self._random.randrange(1, count)


class PlayedChoices(Choices):
    """As ``given``, and 0 after its end. What does not fit is cut down to the last of its place."""

    def __init__(self, given: Sequence[int]) -> None:
        super().__init__()
        self._given = given

    def _pick(self, count: int, likely: float) -> int:
        at = len(self.made)
        return min(self._given[at], count - 1) if at < len(self._given) else 0


class EveryChoice(Choices):
    """One path through the tree of all choices, depth first; :meth:`following` is the next one."""

    def __init__(self, given: Sequence[int] = ()) -> None:
        super().__init__()
        self._given = given
        self.counts: list[int] = []

    def pick(self, count: int, likely: float = 0.5) -> int:
        self.counts.append(count)
        return super().pick(count, likely)

    def _pick(self, count: int, likely: float) -> int:
        at = len(self.made)
        return self._given[at] if at < len(self._given) else 0

    def following(self, depth: int | None = None) -> EveryChoice | None:
        """Returns the next path, different within the first ``depth`` choices; ``None`` after the last."""
        made = self.made[:depth]
        while made and made[-1] + 1 >= self.counts[len(made) - 1]:
            made.pop()
        if not made:
            return None
        made[-1] += 1
        return EveryChoice(made)
