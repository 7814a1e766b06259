"""How busy the machine's cores were while the tests ran: of all processes, as the system counts it (Linux)."""

from __future__ import annotations

import os
import time
from pathlib import Path

__all__ = ["Cores"]

_STAT = Path("/proc/stat")


class Cores:
    """Counts from when it is made."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._busy = _busy_seconds()

    @property
    def minutes(self) -> float:
        """How long it has been."""
        return (time.monotonic() - self._began) / 60

    def report(self) -> str:
        """One line: how long it took, and what share of the cores' time was used."""
        seconds = time.monotonic() - self._began
        now = _busy_seconds()
        told = f"{seconds / 60:.1f} minutes"
        if self._busy is None or now is None:
            return told
        cores = os.cpu_count() or 1
        return f"{told}; {cores} cores were busy {100 * (now - self._busy) / (seconds * cores):.0f} % of the time"


def _busy_seconds() -> float | None:
    try:
        first = _STAT.read_text().splitlines()[0].split()
    except OSError:
        return None
    user, nice, system, _idle, _wait, interrupts, soft, *_ = map(int, first[1:])
    return (user + nice + system + interrupts + soft) / os.sysconf("SC_CLK_TCK")
