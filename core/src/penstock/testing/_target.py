"""What an author tells the kit of a target system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

__all__ = ["SinkTarget"]


@dataclass(frozen=True)
class SinkTarget:
    """A target that is empty, and its own: nothing else writes there.

    ``options`` are those that a user would give to write there, as text. ``read`` returns every row that any reader
    sees there now, as dictionaries; ``hidden`` names what is there and not visible (staged files, open transactions),
    for the cases that say that nothing lingers: leave it out if that can't be known. ``lose`` makes everything that was
    prepared and not committed impossible to commit (removes staged files, ends transactions): leave it out if nothing
    can do that. ``unreachable`` is a context in which the system does not answer, and loses nothing (its server is
    stopped, its folder is away): leave it out if that can't be had.
    """

    options: Mapping[str, str]
    read: Callable[[], Sequence[Mapping[str, Any]]]
    hidden: Callable[[], Sequence[str]] | None = None
    lose: Callable[[], object] | None = None
    unreachable: Callable[[], AbstractContextManager[object]] | None = None
