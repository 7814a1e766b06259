"""A server that does not answer for a while: its process stands still, and loses nothing."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

__all__ = ["standing_still"]

_LISTENING = "0A"


def standing_still(address: str) -> Callable[[], AbstractContextManager[None]] | None:
    """Returns what stops the server at ``address`` (its last part is the port) for the time of a ``with`` block.

    ``None`` for a server that is not a process of this machine, of which the caller may stop any. Connections to one
    that stands still are accepted by the system, and nothing is answered.
    """
    pid = _listener(int(address.rpartition(":")[2]))
    return None if pid is None else partial(_stopped, pid)


@contextmanager
def _stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _listener(port: int) -> int | None:
    """Returns the process that listens there, after the tables of Linux (proc(5))."""
    inodes = set()
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            fields = line.split()
            if int(fields[1].rpartition(":")[2], 16) == port and fields[3] == _LISTENING:
                inodes.add(f"socket:[{fields[9]}]")
    for process in Path("/proc").iterdir():
        if re.fullmatch(r"\d+", process.name) and os.access(process / "fd", os.R_OK):
            for opened in (process / "fd").iterdir():
                try:
                    if os.readlink(opened) in inodes:
                        return int(process.name)
                except OSError:
                    continue  # closed in the meantime
    return None
