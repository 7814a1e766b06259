"""Local files that can't be reached for a while."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["away"]


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
