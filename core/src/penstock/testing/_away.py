"""Local files that can't be reached for a while."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from penstock.retry import may_pass
from penstock.testing._calls import patiently
from penstock.testing._verdict import does_not_apply

__all__ = ["away", "for_a_moment", "only_if_it_may_pass"]

_MOMENT_S = 1.0


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
def for_a_moment(unreachable: AbstractContextManager[object]) -> Iterator[None]:
    """Enters ``unreachable``, and leaves it a second later while the block runs. Waits for that at the end."""
    unreachable.__enter__()
    back = threading.Timer(_MOMENT_S, unreachable.__exit__, [None, None, None])
    back.start()
    try:
        with patiently():
            yield
    finally:
        back.join()


@contextmanager
def only_if_it_may_pass() -> Iterator[None]:
    """Ends the case as one that does not apply, at an OSError that no retry is made after, such as a missing file."""
    try:
        yield
    except OSError as error:
        if may_pass(error):
            raise
        does_not_apply(f"an outage here looks permanent: {error}")
