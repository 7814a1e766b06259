"""Whose process is whose."""

from __future__ import annotations

import contextlib
from pathlib import Path

__all__ = ["python_processes_below"]


def python_processes_below(pid: int) -> list[int]:
    """Python processes that ``pid`` started, by whatever way, without itself; in order of their ids."""
    parents: dict[int, int] = {}
    pythons: list[int] = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            number = int(folder.name)
            parents[number] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"python" in (folder / "cmdline").read_bytes().split(b"\0")[0]:
                pythons.append(number)
    return sorted(number for number in pythons if number != pid and _is_below(number, pid, parents))


def _is_below(number: int, pid: int, parents: dict[int, int]) -> bool:
    while number in parents and number != pid:
        number = parents[number]
    return number == pid
