"""How long tests take, measured earlier: what the processes are balanced by.

``durations.json`` beside this file holds seconds by test, as ``scripts/test --all --record`` measured them, and by file
the mean of its short tests. It decides only the order of tests: a wrong or missing entry costs balance, never a test.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["FILE", "Durations"]

FILE = Path(__file__).with_name("durations.json")
#: Shorter tests are not in the file one by one: most of them take milliseconds.
_SHORT_S = 0.3
#: What a test is taken for of which nothing is known.
_UNKNOWN_S = 0.015


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
        kept = {name: round(seconds, 1) for name, seconds in self._seconds.items() if seconds >= _SHORT_S}
        kept |= {name: round(seconds, 3) for name, seconds in self._means().items()}
        kept = dict(sorted(kept.items()))
        path.write_text(json.dumps(kept, indent=0, ensure_ascii=False) + "\n", "utf-8")

    def _means(self) -> dict[str, float]:
        """By file, of its short tests: as measured now, or as they were in the file."""
        short: dict[str, list[float]] = {}
        for name, seconds in self._seconds.items():
            if "::" in name and seconds < _SHORT_S:
                short.setdefault(_file_of(name), []).append(seconds)
        before = {name: seconds for name, seconds in self._seconds.items() if "::" not in name}
        return before | {name: sum(of) / len(of) for name, of in short.items()}

    def renewed(self, measured: Mapping[str, float], *, complete: bool) -> Durations:
        """With what was measured now; only that if the run was ``complete``."""
        return Durations(measured if complete else {**self._seconds, **measured})

    def of(self, nodeids: Iterable[str]) -> float:
        """The sum over tests."""
        return sum(self._seconds.get(one, self._seconds.get(_file_of(one), _UNKNOWN_S)) for one in nodeids)


def _file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
