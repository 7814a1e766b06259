"""Topic to topic: how fast, and what exactly-once costs."""

from __future__ import annotations

import json
import shutil
import statistics
import time
from functools import partial
from typing import Any

from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.kafka_setup import FORMATS, Bench, Shape
from benchmarks.kafka_throughput import BOUND, bound_of_reading, bound_rate, share_of_bound
from benchmarks.measuring import OURS, THEIRS, Measurement

EXACTLY_ONCE = "penstock exactly-once"
#: Side → format and options of the sink. Spark's own has no choice: at least once.
SINKS: dict[str, tuple[str, dict[str, str]]] = {
    THEIRS: (THEIRS, {}),
    OURS: (OURS, {"delivery": "at-least-once"}),
    EXACTLY_ONCE: (OURS, {"delivery": "exactly-once"}),
}
SHAPE = Shape(100, headers=False, partitions=4)
_ROWS_EACH = 100_000
#: The first ones start processes and compile.
_WARM_UP_BATCHES = 5


def stream(bench: Bench, name: str, source: str, target: str, **options: str) -> DataStreamWriter:
    """Copies keys and values; ``options`` are the source's."""
    side, delivery = SINKS[name]
    reading = bench.options(subscribe=source, startingOffsets="earliest", **options)
    rows = bench.spark.readStream.format(FORMATS[side]).options(**reading).load().select("key", "value")
    writing = bench.options(topic=target, checkpointLocation=str(bench.folder / "checkpoint"), **delivery)
    return rows.writeStream.format(FORMATS[side]).options(**writing)


def batches_of(query: StreamingQuery) -> list[dict[str, Any]]:
    """Spark's progress of each batch that had rows."""
    return [json.loads(one.json) for one in query.recentProgress if one["numInputRows"]]


def _copy(bench: Bench, name: str, source: str, rows: int, **options: str) -> tuple[float, list[dict[str, Any]]]:
    """Seconds and batches of an availableNow run over everything. What has arrived is counted."""
    with bench.topic(SHAPE.partitions) as target:
        started = time.perf_counter()
        query = stream(bench, name, source, target, **options).trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - started
        shutil.rmtree(bench.folder / "checkpoint")
        if name == EXACTLY_ONCE:  # offsets count the transactions' markers, too
            frame = bench.read(THEIRS, target, **{"kafka.isolation.level": "read_committed"})
            if frame.count() != rows:
                raise RuntimeError(f"{name} wrote {frame.count():,} rows instead of {rows:,}")
        else:
            bench.expect_rows(target, rows)
        return seconds, batches_of(query)


def copy(bench: Bench) -> list[Measurement]:
    """As fast as it goes: an availableNow stream, from the call to the end of the query."""
    bench.say(f"copy {SHAPE}")
    rows = bench.rows(SHAPE)
    with bench.filled_topic(SHAPE, 100_000) as small:
        for name in SINKS:
            _copy(bench, name, small, 100_000)
    with bench.filled_topic(SHAPE) as source:
        runs = {name: partial(lambda name: rows / _copy(bench, name, source, rows)[0], name) for name in SINKS}
        runs[BOUND] = partial(bound_rate, bound_of_reading(bench, source, SHAPE).select("key", "value"), rows)
        values = bench.alternate(runs, bench.scale.copies)
    found = [
        _beside_spark(f"copy {SHAPE}, at least once", "rows/s", "more", values, OURS),
        _beside_spark(f"copy {SHAPE}, exactly once", "rows/s", "more", values, EXACTLY_ONCE),
    ]
    for one, name in zip(found, (OURS, EXACTLY_ONCE), strict=True):
        one.note = "; ".join(filter(None, [one.note, share_of_bound(values[name], values[BOUND])]))
    return found


def _beside_spark(what: str, unit: str, better: str, values: dict[str, list[float]], ours: str) -> Measurement:
    note = "Spark's own has only at least once" if ours == EXACTLY_ONCE else ""
    return Measurement(what, unit, better, {OURS: values[ours], THEIRS: values[THEIRS]}, note)


def micro_batches(bench: Bench) -> list[Measurement]:
    """Many batches one after the other: everything between two triggers counts."""
    bench.say(f"micro-batches of {_ROWS_EACH:,} rows, {SHAPE}")
    count = bench.scale.micro_batches + _WARM_UP_BATCHES
    rows = count * _ROWS_EACH
    times: dict[str, list[float]] = {name: [] for name in SINKS}
    with bench.filled_topic(SHAPE, rows) as source:
        for order in (list(SINKS), list(reversed(SINKS))):
            for name in order:
                _, batches = _copy(bench, name, source, rows, maxOffsetsPerTrigger=str(_ROWS_EACH))
                spent = [float(one["durationMs"]["triggerExecution"]) for one in batches[_WARM_UP_BATCHES:]]
                times[name] += spent
                bench.say(f"  {name}: {sum(spent) / len(spent):.0f} ms a batch")
    what = f"a micro-batch of {_ROWS_EACH:,} rows, topic to topic"
    at_least_once = _beside_spark(f"{what}, at least once", "ms", "less", times, OURS)
    exactly_once = _beside_spark(f"{what}, exactly once", "ms", "less", times, EXACTLY_ONCE)
    more = 100 * (statistics.median(times[EXACTLY_ONCE]) / statistics.median(times[OURS]) - 1)
    exactly_once.note += f"; {more:+.0f} % compared with Penstock at least once"
    return [at_least_once, exactly_once]
