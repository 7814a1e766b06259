"""A directory with very many files: how long it takes to see one more, and what must be remembered."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from benchmarks.files_scale import Scale
from benchmarks.files_throughput import options_of
from benchmarks.measuring import OURS, THEIRS, Measurement
from penstock.spark._coordinator import Coordinator
from penstock.spark._offsets import StreamOffset
from penstock.storage import LocalStorage
from penstock_filesystem.options import SOURCE_OPTIONS, SourceOptions
from penstock_filesystem.source._enumerator import FileSystemSplitEnumerator
from penstock_filesystem.source._split import STATE_SERIALIZER, FileSystemEnumeratorState
from penstock_filesystem.source.discovery import FileDiscovery, FoundFile
from penstock_filesystem.source.tracking import FileTracker

_PATIENCE_SECONDS = 900
_UNMEASURED = "Spark's was not measured at this number: it grows with every file, in proportion (see the row above)"


def planning_with_many_files(spark: SparkSession, directory: Path, scale: Scale) -> list[Measurement]:
    """Both sides have read every file; then one more arrives, several times."""
    source = directory / "in"
    source.mkdir()
    for number in range(scale.listed_files):
        (source / f"{number:07}.txt").write_bytes(b"a line\n")
    # Nobody would wait for a task per 32 files: let both sides pack as many as possible into a task.
    spark.conf.set("spark.sql.files.openCostInBytes", "0")
    latest: dict[str, list[float]] = {}
    seen: dict[str, list[float]] = {}
    for side in (OURS, THEIRS):
        latest[side], seen[side] = _arrivals(spark, side, directory, 1 + 2 * scale.repetitions)
    spark.conf.unset("spark.sql.files.openCostInBytes")
    name = f"with {scale.listed_files:,} files read and still there"
    log = _source_log(directory / f"checkpoint-{THEIRS}")
    offset = _newest_offset(directory / f"checkpoint-{OURS}")
    return [
        Measurement(
            f"planning {name}", "ms", "less", latest, "`latestOffset`, on the trigger's path; Penstock lists elsewhere"
        ),
        Measurement(
            f"a file arrives until its batch is committed, {name}",
            "ms",
            "less",
            seen,
            "Penstock with discoveryInterval=100ms; includes the pause between two listings, and the listing",
        ),
        Measurement(
            f"state {name}",
            "kB",
            "less",
            {OURS: [offset / 1000], THEIRS: [log / 1000]},
            "Penstock: newest offset; Spark's: largest file of its source log, which lists every file ever read",
        ),
    ]


def _arrivals(spark: SparkSession, side: str, directory: Path, count: int) -> tuple[list[float], list[float]]:
    """Milliseconds in latestOffset and from arrival to commit, for ``count`` files but the first."""
    name, options = options_of(side, "text")
    options |= {"discoveryInterval": "100ms", "openCostInBytes": 0} if side == OURS else {}
    reader = spark.readStream.format(name).schema("value string").options(**options)
    reader = reader.option("maxFilesPerTrigger", 10_000)
    writer = reader.load(str(directory / "in")).writeStream.format("noop")
    checkpoint = directory / f"checkpoint-{side}"
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(processingTime="0 seconds").start()
    try:
        rows = len(os.listdir(directory / "in"))
        _wait_for_rows(query, rows)
        planned, arrived = [], []
        for number in range(count):
            time.sleep(0.3)
            started = time.perf_counter()
            _drop(directory / "in", f"new-{side}-{number}.txt")
            rows += 1
            batch = _wait_for_rows(query, rows)
            arrived.append((time.perf_counter() - started) * 1000)
            planned.append(float(batch["durationMs"]["latestOffset"]))
        return planned[1:], arrived[1:]
    finally:
        query.stop()


def _drop(directory: Path, name: str) -> None:
    (directory / f".{name}").write_bytes(b"a line\n")
    (directory / f".{name}").rename(directory / name)


def _wait_for_rows(query: StreamingQuery, rows: int) -> dict:  # type: ignore[type-arg]
    """The progress of the batch with which ``rows`` rows have been read."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        failure = query.exception()
        if failure is not None:
            raise failure
        batches = {one["batchId"]: one for one in query.recentProgress if one["numInputRows"]}
        if sum(one["numInputRows"] for one in batches.values()) >= rows:
            return dict(json.loads(batches[max(batches)].json))
        time.sleep(0.02)
    raise TimeoutError(f"{rows} rows were not read in {_PATIENCE_SECONDS} s")


def _source_log(checkpoint: Path) -> int:
    """Bytes of its largest file: every tenth one is compacted, and holds all of them."""
    return max(path.stat().st_size for path in (checkpoint / "sources" / "0").iterdir())


def _newest_offset(checkpoint: Path) -> int:
    numbers = [int(path.name) for path in (checkpoint / "offsets").iterdir() if path.name.isdigit()]
    return (checkpoint / "offsets" / str(max(numbers))).stat().st_size


class _MadeUpFiles(FileDiscovery):
    """Finds ``count`` files, a second apart, that need not be there."""

    def __init__(self, count: int) -> None:
        super().__init__(LocalStorage(), ["/data"], recursive=True, name_glob=None)
        self._count = count

    def list_files(self, *, fresh_s: float = 0.0) -> None:
        """Does nothing."""

    def take(self) -> list[FoundFile]:
        """Returns everything at once, the first time."""
        count, self._count = self._count, 0
        return list(_files(count))


def _files(count: int) -> Iterator[FoundFile]:
    start = 1_767_225_600_000_000_000
    for number in range(count):
        yield FoundFile(start + number * 1_000_000_000, f"/data/2026/part-{number:08}.csv", 1000)


def state_after_many_files(spark: SparkSession, directory: Path, scale: Scale) -> list[Measurement]:
    """Through the enumerator itself, without Spark: hands out every file, stores and restores what it remembers."""
    values = SOURCE_OPTIONS.parse({"path": "/data", "format": "csv"}, owner="bench")
    options = SourceOptions.from_values(values)

    def enumerator(count: int, state: FileSystemEnumeratorState | None = None) -> FileSystemSplitEnumerator:
        context = Coordinator()
        tracker = FileTracker.open(context, None, None, state)
        return FileSystemSplitEnumerator(
            context, _MadeUpFiles(count), options, lambda _: False, None, tracker, state, lambda _, __: None
        )

    first = enumerator(scale.state_files)
    first.prepare_for_available_now()
    while first.handle_split_request() is not None:
        pass
    stored = json.dumps(StreamOffset(seq=1, enumerator=STATE_SERIALIZER.pack(first.snapshot_state())).to_json())
    restored = []
    for _ in range(scale.repetitions):
        started = time.perf_counter()
        packed = StreamOffset.from_json(json.loads(stored)).enumerator
        assert packed is not None
        enumerator(0, STATE_SERIALIZER.unpack(packed))
        restored.append((time.perf_counter() - started) * 1000)
    name = f"after {scale.state_files:,} files"
    note = f"the enumerator alone, default options; an offset also lists the files of its own batch. {_UNMEASURED}"
    return [
        Measurement(f"state {name}", "kB", "less", {OURS: [len(stored) / 1000]}, note),
        Measurement(f"restoring it {name}", "ms", "less", {OURS: restored}),
    ]
