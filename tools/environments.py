"""Wheels as they would be published, and environments with what they ask for and nothing else. For tests.

Nothing is fetched: what the wheels depend on, by their own metadata, is linked from the environment that runs the
tests, in its (locked) versions. So a dependency that a package does not declare is missing, and PySpark is not
installed anew.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

__all__ = ["Environment", "WheelHouse", "run"]

#: Would lead back to the environment that runs the tests, or to the network.
_OURS = (
    "PYTHONPATH",
    "PYTHONHOME",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
    "VIRTUAL_ENV",
    "SPARK_HOME",
    "SUITE_COVER",
)
_OFFLINE = {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "SPARK_LOCAL_IP": "127.0.0.1"}


def run(
    *command: object, cwd: Path | None = None, status: int = 0, timeout: float = 300, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Runs ``command`` as a user would, away from here. Fails, with what it printed, if it does not end as expected."""
    environment = {name: text for name, text in os.environ.items() if name not in _OURS}
    environment |= {**_OFFLINE, **variables}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


class WheelHouse:
    """Wheels in ``folder``, each built once; from copies, so that nothing is left in the sources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._built: dict[Path, Path] = {}

    def wheel(self, project: Path) -> Path:
        """The wheel of the project in that directory."""
        if project not in self._built:
            place = self.folder / f"{len(self._built)}"
            copy = shutil.copytree(
                project, place / project.name, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.so")
            )
            pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
            run(*pip, "--wheel-dir", place, copy)
            (self._built[project],) = place.glob("*.whl")
        return self._built[project]


class Environment:
    """A virtual environment in ``home`` with ``wheels``, what they need, and the distributions called ``besides``.

    An entry of ``besides`` may be a requirement with extras (``penstock[testing]``): what they need is there then.
    """

    def __init__(self, home: Path, wheels: Sequence[Path], besides: Sequence[str] = ()) -> None:
        self.home = home
        venv.create(home, with_pip=False, symlinks=True)
        self.bin = home / "bin"
        self.python = self.bin / "python"
        (self.packages,) = home.glob("lib/python*/site-packages")
        self.install(*wheels)
        self._there: set[str] = set()
        for requirement in besides:
            self._link(Requirement(requirement))
        for wheel in wheels:
            self._link(Requirement(wheel.name.split("-")[0]))

    def install(self, *wheels: Path) -> None:
        """Only the wheels."""
        if wheels:
            self._pip("install", "--quiet", "--no-deps", *wheels)

    def uninstall(self, name: str) -> None:
        """Only that."""
        self._pip("uninstall", "--quiet", "--yes", name)

    def check(self) -> str:
        """What pip says of missing and unfitting requirements. Fails if there are any."""
        return self._pip("check")

    def run(
        self, *command: object, cwd: Path | None = None, status: int = 0, timeout: float = 300, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs ``command`` with the environment activated."""
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        variables = {"PATH": path, "VIRTUAL_ENV": str(self.home), **variables}
        if (spark := self.packages / "pyspark").is_symlink():
            # By its own path: by that of the link, the JVM would take the archive of Spark's classes for another's.
            variables["SPARK_HOME"] = str(spark.resolve())
        return run(*command, cwd=cwd, status=status, timeout=timeout, **variables)

    def penstock(self, *arguments: str, status: int = 0) -> str:
        """What the command prints."""
        return self.run(self.bin / "penstock", *arguments, status=status).stdout

    def _pip(self, *arguments: object) -> str:
        return run(sys.executable, "-m", "pip", "--python", self.python, *arguments).stdout

    def _link(self, requirement: Requirement) -> None:
        name = canonicalize_name(requirement.name)
        found = self._find(name)
        assert requirement.specifier.contains(found.version, prereleases=True), f"{requirement}: {found.version}"
        for needed in _needs(found, requirement.extras):
            if str(needed) not in self._there:
                self._there.add(str(needed))
                self._link(needed)

    def _find(self, name: str) -> Distribution:
        """A wheel's or one that was linked; else it is linked."""
        for installed in distributions(path=[str(self.packages)]):
            if canonicalize_name(installed.name) == name:
                return installed
        found = distribution(name)
        assert not name.startswith("penstock"), f"{name} is asked for, but is none of the wheels"
        for top in sorted({path.parts[0] for path in found.files or ()} - {"..", "__pycache__"}):
            target = self.packages / top
            if not target.exists():
                target.symlink_to(str(found.locate_file(top)))
        for script in found.entry_points.select(group="console_scripts"):
            path = self.bin / script.name
            path.write_text(
                f"#!{self.python}\nimport sys\nfrom {script.module} import {script.attr}\nsys.exit({script.attr}())\n"
            )
            path.chmod(0o755)
        return found


def _needs(found: Distribution, extras: set[str]) -> Iterator[Requirement]:
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield requirement
