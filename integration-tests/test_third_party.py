"""A third party's connector, as its users get it: wheels, an empty environment, a Spark job, and its own tests."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples" / "penstock-sqlite"


def run(*command, **environment):
    ours = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")  # would lead back to the workspace
    variables = {name: text for name, text in os.environ.items() if name not in ours}
    variables |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env=variables, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Built as they would be published, from copies: nothing is left in the sources."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in (ROOT / "core", PLUGIN):
        copy = tmp_path_factory.mktemp("source") / project.name
        shutil.copytree(project, copy, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
        run(*pip, "--wheel-dir", folder, copy)
    return sorted(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheels, tmp_path_factory):
    """The Python of an environment in which there is only what the wheels ask for, in the locked versions."""
    home = tmp_path_factory.mktemp("empty")
    venv.create(home, with_pip=True)
    core, plugin = wheels
    pip = (home / "bin" / "python", "-m", "pip", "install", "--quiet", "--constraint", ROOT / "requirements-dev.txt")
    run(*pip, f"{core}[testing]", plugin)
    return home / "bin" / "python"


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.db"
    with sqlite3.connect(path) as database:
        database.execute("create table orders (id integer primary key, customer text, amount real)")
        database.executemany("insert into orders values (?, ?, ?)", [(i, f"c{i % 3}", i / 2) for i in range(1000)])
        database.execute("create table totals (customer text primary key, amount real)")
    return path


JOB = """
import sys
import penstock
from pyspark.sql import SparkSession

path, checkpoint = sys.argv[1:]
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
penstock.register(spark)
orders = (spark.readStream.format("penstock.sqlite").option("path", path).option("table", "orders")
          .option("rowsPerSplit", 100).option("splitsPerTrigger", 4).load())
totals = orders.groupBy("customer").sum("amount").withColumnRenamed("sum(amount)", "amount")
query = (totals.writeStream.outputMode("complete").format("penstock.sqlite").option("path", path)
         .option("table", "totals").option("key", "customer").option("checkpointLocation", checkpoint).start())
query.awaitTermination(120)
print("batches", query.lastProgress["batchId"] + 1)
print(spark.read.format("penstock.sqlite").option("path", path).option("table", "totals").load().count())
"""


def test_the_plugin_is_found_through_its_entry_point(python):
    listed = json.loads(run(python.parent / "penstock", "list", "--json"))["connectors"]
    assert [one["format"] for one in listed] == ["penstock.sqlite"] and listed[0]["fits"]
    assert "rowsPerSplit" in run(python.parent / "penstock", "describe", "sqlite")


def test_its_own_tests_pass_there(python, tmp_path):
    tests = shutil.copytree(PLUGIN / "tests", tmp_path / "tests")
    text = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests)
    assert "exactly-once: declared and proven" in text and "failed" not in text


def test_a_spark_job_with_it(python, shop, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    text = run(
        python, tmp_path / "job.py", shop, tmp_path / "ck", SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=str(python)
    )
    assert int(text.split()[1]) >= 3, "read in steps of 400 row ids"
    with sqlite3.connect(shop) as database:
        found = dict(database.execute("select customer, amount from totals"))
        stamps = {stamp for (stamp,) in database.execute("select penstock_written_us from totals")}
    assert found == {f"c{rest}": sum(i / 2 for i in range(1000) if i % 3 == rest) for rest in range(3)}
    assert min(stamps) > 1_600_000_000_000_000


def test_a_new_connector_is_installed_and_passes_at_once(python, tmp_path):
    """As its README says: pip install -e . && pytest."""
    run(python.parent / "penstock", "new", "connector", "notes", "--directory", tmp_path)
    project = tmp_path / "penstock-notes"
    build = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run(*build, "--wheel-dir", tmp_path, project)
    run(python, "-m", "pip", "install", "--quiet", "--no-deps", *tmp_path.glob("*.whl"))
    text = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", project)
    assert "exactly-once: declared and proven" in text and "stream-read: declared and proven" in text
    assert "penstock.notes" in run(python.parent / "penstock", "list")
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "penstock-notes")


def test_without_a_connector_penstock_says_how_to_get_one(python):
    run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "penstock-sqlite")
    assert "pip install" in run(python.parent / "penstock", "list")
