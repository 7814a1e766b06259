"""Where a run's temporary files are: in memory, if the machine has plenty of it.

The first tier writes about 1.2 GB in small files. On a disk the kernel spends a fifth of the run's processor time on
them. A run with ``--all`` writes more than memory should hold, and keeps to the disk.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["in_memory", "own"]

#: Names the process whose ``TMPDIR`` this module made, and which removes it.
_VARIABLE = "PENSTOCK_TEST_SCRATCH_OF"
_MEMORY_DISK = Path("/dev/shm")
_PREFIX = "penstock-test-"
#: What must be free on the file system and, for servers, JVMs and files together, in the machine's memory.
_DISK_BYTES = 8 << 30
_MEMORY_BYTES = 12 << 30


def in_memory(disk: Path = _MEMORY_DISK, meminfo: Path = Path("/proc/meminfo")) -> Mapping[str, str]:
    """The variables that lead a run's temporary files to a new directory in memory; none where it should not be used.

    Removes the directories that earlier runs left because they failed or were killed. The directory of a run that is
    still going holds a lock, for as long as the process lives that called this, also after it replaced its program.
    """
    if "TMPDIR" in os.environ or not os.access(disk, os.W_OK):
        return {}
    for folder in disk.glob(f"{_PREFIX}*"):
        if (lock := _locked(folder)) is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
    if shutil.disk_usage(disk).free < _DISK_BYTES or _available(meminfo) < _MEMORY_BYTES:
        return {}
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=disk))
    folder.chmod(0o1777)  # as /tmp: servers that refuse to run as root have their files there as well
    lock = _locked(folder)
    if lock is not None:
        os.set_inheritable(lock, True)
    return {"TMPDIR": str(folder), _VARIABLE: str(os.getpid())}


def own() -> Path | None:
    """The directory that :func:`in_memory` made for this very process; tests start other runs, which inherit it."""
    return Path(os.environ["TMPDIR"]) if os.environ.get(_VARIABLE) == str(os.getpid()) else None


def _locked(folder: Path) -> int | None:
    """The lock of a directory, held by an open file; None while another run holds it, or if it is not ours."""
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return None
    return file


def _available(meminfo: Path) -> int:
    """Bytes of memory that processes can have, as Linux estimates it; none where it does not."""
    try:
        lines = meminfo.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)
