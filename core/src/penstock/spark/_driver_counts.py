"""Carries counters from the processes that plan and commit on the driver's machine to the user's process.

Spark starts such a process for a batch and keeps none of what it counts: accumulators are for tasks. So each of them
adds to a file of its query, in a folder that is there only while metrics are on.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path

from penstock.serialization import MALFORMED

__all__ = ["add_driver_counts", "new_counts_folder", "open_counts_folder", "read_driver_counts", "remove_counts_folder"]


def new_counts_folder() -> str:
    """Returns the path of a folder that is not there yet, with a name that other users can't guess."""
    return f"{tempfile.gettempdir()}/penstock-counts-{uuid.uuid4().hex}"


def open_counts_folder(folder: str) -> None:
    """Creates the folder; from now on processes count. Only this user may read it."""
    Path(folder).mkdir(mode=0o700, exist_ok=True)


def remove_counts_folder(folder: str) -> None:
    """Removes the folder, so that processes do not count any more."""
    shutil.rmtree(folder, ignore_errors=True)


def add_driver_counts(folder: str, query_id: str, counts: Mapping[str, int]) -> None:
    """Adds ``counts`` to those of a query. Does nothing without the folder, and never raises: a batch goes first."""
    if not folder or not counts or not os.path.isdir(folder):
        return
    path = Path(folder, f"{query_id}.json")
    with contextlib.suppress(OSError, ImportError), path.with_suffix(".lock").open("w") as lock:
        import fcntl  # not everywhere; a session can be registered without it

        # Batches of a query follow each other, but a process that was given up may still run.
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = _read(path)
        total = {**known, **{name: known.get(name, 0) + amount for name, amount in counts.items()}}
        # Replaced as a whole: a reader takes no lock, since a process that is stopped would hold it up.
        written = path.with_suffix(".new")
        written.write_text(json.dumps(total), encoding="utf-8")
        written.replace(path)


def read_driver_counts(folder: str) -> dict[str, dict[str, int]]:
    """Returns the counters by query. Any process of the machine."""
    return {path.stem: _read(path) for path in Path(folder).glob("*.json")}


def _read(path: Path) -> dict[str, int]:
    with contextlib.suppress(FileNotFoundError, *MALFORMED):
        return {str(name): int(amount) for name, amount in json.loads(path.read_text(encoding="utf-8")).items()}
    return {}
