"""How long each test took, which were slowest, and which took longer than they may.

A budget is a request to look, never a failure: how fast a machine is decides no test.
"""

from __future__ import annotations

from typing import Any

import pytest

__all__ = ["Budgets"]

MARKER = "budget"
#: What a test may take that says nothing else: one without Spark, and one with it. In the second tier, ten times that.
_PLAIN_S, _SPARK_S, _EXHAUSTIVE_FACTOR = 5.0, 20.0, 10
_SLOWEST = 10


class Budgets:
    """Adds up the phases of each test."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._budget: dict[str, float] = {}

    @staticmethod
    def of(item: pytest.Item) -> float:
        """Seconds that the test may take, its fixtures included."""
        marker = item.get_closest_marker(MARKER)
        if marker is not None:
            return float(marker.args[0])
        seconds = _PLAIN_S if item.get_closest_marker("spark") is None else _SPARK_S
        return seconds * (_EXHAUSTIVE_FACTOR if item.get_closest_marker("exhaustive") else 1)

    def add(self, report: Any) -> None:
        """A phase of a test."""
        self._seconds[report.nodeid] = self._seconds.get(report.nodeid, 0.0) + report.duration
        self._budget[report.nodeid] = getattr(report, "suite_budget", _SPARK_S)

    @property
    def seconds(self) -> dict[str, float]:
        """Of each test, by id."""
        return dict(self._seconds)

    def report(self) -> list[str]:
        """Lines: the slowest tests, the files that took longest, the tests over their budget."""
        slowest = sorted(self._seconds.items(), key=lambda one: -one[1])
        files: dict[str, float] = {}
        for name, seconds in slowest:
            file = name.partition("::")[0]
            files[file] = files.get(file, 0.0) + seconds
        longest = sorted(files.items(), key=lambda one: -one[1])[:_SLOWEST]
        over = [(name, seconds) for name, seconds in slowest if seconds > self._budget[name]]
        return [
            *_titled("slowest tests", [_line(*one) for one in slowest[:_SLOWEST]]),
            *_titled("by file", [_line(*one) for one in longest] if len(files) > 1 else []),
            *_titled("over budget", [f"{_line(*one)} (budget {self._budget[one[0]]:.0f} s)" for one in over]),
        ]


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"{title if number == 0 else '':14}{line}" for number, line in enumerate(lines)]


def _line(name: str, seconds: float) -> str:
    return f"{seconds:6.1f} s  {name}"
