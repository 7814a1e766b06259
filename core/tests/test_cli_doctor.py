"""What the doctor finds in environments that are wrong on purpose."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli import _doctor as doctor
from penstock.cli import app
from penstock.cli._doctor import Finding, examine


def found(what: str, environment: dict[str, str]) -> Finding:
    (finding,) = [finding for finding in examine(environment) if finding.what == what]
    return finding


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("says", "verdict", "text"),
    [
        ('openjdk version "17.0.15" 2025-04-15', "ok", "17.0.15"),
        ('openjdk version "21" 2023-09-19', "ok", "21"),
        ('java version "1.8.0_412"', "bad", "is version 8, Spark needs 17 or newer"),
        ("nonsense", "bad", "says nothing that names a version"),
    ],
)
def test_java_versions(tmp_path, says, verdict, text):
    program(tmp_path / "jdk/bin/java", f"echo '{says}' >&2")
    finding = found("Java", {"JAVA_HOME": f"{tmp_path}/jdk", "PATH": os.environ["PATH"]})
    assert finding.verdict == verdict
    assert text in finding.text
    assert bool(finding.remedy) == (verdict != "ok")


def test_java_that_is_not_there(tmp_path):
    finding = found("Java", {"PATH": str(tmp_path)})
    assert (finding.verdict, finding.text) == ("bad", "there is no 'java' on PATH and JAVA_HOME is not set")
    finding = found("Java", {"JAVA_HOME": str(tmp_path)})
    assert finding.verdict == "bad"
    assert finding.remedy == "correct or unset JAVA_HOME"


OLD_JAVA = """echo 'openjdk version "11.0.2"' >&2"""


@pytest.mark.parametrize(
    ("java", "said"), [(None, "correct or unset JAVA_HOME"), (OLD_JAVA, "is version 11, Spark needs 17 or newer")]
)
def test_a_run_says_in_one_line_that_there_is_no_java_for_spark(tmp_path, java, said):
    (tmp_path / "pipeline.yaml").write_text("source: {format: rate}\nsink: {format: noop}\ncheckpoint: ck\n")
    if java:
        program(tmp_path / "jdk/bin/java", java)
    hidden = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")
    environment = {name: text for name, text in os.environ.items() if name not in hidden}
    command = [sys.executable, "-c", "from penstock.cli import main; main()", "run", "pipeline.yaml"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment | {"JAVA_HOME": f"{tmp_path}/jdk"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("penstock: Spark can't start: ") and said in done.stderr
    assert done.stderr.endswith(" [PENSTOCK-CORE-052]\n") and not (tmp_path / "ck").exists()


def test_the_workers_python(tmp_path):
    path = {"PATH": os.environ["PATH"]}
    assert found("PYSPARK_PYTHON", path).verdict == "ok"
    assert found("PYSPARK_PYTHON", {**path, "PYSPARK_PYTHON": sys.executable}).verdict == "ok"
    assert found("PYSPARK_PYTHON", {**path, "PYSPARK_PYTHON": "no-such-python"}).verdict == "bad"
    older = program(tmp_path / "python2", "echo 2.7")
    finding = found("PYSPARK_PYTHON", {**path, "PYSPARK_PYTHON": str(older)})
    assert finding.verdict == "bad"
    assert "(Python 2.7)" in finding.text
    twin = program(tmp_path / "twin", f'exec {sys.executable} "$@"')
    assert found("PYSPARK_PYTHON", {**path, "PYSPARK_PYTHON": str(twin)}).verdict == "odd"


@pytest.mark.parametrize(("versions", "verdict"), [({"pandas": "3.0.1"}, "odd"), ({"pandas": "2.3.3"}, "ok")])
def test_pandas_3_is_odd(monkeypatch, versions, verdict):
    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: versions.get(name) or real(name))
    assert found("pandas", dict(os.environ)).verdict == verdict


def test_pyspark_outside_the_range(monkeypatch):
    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: "3.5.6" if name == "pyspark" else real(name))
    finding = found("pyspark", dict(os.environ))
    assert finding.verdict == "bad"
    assert "3.5.6 is outside" in finding.text
    assert finding.remedy.startswith("pip install 'pyspark")


def test_pyspark_without_bytecode(tmp_path, monkeypatch, capsys):
    library = tmp_path / "python" / "lib"
    library.mkdir(parents=True)
    archive = library / "pyspark.zip"
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("package/__init__.py", "WHERE = __file__\n")
        made.writestr("package/broken.py", "def\n")
        made.writestr("package/data.txt", "data")
    environment = {"PATH": os.environ["PATH"], "SPARK_HOME": str(tmp_path)}
    finding = found("start of workers", environment)
    assert finding.verdict == "ok" and "--fix" in finding.remedy
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    CliRunner().invoke(app, ["doctor", "--fix"])
    assert not [one for one in examine(environment) if one.what == "start of workers"]
    assert [path.name for path in library.iterdir()] == ["pyspark.zip"]
    with zipfile.ZipFile(archive) as made:
        names = {"package/__init__.py", "package/__init__.pyc", "package/broken.py", "package/data.txt"}
        assert names == {name for name in made.namelist() if not name.endswith("/")}
    code = "import package, package.__init__ as p; print(package.__loader__.get_filename('package'), package.WHERE)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"{archive}/package/__init__.pyc"] * 2


def test_an_address_that_is_not_ours():
    finding = found("SPARK_LOCAL_IP", {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "192.0.2.1"})
    assert finding.verdict == "bad"
    assert "SPARK_LOCAL_IP=127.0.0.1" in finding.remedy


def test_temporary_space_that_is_not_there(tmp_path):
    environment = {"PATH": os.environ["PATH"], "SPARK_LOCAL_DIRS": f"{tmp_path},{tmp_path}/missing"}
    verdicts = [finding.verdict for finding in examine(environment) if finding.what == "temporary space"]
    assert verdicts[0] in ("ok", "odd")
    assert verdicts[1] == "bad"


def test_no_connector_is_odd(no_connectors):
    finding = found("connectors", dict(os.environ))
    assert (finding.verdict, finding.remedy) == ("odd", "pip install penstock-filesystem")


def test_a_connector_without_its_compiled_part_is_odd(monkeypatch):
    monkeypatch.setattr("penstock.native.LIBRARY_NAME", "nothing.so")
    finding = found("penstock.kafka, compiled", dict(os.environ))
    assert (
        finding.verdict == "odd" and "without its compiled part" in finding.text and "penstock-kafka" in finding.remedy
    )
    assert not [one for one in examine(dict(os.environ)) if one.what == "penstock.filesystem, compiled"]


@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
def test_a_connector_with_its_compiled_part_says_so():
    assert found("penstock.kafka, compiled", dict(os.environ)).verdict == "ok"


def test_the_exit_code_says_whether_something_is_bad(monkeypatch):
    for verdict, code in (("ok", 0), ("odd", 0), ("bad", 1)):
        monkeypatch.setattr(doctor, "examine", lambda v=verdict: [Finding("thing", v, "is so", "do that")])
        result = CliRunner().invoke(app, ["doctor"])
        assert result.exit_code == code
        assert "do that" in result.stdout
        (parsed,) = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
        assert parsed == {"what": "thing", "verdict": verdict, "text": "is so", "remedy": "do that"}
