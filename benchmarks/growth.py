"""``scripts/bench growth``: how Penstock and Spark's own connectors grow with partitions, buckets, files and batches.

Both sides run in one Spark session, one after the other, and are checked for what they read or wrote. A curve has
three to five points. ``--quick`` takes the two smallest; its results go to ``.cache/bench-growth-quick.json``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks import growth_files, growth_kafka, growth_lasting
from benchmarks.kafka_setup import Bench, Scale, running_bench
from benchmarks.measuring import Measurement, Results, as_table

ROOT = Path(__file__).resolve().parents[1]
SCALE = Scale(rows={100: 40_000}, repetitions=1, copies=1, micro_batches=1, seconds=1)
PACKAGES = ("pyspark", "pyarrow", "penstock", "penstock-filesystem", "penstock-kafka")


@dataclass(frozen=True)
class Curve:
    """What grows, and by which steps. ``quick``: how many of them ``--quick`` takes."""

    measure: Callable[[Bench, int], list[Measurement]]
    steps: tuple[int, ...]
    quick: int = 2


CURVES = {
    "partitions": Curve(growth_kafka.partitions, (10, 100, 500, 3_000)),
    "buckets": Curve(growth_files.buckets, (10, 100, 500)),
    "files in a batch": Curve(growth_files.files, (10, 100, 1_000, 10_000)),
    "batches": Curve(growth_lasting.batches, (100, 1_000, 10_000), quick=1),
}


def main() -> int:
    """Runs the curves."""
    parser = argparse.ArgumentParser(prog="scripts/bench growth", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest steps alone: about five minutes")
    parser.add_argument("--only", action="append", choices=CURVES, help="renew only this curve (may be given again)")
    parser.add_argument("--most", type=int, default=10_000, metavar="N", help="no step above N")
    arguments = parser.parse_args()
    name = ".cache/bench-growth-quick.json" if arguments.quick else "benchmarks/results/growth.json"
    results = Results(ROOT / name, PACKAGES)
    with running_bench(SCALE) as bench:
        for name, curve in CURVES.items():
            if arguments.only and name not in arguments.only:
                continue
            steps = curve.steps[: curve.quick] if arguments.quick else curve.steps
            found: list[Measurement] = []
            for step in (one for one in steps if one <= arguments.most):
                bench.say(f"{step:,} {name}")
                found += curve.measure(bench, step)
                print(as_table(found), flush=True)
                results.put(name, found)
    if not arguments.quick:
        results.write_page("growth")
    return 0


if __name__ == "__main__":
    sys.exit(main())
