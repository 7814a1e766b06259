"""Runs the smoke test with each Python, library, Java and server, and writes what was found: ``scripts/compat``.

A subject that this machine lacks the interpreter or the Java for is named at the end, and keeps its earlier result.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from compat.environments import PROJECTS, Missing, build, java_home, versions
from compat.results import PAGE, Results
from compat.smoke import Result, smoke
from compat.subjects import SUBJECTS, Environment, Server, Subject
from environments import WheelHouse
from harness.driver import Driver
from matrix.systems import CassandraSystem, FileSystem, KafkaSystem, PravegaSystem, System
from penstock_cassandra.dev import cassandra_server
from penstock_kafka.dev import KafkaToolbox, kafka_server
from penstock_pravega.dev import PravegaToolbox, pravega_server
from suite.cassandra import CassandraToolbox


def main() -> int:
    """Runs the subjects that were asked for. Returns 1 if one of them does not work."""
    parser = argparse.ArgumentParser(prog="scripts/compat", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="the subjects to run, or how they begin; all of them")
    parser.add_argument("--list", action="store_true", help="show the subjects, and run nothing")
    parser.add_argument("--page", action="store_true", help="write docs/compatibility.md again, and run nothing")
    arguments = parser.parse_args()
    chosen = [one for one in SUBJECTS if not arguments.names or one.name.startswith(tuple(arguments.names))]
    if not chosen:
        parser.error(f"no subject begins with {' or '.join(arguments.names)}: see --list")
    if arguments.list:
        print("\n".join(f"{one.name:20} {one.title}" for one in chosen))
        return 0
    results = Results()
    if arguments.page:
        PAGE.write_text(results.page(PAGE.read_text("utf-8")), "utf-8")
        return 0
    failed = _run(chosen, results)
    print("\n".join(failed) or "nothing failed")
    return bool(failed)


def _run(chosen: Sequence[Subject], results: Results) -> list[str]:
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-compat-") as name:
        machine = _Machine(Path(name))
        with machine:
            for subject in chosen:
                began = time.monotonic()
                try:
                    found = machine.run(subject)
                except Missing as missing:
                    print(f"{subject.name}: not run: {missing}", flush=True)
                    continue
                results.add(subject, *found)
                PAGE.write_text(results.page(PAGE.read_text("utf-8")), "utf-8")
                problems = results.problems(subject)
                failed += problems
                print(
                    f"{subject.name}: {'; '.join(problems) or 'works'} ({time.monotonic() - began:.0f} s)", flush=True
                )
    return failed


class _Machine(ExitStack):
    """Starts what the subjects share, when it is first needed: servers, and our wheels."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder
        self._house = WheelHouse(folder / "wheels")

    def run(self, subject: Subject) -> tuple[dict[str, str], list[Result]]:
        """Returns versions and results. Raises Missing if this machine can't run the subject."""
        place = self._folder / subject.name
        place.mkdir()
        try:
            with ExitStack() as stack:
                if isinstance(subject, Environment):
                    return self._in_environment(subject, place, stack)
                return self._with_server(subject, place, stack)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _in_environment(
        self, subject: Environment, place: Path, stack: ExitStack
    ) -> tuple[dict[str, str], list[Result]]:
        variables = {"JAVA_HOME": str(java_home(subject.java))} if subject.java else {}
        python = build(subject, self._wheels, place / "environment")
        files, kafka, cassandra, pravega = self._systems
        ring = [(files, kafka), (kafka, cassandra), (cassandra, pravega), (pravega, files)]
        start = _starter(stack, place, python=str(python), **variables)
        return versions(python), list(smoke(ring, place, start))

    def _with_server(self, subject: Server, place: Path, stack: ExitStack) -> tuple[dict[str, str], list[Result]]:
        with _java(subject.java):
            system = stack.enter_context(_OPENERS[subject.system](place, subject))
        files = self._systems[0]
        found = smoke([(files, system), (system, files)], place, _starter(stack, place))
        return {}, [one for one in found if one.system == subject.system]

    @cached_property
    def _wheels(self) -> list[Path]:
        return [_for_any_python(self._house.wheel(project)) for project in PROJECTS.values()]

    @cached_property
    def _systems(self) -> list[System]:
        """The servers that the tests use, one of each."""
        files = self._folder / "files"
        files.mkdir()
        opened = [self.enter_context(opener(self._folder, None)) for opener in _OPENERS.values()]
        return [FileSystem(files), *opened]


def _starter(stack: ExitStack, place: Path, **settings: str) -> Callable[..., Driver]:
    """Returns what starts a driver in a directory of ``place``. The driver ends with the stack."""

    def start(job: str, fault: str = "", **arguments: object) -> Driver:
        folder = Path(str(arguments["spec"])).parent
        driver = Driver(folder, job, arguments, fault, **settings)
        stack.callback(driver.close)
        return driver

    return start


@contextmanager
def _java(major: str) -> Iterator[None]:
    """A server that is started meanwhile runs on that Java."""
    earlier = os.environ.get("JAVA_HOME")
    if major:
        os.environ["JAVA_HOME"] = str(java_home(major))
    try:
        yield
    finally:
        os.environ.pop("JAVA_HOME", None)
        if earlier is not None:
            os.environ["JAVA_HOME"] = earlier


@contextmanager
def _kafka(folder: Path, subject: Server | None) -> Iterator[System]:
    with kafka_server(folder / "kafka", quick_start=True, **_version(subject)) as server:
        yield KafkaSystem(KafkaToolbox(server.address))


@contextmanager
def _cassandra(folder: Path, subject: Server | None) -> Iterator[System]:
    with cassandra_server(folder / "cassandra", quick_start=True, **_version(subject)) as server:
        toolbox = CassandraToolbox(server.address)
        yield CassandraSystem(toolbox)
        toolbox.close()


@contextmanager
def _pravega(folder: Path, subject: Server | None) -> Iterator[System]:
    with pravega_server(folder / "pravega", **_version(subject)) as server:
        toolbox = PravegaToolbox(server.address, f"compat-{uuid.uuid4().hex[:8]}")
        yield PravegaSystem(toolbox)
        toolbox.close()


_OPENERS = {"kafka": _kafka, "cassandra": _cassandra, "pravega": _pravega}


def _for_any_python(wheel: Path) -> Path:
    """Returns the wheel under a name that every Python takes: what is compiled in it is loaded by ctypes."""
    command = [sys.executable, "-m", "wheel", "tags", "--python-tag", "py3", "--abi-tag", "none", str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return wheel.with_name(done.stdout.split()[-1])


def _version(subject: Server | None) -> dict[str, Any]:
    return {} if subject is None else {"version": subject.version}


if __name__ == "__main__":
    sys.exit(main())
