"""What checking options costs at a start: as many of each connector as can be set together.

And the share of it in the start of a query: from ``spark.readStream`` to the schema, with the file source.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

import penstock
from benchmarks.measuring import OURS, Measurement, Results, as_table
from suite.option_cases import SIDES, cases

ROOT = Path(__file__).resolve().parents[1]


def most_options(side: str) -> dict[str, str]:
    """Returns options of a side, as many as are accepted together."""
    found = cases(side)
    given = dict(found.given)
    dice = random.Random(1)
    for option in found.declared:
        texts = found.texts(option)
        if not texts:
            continue
        name, text = dice.choice(texts)
        wider = {**given, **found.beside.get(option.name, {}), name: text}
        if not found.declared.problems(wider, owner=side, mode="stream"):
            given = wider
    return given


def milliseconds(call: Callable[[], object], times: int) -> float:
    """Returns what one of ``times`` calls takes."""
    started = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - started) * 1000 / times


def checking(times: int, repetitions: int) -> list[Measurement]:
    """Every side of every connector."""
    measured = []
    for side in SIDES:
        declared, given = cases(side).declared, most_options(side)
        values = [
            milliseconds(lambda d=declared, g=given, s=side: d.parse(g, owner=s, mode="stream"), times)  # type: ignore[misc]
            for _ in range(repetitions)
        ]
        name = f"checking the options of a {side}, {len(given)} of {len(declared)} set"
        measured.append(Measurement(name, "ms", "less", {OURS: values}))
    return measured


def starting(spark: SparkSession, folder: Path, repetitions: int) -> Measurement:
    """The file source, from the call to the schema."""
    (folder / "in").mkdir()
    (folder / "in" / "a.csv").write_text("1,a\n")
    given = {"path": str(folder / "in"), "format": "csv", "header": "true", "maxFilesPerTrigger": "10"}
    declared = cases("filesystem source").declared

    def start() -> float:
        reader = spark.readStream.format("penstock.filesystem").schema("n long, v string").options(**given)
        return milliseconds(lambda: reader.load().schema, 1)

    start()
    started = [start() for _ in range(3 * repetitions)]
    checked = [milliseconds(lambda: declared.parse(given, owner="x", mode="stream"), 100) for _ in range(repetitions)]
    share = statistics.median(checked) / statistics.median(started)
    note = f"checking the options once is {100 * share:.2f} % of it"
    return Measurement("start of a stream from files", "ms", "less", {OURS: started}, note)


def main() -> int:
    """Prints the table, and stores it in .cache/bench-options.json: no page shows it."""
    parser = argparse.ArgumentParser(prog="scripts/bench options", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions; .cache/bench-options-quick.json")
    quick = parser.parse_args().quick
    times, repetitions = (20, 2) if quick else (200, 7)
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    penstock.register(spark)
    try:
        with tempfile.TemporaryDirectory() as name:
            found = [*checking(times, repetitions), starting(spark, Path(name), repetitions)]
    finally:
        spark.stop()
    print(as_table(found))
    Results(ROOT / f".cache/bench-options{'-quick' if quick else ''}.json").put("options", found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
