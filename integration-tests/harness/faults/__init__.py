"""Fault points: a driver, or a task, is killed or stopped at a chosen call; ``sitecustomize.py`` says how to name one.

This is the side of who chooses: the variables for the driver's environment, and what its processes report.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["FaultPoints"]


class FaultPoints:
    """Those of one driver: ``points`` is one, or several with ``;``, or nothing.

    With ``scope="worker"`` only the process that makes the call is hit, not the whole driver; with ``action="stop"`` it
    is stopped instead of killed.
    """

    def __init__(self, folder: Path, points: str, scope: str, action: str) -> None:
        self.points = points
        self.stops = action == "stop"
        self.hits: list[tuple[int, int]] = []
        """Number of the fault point and process id, of each hit that :meth:`look` has seen."""
        counter = folder / "fault"
        self.variables = {
            "FAULT_POINT": points,
            "FAULT_COUNTER": str(counter),
            "FAULT_SCOPE": scope,
            "FAULT_ACTION": action,
        }
        self._pipe = -1
        if points:
            os.mkfifo(f"{counter}.hit")
            # Open for writing as well: nobody who writes a line into it waits for us.
            self._pipe = os.open(f"{counter}.hit", os.O_RDWR | os.O_NONBLOCK)

    def fileno(self) -> int:
        """Of the pipe, which can be read after a hit."""
        return self._pipe

    def look(self) -> list[tuple[int, int]]:
        """All hits so far."""
        with contextlib.suppress(BlockingIOError):
            while self.points and (lines := os.read(self._pipe, 1 << 16).decode()):
                self.hits += [(int(number), int(pid)) for number, pid in map(str.split, lines.splitlines())]
        return self.hits

    def all_hit(self) -> bool:
        """Whether each of them was."""
        return {number for number, _ in self.look()} == set(range(len(self.points.split(";"))))

    def close(self) -> None:
        if self.points:
            os.close(self._pipe)
