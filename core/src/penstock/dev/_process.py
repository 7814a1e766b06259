"""Processes that outlive this one: their start time distinguishes them from a later one with the same id."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ProcessIdentity", "identify", "is_alive", "kill", "resident_bytes", "terminate"]

_POLL_SECONDS = 0.05
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class ProcessIdentity:
    """A process id and when that process began, in words that are only compared."""

    pid: int
    began: str


def identify(pid: int) -> ProcessIdentity | None:
    """Returns the process that has the id now; ``None`` if there is none, or only the remains of one that ended."""
    began = _began_linux(pid) if sys.platform == "linux" else _began(pid)
    return ProcessIdentity(pid, began) if began else None


def is_alive(process: ProcessIdentity) -> bool:
    """Returns whether this very process still runs."""
    return identify(process.pid) == process


def kill(process: ProcessIdentity) -> None:
    """SIGKILL, and waits until it is gone. Another process that has the id by now is left alone."""
    _signal(process, signal.SIGKILL)
    _await_end(process, 30)


def terminate(process: ProcessIdentity, grace_s: float) -> bool:
    """SIGTERM, and SIGKILL after ``grace_s``; waits for the end. Whether it ended by itself. Never another process."""
    _signal(process, signal.SIGTERM)
    if _await_end(process, grace_s):
        return True
    kill(process)
    return False


def resident_bytes(process: ProcessIdentity) -> int | None:
    """Returns the memory that it holds now; ``None`` if it is gone."""
    if not is_alive(process):
        return None
    if sys.platform == "linux":
        status = _read(Path(f"/proc/{process.pid}/status"))
        kib = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")), "")
    else:
        kib = _ps(process.pid, "rss=")
    return int(kib) << 10 if kib else None


def _signal(process: ProcessIdentity, number: int) -> None:
    if is_alive(process):
        try:
            os.kill(process.pid, number)
        except ProcessLookupError:
            return


def _await_end(process: ProcessIdentity, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while is_alive(process):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _began_linux(pid: int) -> str:
    # After the name, which is in parentheses and may hold anything: the state comes first, the start (clock ticks since
    # the machine's own) is the 20th. `ps` is missing in small images, and rounds differently each time.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    if not fields or fields[0] in "ZX":
        return ""
    return f"{fields[19]} {_read(_BOOT_ID).strip()}"


def _began(pid: int) -> str:
    state, _, began = _ps(pid, "state=", "lstart=").partition(" ")
    return "" if state.startswith("Z") else began.strip()


def _ps(pid: int, *columns: str) -> str:
    command = ["ps", *(word for column in columns for word in ("-o", column)), "-p", str(pid)]
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout.strip()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
