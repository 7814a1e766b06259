"""Finding the programs that a local server is started with."""

from __future__ import annotations

import os
import shutil

from penstock.errors import BadConfigurationError

__all__ = ["java_command", "maven_command"]


def java_command() -> str:
    """Returns the path of ``java``, by JAVA_HOME or PATH. Raises BadConfigurationError."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(os.path.join(home, "bin", "java") if home else "java")
    if java is None:
        where = f"JAVA_HOME is {home}, but there is no bin/java in it" if home else "there is no 'java' on PATH"
        raise BadConfigurationError(
            f"a local server needs Java, and {where}: install Java 17 or newer (such as openjdk-17-jre-headless), or "
            "correct JAVA_HOME"
        )
    return java


def maven_command() -> str:
    """Returns the path of ``mvn``. Raises BadConfigurationError."""
    maven = shutil.which("mvn")
    if maven is None:
        raise BadConfigurationError(
            "fetching the jars needs Maven, and there is no 'mvn' on PATH: install it (apt-get install maven, "
            "brew install maven); it is needed once"
        )
    return maven
