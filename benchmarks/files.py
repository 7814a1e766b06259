"""``scripts/bench files``: penstock.filesystem beside Spark's own file source and sink, on the same data, in one run.

Throughput is measured in turn, after a round that does not count; long streams one side after the other. ``--quick``
takes less data and fewer repetitions; its results go to ``.cache/bench-files-quick.json`` and not into the docs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from benchmarks import files_commit, files_listing, files_throughput
from benchmarks.files_scale import Scale
from benchmarks.measuring import Measurement, Results, as_table

ROOT = Path(__file__).resolve().parents[1]


FULL = Scale(rows=3_000_000, repetitions=3, micro_batches=100, listed_files=100_000)
QUICK = Scale(rows=400_000, repetitions=2, micro_batches=15, listed_files=3_000)


def start_spark() -> SparkSession:
    """One session for both sides."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
    }
    builder = SparkSession.builder.master("local[2]").appName("bench-files")
    for key, text in settings.items():
        builder = builder.config(key, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    penstock.register(spark)
    return spark


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(prog="scripts/bench files", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, fewer repetitions: under three minutes")
    parser.add_argument("--only", help="renew only the cases whose name holds this text")
    arguments = parser.parse_args()
    scale = QUICK if arguments.quick else FULL
    cases: list[Callable[[SparkSession, Path, Scale], list[Measurement]]] = [
        files_throughput.read_and_write,
        files_throughput.starting,
        files_throughput.files_after_micro_batches,
        files_commit.committing,
        files_listing.planning_with_many_files,
        files_listing.state_after_many_files,
    ]
    results = Results(ROOT / (".cache/bench-files-quick.json" if arguments.quick else "benchmarks/results/files.json"))
    started = time.monotonic()
    spark = start_spark()
    try:
        for case in cases:
            if arguments.only and arguments.only not in case.__name__:
                continue
            with tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory:
                found = case(spark, Path(directory), scale)
            print(as_table(found), flush=True)
            results.put(case.__name__, found)
    finally:
        spark.stop()
    if not arguments.quick:
        results.write_page("files")
    print(f"\n{time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
