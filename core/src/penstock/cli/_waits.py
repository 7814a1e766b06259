"""What the processes of a run wait for, as they note it while a call is tried again."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.cli._draw import human_duration
from penstock.retry import WAITS_FOLDER

__all__ = ["collecting_waits", "waits_in"]

#: A note is written again at each try; an older one was left by something that was given up.
_OUTDATED_S = 60.0


@contextmanager
def collecting_waits() -> Iterator[Path]:
    """Yields a folder in which the processes of this machine that are started meanwhile note what they wait for."""
    with tempfile.TemporaryDirectory(prefix="penstock-waits-", ignore_cleanup_errors=True) as folder:
        os.environ[WAITS_FOLDER] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[WAITS_FOLDER]


def waits_in(folder: Path) -> list[str]:
    """Returns what is waited for now, what has lasted longest first: ``12 s: planning: 10.0.0.1:9042 is down``."""
    now, found = time.time(), []
    for note in folder.iterdir():
        try:
            written, stored = note.stat().st_mtime, note.read_text(encoding="utf-8")
        except OSError:
            continue  # it works again
        since, _, text = stored.partition("\n")
        if text and now - written < _OUTDATED_S and _is_alive(note.name.partition("-")[0]):
            found.append((float(since), text))
    return [f"{human_duration(max(0.0, now - since))}: {text}" for since, text in sorted(found)]


def _is_alive(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (OSError, ValueError):
        return False
    return True
