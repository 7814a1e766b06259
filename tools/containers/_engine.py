"""Podman, as a service that speaks Docker's API: what testcontainers asks for."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["NoEngine", "container_engine"]

_PROGRAMS = ("podman", "runc", "debootstrap")
_SECONDS = 30.0
#: Nothing here needs systemd, and limits stay as they are: a container may not raise them on a machine that is one.
_CONFIGURATION = """\
[containers]
default_ulimits = []
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
[engine.runtimes]
crun = ["{runtime}"]
"""


class NoEngine(Exception):
    """No container engine answers, and none can be started: the message says what to install."""


@contextmanager
def container_engine() -> Iterator[dict[str, str]]:
    """Yields the environment variables with which testcontainers finds an engine; it ends with the block.

    They are empty where an engine answers anyway. Raises NoEngine.
    """
    if _answers():
        yield {}
        return
    missing = [name for name in _PROGRAMS if shutil.which(name) is None]
    if missing:
        raise NoEngine(f"no container engine answers: start Docker, or install {' and '.join(missing)} (and be root)")
    with tempfile.TemporaryDirectory(prefix="penstock-podman-") as name:
        folder = Path(name)
        variables = _configure(folder)
        with (folder / "log").open("wb") as log:
            command = ["podman", "system", "service", "--time=0", variables["DOCKER_HOST"]]
            service = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **variables})
        try:
            _await(service, folder)
            yield variables
        finally:
            service.terminate()
            service.wait(_SECONDS)


def _answers() -> bool:
    from docker.errors import DockerException
    from testcontainers.core.docker_client import DockerClient

    try:
        DockerClient(timeout=2).client.ping()
    except DockerException:
        return False
    return True


def _configure(folder: Path) -> dict[str, str]:
    # Podman looks at the name of the program to know what it may ask of it.
    runtime = folder / "crun"
    shutil.copy(Path(__file__).with_name("runtime.py"), runtime)
    runtime.chmod(0o755)
    configuration = folder / "containers.conf"
    configuration.write_text(_CONFIGURATION.format(runtime=runtime), "utf-8")
    return {
        "CONTAINERS_CONF": str(configuration),
        "DOCKER_HOST": f"unix://{folder}/docker.sock",
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        # By the gateway of a network, which it would try otherwise, podman's answer lacks what it reads.
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
        "TC_CONNECTION_MODE": "docker_host",
    }


def _await(service: subprocess.Popen[bytes], folder: Path) -> None:
    end = time.monotonic() + _SECONDS
    while not (folder / "docker.sock").exists():
        if service.poll() is not None or time.monotonic() > end:
            raise NoEngine(f"podman does not start: {(folder / 'log').read_text(errors='replace')[-500:]}")
        time.sleep(0.05)
