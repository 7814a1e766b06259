"""Files written into more and more buckets, and read from more and more files in a batch."""

from __future__ import annotations

import json
import shutil

from pyspark.sql.streaming import StreamingQuery

from benchmarks.kafka_setup import Bench
from benchmarks.kafka_streams import batches_of
from benchmarks.measuring import OURS, THEIRS, Measurement

_ROWS_EACH = 4_000
_BATCHES = 20
_WARM_UP_BATCHES = 3
_READ_BATCHES = 3


def _until(query: StreamingQuery, batches: int) -> list[float]:
    """Returns the milliseconds of the batches after the first ones, and stops the query."""
    while len(query.recentProgress) < batches and query.isActive:
        query.awaitTermination(1)
    query.stop()
    if query.exception() is not None:
        raise RuntimeError(str(query.exception()))
    progress = [json.loads(one.json) for one in query.recentProgress]
    return [float(one["durationMs"]["triggerExecution"]) for one in progress[_WARM_UP_BATCHES:batches]]


def buckets(bench: Bench, count: int) -> list[Measurement]:
    """Every batch has rows for every bucket; two tasks write."""
    times: dict[str, list[float]] = {}
    files: dict[str, list[float]] = {}
    source = bench.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", _ROWS_EACH)
    rows = source.option("numPartitions", 2).load().selectExpr("value", f"value % {count} as bucket")
    for side in (OURS, THEIRS):
        target, checkpoint = bench.folder / "out", bench.folder / "checkpoint"
        writer = rows.writeStream.format("penstock.filesystem" if side == OURS else "parquet")
        writer = writer.options(**({"format": "parquet"} if side == OURS else {})).partitionBy("bucket")
        query = writer.option("path", str(target)).option("checkpointLocation", str(checkpoint)).start()
        times[side] = _until(query, _BATCHES)
        found = bench.spark.read.parquet(str(target))
        if (number := found.count()) % _ROWS_EACH or number < _ROWS_EACH * _BATCHES:
            raise RuntimeError(f"{side} wrote {number:,} rows")
        files[side] = [sum(1 for _ in target.rglob("*.parquet"))]
        for path in (target, checkpoint):
            shutil.rmtree(path)
    return [
        Measurement(f"{count:,} buckets: a batch", "ms", "less", times, f"{_ROWS_EACH:,} rows a batch, two tasks"),
        Measurement(f"{count:,} buckets: files", "files", "less", files, f"after {_BATCHES} batches and a stop"),
    ]


def files(bench: Bench, count: int) -> list[Measurement]:
    """CSV files of four rows, all that are read by a batch at once."""
    folder = bench.folder / "in"
    folder.mkdir()
    for number in range(count * _READ_BATCHES):
        (folder / f"{number:06}.csv").write_text("".join(f"{number},{row},text\n" for row in range(4)))
    times: dict[str, list[float]] = {}
    for side in (OURS, THEIRS):
        reader = bench.spark.readStream.format("penstock.filesystem" if side == OURS else "csv")
        reader = reader.options(**({"format": "csv"} if side == OURS else {})).option("maxFilesPerTrigger", count)
        rows = reader.schema("file long, number long, note string").load(str(folder))
        checkpoint = bench.folder / "checkpoint"
        query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        query = query.trigger(availableNow=True).start()
        query.awaitTermination()
        shutil.rmtree(checkpoint)
        batches = batches_of(query)
        if (found := sum(one["numInputRows"] for one in batches)) != 4 * count * _READ_BATCHES:
            raise RuntimeError(f"{side} read {found:,} rows of {4 * count * _READ_BATCHES:,}")
        times[side] = [float(one["durationMs"]["triggerExecution"]) for one in batches[1:]]
    shutil.rmtree(folder)
    return [Measurement(f"{count:,} files in a batch: a batch", "ms", "less", times, "four rows of CSV in each file")]
