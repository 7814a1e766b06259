"""The packages of the workspace, as their ``pyproject.toml`` declares them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

__all__ = ["CORE", "Package", "ReleaseError", "misfits", "packages_of", "set_version", "wanted_versions"]

CORE = "penstock"
_NAME = re.compile(r'^name = "([^"]+)"$', re.MULTILINE)
_VERSION = re.compile(r'^version = "([^"]+)"$', re.MULTILINE)
_CODE_VERSION = re.compile(r'^__version__ = "[^"]+"$', re.MULTILINE)
_NEEDS_CORE = re.compile(r'"(penstock[<>=!~][^"]*)"')


class ReleaseError(Exception):
    """Something stands in the way of a release; the message says what, and what to do."""


@dataclass(frozen=True)
class Package:
    """A package in ``directory``; ``needs_core`` is its range of cores, empty for the core itself."""

    name: str
    version: str
    directory: Path
    needs_core: str

    @property
    def is_compiled(self) -> bool:
        """Whether a part of it is written in C."""
        return (self.directory / "build.py").exists()

    @property
    def tag(self) -> str:
        """The name of its tag in Git."""
        return f"{self.name}-v{self.version}"


def packages_of(root: Path) -> dict[str, Package]:
    """Returns the packages of the workspace by name, the core first."""
    found = {}
    for directory in (root / "core", *sorted((root / "connectors").iterdir())):
        declared = directory / "pyproject.toml"
        if declared.exists():
            text = declared.read_text("utf-8")
            name, version = _one(_NAME, text, declared), _one(_VERSION, text, declared)
            needs = _NEEDS_CORE.search(text)
            found[name] = Package(name, version, directory, needs[1] if needs and name != CORE else "")
    return found


def set_version(package: Package, version: str) -> None:
    """Writes the version where it stands: in ``pyproject.toml``, and for the core in its code as well."""
    declared = package.directory / "pyproject.toml"
    declared.write_text(_VERSION.sub(f'version = "{version}"', declared.read_text("utf-8"), count=1), "utf-8")
    for code in package.directory.glob("src/*/_version.py"):
        code.write_text(_CODE_VERSION.sub(f'__version__ = "{version}"', code.read_text("utf-8")), "utf-8")


def wanted_versions(texts: list[str], packages: Mapping[str, Package], tags: set[str]) -> dict[str, str]:
    """Returns the versions by package of texts such as ``penstock-kafka=0.2.0``.

    Raises ReleaseError for a text of another form, an unknown package, and a version that is not newer than the
    declared one, unless the declared one was never released: that is, has no tag.
    """
    wanted: dict[str, str] = {}
    for text in texts:
        name, _, version = text.partition("=")
        if name not in packages:
            raise ReleaseError(f"'{name}' is no package here: write one of {', '.join(packages)}, with =VERSION")
        try:
            asked = Version(version)
        except InvalidVersion:
            raise ReleaseError(f"'{text}' has no version: write {name}=1.2.3") from None
        if str(asked) != version:
            raise ReleaseError(f"write the version {version} as {asked}")
        if name in wanted:
            raise ReleaseError(f"{name} is named twice")
        declared = packages[name]
        if asked < Version(declared.version) or (asked == Version(declared.version) and declared.tag in tags):
            raise ReleaseError(f"{name} {version} is not newer than {declared.version}: take a higher version")
        wanted[name] = version
    return wanted


def misfits(packages: Mapping[str, Package]) -> list[str]:
    """Returns a line for each package whose range of cores leaves out the core of the workspace."""
    core = packages[CORE].version
    return [
        f"{one.name} {one.version} needs {one.needs_core}, and the core here is {core}: change the range in "
        f"{one.directory.name}/pyproject.toml, and release {one.name} too"
        for one in packages.values()
        if one.needs_core and not Requirement(one.needs_core).specifier.contains(core, prereleases=True)
    ]


def _one(pattern: re.Pattern[str], text: str, path: Path) -> str:
    found = pattern.findall(text)
    if len(found) != 1:
        raise ReleaseError(f"{path} must have one line like {pattern.pattern}")
    return str(found[0])
