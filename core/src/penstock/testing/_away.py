"""Local files that can't be reached for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

__all__ = ["away", "for_a_moment"]


@contextmanager
def away(path: Path) -> Iterator[None]:
    """Moves a file or a folder aside until the end of the block. In its place is a folder, or a file, that is empty.

    For ``unreachable`` of a system that is local files: to open the path is an OSError then.
    """
    aside = path.with_name(f"{path.name} aside")
    path.rename(aside)
    is_folder = aside.is_dir()
    (path.touch if is_folder else path.mkdir)()
    try:
        yield
    finally:
        (path.unlink if is_folder else path.rmdir)()
        aside.rename(path)


@contextmanager
def for_a_moment(unreachable: AbstractContextManager[object], seconds: float) -> Iterator[None]:
    """Leaves ``unreachable`` after ``seconds``, while the block runs; waits for that at the end of the block."""
    unreachable.__enter__()
    back = threading.Timer(seconds, unreachable.__exit__, [None, None, None])
    back.start()
    try:
        yield
    finally:
        back.join()
