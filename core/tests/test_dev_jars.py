"""Jars by Maven: a stand-in for Maven tells what it is asked and does what a test wants. Real ones: the Kafka tests."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from penstock.dev import JarSet, fetch_jars
from penstock.errors import BadConfigurationError, FatalError

JARS = JarSet("some", ("org.example:some:1.0", "org.example:other_2.13:2.0"), excluded=("org.example:huge",))

STAND_IN = """#!{python}
import pathlib, shutil, sys
given = dict(word[2:].split("=", 1) for word in sys.argv if word.startswith("-D") and "=" in word)
with open({log!r}, "a") as log:
    log.write(pathlib.Path(sys.argv[sys.argv.index("-f") + 1]).read_text() + "\\n")
if {fails}:
    print("[ERROR] Could not transfer https://me:hunter2@repo.example.org/some.jar: 503")
    sys.exit(1)
folder = pathlib.Path(given["outputDirectory"])
folder.mkdir()
print("Downloaded from central: https://repo.example.org/m/some-1.0.pom (2.1 kB at 8 kB/s)")
for name in ("some-1.0.jar", "other_2.13-2.0.jar"):
    (folder / name).touch()
    print(f"Downloaded from central: https://repo.example.org/m/{{name}} (1.2 MB at 3.4 MB/s)")
"""


@pytest.fixture
def maven(tmp_path, monkeypatch):
    """Puts a stand-in on a PATH that has Java and nothing else; returns what it was asked, a line for each call."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    programs = tmp_path / "bin"
    programs.mkdir()
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else shutil.which("java")
    (programs / "java").symlink_to(java)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    log = tmp_path / "asked"

    def install(*, fails=False):
        script = programs / "mvn"
        script.write_text(STAND_IN.format(python=sys.executable, log=str(log), fails=fails))
        script.chmod(0o755)

    def asked():
        return log.read_text().splitlines() if log.exists() else []

    install.asked = asked
    return install


def test_jars_are_fetched_once(maven, tmp_path):
    maven()
    said = []
    folder = fetch_jars(JARS, said.append)
    assert folder.is_relative_to(tmp_path / "cache" / "penstock" / "jars")
    assert sorted(path.name for path in folder.iterdir()) == ["other_2.13-2.0.jar", "some-1.0.jar"]
    assert said == [
        "fetching jars (of some, by Maven, once)",
        "fetching jars (1: some-1.0.jar, 1.2 MB)",
        "fetching jars (2: other_2.13-2.0.jar, 1.2 MB)",
    ]
    assert fetch_jars(JARS) == folder
    (asked,) = maven.asked()
    assert asked.count("<artifactId>huge</artifactId>") == 2
    assert "<groupId>org.example</groupId><artifactId>other_2.13</artifactId><version>2.0</version>" in asked


def test_another_set_is_another_folder(maven):
    maven()
    alone = JarSet(JARS.name, JARS.coordinates, JARS.excluded, transitive=False)
    assert fetch_jars(alone) != fetch_jars(JARS)
    everything = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
    assert [asked.count(everything) for asked in maven.asked()] == [2, 0]


def test_a_failure_leaves_nothing_and_says_why_without_credentials(maven):
    maven(fails=True)
    with pytest.raises(
        FatalError, match=r"org.example:some:1.0.*https://[*]{3}@repo.example.org/some.jar: 503"
    ) as error:
        fetch_jars(JARS)
    assert "hunter2" not in str(error.value)
    assert list(JARS.folder.parent.iterdir()) == []
    maven()
    assert fetch_jars(JARS).is_dir()


def test_without_maven_or_java_the_error_says_what_to_install(maven, monkeypatch, tmp_path):
    with pytest.raises(BadConfigurationError, match="no 'mvn' on PATH: install it"):
        fetch_jars(JARS)
    maven()
    (tmp_path / "bin" / "java").unlink()
    with pytest.raises(BadConfigurationError, match="no 'java' on PATH: install Java 17"):
        fetch_jars(JARS)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(BadConfigurationError, match="JAVA_HOME is /nowhere, but there is no bin/java in it"):
        fetch_jars(JARS)
    assert maven.asked() == []
