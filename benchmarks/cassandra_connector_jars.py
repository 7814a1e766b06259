"""spark-cassandra-connector, to run beside ours: its jars, fetched once by Maven, and a pyspark 3.5 for it.

It has no release for Spark 4, so it runs in an environment of its own, in the user's cache.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from penstock.dev import JarSet, fetch_jars

PYSPARK = "pyspark==3.5.6"
#: Without what comes with pyspark.
JARS = JarSet(
    "spark-cassandra-connector-3.5.1",
    ("com.datastax.spark:spark-cassandra-connector_2.12:3.5.1",),
    ("org.apache.spark:*", "org.scala-lang:*", "org.apache.hadoop:*"),
)


def connector_jars() -> str:
    """For ``spark.jars``. Raises BadConfigurationError without Maven, FatalError if it can't fetch them."""
    folder = fetch_jars(JARS, lambda words: print(words, file=sys.stderr))
    return ",".join(sorted(str(path) for path in folder.iterdir()))


def old_spark(folder: Path) -> Path:
    """A Python with pyspark 3.5, installed into ``folder`` if it is not there."""
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print(f"installing {PYSPARK} beside (once)", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "setuptools", PYSPARK], check=True)
        (folder / "installed").touch()
    return python
