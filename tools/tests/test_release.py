"""What a release does before it builds: versions, ranges, changelogs, and what it says of its files."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from pathlib import Path

import pytest

from release.changelog import KINDS, add_section, fragments_of, section
from release.packages import CORE, ReleaseError, misfits, packages_of, set_version, wanted_versions
from release.provenance import write_checksums, write_statement

ROOT = Path(__file__).parents[2]


def declare(directory, name, version, dependencies=()):
    directory.mkdir(parents=True)
    needed = ", ".join(f'"{one}"' for one in dependencies)
    (directory / "pyproject.toml").write_text(
        f'[project]\nname = "{name}"\nversion = "{version}"\ndependencies = [{needed}]\n'
    )


@pytest.fixture
def workspace(tmp_path):
    declare(tmp_path / "core", "penstock", "0.1.0")
    code = tmp_path / "core" / "src" / "penstock" / "_version.py"
    code.parent.mkdir(parents=True)
    code.write_text('"""The version."""\n\n__version__ = "0.1.0"\n')
    declare(tmp_path / "connectors" / "a", "penstock-a", "0.1.0", ["penstock>=0.1,<0.2", "pyarrow>=17"])
    declare(tmp_path / "connectors" / "b", "penstock-b", "1.0", ["penstock[s3]>=0.1,<0.2", "penstock>=0.1,<2"])
    return tmp_path


def test_the_packages_here_fit_together():
    packages = packages_of(ROOT)
    assert next(iter(packages)) == CORE and len(packages) == 5 and misfits(packages) == []
    assert {name for name, one in packages.items() if one.is_compiled} == {"penstock-kafka", "penstock-cassandra"}
    assert all(one.needs_core for name, one in packages.items() if name != CORE)


def test_a_version_is_written_where_it_stands(workspace):
    for name, version in {"penstock": "0.2.0", "penstock-a": "0.1.1"}.items():
        set_version(packages_of(workspace)[name], version)
    assert [one.version for one in packages_of(workspace).values()] == ["0.2.0", "0.1.1", "1.0"]
    assert '__version__ = "0.2.0"' in (workspace / "core" / "src" / "penstock" / "_version.py").read_text()


def test_the_version_of_the_core_stands_in_two_places_that_agree():
    code = (ROOT / "core" / "src" / "penstock" / "_version.py").read_text()
    assert f'__version__ = "{packages_of(ROOT)[CORE].version}"' in code


def test_a_core_that_a_range_leaves_out_is_refused(workspace):
    set_version(packages_of(workspace)[CORE], "0.2.0")
    (line,) = misfits(packages_of(workspace))
    assert line.startswith("penstock-a 0.1.0 needs penstock>=0.1,<0.2, and the core here is 0.2.0: change the range")


@pytest.mark.parametrize(
    ("asked", "tags", "problem"),
    [
        ("penstock-a", (), "has no version: write penstock-a=1.2.3"),
        ("penstock-a=new", (), "has no version"),
        ("penstock-c=1.0", (), "'penstock-c' is no package here: write one of penstock, penstock-a, penstock-b"),
        ("penstock-a=0.0.9", (), "not newer than 0.1.0"),
        ("penstock-a=0.1.0", ("penstock-a-v0.1.0",), "not newer than 0.1.0"),
        ("penstock-a=v0.2", (), "write the version v0.2 as 0.2"),
        ("penstock-a=0.2 penstock-a=0.3", (), "named twice"),
    ],
)
def test_a_version_that_can_not_be_is_refused(workspace, asked, tags, problem):
    with pytest.raises(ReleaseError, match=re.escape(problem)):
        wanted_versions(asked.split(), packages_of(workspace), set(tags))


def test_a_version_that_was_never_released_may_be(workspace):
    wanted = wanted_versions(["penstock-a=0.1.0", "penstock-b=1.1"], packages_of(workspace), {"penstock-b-v1.0"})
    assert wanted == {"penstock-a": "0.1.0", "penstock-b": "1.1"}


def test_fragments_become_a_section_by_kind(tmp_path):
    folder = tmp_path / "changelog.d"
    folder.mkdir()
    (folder / "README.md").write_text("about\n")
    (folder / "penstock-a.one.fixed.md").write_text("It works.\nAlways.\n")
    (folder / "penstock-a.two.added.md").write_text(
        "There is [more](../docs/a.md#b), and [more](https://host.example/x).\n"
    )
    (folder / "penstock-a.three.added.md").write_text("There is `x`.\n")
    (folder / "penstock.four.added.md").write_text("Not of a.\n")
    home = tmp_path / "connectors" / "a"
    text = section(fragments_of(folder, "penstock-a"), "0.2.0", "2026-01-02", home)
    assert text == (
        "## 0.2.0 (2026-01-02)\n\n### Added\n\n- There is `x`.\n"
        "- There is [more](../../docs/a.md#b), and [more](https://host.example/x).\n\n"
        "### Fixed\n\n- It works.\n  Always.\n"
    )
    changelog = tmp_path / "CHANGELOG.md"
    add_section(changelog, text)
    add_section(changelog, "## 0.3.0 (2026-02-03)\n\n### Fixed\n\n- More.\n")
    read = changelog.read_text()
    assert read.startswith("# Changelog\n\n## 0.3.0") and read.endswith("Always.\n")
    assert read.index("0.3.0") < read.index("## 0.2.0") and "\n\n\n" not in read


def test_a_fragment_of_an_unknown_kind_stops_a_release(tmp_path):
    (tmp_path / "penstock-a.one.improved.md").write_text("x\n")
    with pytest.raises(ReleaseError, match=r"must be called penstock-a\.<word>\.<added\|changed\|removed\|fixed>\.md"):
        fragments_of(tmp_path, "penstock-a")
    (tmp_path / "CHANGELOG.md").write_text("something else\n")
    with pytest.raises(ReleaseError, match="must begin with the line # Changelog"):
        add_section(tmp_path / "CHANGELOG.md", "## 1")


def test_every_fragment_here_is_of_a_package_and_a_kind():
    packages = packages_of(ROOT)
    taken = {path for name in packages for path in fragments_of(ROOT / "changelog.d", name)}
    assert {path for path in (ROOT / "changelog.d").glob("*.md") if path.name != "README.md"} == taken
    assert taken or all((one.directory / "CHANGELOG.md").exists() for one in packages.values())
    assert len(KINDS) == 4


def test_checksums_and_the_statement_are_about_the_files(tmp_path):
    built, out = tmp_path / "penstock_a-1.tar.gz", tmp_path / "out"
    built.write_bytes(b"content")
    out.mkdir()
    digest = hashlib.sha256(b"content").hexdigest()
    assert write_checksums([built], out).read_text() == f"{digest}  penstock_a-1.tar.gz\n"
    subprocess.run(["sha256sum", "--check", "--quiet", str(out / "SHA256SUMS")], cwd=tmp_path, check=True)
    versions = {"penstock-a": "1"}
    written = write_statement(
        [built], out, commit="c0ffee", repository="https://host.example/p", versions=versions, tools=["ziglang==0.17.1"]
    )
    statement = json.loads(written.read_text())
    assert statement["subject"] == [{"name": "penstock_a-1.tar.gz", "digest": {"sha256": digest}}]
    built_by = statement["predicate"]["buildDefinition"]
    assert built_by["externalParameters"] == {"packages": versions}
    assert built_by["resolvedDependencies"] == [
        {"uri": "git+https://host.example/p", "digest": {"gitCommit": "c0ffee"}},
        {"uri": "pkg:pypi/ziglang@0.17.1"},
    ]
