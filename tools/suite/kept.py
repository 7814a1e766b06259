"""What tests share, for as long as there are tests of their directory: a server that is idle takes time from others.

And what the process keeps that runs them, and crashed tasks have left there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pytest

from penstock.per_process import PerProcess

__all__ = ["end_all", "kept_for_directory"]

_KEPT: pytest.StashKey[dict[str, Any]] = pytest.StashKey()
KeptT = TypeVar("KeptT")
KeyT = TypeVar("KeyT", bound=Hashable)


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


def end_all(cache: PerProcess[KeyT, Any], of: Callable[[KeyT], bool] = lambda _: True) -> None:
    """Closes what a cache keeps under keys that ``of`` accepts, also what is in use, handed out still or not: a task
    that a test lets crash never releases anything.
    """
    with cache._lock:
        entries = {id(one): one for one in (*cache._entries.values(), *cache._in_use.values()) if of(one.key)}.values()
        for entry in entries:
            if cache._entries.get(entry.key) is entry:
                del cache._entries[entry.key]
            for value in entry.values:
                cache._in_use.pop(id(value), None)
    cache._close_all([value for entry in entries for value in entry.values])
