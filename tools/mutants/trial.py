"""One mutant before the tests: in a fork of this process, which has imported what takes long."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import json
import os
import random
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

__all__ = ["Limits", "Trial"]

_ROOT = Path(__file__).resolve().parents[2]
#: Tests write thousands of small files.
_MEMORY_DISK = next((path for path in ("/dev/shm",) if os.path.isdir(path)), None)
_MEMORY = 8 << 30
_LEAST_LIMIT_S = 20.0
_TIMES = 10


class _Import(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives a module another source than its file has."""

    def __init__(self, path: Path, source: str) -> None:
        self._path = path
        self._source = source

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> Any:
        """For the one module."""
        if name.rpartition(".")[2] != self._path.stem:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.origin is None or Path(spec.origin) != self._path:
            return None
        spec.loader = self
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Runs the source."""
        exec(compile(self._source, str(self._path), "exec", dont_inherit=True), vars(module))


#: What changes files: at which of its arguments paths stand, and what directories they are relative to.
_CHANGES: dict[str, tuple[tuple[int, int | None], ...]] = {
    "os.chmod": ((0, 2),),
    "os.chown": ((0, 3),),
    "os.link": ((0, 2), (1, 3)),
    "os.mkdir": ((0, 2),),
    "os.remove": ((0, 1),),
    "os.rename": ((0, 2), (1, 3)),
    "os.rmdir": ((0, 1),),
    "os.symlink": ((1, 2),),
    "os.truncate": ((0, None),),
    "os.utime": ((0, 3),),
    "shutil.rmtree": ((0, 1),),
}
#: What tests of a scope have no business with, and what a mutant could do harm by that nobody sees here.
_REFUSED = (
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.kill",
    "os.killpg",
    "os.posix_spawn",
    "os.system",
    "subprocess.Popen",
)


class Fence:
    """In the fork: a mutant that would change files outside of ``inside``, or start or end a process, dies at once.

    A fault in a path may otherwise delete anything: nothing but its scratch directory is a mutant's own.
    """

    def __init__(self, inside: str, on_trespass: Callable[[str], None]) -> None:
        self._inside = os.path.realpath(inside)
        #: Whether the first test has: before that the suite itself looks for the servers of its directories.
        self.has_begun = False
        self._on_trespass = on_trespass

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook."""
        if event in _REFUSED and self.has_begun:
            self._on_trespass(f"{event} {arguments!r}")
        elif event in _CHANGES:
            for at, directory in _CHANGES[event]:
                self._check(event, arguments[at], -1 if directory is None else arguments[directory])
        elif event == "open" and (_writes(arguments[1]) or (arguments[2] or 0) & _WRITING):
            self._check(event, arguments[0])

    def _check(self, event: str, path: Any, directory: int | None = -1) -> None:
        if isinstance(path, int):  # it was opened before
            return
        if directory is not None and directory >= 0:
            path = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), os.fsdecode(path))
        # Of a link itself, not of what it leads to: that is what is removed.
        folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
        real = os.path.join(os.path.realpath(folder), name)
        is_inside = real == self._inside or real.startswith(f"{self._inside}/")
        if not is_inside and real != os.devnull and "__pycache__" not in real.split("/"):  # of tests
            self._on_trespass(f"{event} {real}")


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _writes(mode: Any) -> bool:
    return isinstance(mode, str) and any(letter in mode for letter in "wax+")


class Watch:
    """In the fork: says which test begins, in an order in which those come first that have noticed the like before."""

    def __init__(self, pipe: int, first: Sequence[str]) -> None:
        self._pipe = pipe
        self._first = {test: at for at, test in enumerate(first)}
        self.fence: Fence | None = None

    def say(self, **what: Any) -> None:
        """One line for the process that waits."""
        os.write(self._pipe, json.dumps(what).encode() + b"\n")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Sorts."""
        items.sort(key=lambda item: self._first.get(item.nodeid, len(self._first)))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """A test begins. Chance is the same for it in every trial."""
        random.seed(nodeid)
        if self.fence is not None:
            self.fence.has_begun = True
        self.say(begins=nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """What a failure was."""
        if report.failed:
            self.say(fails=report.nodeid)

    def on_trespass(self, what: str) -> None:
        """The mutant would do harm: that is noticed, and the end of it."""
        self.say(trespass=what)
        os._exit(71)

    def pytest_sessionfinish(self) -> None:
        """What was imported, but for what is in the repository: that may import what is mutated."""
        found = [(name, getattr(module, "__file__", None)) for name, module in list(sys.modules.items())]
        self.say(imported=[name for name, file in found if file is None or not _is_ours(file)])


def _is_ours(file: str) -> bool:
    return file.startswith(str(_ROOT)) and "site-packages" not in file


@dataclass(frozen=True)
class Limits:
    """How long a test may take: many times what it took without a fault, so that a busy machine does not matter."""

    seconds: dict[str, float]

    def of(self, test: str) -> float:
        """For one test; ``""`` is what comes before the first one."""
        return max(_LEAST_LIMIT_S, _TIMES * self.seconds.get(test, 0.0))


class Trial:
    """Runs. ``killer`` is the test that has failed, or did not end; ``""`` if it was no test, ``None`` if all passed.

    ``seconds`` has how long each test took, ``imported`` what was imported from elsewhere, ``trespass`` what a mutant
    would have done outside of its scratch directory.
    """

    def __init__(
        self,
        tests: Sequence[str],
        *,
        mutated: tuple[str, str] | None = None,
        first: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        self.killer: str | None = None
        self.is_timed_out = False
        self.is_over = False
        self.seconds: dict[str, float] = {}
        self.imported: list[str] = []
        self.trespass = ""
        self._limits = limits
        self._test, self._began = "", time.monotonic()
        self._buffer = b""
        self._scratch = tempfile.mkdtemp(prefix="mutant-", dir=_MEMORY_DISK)
        self.pipe, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 70
            try:
                os.close(self.pipe)
                status = _run(tests, mutated, Watch(writing, first), self._scratch)
            finally:
                os._exit(status)
        os.close(writing)

    @property
    def remaining_s(self) -> float:
        """Until the test that runs has taken too long."""
        if self._limits is None:
            return 600.0
        return max(0.0, self._began + self._limits.of(self._test) - time.monotonic())

    def has_news(self, timeout_s: float) -> bool:
        """Waits for something in ``pipe``."""
        return bool(select.select([self.pipe], [], [], timeout_s)[0])

    def on_readable(self) -> None:
        """There is something in ``pipe``, or it has ended."""
        data = os.read(self.pipe, 1 << 16)
        if not data:
            self._end()
            return
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "begins" in said:
                self._note_time()
                self._test = said["begins"]
            elif "imported" in said:
                self.imported = said["imported"]
            elif "trespass" in said:
                self.killer, self.trespass = f"the fence, in {self._test}", said["trespass"]
            else:
                self.killer = said["fails"]

    def time_out(self) -> None:
        """The test that runs takes too long: it has noticed the fault."""
        self.is_timed_out = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        self._end()

    def _note_time(self) -> None:
        now = time.monotonic()
        self.seconds[self._test] = now - self._began
        self._began = now

    def _end(self) -> None:
        self._note_time()
        _, status = os.waitpid(self._pid, 0)
        os.close(self.pipe)
        shutil.rmtree(self._scratch, ignore_errors=True)
        if status and self.killer is None:
            self.killer = self._test
        self.is_over = True


def _run(tests: Sequence[str], mutated: tuple[str, str] | None, watch: Watch, scratch: str) -> int:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    os.chdir(_ROOT)
    os.environ["TMPDIR"] = tempfile.tempdir = os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = scratch
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    if mutated is not None:
        sys.meta_path.insert(0, _Import(_ROOT / mutated[0], mutated[1]))
    watch.fence = Fence(scratch, watch.on_trespass)
    sys.addaudithook(watch.fence)
    options = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-m", "not spark", f"--basetemp={scratch}/t"]
    return int(pytest.main([*options, *tests], plugins=[watch]))
