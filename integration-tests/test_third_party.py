"""A third party's connector, as its users get it: wheels, an empty environment, a Spark job, and its own tests."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from environments import Environment

ROOT = Path(__file__).parents[1]
PLUGIN = ROOT / "examples" / "penstock-sqlite"


@pytest.fixture(scope="module")
def environment(wheels, tmp_path_factory):
    """In which there is only what the wheels of core and plugin ask for, and the kit."""
    built = [wheels.wheel(ROOT / "core"), wheels.wheel(PLUGIN)]
    made = Environment(tmp_path_factory.mktemp("empty"), built, ["penstock[testing]"])
    assert "No broken requirements" in made.check()
    return made


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
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.sql.shuffle.partitions", 2).getOrCreate())
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


def test_the_plugin_is_found_through_its_entry_point(environment):
    listed = json.loads(environment.penstock("list", "--json"))["connectors"]
    assert [one["format"] for one in listed] == ["penstock.sqlite"] and listed[0]["fits"]
    assert "rowsPerSplit" in environment.penstock("describe", "sqlite")


@pytest.mark.budget(20)
@pytest.mark.parametrize(
    ("chosen", "cases"),
    [
        pytest.param(
            "not spark",
            "",
            id="not spark",
            marks=pytest.mark.exhaustive(
                "kills for fifteen seconds and a million rows; test_wheels.py has wheels, and "
                "examples/penstock-sqlite/tests/test_conformance.py the cases"
            ),
        ),
        pytest.param(
            "spark",
            "",
            id="spark",
            marks=pytest.mark.exhaustive("the kit on Spark; test_wheels.py has wheels with Spark"),
        ),
    ],
)
def test_its_own_tests_pass_there(environment, tmp_path, chosen, cases):
    tests = shutil.copytree(PLUGIN / "tests", tmp_path / "tests")
    text = environment.run("pytest", "-q", "-p", "no:cacheprovider", "-m", chosen, "-k", cases, tests).stdout
    proven = "exactly-once" if chosen == "not spark" else "stream-write"
    assert f"{proven}: declared and proven" in text and "failed" not in text


@pytest.mark.exhaustive("an environment and Spark; test_files_are_written_and_read_with_the_wheel has both")
@pytest.mark.spark
def test_a_spark_job_with_it(environment, shop, tmp_path):
    (tmp_path / "job.py").write_text(JOB)
    text = environment.run("python", tmp_path / "job.py", shop, tmp_path / "ck").stdout
    assert int(text.split()[1]) >= 3, "read in steps of 400 row ids"
    with sqlite3.connect(shop) as database:
        found = dict(database.execute("select customer, amount from totals"))
        stamps = {stamp for (stamp,) in database.execute("select penstock_written_us from totals")}
    assert found == {f"c{rest}": sum(i / 2 for i in range(1000) if i % 3 == rest) for rest in range(3)}
    assert min(stamps) > 1_600_000_000_000_000


@pytest.mark.exhaustive(
    "beside another connector; test_author_pages.py::test_a_page_can_be_followed[publish-it] does the same alone"
)
def test_a_new_connector_is_installed_and_passes_at_once(environment, wheels, tmp_path):
    """As its README says: pip install -e . && pytest."""
    environment.penstock("new", "connector", "notes", "--directory", str(tmp_path))
    project = tmp_path / "penstock-notes"
    environment.install(wheels.wheel(project))
    text = environment.run("pytest", "-q", "-p", "no:cacheprovider", project).stdout
    assert "exactly-once: declared and proven" in text and "stream-read: declared and proven" in text
    assert "penstock.notes" in environment.penstock("list")
    environment.uninstall("penstock-notes")
