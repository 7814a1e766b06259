"""``scripts/bench kafka``: penstock.kafka beside Spark's own connector, on the same broker, in one Spark session.

A broker is started for the run and deleted with its data (20 GB at most). Both sides have the defaults of their
clients. ``--quick`` takes less data; its results go to ``.cache/bench-kafka-quick.json`` and not into the docs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import kafka_latency, kafka_streams, kafka_throughput
from benchmarks.kafka_setup import Bench, Scale, running_bench
from benchmarks.measuring import Measurement, Results, as_table

ROOT = Path(__file__).resolve().parents[1]
FULL = Scale(rows={100: 8_000_000, 1000: 2_000_000}, repetitions=3, copies=3, micro_batches=40, seconds=40)
QUICK = Scale(rows={100: 800_000, 1000: 100_000}, repetitions=1, copies=1, micro_batches=3, seconds=6)
PACKAGES = ("pyspark", "pyarrow", "penstock", "penstock-kafka", "confluent-kafka")
CASES: tuple[Callable[[Bench], list[Measurement]], ...] = (
    kafka_throughput.read,
    kafka_throughput.write,
    kafka_streams.copy,
    kafka_streams.micro_batches,
    kafka_latency.latency,
)


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(prog="scripts/bench kafka", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, one repetition: under four minutes")
    names = [case.__name__ for case in CASES]
    parser.add_argument("--only", action="append", choices=names, help="renew only this case (may be given again)")
    arguments = parser.parse_args()
    results = Results(
        ROOT / (".cache/bench-kafka-quick.json" if arguments.quick else "benchmarks/results/kafka.json"), PACKAGES
    )
    with running_bench(QUICK if arguments.quick else FULL) as bench:
        for case in CASES:
            if not arguments.only or case.__name__ in arguments.only:
                found = case(bench)
                print(as_table(found), flush=True)
                results.put(case.__name__, found)
    if not arguments.quick:
        results.write_page("kafka")
    return 0


if __name__ == "__main__":
    sys.exit(main())
