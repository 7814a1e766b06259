"""What a process holds that the system counts."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import thread as futures
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OpenThings", "growth_of", "left_open", "open_things", "threads_that_stay"]

_DESCRIPTORS = Path("/proc/self/fd")
_TASKS = Path("/proc/self/task")
#: Threads and connections that were closed may need a moment to end.
_ENDING_S, _LOOK_S = 3.0, 0.05


@dataclass(frozen=True)
class OpenThings:
    """Counts by name."""

    counts: dict[str, int]
    examples: dict[str, list[str]]

    def growth(self, later: OpenThings, *, most: int) -> list[str]:
        """Returns what there is more of ``later``, by more than ``most``; with an example of each."""
        problems = []
        for name, count in later.counts.items():
            more = count - self.counts.get(name, 0)
            if more > most:
                new = [one for one in later.examples[name] if one not in self.examples.get(name, [])]
                problems.append(f"{more} more {name}{f' (such as {new[-1]})' if new else ''}")
        return problems


def open_things(temporary: str) -> OpenThings:
    """Counts open files, threads, child processes, and files in the folder ``temporary``. Where there is no /proc,
    threads of Python and temporary files only.
    """
    threads = [one.name for one in threading.enumerate()]
    found = {"threads": threads, "temporary files": os.listdir(temporary)}
    if _DESCRIPTORS.exists():
        found["open files"] = list(_targets())
        found["threads"] = [*threads, *[""] * (len(os.listdir(_TASKS)) - len(threads))]
        found["child processes"] = list(_children())
    return OpenThings({name: len(values) for name, values in found.items()}, found)


def left_open(before: OpenThings, temporary: str, *, most: int) -> list[str]:
    """Returns what there is more of than ``before``, by more than ``most``, and stays; and threads that keep the
    process from ending.
    """
    deadline = time.monotonic() + _ENDING_S
    while True:
        found = [*before.growth(open_things(temporary), most=most), *threads_that_stay()]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(_LOOK_S)


def growth_of(step: Callable[[], object], temporary: str, *, most: int) -> list[str]:
    """Returns what there is more of after ``step``, by more than ``most``.

    A pool of connections fills up to its bound, and a leak never ends: where there is more, the step is made once more,
    and what counts is what it adds then.
    """
    problems: list[str] = []
    for _ in range(2):
        before = open_things(temporary)
        step()
        problems = left_open(before, temporary, most=most)
        if not problems:
            break
    return problems


def _children() -> Iterator[str]:
    for task in _TASKS.iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has ended in the meantime
            yield from (task / "children").read_text().split()


def _targets() -> list[str]:
    found = []
    for one in os.listdir(_DESCRIPTORS):
        try:
            found.append(os.readlink(_DESCRIPTORS / one))
        except OSError:
            continue  # that of the listing
    return found


def threads_that_stay() -> list[str]:
    """Returns the threads for which the process would wait at its end."""
    # Python ends those of pools when they are idle.
    ended_by_python = {threading.main_thread(), *getattr(futures, "_threads_queues", ())}
    stay = [one.name for one in threading.enumerate() if one not in ended_by_python and not one.daemon]
    return [f"threads that keep the process from ending ({', '.join(stay[:5])})"] if stay else []
