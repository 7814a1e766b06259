"""How long tests take, measured earlier: what the two processes are balanced by.

``durations.json`` beside this file holds seconds by test function (all cases of it together), as the last complete run
on a development machine measured them; ``scripts/test --all --record`` renews it. It decides only the order of tests:
a wrong or missing entry costs balance, never a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

__all__ = ["FILE", "Durations", "function_of"]

FILE = Path(__file__).with_name("durations.json")
#: Of a test that was never measured.
_UNKNOWN_S = 1.0


def function_of(nodeid: str) -> str:
    """The test function of a test's id: without the parameters of the case."""
    return nodeid.partition("[")[0]


class Durations:
    """Seconds by test function. Shorter ones than a tenth of a second are left out of the file."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    @classmethod
    def load(cls, path: Path = FILE) -> Durations:
        """Those of the file; none if it is missing."""
        return cls(json.loads(path.read_text()) if path.exists() else {})

    def save(self, path: Path = FILE) -> None:
        """Writes them, one a line, so that a change shows as such."""
        kept = {name: round(seconds, 1) for name, seconds in sorted(self._seconds.items()) if seconds >= 0.1}
        path.write_text(json.dumps(kept, indent=0) + "\n")

    def of(self, functions: Iterable[str]) -> float:
        """The sum over test functions."""
        return sum(self._seconds.get(function, _UNKNOWN_S) for function in functions)

    @property
    def measured(self) -> bool:
        """Whether there are any."""
        return bool(self._seconds)
