"""Runs the kit on one flaw, in a process of its own that ends in time."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from flaws.bases import BASES
from flaws.catalogue import BadFlaw, Flaw

__all__ = ["HANGS", "MISSED", "Outcome", "clean", "run"]

_LIMIT_S = 150.0
#: Flaws run in forks of a process that has loaded the kit and done nothing else. Forks of this one would inherit the
#: threads and the free memory that its tests have left behind.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["penstock.testing", "_pytest.assertion.rewrite"])
#: Plugins that a flaw has no use for, and take time.
_WITHOUT = ("cacheprovider", "timeout", "hypothesispytest", "xdist")
HANGS, MISSED = "hangs", "missed"


@dataclass(frozen=True)
class Outcome:
    """``case`` is the first one that failed, HANGS or MISSED; ``seconds`` until then, of which ``in_case`` in it."""

    case: str
    seconds: float
    in_case: float = 0.0


class _Recorder:
    def __init__(self, note: Callable[..., None]) -> None:
        self._note = note
        self._started = time.monotonic()

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            # What a case has opened may be closed only after it.
            is_of_case = report.when in ("call", "teardown")
            case = report.nodeid.rpartition("::")[2] if is_of_case else f"{report.when} of {report.nodeid}"
            self._note(case, time.monotonic() - self._started, report.duration)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note(f"collection: {report.longreprtext[-500:]}", 0.0, 0.0)


def clean(base: str) -> Flaw:
    """Returns the flaw that changes nothing of that base."""
    return Flaw(f"none/{base}", "", "", base, ())


def run(flaw: Flaw, show: bool = False, select: str = "") -> Outcome:
    """Returns how the kit takes the flaw. Raises BadFlaw if it can't be planted, or the suite can't even begin.

    ``select`` is a part of the names of the cases to run, ``show`` prints what pytest says.
    """
    base = BASES[flaw.base]
    with tempfile.TemporaryDirectory(prefix="penstock-flaw-") as folder:
        package = base.make(Path(folder), flaw.many)
        for change in flaw.changes:
            change.apply(package)
        project, note = package.parents[1], Path(folder) / "note"
        started = time.monotonic()
        cases = f"{base.tests} and not Spark and {select or 'test'}"
        process = _FORKS.Process(target=_kit, args=(project, base.file, cases, note, show))
        process.start()
        ended = _wait(process)
        seconds = time.monotonic() - started
        noted = note.read_text().splitlines() if note.exists() else []
        if not noted:
            return Outcome(MISSED if ended else HANGS, seconds)
        outcome = Outcome(*json.loads(noted[0]))
        if outcome.case.startswith(("collection", "setup of")):
            raise BadFlaw(f"the kit can't run: {outcome.case}")
        return outcome


def _kit(project: Path, file: str, cases: str, note: Path, show: bool) -> NoReturn:
    try:
        os.setsid()
        os.chdir(project)
        if not show:
            null = os.open(project / "output", os.O_WRONLY | os.O_CREAT)
            os.dup2(null, 1)
            os.dup2(null, 2)
        temporary = project / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        os.environ.pop("PYTEST_ADDOPTS", None)
        sys.path.insert(0, str(project / "src"))
        sys.dont_write_bytecode = True

        def write(*what: Any) -> None:
            with note.open("a") as lines:
                lines.write(json.dumps(what) + "\n")

        given = ["-q", "-x", *(part for plugin in _WITHOUT for part in ("-p", f"no:{plugin}")), "-k", cases]
        code = pytest.main([*given, "-c", "pyproject.toml", f"tests/{file}"], plugins=[_Recorder(write)])
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) and not note.exists():
            write(f"collection: pytest ended with {code!r}", 0.0, 0.0)
    finally:
        os._exit(0)


def _wait(process: ForkServerProcess) -> bool:
    """Returns whether the process has ended in time; if not, it and those that it started are killed."""
    process.join(_LIMIT_S)
    if process.exitcode is not None:
        return True
    os.killpg(cast(int, process.pid), signal.SIGKILL)
    process.join()
    return False
