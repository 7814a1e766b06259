"""An archive of the classes that Spark loads, so that its JVM starts in two thirds of the time. For tests.

It is made once for each pair of Spark and Java. The JVM uses it with ``-XX:SharedArchiveFile`` (JEP 350), and does
without it, silently, where classes or Java are others.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

__all__ = ["QUIET", "archive_options", "archive_path"]

ROOT = Path(__file__).resolve().parents[1]
#: Else the JVM says on the user's screen that it leaves some classes out.
QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")

#: A stream with a state store through a source and a sink in Python, and what comes before and after one.
_WORK = """
import sys
import penstock
from pyspark import SparkContext
from pyspark.sql import SparkSession

folder = sys.argv[1]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
penstock.register(spark)
spark.range(100).selectExpr("id", "cast(id as string) as text").write.csv(f"{folder}/in")
rows = spark.readStream.format("penstock.filesystem").option("format", "csv").schema("id long, text string")
sink = rows.load(f"{folder}/in").dropDuplicates(["id"]).writeStream.format("penstock.filesystem")
sink = sink.option("path", f"{folder}/out").option("checkpointLocation", f"{folder}/ck")
sink.trigger(availableNow=True).start().awaitTermination()
spark.range(9).groupBy("id").count().collect()
gateway = SparkContext._gateway
spark.stop()
gateway.shutdown()  # the JVM ends by itself, and writes the archive
gateway.proc.stdin.close()
gateway.proc.wait(120)
"""


@functools.cache
def _java_version() -> str:
    java = f"{os.environ.get('JAVA_HOME', '')}/bin/java" if os.environ.get("JAVA_HOME") else "java"
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr


def archive_path(program: str = "spark", edition: str = "") -> Path:
    """For an edition of ``program`` (the installed Spark, at its place), and the Java that would run it."""
    edition = edition or f"{version('pyspark')}{sys.prefix}"
    digest = hashlib.sha256(f"{_java_version()}{edition}".encode()).hexdigest()[:12]
    return ROOT / ".cache" / f"{program}-classes-{digest}.jsa"


def make(path: Path, options: str) -> None:
    """Runs Spark once."""
    path.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="penstock-classes-") as folder:
        made = Path(folder) / path.name
        options = " ".join([options, *QUIET, f"-XX:ArchiveClassesAtExit={made}"])
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": options, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [sys.executable, "-c", _WORK, folder]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode == 0 and made.exists():
            shutil.move(made, path)
        else:
            print(f"no archive of Spark's classes: {done.stderr[-500:]}", file=sys.stderr)


def archive_options(options: str) -> list[str]:
    """The JVM's options for using the archive, which is made if it is missing with a JVM that has ``options``; none
    where it can't be made.
    """
    path = archive_path()
    if not path.exists():
        print("test: noting which classes Spark loads (once, half a minute)", file=sys.stderr)
        make(path, options)
    return [f"-XX:SharedArchiveFile={path}", *QUIET] if path.exists() else []
