"""A cluster whose machines have Spark and Python alone: the packages come with the job, in ``spark.archives``."""

from __future__ import annotations

import os
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from environments import Environment
from harness import checkpoint
from harness.processes import SPARK_HOME, kill
from harness.waiting import wait_until

ROOT = Path(__file__).parents[1]
FILES, ROWS = 6, 500

JOB = """
import importlib, os, sys
import penstock
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
penstock.register(spark)

def where(_):
    return importlib.import_module("penstock_filesystem").__file__, importlib.import_module("pyarrow").__file__

found = spark.sparkContext.parallelize(range(4), 4).map(where).collect()
print("on executors:", *sorted({path for pair in found for path in pair}), flush=True)
rows = (spark.readStream.format("penstock.filesystem").schema("id long, note string")
        .option("format", "csv").option("maxFilesPerTrigger", 1).load("in/"))
(rows.writeStream.format("penstock.filesystem").option("format", "parquet").option("path", "out/")
     .option("checkpointLocation", "ck/").trigger(availableNow=True).start().awaitTermination())
print("done", flush=True)
"""


@pytest.fixture
def packed(wheels, tmp_path):
    """A directory as on the page: ``env/``, and the same as ``env.tar.gz``. No package of PySpark is in it."""
    built = [wheels.wheel(ROOT / "core"), wheels.wheel(ROOT / "connectors" / "filesystem")]
    environment = Environment(tmp_path / "env", built)
    with tarfile.open(tmp_path / "env.tar.gz", "w:gz", compresslevel=1) as archive:
        for path in (environment.bin, environment.home / "pyvenv.cfg"):
            archive.add(path, path.relative_to(environment.home))
    # What the test links is packed as files: the archive must do without this machine's environment.
    subprocess.run(["gzip", "--decompress", "env.tar.gz"], cwd=tmp_path, check=True)
    inside = environment.packages.relative_to(environment.home)
    append = ["tar", "--append", "--dereference", "--file", tmp_path / "env.tar", "-C", environment.home, inside]
    subprocess.run(append, check=True)
    subprocess.run(["gzip", "-1", "env.tar"], cwd=tmp_path, check=True)
    assert not (environment.packages / "pyspark").exists()
    return tmp_path


@pytest.mark.spark
@pytest.mark.budget(180)
@pytest.mark.exhaustive(
    "a cluster that unpacks 60 MB for each executor; test_executors kills executors in the first tier"
)
def test_exactly_once_with_the_packages_in_an_archive_alone(cluster, packed):
    (packed / "in").mkdir()
    for number in range(FILES):
        lines = [f"{number * ROWS + row},row {row}\n" for row in range(ROWS)]
        (packed / "in" / f"{number}.csv").write_text("".join(lines))
    (packed / "job.py").write_text(JOB)
    settings = {
        "spark.ui.enabled": "false",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "2",
    }
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", cluster.url, "--archives", "env.tar.gz#env"]
    page = (ROOT / "docs" / "production" / "clusters" / "standalone.md").read_text()
    assert "--archives env.tar.gz#env job.py" in page and "export PYSPARK_PYTHON=./env/bin/python\n" in page
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    clean = {name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    variables = {
        **clean,
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": "./env/bin/python",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    log = packed / "log"
    with log.open("w") as file:
        driver = subprocess.Popen([*map(str, command), "job.py"], cwd=packed, env=variables, stdout=file, stderr=file)
    try:
        wait_until(
            lambda: checkpoint.committed(packed / "ck") > 1, log.read_text, may_come=lambda: driver.poll() is None
        )
        kill(cluster.executors()[0])
        assert driver.wait(400) == 0, log.read_text()[-4000:]
    finally:
        driver.kill()
    (line,) = [line for line in log.read_text().splitlines() if line.startswith("on executors:")]
    paths = line.removeprefix("on executors:").split()
    assert paths and all("/env/lib" in path and not Path(path).is_relative_to(ROOT) for path in paths)
    assert all("/work-" in path for path in paths), "not from the archive that the worker has unpacked"
    found = Counter(
        id_ for path in (packed / "out").rglob("*.parquet") for id_ in pq.read_table(path)["id"].to_pylist()
    )
    assert found == Counter(range(FILES * ROWS))
