"""Finding the programs that a local server is started with."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from penstock.errors import BadConfigurationError

__all__ = ["java_command", "maven_command"]


_RELEASE = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)


def java_command(at_least: int = 0, at_most: int | None = None) -> str:
    """Returns the path of ``java``, by JAVA_HOME or PATH, of a version from ``at_least`` to ``at_most``.

    Raises BadConfigurationError if there is none. A Java that does not say its version, in the file ``release``, is
    accepted.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, but there is no bin/java in it" if home else "there is no 'java' on PATH"
        raise BadConfigurationError(
            f"a local server needs Java, and {where}: install Java 17 or newer (such as openjdk-17-jre-headless), or "
            "correct JAVA_HOME"
        )
    version = _version(java)
    if version is not None and (version < at_least or (at_most is not None and version > at_most)):
        wanted = f"{at_least} or newer" if at_most is None else f"{at_least}"
        if at_most is not None and at_most != at_least:
            wanted += f" to {at_most}"
        raise BadConfigurationError(
            f"this server needs Java {wanted}, and {java} is Java {version}: install one that fits, and set JAVA_HOME "
            "to it"
        )
    return java


def _version(java: str) -> int | None:
    try:
        release = (Path(java).resolve().parent.parent / "release").read_text("utf-8", "replace")
    except OSError:
        return None
    found = _RELEASE.search(release)
    return None if found is None else int(found[1])


def maven_command() -> str:
    """Returns the path of ``mvn``. Raises BadConfigurationError."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BadConfigurationError(
            "fetching the jars needs Maven, and there is no 'mvn' on PATH: install it (apt-get install maven, "
            "brew install maven); it is needed once"
        )
    return maven
