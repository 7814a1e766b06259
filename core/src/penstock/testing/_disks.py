"""Disks that cost no waiting."""

from __future__ import annotations

import os
from typing import Any

import pytest

__all__ = ["without_waiting_for_disks"]


def without_waiting_for_disks(patch: pytest.MonkeyPatch) -> None:
    """Makes ``os.fsync`` return at once, in this process: what dies in tests are processes, whose files stay as they
    wrote them, and never machines. A descriptor that is not open is refused as before.
    """

    def is_open(file: Any) -> None:
        os.fstat(file if isinstance(file, int) else file.fileno())

    patch.setattr(os, "fsync", is_open)
