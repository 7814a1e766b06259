"""What processes leave behind that are killed while they write a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.storage import ABANDONED_AFTER_S, LocalStorage

__all__ = ["KilledWrites", "leave_killed_writes"]


class KilledWrites:
    """Temporary files in ``directory`` of two writes that were killed: one long ago, one just now."""

    def __init__(self, directory: Path, name: str) -> None:
        storage = LocalStorage()
        self.old, self.new = (Path(storage._write_temporary(f"{directory}/{name}", b"half of it")) for _ in range(2))
        written = self.new.stat().st_mtime - ABANDONED_AFTER_S - 1
        os.utime(self.old, (written, written))

    @property
    def swept(self) -> bool:
        """Whether the old one is gone, and the new one, whose process may be alive, is not."""
        assert self.new.exists()
        return not self.old.exists()


@pytest.fixture
def leave_killed_writes() -> Callable[[Path, str], KilledWrites]:
    """``leave_killed_writes(directory, name)``: of writes of a file of that name. See :class:`KilledWrites`."""
    return KilledWrites
