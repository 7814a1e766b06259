"""A release as its maintainers make it, and its files as users install them: into empty environments."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from docs_site.markdown import link_targets
from docs_site.pages import is_relative
from environments import run
from release.packages import packages_of

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://host.example/penstock"
VERSION = packages_of(ROOT)["penstock"].version


def git(where, *arguments):
    return subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def cloned(tmp_path_factory):
    """A repository with the sources as they are now, and the tools of a release."""
    subprocess.run([ROOT / "scripts" / "release", "--changelog", "penstock"], check=True, capture_output=True)
    target = tmp_path_factory.mktemp("release") / "penstock"
    git(ROOT, "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(target))
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
        else:
            (target / name).unlink(missing_ok=True)
    (target / ".cache").mkdir()
    (target / ".cache" / "release-venv").symlink_to(ROOT / ".cache" / "release-venv")
    git(target, "config", "user.name", "Tester")
    git(target, "config", "user.email", "tester@host.example")
    git(target, "add", "--all")
    git(target, "commit", "--quiet", "--allow-empty", "--message", "As it is now")
    return target


@pytest.fixture
def repository(cloned):
    """The same for each test: what a release adds is taken back."""
    before = git(cloned, "rev-parse", "HEAD")
    yield cloned
    git(cloned, "reset", "--quiet", "--hard", before)
    git(cloned, "clean", "--quiet", "--force", "-d")
    for tag in git(cloned, "tag", "--list").split():
        git(cloned, "tag", "--delete", tag)


def release(repository, *arguments, status=0):
    done = subprocess.run(
        [repository / "scripts" / "release", *map(str, arguments)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout if status == 0 else done.stderr


def names_in(folder):
    return {path.name for path in folder.iterdir()}


FILES = {
    f"penstock_pravega-{VERSION}-py3-none-any.whl",
    f"penstock_pravega-{VERSION}.tar.gz",
    f"penstock_pravega-{VERSION}.cdx.json",
    "SHA256SUMS",
    "provenance.intoto.json",
}


@pytest.mark.exhaustive("three quarters of a minute; tools/tests/test_release.py has the pieces")
@pytest.mark.budget(120)
def test_a_dry_run_makes_every_file_and_changes_nothing(repository, tmp_path):
    out, head = tmp_path / "out", git(repository, "rev-parse", "HEAD")
    said = release(repository, f"penstock-pravega={VERSION}", "--dry-run", "--out", out, "--repository", REPOSITORY)
    assert "dry run: neither the commit nor the tags are kept" in said
    assert names_in(out) == FILES
    assert git(repository, "rev-parse", "HEAD") == head and git(repository, "tag", "--list") == ""
    assert git(repository, "status", "--porcelain") == ""
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, check=True)
    with tarfile.open(out / f"penstock_pravega-{VERSION}.tar.gz") as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
        described = archive.extractfile(f"penstock_pravega-{VERSION}/PKG-INFO").read().decode()
        changes = archive.extractfile(f"penstock_pravega-{VERSION}/CHANGELOG.md").read().decode()
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= packed
    assert f"Changelog, {REPOSITORY}/blob/penstock-pravega-v{VERSION}/connectors/pravega/CHANGELOG.md" in described
    assert "Classifier: Topic :: " in described and "\n# penstock-pravega\n" in described
    assert changes.startswith(f"# Changelog\n\n## {VERSION} (")
    bill = json.loads((out / f"penstock_pravega-{VERSION}.cdx.json").read_text())
    assert {one["name"]: one["scope"] for one in bill["components"]}["pyarrow"] == "required"
    subjects = json.loads((out / "provenance.intoto.json").read_text())["subject"]
    assert {one["name"] for one in subjects} == FILES - {"SHA256SUMS", "provenance.intoto.json"}


@pytest.mark.exhaustive("half a minute; tools/tests/test_release.py has the pieces")
@pytest.mark.budget(120)
def test_a_release_is_a_commit_and_a_tag_for_each_package(repository, tmp_path):
    out, head = tmp_path / "out", git(repository, "rev-parse", "HEAD")
    said = release(repository, "penstock-filesystem=0.1.7", "--out", out)
    assert "git push origin" in said and "penstock-filesystem-v0.1.7" in said
    assert git(repository, "rev-parse", "HEAD~1") == head
    assert git(repository, "log", "-1", "--format=%s") == "Release penstock-filesystem 0.1.7"
    assert git(repository, "rev-parse", "penstock-filesystem-v0.1.7^{commit}") == git(repository, "rev-parse", "HEAD")
    assert packages_of(repository)["penstock-filesystem"].version == "0.1.7"
    assert not list((repository / "changelog.d").glob("penstock-filesystem.*"))
    assert list((repository / "changelog.d").glob("penstock.*"))
    api = repository / "docs" / "api"
    assert (api / "released" / "penstock-filesystem.txt").read_text() == (api / "penstock-filesystem.txt").read_text()
    changelog = repository / "connectors" / "filesystem" / "CHANGELOG.md"
    links = [link for link in link_targets(changelog.read_text()) if is_relative(link)]
    assert links and all((changelog.parent / link.partition("#")[0]).exists() for link in links)
    # Nothing new: there is nothing to release, and the version is taken.
    assert "penstock-filesystem 0.1.7 is not newer" in release(repository, "penstock-filesystem=0.1.7", status=1)
    assert "no fragment in changelog.d" in release(repository, "penstock-filesystem=0.1.8", status=1)


@pytest.mark.exhaustive("a repository of its own; tools/tests/test_release.py has the pieces")
@pytest.mark.budget(60)
def test_what_stands_in_the_way_is_said_in_a_line(repository, tmp_path):
    def refused(*arguments):
        (line,) = release(repository, *arguments, "--out", tmp_path / "out", status=1).splitlines()
        return line

    assert refused("penstock-kavka=1.0").startswith("release: 'penstock-kavka' is no package here")
    lines = release(repository, "penstock=0.2.0", "--out", tmp_path / "out", status=1).splitlines()
    assert len(lines) == 4 and all("needs penstock>=0.1,<0.2, and the core here is 0.2.0" in line for line in lines)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    assert "holds other files" in release(
        repository, "--build", "penstock-pravega", "--out", tmp_path / "full", status=1
    )
    assert (tmp_path / "full" / "mine.txt").exists()
    (repository / "new.txt").touch()
    assert "not committed: commit or stash them" in refused(f"penstock-pravega={VERSION}")
    assert not (tmp_path / "out").exists() and git(repository, "tag", "--list") == ""


# --- the files of every package, as users get them --------------------------------------------------------------------

PLATFORMS = {
    *(f"{libc}_{machine}" for libc in ("manylinux_2_17", "musllinux_1_2") for machine in ("x86_64", "aarch64")),
    "any",
}
LONG = "compiles for four platforms, and installs from the index; the dry run is the witness"


@pytest.fixture(scope="module")
def built(cloned, tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "dist"
    release(cloned, "--build", "--out", out)
    return out


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """``installed(package, platform)``: an environment that pip filled from the index, made once."""
    made = {}

    def install(package, platform):
        if (package, platform) not in made:
            home = tmp_path_factory.mktemp("installed")
            venv.create(home, with_pip=True)
            core = built / f"penstock-{VERSION}-py3-none-any.whl"
            wheel = built / f"penstock_{package}-{VERSION}-py3-none-{platform}.whl"
            pip = (home / "bin" / "python", "-m", "pip", "install", "--quiet")
            run(*pip, f"{core}[spark,cli]", wheel, PIP_NO_INDEX="", timeout=900)
            made[package, platform] = home
        return made[package, platform]

    return install


@pytest.mark.exhaustive(LONG)
@pytest.mark.budget(300)
def test_there_is_a_wheel_for_each_platform_and_it_is_the_same_again(cloned, built, tmp_path):
    for package in ("kafka", "cassandra"):
        wheels = built.glob(f"penstock_{package}-*.whl")
        assert {path.stem.removeprefix(f"penstock_{package}-{VERSION}-py3-none-") for path in wheels} == PLATFORMS
    release(cloned, "--build", "penstock-cassandra", "--out", tmp_path / "again")
    for path in (tmp_path / "again").glob("penstock_cassandra*"):
        assert path.read_bytes() == (built / path.name).read_bytes(), path.name


JOB = """
import json, sys
import penstock
from pyspark.sql import SparkSession

spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.sql.shuffle.partitions", "2").getOrCreate())
penstock.register(spark)
format_, write, read = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
rows = spark.range(1000).selectExpr(sys.argv[4].split("|")[0], sys.argv[4].split("|")[1])
rows.write.format(format_).options(**write).mode("append").save()
reader = spark.read.format(format_).options(**read)
reader = reader.schema(rows.schema) if format_ == "penstock.filesystem" else reader
print("rows", reader.load().count())
"""
NATIVE = {
    "kafka": "from penstock_kafka.client import native_problem; print(native_problem())",
    "cassandra": "from penstock_cassandra.native import native_problem; print(native_problem())",
}


def run_job(home, folder, format_, write, read, columns):
    (folder / "job.py").write_text(JOB)
    arguments = (format_, json.dumps(write), json.dumps(read), columns)
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = run(home / "bin" / "python", "job.py", *arguments, cwd=folder, PATH=path, timeout=600)
    assert "rows 1000" in done.stdout
    return done.stderr


@pytest.mark.spark
@pytest.mark.exhaustive(LONG)
@pytest.mark.budget(300)
def test_files_from_the_index(installed, tmp_path):
    given = {"format": "parquet", "path": "out"}
    columns = "id|concat('row ', id) as text"
    run_job(installed("filesystem", "any"), tmp_path, "penstock.filesystem", given, given, columns)


@pytest.mark.spark
@pytest.mark.exhaustive(LONG)
@pytest.mark.budget(300)
@pytest.mark.parametrize("platform", ["manylinux_2_17_x86_64", "any"])
def test_kafka_from_the_index(installed, kafka, tmp_path, platform):
    home, topic = installed("kafka", platform), kafka.create_topic()
    assert bool(run(home / "bin" / "python", "-c", NATIVE["kafka"]).stdout.strip()) == (platform == "any")
    write = {"kafka.bootstrap.servers": kafka.address, "topic": topic}
    read = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic}
    columns = "cast(cast(id as string) as binary) as key|cast(cast(id as string) as binary) as value"
    said = run_job(home, tmp_path, "penstock.kafka", write, read, columns)
    assert ("reads and writes through librdkafka, about half as fast" in said) == (platform == "any")


@pytest.mark.spark
@pytest.mark.exhaustive(LONG)
@pytest.mark.budget(300)
@pytest.mark.parametrize("platform", ["manylinux_2_17_x86_64", "any"])
def test_cassandra_from_the_index(installed, cassandra, tmp_path, platform):
    home, table = installed("cassandra", platform), cassandra.table("id bigint primary key, text text")
    assert bool(run(home / "bin" / "python", "-c", NATIVE["cassandra"]).stdout.strip()) == (platform == "any")
    given = {**cassandra.options, "table": table}
    said = run_job(home, tmp_path, "penstock.cassandra", given, given, "id|concat('row ', id) as text")
    assert ("takes pages apart and hashes keys in Python" in said) == (platform == "any")


@pytest.mark.exhaustive(LONG)
@pytest.mark.budget(120)
def test_pravega_from_the_index(installed):
    home = installed("pravega", "any")
    assert "exactly-once" in run(home / "bin" / "penstock", "describe", "pravega").stdout
    assert "No broken requirements" in run(home / "bin" / "python", "-m", "pip", "check").stdout


@pytest.mark.exhaustive(LONG)
@pytest.mark.budget(120)
@pytest.mark.parametrize("compiler", ["cc", "none"])
def test_a_source_distribution_is_built_with_a_compiler_and_without(built, tmp_path, compiler):
    """Without one pip installs the part in Python, and the build says so."""
    home, wheels = tmp_path / "home", tmp_path / "wheels"
    venv.create(home, with_pip=True)
    sdist = built / f"penstock_kafka-{VERSION}.tar.gz"
    pip = (home / "bin" / "python", "-m", "pip", "wheel", "--verbose", "--no-deps", "--wheel-dir", wheels, sdist)
    variables = {} if compiler == "cc" else {"CC": str(tmp_path / "no-such-compiler")}
    done = run(*pip, PIP_NO_INDEX="", timeout=600, **variables)
    said = [line for line in (done.stdout + done.stderr).splitlines() if "compiled part" in line]
    assert len(said) == (compiler == "none")
    (wheel,) = wheels.glob("*.whl")
    assert any(name.endswith("compiled.so") for name in zipfile.ZipFile(wheel).namelist()) == (compiler == "cc")
