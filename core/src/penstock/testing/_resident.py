"""How much memory this process has now."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

__all__ = ["resident_bytes"]

_STATM = Path("/proc/self/statm")


def resident_bytes() -> int:
    """Returns what this process has in memory now; where the system does not tell, the most it ever had."""
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
