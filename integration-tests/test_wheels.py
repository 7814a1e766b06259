"""Each package as its users get it: a wheel, in an environment with what it asks for and nothing else."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

from environments import Environment
from release.packages import Package, set_version

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core"
CONNECTORS = {path.parent.name: path.parent for path in sorted((ROOT / "connectors").glob("*/pyproject.toml"))}


@pytest.fixture(scope="module")
def alone(wheels, tmp_path_factory):
    """Environments with core and one connector, or with core alone (``None``), and PySpark and the command line beside
    them, or (``bare``) neither; each is made once.
    """
    made: dict[tuple[str | None, bool], Environment] = {}

    def environment(connector, *, bare=False):
        if (connector, bare) not in made:
            projects = [CORE] if connector is None else [CORE, CONNECTORS[connector]]
            built = [wheels.wheel(one) for one in projects]
            extras = [] if bare else ["penstock[spark,cli]"]
            made[connector, bare] = Environment(tmp_path_factory.mktemp("alone"), built, extras)
        return made[connector, bare]

    return environment


OTHERS = pytest.mark.exhaustive(
    "an environment for each connector; test_dependencies.py compares what each imports with what it asks for"
)
each_connector = pytest.mark.parametrize(
    "connector", [pytest.param(name, marks=() if name == "kafka" else OTHERS) for name in CONNECTORS]
)


def run_python(environment, folder, code, *arguments):
    (folder / "job.py").write_text(code)
    return environment.run(environment.python, "job.py", *arguments, cwd=folder)


def test_there_are_connectors():
    assert {"filesystem", "kafka"} <= CONNECTORS.keys()


@each_connector
def test_a_connector_needs_only_what_it_asks_for(alone, connector, tmp_path):
    environment = alone(connector)
    assert "No broken requirements" in environment.check()
    (listed,) = json.loads(environment.penstock("list", "--json"))["connectors"]
    assert listed["format"] == f"penstock.{connector}" and listed["fits"] and not listed["problem"]
    described = environment.penstock("describe", connector)
    assert listed["guarantee"].split(";")[0].split()[0] in described and "option" in described.lower()
    # Every module of it can be imported, from the wheel.
    code = f"""
import importlib.util, pkgutil, penstock_{connector} as package
names = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
names = [name for name in names if importlib.util.find_spec(name).origin.endswith(".py")]
for name in names:
    importlib.import_module(name)
print(len(names), package.__file__)
"""
    count, file = run_python(environment, tmp_path, code).stdout.split(maxsplit=1)
    assert int(count) > 5 and Path(file).is_relative_to(environment.home)


BARE = """
import importlib, importlib.util, pkgutil, sys, penstock, penstock_{connector} as package

names = ["penstock.connector", "penstock.source", "penstock.sink", "penstock.checkpoint", "penstock.storage"]
names += [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for name in names:
    if not name.endswith("._cli") and importlib.util.find_spec(name).origin.endswith(".py"):
        importlib.import_module(name)
assert not {{"pyspark", "typer", "rich", "yaml", "pytest"}} & sys.modules.keys()
try:
    penstock.register
except ImportError as error:
    print(error)
"""


@each_connector
def test_an_executor_gets_no_second_pyspark_and_no_command_line(alone, connector, tmp_path):
    environment = alone(connector, bare=True)
    assert "No broken requirements" in environment.check()
    installed = {path.name for path in environment.packages.iterdir()}
    assert not installed & {"pyspark", "typer", "rich", "yaml", "pytest"} and "pyarrow" in installed
    said = run_python(environment, tmp_path, BARE.format(connector=connector)).stdout
    assert said == ("penstock needs PySpark: run the Python of your Spark platform, or pip install 'penstock[spark]'\n")
    refused = environment.run(environment.bin / "penstock", "list", status=2)
    assert refused.stderr == "penstock: the command line is not installed: pip install 'penstock[cli]'\n"


@pytest.mark.parametrize("project", [CORE, *CONNECTORS.values()], ids=["core", *CONNECTORS])
def test_a_wheel_holds_the_package_and_no_more(wheels, project):
    names = zipfile.ZipFile(wheels.wheel(project)).namelist()
    package = "penstock" if project == CORE else f"penstock_{project.name}"
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {package}
    assert f"{package}/py.typed" in names
    assert not [name for name in names if "/tests/" in name or "__pycache__" in name]


FILES = """
import penstock
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
penstock.register(spark)
rows = spark.range(1000).selectExpr("id", "concat('row ', id) as text")
rows.write.format("penstock.filesystem").option("format", "parquet").option("path", "out").mode("append").save()
back = (spark.read.format("penstock.filesystem").option("format", "parquet").option("recursiveFileLookup", True)
        .schema("id long, text string").load("out"))
print("rows", back.count(), back.selectExpr("sum(id)").first()[0], back.where("text = 'row 7'").first().id)
"""


@pytest.mark.spark
def test_files_are_written_and_read_with_the_wheel(alone, tmp_path):
    assert "rows 1000 499500 7" in run_python(alone("filesystem"), tmp_path, FILES).stdout


NATIVE = """
from penstock_kafka.client import native_problem, open_consumer
from penstock_kafka.client._interfaces import ClientConfig
from penstock_kafka.client.codec import _library

print("problem:", native_problem() or "none", _library.__file__)
"""


def test_the_kafka_client_is_compiled_and_loads_from_the_wheel(alone, tmp_path):
    environment = alone("kafka")
    problem, library = run_python(environment, tmp_path, NATIVE).stdout.removeprefix("problem: ").split()
    assert problem == "none" and Path(library).is_relative_to(environment.packages)
    described = environment.penstock("describe", "kafka")
    assert {"kafka.bootstrap.servers", "startingOffsets", "delivery"} <= set(described.split())


# --- without a connector ----------------------------------------------------------------------------------------------


def test_without_a_connector_penstock_says_how_to_get_one(alone):
    """Whatever is asked: the list, the help, one that is not there."""
    environment = alone(None)
    command = "pip install penstock-filesystem"
    assert environment.penstock("list") == f"No connector is installed. Get one with: {command}\n"
    assert command in " ".join(environment.penstock("--help").split())
    refused = environment.run(environment.bin / "penstock", "describe", "kafka", status=2)
    assert "no connector 'kafka' is installed: pip install penstock-kafka" in refused.stderr


def test_with_a_connector_the_help_says_nothing_of_it(alone):
    assert "pip install" not in alone("filesystem").penstock("--help")


# --- a plugin for another core ----------------------------------------------------------------------------------------

PLUGIN = {
    "pyproject.toml": """
[project]
name = "penstock-other"
version = "3.2.1"
requires-python = ">=3.10"
dependencies = ["penstock{range}"]

[project.entry-points."penstock.connectors"]
other = "penstock_other:OtherConnector"

[project.entry-points."penstock.commands"]
other = "penstock_other:app"

[tool.poetry]
packages = [{{ include = "penstock_other.py", from = "src" }}]

[build-system]
requires = ["poetry-core>=2.0"]
build-backend = "poetry.core.masonry.api"
""",
    "src/penstock_other.py": """
import os, pathlib
pathlib.Path(os.environ["IMPORTED"]).touch()

import typer
from penstock.connector import Connector

app = typer.Typer(help="A command of the plugin.")

@app.command()
def hello():
    print("hello")

class OtherConnector(Connector):
    summary = "leaves a file when it is imported"

    def describe_guarantee(self):
        return "none"
""",
}

REGISTER = """
import penstock
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
done = penstock.register(spark)
print(done.formats, done.problems)
"""


@pytest.fixture
def with_plugin(wheels, tmp_path):
    """An environment with core and a plugin for the given range of cores, and the file that its import leaves."""

    def make(range_):
        project = tmp_path / "penstock-other"
        for name, text in PLUGIN.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.format(range=range_) if name.endswith("toml") else text)
        environment = Environment(tmp_path / "environment", [wheels.wheel(CORE)], ["penstock[spark,cli]"])
        environment.install(wheels.wheel(project))
        return environment

    return make


@pytest.mark.spark
def test_a_plugin_for_another_core_is_named_and_not_imported(with_plugin, tmp_path, monkeypatch):
    imported = tmp_path / "imported"
    monkeypatch.setenv("IMPORTED", str(imported))
    environment = with_plugin(">=1.0,<2")
    (listed,) = json.loads(environment.penstock("list", "--json", status=1))["connectors"]
    assert (listed["package"], listed["version"], listed["fits"]) == ("penstock-other", "3.2.1", False)
    assert listed["problem"] == (
        "penstock-other 3.2.1 needs penstock<2,>=1.0, and penstock 0.1.0 is installed: pip install 'penstock<2,>=1.0', "
        "or an older penstock-other"
    )
    assert "penstock.other: penstock-other 3.2.1 needs penstock<2,>=1.0" in " ".join(
        environment.penstock("list", status=1).split()
    )
    for command in (["describe", "other"], ["other", "hello"]):
        refused = environment.run(environment.bin / "penstock", *command, status=2)
        assert "can't be used: penstock-other 3.2.1 needs penstock<2,>=1.0" in refused.stderr
    assert "other" not in environment.penstock("--help").split()
    done = run_python(environment, tmp_path, REGISTER)
    assert "[] {'other': \"connector 'other' can't be used: penstock-other 3.2.1 needs" in done.stdout
    assert not imported.exists()


@pytest.fixture
def released(wheels, tmp_path_factory):
    """``released(project, version, range)`` builds the wheel of one of our projects as that release of it."""

    def build(project, version, range_=""):
        copy = shutil.copytree(
            project, tmp_path_factory.mktemp("released") / project.name, ignore=shutil.ignore_patterns("__pycache__")
        )
        name = "penstock" if project == CORE else f"penstock-{project.name}"
        set_version(Package(name, "", copy, ""), version)
        if range_:
            declared = (copy / "pyproject.toml").read_text()
            assert '"penstock>=0.1,<0.2"' in declared
            (copy / "pyproject.toml").write_text(declared.replace('"penstock>=0.1,<0.2"', f'"penstock{range_}"'))
        return wheels.wheel(copy)

    return build


@pytest.mark.exhaustive(
    "two environments with Spark; test_a_plugin_for_another_core_is_named_and_not_imported is the witness"
)
@pytest.mark.spark
@pytest.mark.budget(60)
@pytest.mark.parametrize(
    ("core", "connector", "range_", "shown", "other"),
    [
        ("0.2.0", "0.1.0", "", "<0.2,>=0.1", "a newer"),
        ("0.1.0", "0.2.0", ">=0.2,<0.3", "<0.3,>=0.2", "an older"),
    ],
    ids=["newer-core", "newer-connector"],
)
def test_a_core_and_a_connector_of_different_releases_are_both_named(
    released, tmp_path, core, connector, range_, shown, other
):
    """Real wheels, installed against the word of pip's resolver, as by ``--no-deps`` or by hand."""
    environment = Environment(tmp_path / "environment", [released(CORE, core)], ["penstock[spark,cli]"])
    environment.install(released(CONNECTORS["filesystem"], connector, range_))
    problem = (
        f"penstock-filesystem {connector} needs penstock{shown}, and penstock {core} is installed: "
        f"pip install 'penstock{shown}', or {other} penstock-filesystem"
    )
    (listed,) = json.loads(environment.penstock("list", "--json", status=1))["connectors"]
    assert listed["problem"] == problem and not listed["fits"]
    refused = environment.run(environment.bin / "penstock", "describe", "filesystem", status=2)
    assert problem in refused.stderr and len(refused.stderr.splitlines()) == 1
    done = run_python(environment, tmp_path, REGISTER).stdout
    assert problem.replace("'", "\\'") in done or problem in done


def test_the_same_plugin_for_this_core_is_imported(with_plugin, tmp_path, monkeypatch):
    """Else the test above would prove nothing."""
    imported = tmp_path / "imported"
    monkeypatch.setenv("IMPORTED", str(imported))
    environment = with_plugin(">=0.1,<1")
    assert not imported.exists()
    (listed,) = json.loads(environment.penstock("list", "--json"))["connectors"]
    assert listed["fits"] and imported.exists()
    assert environment.penstock("other").strip() == "hello"
