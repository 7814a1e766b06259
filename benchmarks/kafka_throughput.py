"""Rows per second, read and written in one batch."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import partial
from itertools import product

from pyspark.sql import DataFrame

from benchmarks.kafka_bound import BOUND_FORMAT, bound_frame
from benchmarks.kafka_setup import Bench, Shape, seconds_of
from benchmarks.measuring import OURS, THEIRS, Measurement
from penstock_kafka.client import MAX_BATCH_BYTES, MAX_BATCH_ROWS

LIBRDKAFKA, BOUND = "penstock, client=librdkafka", "bound"
#: The shape that extra questions are asked for.
PLAIN = Shape(100, headers=False, partitions=4)
_TASKS = 2
_WARM_UP_ROWS = 100_000


def shapes(bench: Bench) -> list[Shape]:
    """Headers are asked for on several partitions only: the run is long enough."""
    kinds = ((False, 1), (False, PLAIN.partitions), (True, PLAIN.partitions))
    return [Shape(size, *kind) for size, kind in product(bench.scale.rows, kinds)]


def read(bench: Bench) -> list[Measurement]:
    """Whole topics into Spark's noop sink. Before that, what is read is compared with what was written."""
    found = []
    for shape in shapes(bench):
        bench.say(f"read {shape}")
        with bench.filled_topic(shape) as topic:
            headers = str(shape.headers).lower()
            frames = {side: bench.read(side, topic, includeHeaders=headers) for side in (OURS, THEIRS)}
            if shape == PLAIN:
                frames[LIBRDKAFKA] = bench.read(OURS, topic, includeHeaders=headers, client="librdkafka")
            expected = _checksum(bench.records(shape), shape)
            for side, frame in frames.items():
                _check(side, _checksum(frame, shape), expected)
            frames[BOUND] = bound_of_reading(bench, topic, shape)
            runs = {side: partial(_read_rate, frame, bench.rows(shape)) for side, frame in frames.items()}
            found += _read_measurements(shape, bench.alternate(runs, bench.scale.repetitions))
    return found


def _read_rate(frame: DataFrame, rows: int) -> float:
    return rows / seconds_of(frame.write.format("noop").mode("overwrite").save)


def _checksum(frame: DataFrame, shape: Shape) -> tuple[int, ...]:
    """Says whether rows are the same, whatever their order."""
    sums = ["count(*)", "sum(crc32(key))", "sum(crc32(value))"]
    if shape.headers:
        sums += ["sum(size(headers))", "sum(crc32(headers[1].value))"]
    return tuple(frame.selectExpr(*sums).first() or ())


def _check(side: str, found: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if found != expected:
        raise RuntimeError(f"{side}: count and checksums are {found} instead of {expected}")


def bound_of_reading(bench: Bench, topic: str, shape: Shape) -> DataFrame:
    """As many rows, out of nothing: batches like those that our client hands over of ``topic``."""
    each = min(MAX_BATCH_ROWS, MAX_BATCH_BYTES // shape.value_bytes) // shape.partitions
    ends = json.dumps({topic: {str(partition): each for partition in range(shape.partitions)}})
    headers = str(shape.headers).lower()
    rows = bench.read(OURS, topic, endingOffsets=ends, includeHeaders=headers).toArrow()
    (batch,) = rows.combine_chunks().to_batches()
    tasks = min(shape.partitions, _TASKS)
    return bound_frame(bench.spark, str(bench.folder / "bound.arrow"), batch, rows=bench.rows(shape), tasks=tasks)


def _read_measurements(shape: Shape, values: dict[str, list[float]]) -> list[Measurement]:
    both = {side: values[side] for side in (OURS, THEIRS)}
    found = [Measurement(f"read {shape}", "rows/s", "more", both, share_of_bound(values[OURS], values[BOUND]))]
    if LIBRDKAFKA in values:
        fallback = {OURS: values[LIBRDKAFKA], THEIRS: values[THEIRS]}
        found.append(Measurement(f"read {shape}, client=librdkafka", "rows/s", "more", fallback, "the fallback"))
    return found


def share_of_bound(ours: list[float], bound: list[float]) -> str:
    """A note."""
    most = statistics.median(bound)
    return f"{100 * statistics.median(ours) / most:.0f} % of the bound, {most:,.0f}"


def write(bench: Bench) -> list[Measurement]:
    """The same rows into new topics. Every topic's records are counted."""
    found = []
    warm_up = Shape(100, headers=True, partitions=2)
    for side in (OURS, THEIRS):
        _write_rate(bench, warm_up, bench.records(warm_up, _WARM_UP_ROWS).repartition(2), _WARM_UP_ROWS, side)
    for shape in shapes(bench):
        bench.say(f"write {shape}")
        frame, rows = bench.records(shape), bench.rows(shape)
        alone = _read_rate(frame, rows)
        bench.say(f"  the rows alone: {alone:,.0f} rows/s")
        runs: dict[str, Callable[[], float]] = {
            side: partial(_write_rate, bench, shape, frame, rows, side) for side in (OURS, THEIRS)
        }
        runs[BOUND] = partial(bound_rate, frame, rows)
        if shape == PLAIN:
            runs[LIBRDKAFKA] = partial(_write_rate, bench, shape, frame, rows, OURS, client="librdkafka")
        values = bench.alternate(runs, bench.scale.repetitions)
        share = share_of_bound(values[OURS], values[BOUND])
        note = f"{share}; reading the rows from Parquet alone runs at {alone:,.0f} rows/s"
        both = {side: values[side] for side in (OURS, THEIRS)}
        found.append(Measurement(f"write {shape}", "rows/s", "more", both, note))
        if LIBRDKAFKA in values:
            fallback = {OURS: values[LIBRDKAFKA], THEIRS: values[THEIRS]}
            found.append(Measurement(f"write {shape}, client=librdkafka", "rows/s", "more", fallback, "the fallback"))
    return found


def bound_rate(frame: DataFrame, rows: int) -> float:
    """Rows per second into nothing."""
    return rows / seconds_of(frame.write.format(BOUND_FORMAT).mode("append").save)


def _write_rate(bench: Bench, shape: Shape, frame: DataFrame, rows: int, side: str, **options: str) -> float:
    with bench.topic(shape.partitions) as topic:
        seconds = seconds_of(lambda: bench.write(frame, side, topic, **options))
        bench.expect_rows(topic, rows)
    return rows / seconds
