"""Kills or stops a driver, or one of its tasks, at a chosen call.

``sitecustomize.py`` runs in the driver's Python processes, and describes how to write a fault point. This file is the
test's side: it sets the driver's environment, and reads which points the driver has reached.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

__all__ = ["FaultPoints"]


class FaultPoints:
    """The fault points of one driver. ``points`` is one, several separated by ``;``, or empty.

    ``scope="worker"`` hits only the process that makes the call, not the whole driver. ``action="stop"`` stops instead
    of killing.
    """

    def __init__(self, folder: Path, points: str, scope: str, action: str) -> None:
        self.points = points
        self.stops = action == "stop"
        self.hits: list[tuple[int, int]] = []
        """The number of the fault point and the process id of each hit that :meth:`look` has seen."""
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
            # Open for writing as well: otherwise a process that reports a hit would wait for a reader.
            self._pipe = os.open(f"{counter}.hit", os.O_RDWR | os.O_NONBLOCK)

    def fileno(self) -> int:
        """Returns the descriptor of the pipe. It is readable after a hit."""
        return self._pipe

    def look(self) -> list[tuple[int, int]]:
        """Returns all hits so far."""
        with contextlib.suppress(BlockingIOError):
            while self.points and (lines := os.read(self._pipe, 1 << 16).decode()):
                self.hits += [(int(number), int(pid)) for number, pid in map(str.split, lines.splitlines())]
        return self.hits

    def all_hit(self) -> bool:
        """Returns whether each point was hit."""
        return {number for number, _ in self.look()} == set(range(len(self.points.split(";"))))

    def close(self) -> None:
        if self.points:
            os.close(self._pipe)
