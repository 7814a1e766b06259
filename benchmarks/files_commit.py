"""What a micro-batch costs, empty or of 100,000 rows, committed exactly once: both sinks behind the same source."""

from __future__ import annotations

import json
import shutil
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from benchmarks.files_scale import Scale
from benchmarks.files_throughput import CODEC, finished_files, options_of
from benchmarks.measuring import OURS, THEIRS, Measurement, interleave

ROWS = 100_000
#: The first batches of a run start workers and compile code: they don't count.
_WARM_UP_BATCHES = 8


def committing(spark: SparkSession, directory: Path, scale: Scale) -> list[Measurement]:
    """Both kinds of batches, each with both sinks in turn."""

    def run(side: str, keep: Callable[[DataFrame], DataFrame]) -> float:
        source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).option("numPartitions", 2)
        name, options = options_of(side, "parquet")
        target = directory / side
        writer = keep(source.load()).writeStream.format(name).options(**options).option("compression", CODEC)
        writer = writer.option("path", str(target)).option("checkpointLocation", str(directory / "checkpoint"))
        if side == OURS:
            writer = writer.option("bucketAssigner", "basePath")
        query = writer.start()
        wanted = _WARM_UP_BATCHES + scale.micro_batches
        while len(query.recentProgress) < wanted and query.isActive:
            query.awaitTermination(1)
        query.stop()
        batches = [json.loads(one.json) for one in query.recentProgress]
        if query.exception() is not None or len(batches) < wanted:
            raise RuntimeError(f"{side} made {len(batches)} batches: {query.exception()}")
        if side == OURS:  # Spark's files can be seen before their batch is committed
            rows = sum(pyarrow.parquet.read_metadata(path).num_rows for path in finished_files(target))
            if rows % ROWS:
                raise RuntimeError(f"a batch was written in part: {rows} rows")
        for path in (target, directory / "checkpoint"):
            shutil.rmtree(path, ignore_errors=True)
        return statistics.median(float(one["durationMs"]["triggerExecution"]) for one in batches[_WARM_UP_BATCHES:])

    kinds: dict[str, Callable[[DataFrame], DataFrame]] = {
        "an empty micro-batch": lambda frame: frame.where("value < 0"),
        f"a micro-batch of {ROWS:,} rows": lambda frame: frame,
    }
    found = []
    for name, keep in kinds.items():
        times = interleave({side: partial(run, side, keep) for side in (THEIRS, OURS)}, scale.repetitions)
        note = f"medians of runs of {scale.micro_batches} batches, Parquet, two tasks, Spark's rate-micro-batch source"
        found.append(Measurement(f"{name}, exactly once", "ms", "less", times, note))
    return found
