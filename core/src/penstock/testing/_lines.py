"""Kills a process at a line of what an author wrote: so between any two things that it does.

A first run counts how often each line is reached. Then the process is killed just before a line, the first, the second
and the last time it is reached. Nothing is unwound, flushed or closed: it is a SIGKILL.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Moment", "Watch", "moments", "own_files", "text_of"]

#: Of the standard library: functions that do in several steps what looks like one.
_IN_STEPS = (shutil.__file__,)


@dataclass(frozen=True)
class Moment:
    """Just before a line is reached for the ``nth`` time."""

    file: str
    line: int
    nth: int

    def __str__(self) -> str:
        again = "" if self.nth == 1 else f"the {self.nth}th time "
        return f"{again}before {text_of(self.file, self.line)}"


def text_of(file: str, line: int) -> str:
    """Returns a line of a file, and where it is."""
    path = Path(file)
    return f"{path.name}, line {line}: {path.read_text('utf-8').splitlines()[line - 1].strip()}"


def own_files(*kinds: type) -> tuple[str, ...]:
    """Returns the folders of the packages that define ``kinds`` and what they inherit, except the core; or their
    files, for classes among tests.
    """
    names = {one.__module__ for kind in kinds for one in kind.__mro__ if _is_own(one.__module__)}
    files = [Path(str(sys.modules[name].__file__)) for name in names]
    return tuple(str(one.parent) + os.sep if (one.parent / "__init__.py").exists() else str(one) for one in files)


def _is_own(module: str) -> bool:
    if module.startswith("penstock."):
        return module.startswith("penstock.testing._samples")
    return module not in sys.stdlib_module_names and module != "builtins"


class Watch:
    """Counts the lines of an author's files that this process reaches, in every thread, and kills it at one."""

    def __init__(self, own: tuple[str, ...], kill: Moment | None = None) -> None:
        self._own = own
        self._kill = kill
        self.reached: Counter[tuple[str, int]] = Counter()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches until the end of the block."""
        threading.settrace(self._calls)
        sys.settrace(self._calls)
        try:
            yield
        finally:
            sys.settrace(None)
            threading.settrace(None)

    def _calls(self, frame: Any, event: str, argument: Any) -> Callable[..., Any] | None:
        name = frame.f_code.co_filename
        if name.startswith(self._own) or name in _IN_STEPS:
            return self._lines
        return None

    def _lines(self, frame: Any, event: str, argument: Any) -> Callable[..., Any]:
        if event == "line":
            place = (frame.f_code.co_filename, frame.f_lineno)
            self.reached[place] += 1
            kill = self._kill
            if kill is not None and place == (kill.file, kill.line) and self.reached[place] == kill.nth:
                os.kill(os.getpid(), signal.SIGKILL)
        return self._lines


def moments(reached: Counter[tuple[str, int]]) -> list[Moment]:
    """Returns the moments to kill a process at: each line, the first time, the second, and the last."""
    return [
        Moment(file, line, nth) for (file, line), count in reached.items() for nth in sorted({1, min(2, count), count})
    ]
