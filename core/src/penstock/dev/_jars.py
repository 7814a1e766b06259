"""Published jars in a folder of the user's cache, fetched once by Maven, which knows the user's mirrors and proxies."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from penstock.dev._java import java_command, maven_command
from penstock.dev._paths import cache_folder
from penstock.errors import FatalError

__all__ = ["JarSet", "fetch_jars"]

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_DOWNLOADED = re.compile(r"Downloaded from \S+: \S*/([^/\s]+\.jar) \(([^)]*?)(?: at [^)]*)?\)")
#: User and password in the address of a repository, which Maven's errors may repeat.
_CREDENTIALS = re.compile(r"//[^/\s@]+@")


@dataclass(frozen=True)
class JarSet:
    """Maven coordinates (``group:artifact:version``) that belong together.

    With ``transitive`` come the jars that they need to run, except those ``excluded`` (``group:artifact``, ``*`` for
    any). A coordinate that is named here decides the version that the others get of it.
    """

    name: str
    coordinates: tuple[str, ...]
    excluded: tuple[str, ...] = ()
    transitive: bool = True

    @property
    def folder(self) -> Path:
        """Where the jars are, or will be; another folder for every change of the set."""
        digest = hashlib.sha256(repr((self.coordinates, self.excluded, self.transitive)).encode()).hexdigest()
        return cache_folder() / "jars" / f"{self.name}-{digest[:12]}"


def fetch_jars(jars: JarSet, progress: Callable[[str], None] | None = None) -> Path:
    """Returns the folder of the jars, fetched if it is the first time. Safe to be called by several processes at once.

    Raises BadConfigurationError if Maven or Java is missing, FatalError with Maven's own words if it fails.
    """
    if jars.folder.is_dir():
        return jars.folder
    maven = maven_command()
    java_command()  # Maven's own words about a missing Java are hard to read
    if progress is not None:
        progress(f"fetching jars (of {jars.name}, by Maven, once)")
    jars.folder.parent.mkdir(parents=True, exist_ok=True)
    with _one_at_a_time(cache_folder() / "jars.lock"):
        if not jars.folder.is_dir():
            _fetch(maven, jars, progress)
    return jars.folder


@contextlib.contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """Maven's own store of jars is not made for several processes at once."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(maven: str, jars: JarSet, progress: Callable[[str], None] | None) -> None:
    with tempfile.TemporaryDirectory(prefix=f".{jars.name}-", dir=jars.folder.parent) as work:
        pom = Path(work) / "pom.xml"
        pom.write_text(_pom(jars), "utf-8")
        _run_maven([maven, "-B", "-f", str(pom), _GOAL, *_settings(Path(work) / "jars")], jars, progress)
        _publish(Path(work) / "jars", jars.folder)


def _settings(folder: Path) -> list[str]:
    return [
        "-Dstyle.color=never",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={folder}",
    ]


def _publish(fetched: Path, folder: Path) -> None:
    """All jars or none: a folder that exists is complete."""
    try:
        os.rename(fetched, folder)
    except OSError:
        if not folder.is_dir():
            raise
        shutil.rmtree(fetched)  # another process was quicker; its jars are the same


def _run_maven(command: list[str], jars: JarSet, progress: Callable[[str], None] | None) -> None:
    last_words: deque[str] = deque(maxlen=8)
    count = 0
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as maven:
        try:
            for line in maven.stdout or ():
                downloaded = _DOWNLOADED.search(line)
                if downloaded is not None and progress is not None:
                    count += 1
                    progress(f"fetching jars ({count}: {downloaded.group(1)}, {downloaded.group(2)})")
                if line.startswith("[ERROR]"):
                    last_words.append(line.removeprefix("[ERROR]").strip())
        except BaseException:
            maven.kill()
            raise
    if maven.returncode != 0:
        said = _CREDENTIALS.sub("//***@", next((words for words in last_words if words), "it gave no reason"))
        raise FatalError(
            f"Maven could not fetch {', '.join(jars.coordinates)}: {said} (behind a proxy or a mirror, Maven needs it "
            "in ~/.m2/settings.xml)"
        )


def _pom(jars: JarSet) -> str:
    # Excluding everything, rather than copying less: Maven then does not even look for what the others would need.
    excluded = jars.excluded if jars.transitive else ("*:*",)
    exclusions = "".join(f"<exclusion>{_tags(('groupId', 'artifactId'), name)}</exclusion>" for name in excluded)
    dependencies = "".join(
        f"<dependency>{_tags(('groupId', 'artifactId', 'version'), name)}"
        f"<exclusions>{exclusions}</exclusions></dependency>"
        for name in jars.coordinates
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>penstock.dev</groupId><artifactId>{escape(jars.name)}</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def _tags(names: tuple[str, ...], coordinate: str) -> str:
    parts = zip(names, coordinate.split(":"), strict=True)
    return "".join(f"<{name}>{escape(part)}</{name}>" for name, part in parts)
