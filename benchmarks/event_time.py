"""``scripts/bench event_time``: a windowed count over a day's backlog, with Spark's own Kafka source and with ours.

Three partitions hold a day in different densities, a fourth one next to nothing. Spark's own source takes of each in
proportion to what waits; ours is told how far they may be apart. Counted are the rows that reach a window: what is
missing was dropped as late. A broker is started for the run and deleted with its data.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import window

from benchmarks.kafka_setup import BROKER_PROPERTIES, FORMATS, Bench, Scale, seconds_of, start_spark, stop_spark
from benchmarks.measuring import OURS, THEIRS, Measurement, Results, as_table
from penstock_kafka.dev import KafkaToolbox, kafka_server

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pyspark", "pyarrow", "penstock", "penstock-kafka", "confluent-kafka")
DAY_S = int(datetime(2026, 1, 1, tzinfo=timezone.utc).timestamp())
#: Of each partition: its part of the rows, and when its row number i of n is, as a part of the day (x is i / n).
PARTITIONS = {0: (0.5, "x"), 1: (0.3, "x * x * x"), 2: (0.2, "1 - (1 - x) * (1 - x) * (1 - x)")}
IDLE = 3
FREE = "penstock, not aligned"
SIDES = {THEIRS: {}, OURS: {"watermark.alignment.maxDrift": "10m"}, FREE: {}}


def fill(bench: Bench, topic: str, rows: int) -> int:
    """Each partition in the order of its times; how many rows it is."""
    written = 0
    for number, (part, when) in {**PARTITIONS, IDLE: (10 / rows, "0")}.items():
        count = int(rows * part)
        frame = bench.spark.range(0, count, 1, 1).selectExpr(f"id / {count} as x", "cast(id as string) as value")
        at = f"timestamp_micros(cast(({DAY_S} + 86399 * ({when})) * 1e6 as bigint)) as timestamp"
        bench.write(frame.selectExpr("value", f"{number} as partition", at), OURS, topic)
        written += count
    bench.expect_rows(topic, written)
    return written


def count(bench: Bench, side: str, topic: str, batch: int, lost: dict[str, list[float]], rows: int) -> float:
    """Rows a second of a run over everything. What is missing in the windows goes to ``lost``."""
    counted: dict[datetime, int] = {}

    def take(frame: DataFrame, _: int) -> None:
        found = frame.selectExpr("window.start as hour", "count as n").collect()
        counted.update({row.hour: row.n for row in found})

    reading = bench.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(batch), **SIDES[side])
    frame = bench.spark.readStream.format(FORMATS[THEIRS if side == THEIRS else OURS]).options(**reading).load()
    windows = frame.withWatermark("timestamp", "10 minutes").groupBy(window("timestamp", "1 hour")).count()
    writer = windows.writeStream.outputMode("update").foreachBatch(take).trigger(availableNow=True)
    folder = bench.folder / "checkpoint"
    seconds = seconds_of(lambda: writer.option("checkpointLocation", str(folder)).start().awaitTermination())
    shutil.rmtree(folder)
    lost[side].append(rows - sum(counted.values()))
    return rows / seconds


def measurements(rates: dict[str, list[float]], lost: dict[str, list[float]], words: str) -> list[Measurement]:
    """Beside Spark's own, and beside ours without alignment."""
    free = {OURS: rates[OURS], THEIRS: rates.pop(FREE)}
    note = f"Penstock without alignment loses {max(lost.pop(FREE)):,.0f}"
    return [
        Measurement(f"a windowed count over a day, {words}", "rows/s", "more", rates),
        Measurement("the same, compared with Penstock without alignment", "rows/s", "more", free),
        Measurement(f"rows lost of {words}", "rows", "less", lost, note),
    ]


def main() -> int:
    """Runs both sides in turn."""
    parser = argparse.ArgumentParser(prog="scripts/bench event_time", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one repetition")
    arguments = parser.parse_args()
    rows, limits, repetitions = (300_000, (20_000,), 1) if arguments.quick else (6_000_000, (200_000, 1_000_000), 2)
    name = ".cache/bench-event_time-quick.json" if arguments.quick else "benchmarks/results/event_time.json"
    results = Results(ROOT / name, PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        kafka_server(Path(directory) / "broker", BROKER_PROPERTIES) as broker,
    ):
        spark = start_spark()
        scale = Scale(rows={}, repetitions=repetitions, copies=0, micro_batches=0, seconds=0)
        bench = Bench(spark, KafkaToolbox(broker.address), Path(directory), scale)
        try:
            topic = bench.toolbox.create_topic(partitions=4, retention_ms=-1)
            bench.say(f"writing {rows:,} rows")
            written = fill(bench, topic, rows)
            found = []
            for batch in limits:
                bench.say(f"batches of {batch:,}")
                lost: dict[str, list[float]] = {side: [] for side in SIDES}
                runs = {side: partial(count, bench, side, topic, batch, lost, written) for side in SIDES}
                for warm_up in runs.values():
                    warm_up()
                found += measurements(bench.alternate(runs, repetitions), lost, f"{written:,} rows, {batch:,} a batch")
        finally:
            stop_spark(spark)
    print(as_table(found), flush=True)
    results.put("event_time", found)
    if not arguments.quick:
        results.write_page("event_time")
    return 0


if __name__ == "__main__":
    sys.exit(main())
