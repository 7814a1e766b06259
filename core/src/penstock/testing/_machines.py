"""Another machine, as far as one process can be it: where a connector relies on what only one machine has."""

from __future__ import annotations

import builtins
import contextlib
import decimal
import locale
import logging
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

__all__ = ["GlobalState", "elsewhere", "move"]

#: With summer time: that of the edges in :data:`penstock.testing._rows.SPARK_TYPES`.
_ZONE = "Europe/Berlin"
#: Tests and engine set these themselves.
_OF_PYTEST = ("PYTEST_", "COV_", "TZ", "TMPDIR")
_SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGALRM", "SIGPIPE") if hasattr(signal, name)
]


@contextlib.contextmanager
def elsewhere() -> Iterator[None]:
    """A worker's surroundings: another time zone, and a locale whose encoding is ASCII."""
    zone, kept = os.environ.get("TZ"), locale.setlocale(locale.LC_CTYPE)
    try:
        _set_zone(_ZONE)
        locale.setlocale(locale.LC_CTYPE, "C")
        yield
    finally:
        locale.setlocale(locale.LC_CTYPE, kept)
        _set_zone(zone)


def _set_zone(zone: str | None) -> None:
    if zone is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = zone
    if hasattr(time, "tzset"):
        time.tzset()


def move(folder: str) -> None:
    """Makes this process one of another machine: with a working directory and temporary files in ``folder``, and other
    hashes of texts.
    """
    os.chdir(folder)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    builtins.hash = _hash_of(os.getpid())


def _hash_of(seed: int) -> Callable[[Any], int]:
    """Returns another hash(). ``__hash__`` stays: sets and dictionaries from before the fork rely on it."""
    real = builtins.hash

    def hash(value: Any, /) -> int:
        found = real(value)
        is_text = isinstance(value, str | bytes) or (
            isinstance(value, tuple) and any(isinstance(one, str | bytes) for one in value)
        )
        if not is_text or sys._getframe(1).f_code.co_name == "__hash__":
            return found
        return real((found, seed))

    return hash


class GlobalState:
    """Knows what all code of a process shares, from the moment it is made; :meth:`look` now and then."""

    def __init__(self) -> None:
        self._before = _state()
        self._drawn: list[float] = []
        self._died: list[str] = []
        threading.excepthook = self._note

    def _note(self, ended: threading.ExceptHookArgs) -> None:
        name = "a thread" if ended.thread is None else f"thread {ended.thread.name}"
        self._died.append(f"{name} ended with {ended.exc_type.__name__}: {ended.exc_value}")

    def look(self) -> None:
        """Notices random numbers that are the same as at the previous look."""
        self._drawn.append(random.random())
        random.seed()

    def changes(self) -> list[str]:
        """Returns what has changed, and the threads that ended with an error that no code gets."""
        now = _state()
        found = [f"{name}: {was} before, {now[name]} after" for name, was in self._before.items() if now[name] != was]
        if len(self._drawn) > 1 and len(set(self._drawn)) == 1:
            found.append("random numbers: they are seeded, and the same for each batch")
        return [*found, *sorted(set(self._died))]


def _state() -> dict[str, Any]:
    umask = os.umask(0o077)
    os.umask(umask)
    context = decimal.getcontext()
    return {
        "the working directory": str(Path.cwd()),
        "umask": oct(umask),
        "the timeout of all sockets": socket.getdefaulttimeout(),
        "the context of decimals": (context.prec, context.rounding),
        "the locale": locale.setlocale(locale.LC_ALL),
        "the time zone": os.environ.get("TZ"),
        "environment variables": sorted(
            f"{name}={hash(value)}" for name, value in os.environ.items() if not name.startswith(_OF_PYTEST)
        ),
        "the root logger": (logging.root.level, len(logging.root.handlers)),
        "signals": [signal.getsignal(one) for one in _SIGNALS],
        "the recursion limit": sys.getrecursionlimit(),
    }
