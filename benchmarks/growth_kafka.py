"""A topic with more and more partitions: small batches of each side, into Spark's ``noop`` sink."""

from __future__ import annotations

import shutil
from typing import Any

from benchmarks.kafka_setup import FORMATS, Bench, Shape
from benchmarks.kafka_streams import batches_of
from benchmarks.measuring import OURS, THEIRS, Measurement

_ROWS_EACH = 4_000
_BATCHES = 8
#: Spark's own connector took 131 s for the first batch of 500 partitions.
_MOST_OF_THEIRS = 500


def _read(bench: Bench, side: str, topic: str) -> list[dict[str, Any]]:
    options = bench.options(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=str(_ROWS_EACH))
    checkpoint = bench.folder / "checkpoint"
    rows = bench.spark.readStream.format(FORMATS[side]).options(**options).load()
    query = rows.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    shutil.rmtree(checkpoint)
    batches = batches_of(query)
    if (found := sum(one["numInputRows"] for one in batches)) != _ROWS_EACH * _BATCHES:
        raise RuntimeError(f"{side} read {found:,} rows of {_ROWS_EACH * _BATCHES:,}")
    return batches


def partitions(bench: Bench, count: int) -> list[Measurement]:
    """The first batch, and those after the second."""
    first: dict[str, list[float]] = {}
    later: dict[str, list[float]] = {}
    rows = _ROWS_EACH * _BATCHES
    with bench.topic(count) as topic:
        frame = bench.records(Shape(100, headers=False, partitions=count), rows)
        frame = frame.selectExpr("*", f"cast(pmod(hash(key), {count}) as int) as partition")
        bench.write(frame, OURS, topic, delivery="at-least-once")
        bench.expect_rows(topic, rows)
        for side in (OURS, THEIRS) if count <= _MOST_OF_THEIRS else (OURS,):
            batches = _read(bench, side, topic)
            spent = [float(one["durationMs"]["triggerExecution"]) for one in batches]
            first[side], later[side] = spent[:1], spent[2:]
    each = f"{_ROWS_EACH:,} rows a batch, into Spark's noop sink"
    return [
        Measurement(f"{count:,} partitions: a batch", "ms", "less", later, each),
        Measurement(f"{count:,} partitions: the first batch", "ms", "less", first),
    ]
