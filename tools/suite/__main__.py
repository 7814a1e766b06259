"""Runs pytest as ``scripts/test`` says: what it needs in the environment, and in how many processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from spark_classes import archive_options
from suite import cover, jars, kafka_classes, scratch

ROOT = Path(__file__).resolve().parents[2]
#: Where one process is wanted: to look into a test, or because there are few of them.
_ONE_PROCESS = ("-n", "--numprocesses", "--pdb", "--trace", "-s", "--capture=no", "--tiers", "--collect-only", "--co")


def environment() -> dict[str, str]:
    """For pytest and what tests start: Spark on the loopback address, in the Python that runs us."""
    variables = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    variables["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Spark starts hundreds of times and never runs for long: one quick compiler, and an archive of its classes, leave
    # a third of what its JVM takes.
    options = os.environ.get("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    variables["SPARK_SUBMIT_OPTS"] = " ".join([options, *archive_options(options)])
    variables["PENSTOCK_DEV_JAVA_OPTIONS"] = os.environ.get("PENSTOCK_DEV_JAVA_OPTIONS", kafka_classes.java_options())
    # PYTHONPATH is this command's: pytest has its own, and what tests start must do without.
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables


def processes(arguments: Sequence[str]) -> list[str]:
    """Three processes, unless the arguments name files, or ask for something that only one can do.

    Tests wait for servers, and for outages to end, a third of the time: three keep two cores busy. More would need more
    memory, since each has a JVM and servers of its own.
    """
    named = [argument for argument in arguments if ".py" in argument]
    if named or any(argument.partition("=")[0] in _ONE_PROCESS for argument in arguments):
        return []
    return ["-n", "3", "--dist", "loadscope"]


def joined(arguments: Sequence[str]) -> list[str]:
    """``--where FILE`` as one word: pytest takes a file that exists for a test, before it knows the option."""
    words: list[str] = []
    for argument in arguments:
        if words and words[-1] == "--where":
            words[-1] = f"--where={argument}"
        else:
            words.append(argument)
    return words


def main(arguments: Sequence[str]) -> int:
    """Runs pytest, or with ``--prepare`` only makes what tests start from. Returns the exit status."""
    os.chdir(ROOT)
    if "--prepare" in arguments:
        os.environ.update(environment())
        jars.fetch(jars.EVERY, lambda line: print(f"test: {line}", file=sys.stderr))
        return 0
    given = [argument for argument in joined(arguments) if argument != "--cover"]
    command = [sys.executable, "-m", "pytest", *processes(given), *given]
    if "--cover" in arguments:
        status = subprocess.run(command, env=environment() | cover.prepare(), check=False).returncode
        print(cover.report())
        return status
    if os.environ.get("PENSTOCK_TEST_WITH") == "container":
        return _with_containers(command)
    if "--all" not in arguments:
        os.environ.update(scratch.in_memory())  # pytest replaces this process, and removes the directory at its end
    os.execve(sys.executable, command, environment())


def _with_containers(command: Sequence[str]) -> int:
    """Runs it where a container engine answers: the one of this machine, or podman for as long as it takes."""
    from containers import NoEngine, build_images, container_engine

    try:
        with container_engine() as variables:
            if variables:
                build_images(variables, lambda text: print(f"containers: {text}", flush=True))
            return subprocess.run(command, env=environment() | variables, check=False).returncode
    except NoEngine as problem:
        print(f"scripts/test: {problem}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
