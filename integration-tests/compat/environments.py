"""Builds the virtual environments: our wheels, and libraries in the versions that ``uv`` chooses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import requires
from pathlib import Path

from packaging.requirements import Requirement

from compat.subjects import Environment

__all__ = ["Missing", "build", "java_home", "versions"]

ROOT = Path(__file__).resolve().parents[2]
PROJECTS = {
    "penstock": ROOT / "core",
    **{f"penstock-{path.name}": path for path in sorted((ROOT / "connectors").iterdir()) if path.is_dir()},
}
#: What a job of each connector needs besides the packages' own requirements.
EXTRAS = {"spark", "cli", "avro"}
#: The libraries that the page names.
NAMED = (
    "pyspark",
    "pyarrow",
    "numpy",
    "confluent-kafka",
    "kafka-python",
    "cassandra-driver",
    "scylla-driver",
    "grpcio",
)


class Missing(Exception):
    """The machine has no such interpreter or Java: the subject can't be run here."""


def build(subject: Environment, wheels: Sequence[Path], home: Path) -> Path:
    """Makes the environment in ``home``, and returns its Python.

    Raises Missing if there is no such interpreter, RuntimeError with uv's words if no versions fit.
    """
    interpreter = _interpreter(subject.python)
    _uv("venv", "--quiet", "--python", interpreter, home)
    python = home / "bin" / "python"
    wanted, locked = home / "requirements.in", home / "requirements.txt"
    wanted.write_text("".join(f"{line}\n" for line in _requirements(subject)))
    resolution = "lowest-direct" if subject.lowest else "highest"
    _uv("pip", "compile", "--quiet", "--python", python, "--resolution", resolution, "--output-file", locked, wanted)
    _uv("pip", "install", "--quiet", "--python", python, "--requirement", locked)
    _uv("pip", "install", "--quiet", "--python", python, "--no-deps", *wheels)
    return python


def versions(python: Path) -> dict[str, str]:
    """Returns the versions of Python and of the libraries that the page names."""
    code = (
        "import json, platform, importlib.metadata as m\n"
        f"found = {{d.name.lower(): d.version for d in m.distributions() if d.name.lower() in {NAMED!r}}}\n"
        "print(json.dumps({'python': platform.python_version(), **found}))"
    )
    return dict(json.loads(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout))


def java_home(major: str) -> Path:
    """Returns the home of a Java of that major version: from ``JAVA_HOME_<major>``, or where systems install it.

    Raises Missing if there is none.
    """
    given = os.environ.get(f"JAVA_HOME_{major}")
    found = [Path(given)] if given else sorted(Path("/usr/lib/jvm").glob(f"*{major}*"))
    for home in found:
        java = home / "bin" / "java"
        if java.exists() and _java_major(java) == major:
            return home
    raise Missing(f"no Java {major}: install it, or set JAVA_HOME_{major} to its directory")


def _java_major(java: Path) -> str:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    return match.group(1) if match else ""


def _interpreter(version: str) -> str:
    places = [os.environ["PATH"], *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin"))]
    for place in os.pathsep.join(places).split(os.pathsep):
        found = shutil.which(f"python{version}", path=place)
        # A name on the path may be a stand-in that starts nothing.
        if found and subprocess.run([found, "-c", "import ssl"], capture_output=True, check=False).returncode == 0:
            return found
    raise Missing(f"no Python {version}: put a directory with 'python{version}' on PATH")


def _requirements(subject: Environment) -> Iterator[str]:
    """Yields what the packages ask for, as if each library were named by the user."""
    for project in PROJECTS:
        for text in requires(project) or ():
            requirement = Requirement(text)
            extra = re.search(r'extra == "(.+?)"', text)
            if requirement.name not in PROJECTS and (extra is None or extra.group(1) in EXTRAS):
                yield subject.instead.get(requirement.name, text.split(";")[0].strip())
    yield from subject.pins


def _uv(*arguments: object) -> None:
    uv = Path(sys.executable).with_name("uv")
    variables = {**os.environ, "UV_PYTHON_DOWNLOADS": "never"}
    command = [str(uv), *map(str, arguments)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(map(str, arguments[:2]))}: {done.stderr.strip()[-2000:]}")
