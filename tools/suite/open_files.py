"""Which tests leave files and sockets open in the process that runs them.

A process may have 1,024 before ``select()`` fails, and a library that calls it is seldom the one that left them open.
"""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path
from typing import Any

__all__ = ["LeftOpen", "OpenFiles"]

_PLACE = Path("/proc/self/fd")
#: Of fewer the report says nothing: a server that tests share has a client or two.
_MANY = 40


class OpenFiles:
    """Counts those of this process; none where the system does not tell."""

    def __init__(self) -> None:
        self._count = self._now()

    def more(self) -> int:
        """By how many they have grown since the last call."""
        before, self._count = self._count, self._now()
        return self._count - before

    @staticmethod
    def _now() -> int:
        return len(os.listdir(_PLACE)) if _PLACE.exists() else 0


class LeftOpen:
    """Adds them up by test file."""

    def __init__(self) -> None:
        self._files: dict[str, int] = defaultdict(int)

    def add(self, report: Any) -> None:
        """A phase of a test."""
        self._files[report.nodeid.partition("::")[0]] += getattr(report, "suite_opened", 0)

    def report(self) -> list[str]:
        """Lines: the files whose tests left many open, the most first."""
        many = sorted((item for item in self._files.items() if item[1] >= _MANY), key=lambda one: -one[1])
        return [
            f"{'left open' if number == 0 else '':14}{count:6} files  {name}"
            for number, (name, count) in enumerate(many)
        ]
