"""Rows per second, read and written; what a slow stream leaves behind."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

from benchmarks.files_scale import Scale
from benchmarks.measuring import OURS, THEIRS, Measurement, interleave

SCHEMA = "id long, at timestamp, place string, amount double, amount_before double, note string"
FILES = 8
FORMS = ("csv", "parquet", "orc")
#: As both sides' writers are told; their defaults differ.
CODEC = "zstd"


def make_rows(start: int, count: int) -> pa.Table:
    """Rows of about 90 bytes as CSV, the same for the same arguments."""
    ids = pa.array(range(start, start + count), pa.int64())
    micros = [1_767_225_600_000_000 + number * 1_000_003 for number in range(start, start + count)]
    return pa.table(
        {
            "id": ids,
            "at": pa.array(micros, pa.timestamp("us", "UTC")),
            "place": pa.array([f"place-{number % 997}" for number in range(start, start + count)]),
            "amount": pa.array([number * 7919 % 1_000_003 / 100 for number in range(start, start + count)]),
            "amount_before": pa.array([number * 104_729 % 1_000_033 / 100 for number in range(start, start + count)]),
            "note": pa.array([f"note number {number * 31 % 100_003}" for number in range(start, start + count)]),
        }
    )


def write_input(directory: Path, rows: int) -> None:
    """The same rows as ``csv/``, ``parquet/`` and ``orc/``, in files of equal size."""
    for name in FORMS:
        (directory / name).mkdir()
    each = rows // FILES
    for number in range(FILES):
        table = make_rows(number * each, each)
        pa.csv.write_csv(table, directory / "csv" / f"{number:03}.csv")
        pa.parquet.write_table(table, directory / "parquet" / f"{number:03}.parquet", compression=CODEC)
        pa.orc.write_table(table, directory / "orc" / f"{number:03}.orc", compression=CODEC)


def options_of(side: str, form: str) -> tuple[str, dict[str, Any]]:
    """Format name and options by which ``side`` reads or writes ``form``."""
    options = {"header": True} if form == "csv" else {}
    return ("penstock.filesystem", {"format": form, **options}) if side == OURS else (form, options)


def drain(frame: DataFrame, sink: str, options: dict[str, Any], checkpoint: Path) -> list[dict[str, Any]]:
    """Runs the stream over all there is. Returns Spark's progress of each batch; removes the checkpoint."""
    writer = frame.writeStream.format(sink).options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint)
    return [json.loads(one.json) for one in query.recentProgress if one["numInputRows"]]


def finished_files(directory: Path) -> list[Path]:
    """The files that a reader of the directory sees; none if it does not exist."""
    return [path for path in directory.glob("*") if path.name[0] not in "._"]


def _seconds(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _read_batch(spark: SparkSession, side: str, form: str, path: Path, rows: int) -> float:
    """Rows per second of a whole job."""
    name, options = options_of(side, form)
    frame = spark.read.format(name).schema(SCHEMA).options(**options).load(str(path))
    return rows / _seconds(frame.write.format("noop").mode("overwrite").save)


def _read_stream(spark: SparkSession, side: str, form: str, path: Path, rows: int) -> float:
    """Rows per second of a stream that runs: the batches after the first, whole."""
    name, options = options_of(side, form)
    reader = spark.readStream.format(name).schema(SCHEMA).options(**options).option("maxFilesPerTrigger", 2)
    batches = drain(reader.load(str(path)), "noop", {}, path.parent / "checkpoint")[1:]
    seconds = sum(one["durationMs"]["triggerExecution"] for one in batches) / 1000
    return float(sum(one["numInputRows"] for one in batches) / seconds)


def _short_stream(spark: SparkSession, side: str, path: Path) -> float:
    """Milliseconds of a run over one small file, from the call to the end of the query."""
    name, options = options_of(side, "csv")
    frame = spark.readStream.format(name).schema(SCHEMA).options(**options).load(str(path))
    return 1000 * _seconds(lambda: drain(frame, "noop", {}, path.parent / "checkpoint"))


def _write_batch(frame: DataFrame, side: str, form: str, path: Path, rows: int) -> float:
    """Rows per second of a whole job."""
    name, options = options_of(side, form)
    options = {**options, "compression": CODEC} | ({"bucketAssigner": "basePath"} if side == OURS else {})
    shutil.rmtree(path, ignore_errors=True)
    writer = frame.write.format(name).mode("append").options(**options)
    return rows / _seconds(lambda: writer.save(str(path)))


def _both(run: Callable[[str], float], repetitions: int) -> dict[str, list[float]]:
    return interleave({side: partial(run, side) for side in (OURS, THEIRS)}, repetitions)


def read_and_write(spark: SparkSession, directory: Path, scale: Scale) -> list[Measurement]:
    """Rows per second."""
    write_input(directory, scale.rows)
    found = []
    for form in FORMS:
        for kind, read in (("batch", _read_batch), ("stream", _read_stream)):
            values = _both(lambda side: read(spark, side, form, directory / form, scale.rows), scale.repetitions)  # noqa: B023
            found.append(Measurement(f"read {form}, {kind}", "rows/s", "more", values))
    # Rows already in Spark's memory: what is timed is the writing.
    cached = spark.read.schema(SCHEMA).parquet(str(directory / "parquet")).coalesce(2).cache()
    cached.count()
    for form in ("parquet", "orc"):
        values = _both(lambda side: _write_batch(cached, side, form, directory / "out", scale.rows), scale.repetitions)  # noqa: B023
        found.append(Measurement(f"write {form}, batch", "rows/s", "more", values, f"rows cached in Spark; {CODEC}"))
    cached.unpersist()
    return found


def starting(spark: SparkSession, directory: Path, scale: Scale) -> list[Measurement]:
    """What a stream costs that has next to nothing to do."""
    (directory / "one").mkdir()
    pa.csv.write_csv(make_rows(0, 100), directory / "one" / "0.csv")
    values = _both(lambda side: _short_stream(spark, side, directory / "one"), scale.repetitions)
    return [Measurement("an availableNow stream of 100 rows, start to end", "ms", "less", values)]


def files_after_micro_batches(spark: SparkSession, directory: Path, scale: Scale) -> list[Measurement]:
    """A slow stream: one small file arrives per micro-batch, and two tasks write."""
    (directory / "in").mkdir()
    rows_each = 1000
    for number in range(scale.micro_batches):
        pa.csv.write_csv(make_rows(number * rows_each, rows_each), directory / "in" / f"{number:04}.csv")
    counts: dict[str, list[float]] = {}
    sizes: dict[str, list[float]] = {}
    times: dict[str, list[float]] = {}
    for side in (THEIRS, OURS):
        name, options = options_of(side, "csv")
        reader = spark.readStream.format(name).schema(SCHEMA).options(**options).option("maxFilesPerTrigger", 1)
        frame = reader.load(str(directory / "in")).repartition(2)
        name, options = options_of(side, "parquet")
        options = {**options, "path": str(directory / side), "compression": CODEC}
        options |= {"bucketAssigner": "basePath"} if side == OURS else {}
        batches = drain(frame, name, options, directory / "checkpoint")[1:]
        times[side] = [float(one["durationMs"]["triggerExecution"]) for one in batches]
        files = finished_files(directory / side)
        rows = sum(pa.parquet.read_metadata(path).num_rows for path in files)
        if rows != rows_each * scale.micro_batches:
            raise RuntimeError(f"{side} wrote {rows} rows of {rows_each * scale.micro_batches}")
        counts[side] = [len(files)]
        sizes[side] = [sum(path.stat().st_size for path in files) / len(files) / 1000]
    of = f"after {scale.micro_batches} micro-batches of {rows_each:,} rows, two tasks"
    return [
        Measurement(f"files {of}", "files", "less", counts, "counted when the availableNow run had ended"),
        Measurement(f"their size {of}", "kB, mean", "more", sizes),
        Measurement("such a micro-batch", "ms", "less", times, "CSV in, Parquet out; source and sink of the same side"),
    ]
