"""Starts processes, each in a process group of its own, and finds the processes below them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyspark

from harness.faults import sitecustomize

__all__ = [
    "CONNECT_CLIENT",
    "SPARK_HOME",
    "Process",
    "StartedProcess",
    "below",
    "environment",
    "kill",
    "python_below",
    "running",
]

SPARK_HOME = Path(pyspark.__file__).parent
#: The packages that a client of Spark Connect needs beside PySpark. ``scripts/setup`` installs them.
CONNECT_CLIENT = Path(sys.prefix) / "connect"
#: The packages of this directory, and the module that Python imports at start to apply fault points.
_PYTHON_PATH = (Path(__file__).resolve().parents[1], Path(sitecustomize.__file__).parent)


def environment(*python_path: Path, python: str = sys.executable, **variables: str) -> dict[str, str]:
    """Returns the variables for Spark and the Python processes it starts: ``python``, 127.0.0.1, our packages."""
    ours = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(map(str, (*python_path, *_PYTHON_PATH))),
    }
    # Measuring coverage would double the time that each of these processes takes.
    inherited = {name: value for name, value in os.environ.items() if name != "SUITE_COVER"}
    return {**inherited, **ours, **variables}


class StartedProcess:
    """A process that leads a process group. The group prints to the file ``log``."""

    def __init__(self, command: Sequence[object], log: Path, variables: dict[str, str], folder: Path) -> None:
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                [str(part) for part in command],
                stdout=output,
                stderr=output,
                env=variables,
                cwd=folder,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The id of the process and of its group."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        """Sends SIGKILL to the group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(30)

    def output(self) -> str:
        """Returns everything that the group has printed."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 40) -> str:
        """Returns the last lines of the output."""
        return "\n".join(self.output().splitlines()[-lines:])


@dataclass(frozen=True)
class Process:
    """A running process. ``command`` is its command line, joined by spaces."""

    pid: int
    parent: int
    group: int
    command: str


def running() -> Iterator[Process]:
    """Yields the processes of this machine that we may inspect."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(folder.name)
            _, parent, group, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            yield Process(pid, int(parent), int(group), command)


def below(pid: int) -> list[Process]:
    """Returns the descendants of ``pid``, ordered by id."""
    found = {one.pid: one for one in running()}

    def is_below(number: int) -> bool:
        while number in found and number != pid:
            number = found[number].parent
        return number == pid

    return [found[number] for number in sorted(found) if number != pid and is_below(number)]


def python_below(pid: int) -> list[int]:
    """Returns the ids of the Python processes among the descendants of ``pid``."""
    return [one.pid for one in below(pid) if "python" in one.command.split(" ")[0]]


def kill(pid: int) -> None:
    """Sends SIGKILL, unless the process has ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
