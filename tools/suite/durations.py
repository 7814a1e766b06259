"""How long tests take, measured earlier: what the processes are balanced by.

``durations.json`` beside this file holds seconds by test, as ``scripts/test --all --record`` measured them. It decides
only the order of tests: a wrong or missing entry costs balance, never a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["FILE", "Durations"]

FILE = Path(__file__).with_name("durations.json")
#: Shorter tests are not in the file, and are taken for this.
_SHORT_S = 0.3


class Durations:
    """Seconds by the id of a test."""

    def __init__(self, seconds: Mapping[str, float]) -> None:
        self._seconds = dict(seconds)

    @classmethod
    def load(cls, path: Path = FILE) -> Durations:
        """Those of the file; none if it is missing."""
        return cls(json.loads(path.read_text("utf-8")) if path.exists() else {})

    def save(self, path: Path = FILE) -> None:
        """Writes them, one a line, so that a change shows as such."""
        kept = {name: round(seconds, 1) for name, seconds in sorted(self._seconds.items()) if seconds >= _SHORT_S}
        path.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n", "utf-8")

    def renewed(self, measured: Mapping[str, float], *, complete: bool) -> Durations:
        """With what was measured now; only that if the run was ``complete``."""
        return Durations(measured if complete else {**self._seconds, **measured})

    def of(self, nodeids: Iterable[str]) -> float:
        """The sum over tests."""
        return sum(self._seconds.get(nodeid, _SHORT_S / 4) for nodeid in nodeids)
