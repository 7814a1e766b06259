"""What ``penstock new`` writes passes the conformance kit as it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import layout
from penstock.cli import app
from penstock.cli._new import new_connector
from penstock.cli._new_pipeline import new_pipeline
from penstock.errors import BadConfigurationError
from penstock.source import SimpleSource
from penstock.testing import SinkSuite, SourceSuite

pytest_plugins = ["pytester"]

PROVEN = {
    "sink": ["exactly-once"],
    "database": ["exactly-once"],
    "source": ["stream-read"],
    "connector": ["exactly-once", "stream-read"],
}


_FOLLOWED = pytest.mark.exhaustive(
    "integration-tests/test_author_pages.py::test_a_page_can_be_followed makes one and runs its tests"
)

# What runs on Spark is run where the pages for authors are followed.
PYTEST = ("-q", "-p", "no:cacheprovider", "-m", "not spark")


@pytest.fixture
def new_project(tmp_path):
    def make(kind):
        made = CliRunner().invoke(app, ["new", kind, "my-notes", "--directory", str(tmp_path)])
        assert made.exit_code == 0 and "pip install -e '.[test]' && pytest" in made.output, made.output
        return tmp_path / "penstock-my-notes"

    return make


@pytest.mark.parametrize(
    "kind",
    [
        "connector",
        pytest.param("database", marks=pytest.mark.exhaustive("half a minute; the other kinds are the witnesses")),
        pytest.param("sink", marks=_FOLLOWED),
        pytest.param("source", marks=_FOLLOWED),
    ],
)
def test_a_new_package_passes_the_kit(new_project, pytester, monkeypatch, kind):
    for suite in (SinkSuite, SourceSuite):
        monkeypatch.setattr(suite, "many", 10_000)
    monkeypatch.setattr(SinkSuite, "kill_seconds", 3.0)
    monkeypatch.setattr(SimpleSource, "discovery_interval_ms", 10)
    project = new_project(kind)
    pytester.syspathinsert(project / "src")
    done = pytester.runpytest_inprocess(*PYTEST, str(project))
    assert done.ret == 0
    done.stdout.fnmatch_lines([f"*{capability}: declared and proven*" for capability in PROVEN[kind]])


@pytest.mark.exhaustive(
    "the kit's million rows and all of its kills, in a process of its own; test_a_new_package_passes_the_kit has fewer"
)
@pytest.mark.parametrize("kind", PROVEN)
def test_a_new_package_passes_the_kit_as_an_author_runs_it(new_project, kind):
    project = new_project(kind)
    command = [sys.executable, "-m", "pytest", *PYTEST, str(project)]
    environment = {**os.environ, "PYTHONPATH": str(project / "src")}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
    for capability in PROVEN[kind]:
        assert f"{capability}: declared and proven" in done.stdout


@pytest.mark.parametrize("kind", PROVEN)
def test_what_is_written_is_clean(tmp_path, kind):
    new_connector(kind, "notes", tmp_path)
    project = tmp_path / "penstock-notes"
    sources = "".join(path.read_text() for path in project.rglob("*.py"))
    assert not re.search("Minimal|Lines[A-Z]|Files[A-Z]|Bank[A-Z]|_samples", sources) and "$" not in sources
    ruff = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E,F,W", "--line-length", "120"]
    assert subprocess.run([*ruff, str(project)], capture_output=True, check=False).returncode == 0
    assert 'notes = "penstock_notes:Notes' in (project / "pyproject.toml").read_text()


@pytest.mark.parametrize("kind", PROVEN)
def test_what_is_written_follows_the_plan(tmp_path, kind):
    new_connector(kind, "notes", tmp_path)
    assert layout.problems(tmp_path / "penstock-notes" / "src" / "penstock_notes") == []


@pytest.mark.parametrize("kind", [*PROVEN, "pipeline"])
def test_a_package_is_written_where_pytest_is_not_installed(tmp_path, kind):
    without = "import sys; sys.modules['pytest'] = sys.modules['_pytest'] = None; from penstock.cli import main; main()"
    command = [sys.executable, "-c", without, "new", kind, "notes", "--directory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0 and list(tmp_path.iterdir()), done.stderr


@pytest.mark.parametrize("name", ["My Notes", "9", "", "a--b", "../x"])
def test_a_bad_name_is_refused(tmp_path, name):
    with pytest.raises(BadConfigurationError, match="not a name for a connector"):
        new_connector("sink", name, tmp_path)
    assert list(Path(tmp_path).iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("sink", "kafka", "'penstock.kafka' is installed.*choose another name"),
        ("sink", "penstock-foo", "'penstock-' is put before the name: write 'foo'"),
        ("connector", "simple", "would name a class SimpleSource"),
    ],
)
def test_a_name_that_would_clash_is_refused(tmp_path, kind, name, message):
    with pytest.raises(BadConfigurationError, match=message):
        new_connector(kind, name, tmp_path)
    assert list(Path(tmp_path).iterdir()) == []


@pytest.mark.parametrize("kind", PROVEN)
@pytest.mark.parametrize("name", ["class", "none", "sink", "row-2"])
def test_a_keyword_is_a_name_since_a_prefix_is_before_it(tmp_path, kind, name):
    new_connector(kind, name, tmp_path)
    for path in tmp_path.rglob("*.py"):
        compile(path.read_text(), path, "exec")


def test_what_is_there_is_left_alone(tmp_path):
    (tmp_path / "penstock-notes").mkdir()
    with pytest.raises(BadConfigurationError, match="is there already"):
        new_connector("sink", "notes", tmp_path)


def test_a_new_pipeline_has_no_mistakes_and_names_that_it_refuses(tmp_path, monkeypatch):
    made = CliRunner().invoke(app, ["new", "pipeline", "orders", "--directory", str(tmp_path)])
    assert made.exit_code == 0 and "penstock run pipeline.yaml" in made.output
    monkeypatch.chdir(tmp_path / "orders")
    checked = CliRunner().invoke(app, ["run", "--check", "pipeline.yaml"])
    assert checked.exit_code == 0, checked.output
    for name, wrong in (("orders", "is there already"), ("../up", "is not a name"), ("", "is not a name")):
        with pytest.raises(BadConfigurationError, match=wrong):
            new_pipeline(name, tmp_path)
