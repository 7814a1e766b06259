"""A query that has run for long: what a batch takes, what the checkpoint has, and the memory of its processes."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.kafka_setup import Bench
from benchmarks.measuring import OURS, THEIRS, Measurement

_LATEST = 50


def batches(bench: Bench, count: int) -> list[Measurement]:
    """Rows of Spark's ``rate-micro-batch`` source into files, a batch after the other."""
    found: dict[str, dict[str, list[float]]] = {"batch": {}, "files": {}, "size": {}, "workers": {}}
    for side in (OURS, THEIRS):
        target, checkpoint = bench.folder / "out", bench.folder / "checkpoint"
        source = bench.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 100)
        rows = source.option("numPartitions", 1).load()
        writer = rows.writeStream.format("penstock.filesystem" if side == OURS else "parquet")
        writer = writer.options(**({"format": "parquet", "bucketAssigner": "basePath"} if side == OURS else {}))
        query = writer.option("path", str(target)).option("checkpointLocation", str(checkpoint)).start()
        while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < count):
            time.sleep(0.2)
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        latest = [float(one["durationMs"]["triggerExecution"]) for one in query.recentProgress[-_LATEST:]]
        found["batch"][side] = latest
        found["workers"][side] = [_python_workers_mb(bench)]
        files = [path for path in checkpoint.rglob("*") if path.is_file()]
        found["files"][side] = [len(files)]
        found["size"][side] = [sum(path.stat().st_size for path in files) / 1000]
        query.stop()
        bench.say(f"  {side}: {statistics.median(latest):.0f} ms a batch")
        for path in (target, checkpoint):
            shutil.rmtree(path)
    after = f"{count:,} batches"
    return [
        Measurement(f"{after}: a batch", "ms", "less", found["batch"], f"the latest {_LATEST}, of 100 rows, one task"),
        Measurement(f"{after}: files of the checkpoint", "files", "less", found["files"]),
        Measurement(f"{after}: size of the checkpoint", "kB", "less", found["size"]),
        Measurement(f"{after}: memory of Python workers", "MB", "less", {OURS: found["workers"][OURS]}),
    ]


def _python_workers_mb(bench: Bench) -> float:
    """Returns the resident memory of all Python processes below the JVM."""
    jvm = int(bench.spark.sparkContext._gateway.proc.pid)
    return sum(_resident_kb(pid) for pid in _below(jvm) if "python" in _name(pid)) / 1000


def _below(pid: int) -> Iterator[int]:
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in tasks.read_text().split():
            yield int(child)
            yield from _below(int(child))


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""  # it has ended


def _resident_kb(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
