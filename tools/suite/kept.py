"""What tests share, for as long as there are tests of their directory: a server that is idle takes time from others.

And what the process keeps that runs them, and crashed tasks have left there.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pytest

from penstock.per_process import PerProcess

__all__ = ["end_all", "kept_for_directory"]

_KEPT: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
KeptT = TypeVar("KeptT")


def kept_for_directory(
    request: pytest.FixtureRequest, name: str, manager: Callable[[], AbstractContextManager[KeptT]]
) -> KeptT:
    """For a fixture of scope "module": what ``manager`` gives, entered once, and left after the last test of the
    directory. One that is asked for again later is made anew.
    """
    directory = next(node for node in request.node.iter_parents() if isinstance(node, pytest.Dir))
    kept = directory.stash.setdefault(_KEPT, {})
    if name not in kept:
        opened = manager()
        kept[name] = opened.__enter__()

        def leave() -> None:
            del kept[name]
            opened.__exit__(None, None, None)

        directory.addfinalizer(leave)
    found: KeptT = kept[name]
    return found


def end_all(cache: PerProcess[Any, Any]) -> None:
    """Closes what a cache keeps, what is in use too: a task that a test lets crash never releases anything."""
    cache.clear()
    with cache._lock:
        left = [value for entry in cache._in_use.values() for value in entry.values]
        cache._in_use.clear()
    cache._close_all(left)
