"""What every Kafka case needs: scale, session, broker, rows to write, topics filled and emptied."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
from pyspark.sql import DataFrame, SparkSession

import penstock
from benchmarks.kafka_bound import register_bound
from benchmarks.measuring import OURS, THEIRS, number
from penstock_kafka.dev import KafkaToolbox, kafka_server
from spark_jars import spark_kafka_jars

FILES = 8
FORMATS = {OURS: "penstock.kafka", THEIRS: "kafka"}
#: A topic that is deleted frees its space at once (60 s by default), and no producer's look for it makes it anew.
BROKER_PROPERTIES = {"log.segment.delete.delay.ms": "1000", "auto.create.topics.enable": "false"}
_HEADERS = (
    "array(named_struct('key', 'source', 'value', cast('bench' as binary)), "
    "named_struct('key', 'trace', 'value', substring(value, 1, 16))) as headers"
)


@dataclass(frozen=True)
class Scale:
    """How much of everything. ``rows``: by bytes of a value; ``seconds``: how long latency is watched.

    The ``micro_batches`` and some to warm up, 100,000 rows each, must be no more than the rows of 100 bytes.
    """

    rows: Mapping[int, int]
    repetitions: int
    copies: int
    micro_batches: int
    seconds: int


@dataclass(frozen=True)
class Shape:
    """What records look like, and on how many partitions they are."""

    value_bytes: int
    headers: bool
    partitions: int

    def __str__(self) -> str:
        size = f"{self.value_bytes} bytes" if self.value_bytes < 1000 else "1 KB"
        headers = ", two headers" if self.headers else ""
        return f"{size}{headers}, {self.partitions} partition{'s' if self.partitions > 1 else ''}"


def start_spark() -> SparkSession:
    """One session with both connectors."""
    settings = {
        "spark.jars": ",".join(spark_kafka_jars()),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.files.maxPartitionBytes": "8g",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    builder = SparkSession.builder.master("local[2]").appName("bench-kafka")
    for key, text in settings.items():
        builder = builder.config(key, text)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    penstock.register(spark)
    register_bound(spark)
    return spark


def stop_spark(spark: SparkSession) -> None:
    """Returns when the JVM and its Python workers are gone: they would complain about a broker that ends."""
    gateway = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(30)


@dataclass
class Bench:
    """The run: session, broker, a folder for rows and checkpoints."""

    spark: SparkSession
    toolbox: KafkaToolbox
    folder: Path
    scale: Scale
    started: float = field(default_factory=time.monotonic)

    def say(self, text: str) -> None:
        """A line of progress."""
        minutes, seconds = divmod(int(time.monotonic() - self.started), 60)
        print(f"[{minutes:2}:{seconds:02}, load {os.getloadavg()[0]:.1f}] {text}", file=sys.stderr, flush=True)

    def rows(self, shape: Shape) -> int:
        """How many rows of ``shape`` are measured."""
        return self.scale.rows[shape.value_bytes]

    def records(self, shape: Shape, rows: int | None = None) -> DataFrame:
        """``rows`` rows (all unless given) with the sinks' columns ``key``, ``value`` and, if wanted, ``headers``.

        From uncompressed Parquet files, written when first asked for.
        """
        total = self.rows(shape)
        path = self.folder / f"rows-{shape.value_bytes}"
        if not path.exists():
            self.say(f"making {total:,} rows of {shape.value_bytes} bytes")
            _write_rows(path, shape.value_bytes, total)
        frame = self.spark.read.schema("key binary, value binary").parquet(str(path))
        frame = frame if rows is None else frame.limit(rows)
        return frame.selectExpr("key", "value", *([_HEADERS] if shape.headers else []))

    @contextmanager
    def topic(self, partitions: int) -> Iterator[str]:
        """An empty topic, deleted at the end."""
        name = self.toolbox.create_topic(partitions=partitions)
        try:
            yield name
        finally:
            self.toolbox.delete_topic(name)

    @contextmanager
    def filled_topic(self, shape: Shape, rows: int | None = None) -> Iterator[str]:
        """A topic written by Spark's own connector with the Java client's defaults, evenly over its partitions."""
        with self.topic(shape.partitions) as name:
            started = time.monotonic()
            frame = self.records(shape, rows)
            frame = frame.selectExpr("*", f"cast(pmod(hash(key), {shape.partitions}) as int) as partition")
            self.write(frame, THEIRS, name)
            self.expect_rows(name, self.rows(shape) if rows is None else rows)
            self.say(f"  filled a topic in {time.monotonic() - started:.0f} s")
            yield name

    def options(self, **more: str) -> dict[str, str]:
        """``more`` and where the brokers are: everything else has the defaults of its side."""
        return {"kafka.bootstrap.servers": self.toolbox.address, **more}

    def read(self, side: str, topic: str, **options: str) -> DataFrame:
        """The whole topic as a batch."""
        return self.spark.read.format(FORMATS[side]).options(**self.options(subscribe=topic, **options)).load()

    def write(self, frame: DataFrame, side: str, topic: str, **options: str) -> None:
        """Appends ``frame`` to the topic in one batch."""
        frame.write.format(FORMATS[side]).options(**self.options(topic=topic, **options)).mode("append").save()

    def expect_rows(self, topic: str, rows: int) -> None:
        """Raises RuntimeError unless the topic, written without transactions, holds so many records."""
        found = sum(self.toolbox.end_offsets(topic).values())
        if found != rows:
            raise RuntimeError(f"{topic} holds {found:,} records instead of {rows:,}")

    def alternate(
        self, sides: Mapping[str, Callable[[], float]], rounds: int, unit: str = "rows/s"
    ) -> dict[str, list[float]]:
        """Values by side; who comes first changes with every round. Warming up is the caller's business."""
        values: dict[str, list[float]] = {side: [] for side in sides}
        order = list(sides)
        for _ in range(rounds):
            for side in order:
                values[side].append(sides[side]())
                self.say(f"  {side}: {number(values[side][-1])} {unit}")
            order.reverse()
        return values


@contextmanager
def running_bench(scale: Scale) -> Iterator[Bench]:
    """A broker and a Spark session for the block. Both end with it, also by SIGTERM, and the broker's data goes."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        kafka_server(Path(directory) / "broker", BROKER_PROPERTIES) as broker,
    ):
        spark = start_spark()
        bench = Bench(spark, KafkaToolbox(broker.address), Path(directory), scale)
        try:
            yield bench
        finally:
            stop_spark(spark)
        bench.say("done")


def seconds_of(action: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def _write_rows(path: Path, value_bytes: int, rows: int) -> None:
    path.mkdir()
    each = rows // FILES
    for file in range(FILES):
        with pa.parquet.ParquetWriter(path / f"{file}.parquet", _ROW, compression="none", use_dictionary=False) as out:
            start, end = file * each, rows if file == FILES - 1 else (file + 1) * each
            for at in range(start, end, 100_000):
                out.write_table(_random_rows(at, min(at + 100_000, end), value_bytes))


_ROW = pa.schema([pa.field("key", pa.binary()), pa.field("value", pa.binary())])


def _random_rows(start: int, end: int, value_bytes: int) -> pa.Table:
    """Keys are the row's number as 8 bytes; values are random: nothing compresses."""
    count = end - start
    keys = array("q", range(start, end))
    keys.byteswap()
    columns = [_fixed(keys.tobytes(), 8, count), _fixed(os.urandom(count * value_bytes), value_bytes, count)]
    return pa.Table.from_arrays(columns, schema=_ROW)


def _fixed(data: bytes, width: int, count: int) -> pa.Array:
    offsets = array("i", range(0, width * (count + 1), width))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
