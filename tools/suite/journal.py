"""What a run has done so far, test by test: ``scripts/test --all --resume`` continues one that was interrupted.

The run of two hours is the one that a restart of the machine hits. Each test that ended is a line of
``.cache/suite-run.jsonl``, written as soon as its report arrives, so a kill costs the tests that were running.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

__all__ = ["Journal", "tree_state"]

_GOOD = ("passed", "skipped")


class Journal:
    """The tests that ended, with their outcomes. In the process that prints.

    ``done`` has the outcomes of the pieces before this one, of tests that need not run again: those that passed and
    those that were skipped. ``minutes`` is what those pieces took.
    """

    def __init__(self, path: Path, state: str, *, resumes: bool) -> None:
        self.done: dict[str, str] = {}
        self.seconds: dict[str, float] = {}
        self.minutes = 0.0
        self._path = path
        self._state = state
        self._begun = time.monotonic()
        self._outcomes: dict[str, str] = {}
        self._durations: Counter[str] = Counter()
        if resumes:
            self._read()
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps(state), *(self._line(name, self.done[name], self.seconds[name]) for name in self.done)]
        path.write_text("".join(f"{line}\n" for line in lines), "utf-8")

    def _read(self) -> None:
        try:
            state, *lines = map(json.loads, self._path.read_text("utf-8").splitlines())
        except (OSError, ValueError):
            return
        if state != self._state:
            return
        for name, outcome, seconds, minutes in lines:
            self.minutes = max(self.minutes, minutes)
            if outcome in _GOOD:
                self.done[name], self.seconds[name] = outcome, seconds

    def _line(self, name: str, outcome: str, seconds: float) -> str:
        minutes = self.minutes + (time.monotonic() - self._begun) / 60
        return json.dumps([name, outcome, round(seconds, 2), round(minutes, 2)])

    def add(self, report: Any) -> None:
        """A phase of a test; after the last one, the test is written down."""
        name = report.nodeid
        self._durations[name] += report.duration
        if report.outcome != "passed" and self._outcomes.get(name) != "failed":
            self._outcomes[name] = report.outcome
        if report.when == "teardown":
            outcome = self._outcomes.pop(name, "passed")
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._line(name, outcome, self._durations.pop(name)) + "\n")

    def counts(self, stats: dict[str, list[Any]]) -> dict[str, int]:
        """Returns how many tests had which outcome, those of earlier pieces included."""
        now = Counter({outcome: len(reports) for outcome, reports in stats.items()})
        return dict(Counter(self.done.values()) + now)


def tree_state(root: Path) -> str:
    """Returns a text that is another one if the commit or a file of the tree is: what passed then says nothing now."""

    def git(*command: str) -> bytes:
        return subprocess.run(["git", *command], cwd=root, capture_output=True, check=False).stdout

    new = git("ls-files", "--others", "--exclude-standard", "-z").decode().split("\0")
    parts = [git("rev-parse", "HEAD"), git("diff", "HEAD"), *((root / name).read_bytes() for name in new if name)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()
