"""``scripts/bench foreach_batch``: one batch with three sinks beside three queries with one sink each.

A Kafka topic into a topic, a Cassandra table and Parquet files, all exactly once. One query writes them in its batch
function, each by itself or committed together; three queries, which run at the same time, each read the topic and
write one. Servers and Spark share the machine.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

import penstock
from benchmarks.measuring import OURS, THEIRS, Measurement, Results, as_table, interleave
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import cassandra_server
from penstock_kafka.dev import KafkaToolbox, kafka_server

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pyspark", "pyarrow", "penstock", "penstock-kafka", "penstock-cassandra", "penstock-filesystem")
KEYSPACE = "bench"
PARTITIONS = 2
GROUP = "committed together"

Sinks = dict[str, tuple[str, dict[str, str]]]


class Bench:
    """Session, servers, and the topic that all sides read. Every run has a topic, a table and files of its own."""

    def __init__(
        self, spark: SparkSession, folder: Path, brokers: str, cassandra: str, rows: int, batches: int
    ) -> None:
        self._spark, self._folder, self._rows, self._batches = spark, folder, rows, batches
        self._kafka = KafkaToolbox(brokers)
        host, _, port = cassandra.rpartition(":")
        self._table = {"host": host, "port": port, "keyspace": KEYSPACE}
        self._client = Client(ConnectionSettings((host,), int(port), request_timeout_s=120))
        replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
        self._client.rows(f"create keyspace if not exists {KEYSPACE} with replication = {replication}")
        self._brokers = {"kafka.bootstrap.servers": brokers}
        self._source = self._kafka.create_topic(partitions=PARTITIONS)
        made = spark.range(0, rows, 1, PARTITIONS).selectExpr(
            "cast(id as string) as key", "repeat(sha2(cast(id as string), 256), 2) as value"
        )
        made = made.selectExpr("*", f"cast(pmod(hash(key), {PARTITIONS}) as int) as partition")
        made.write.format("penstock.kafka").options(**self._brokers, topic=self._source).mode("append").save()
        self._runs = 0

    def close(self) -> None:
        """Ends the client."""
        self._client.close()

    def rows_per_second(self, start: Callable[[DataFrame, Sinks, Path], Sequence[StreamingQuery]]) -> float:
        """Runs one side from the start of its queries to their end. Raises RuntimeError if a sink lacks a row."""
        self._runs += 1
        topic, table, files = self._kafka.create_topic(partitions=PARTITIONS), f"t{self._runs}", self._folder / "files"
        self._client.rows(f"create table {KEYSPACE}.{table} (key text primary key, value text)")
        sinks: Sinks = {
            "topic": ("penstock.kafka", {**self._brokers, "topic": topic, "delivery": "exactly-once"}),
            "table": ("penstock.cassandra", {**self._table, "table": table}),
            "files": ("penstock.filesystem", {"path": str(files), "format": "parquet", "bucketAssigner": "basePath"}),
        }
        options = {**self._brokers, "subscribe": self._source, "startingOffsets": "earliest"}
        stream = self._spark.readStream.format("penstock.kafka").options(**options)
        stream = stream.option("maxOffsetsPerTrigger", str(self._rows // self._batches))
        records = stream.load().selectExpr("cast(key as string) as key", "cast(value as string) as value")
        started = time.perf_counter()
        for query in start(records, sinks, self._folder):
            query.awaitTermination()
        took = time.perf_counter() - started
        self._check(topic, table, files)
        self._kafka.delete_topic(topic)
        self._client.rows(f"drop table {KEYSPACE}.{table}")
        for path in [files, *self._folder.glob("ck-*")]:
            shutil.rmtree(path)
        return self._rows / took

    def _check(self, topic: str, table: str, files: Path) -> None:
        read = self._spark.read.format("penstock.kafka").options(**self._brokers, subscribe=topic).load()
        rows = self._spark.read.format("penstock.cassandra").options(**self._table, table=table).load()
        found = {"topic": read.count(), "table": rows.count(), "files": ds.dataset(files).count_rows()}
        if set(found.values()) != {self._rows}:
            raise RuntimeError(f"{self._rows} rows were read, and written: {found}")


def _started(writer: DataStreamWriter, checkpoint: Path) -> StreamingQuery:
    return writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()


def one_query(records: DataFrame, sinks: Sinks, folder: Path) -> list[StreamingQuery]:
    """A batch function that writes one sink after the other."""
    checkpoint = folder / "ck-one"

    def write(df: DataFrame, batch_id: int) -> None:
        df.persist()
        for name, (form, options) in sinks.items():
            writer = penstock.batch_writer(df, batch_id, checkpoint=str(checkpoint), name=name)
            writer.format(form).options(**options).save()
        df.unpersist()

    return [_started(records.writeStream.foreachBatch(write), checkpoint)]


def one_group(records: DataFrame, sinks: Sinks, folder: Path) -> list[StreamingQuery]:
    """A batch function whose sinks are committed together."""
    checkpoint = folder / "ck-group"
    group = penstock.SinkGroup("all", checkpoint=str(checkpoint), sinks=sinks)

    def write(df: DataFrame, batch_id: int) -> None:
        df.persist()
        with group.batch(df, batch_id) as batch:
            for name in sinks:
                batch.write(name, df)
        df.unpersist()

    return [_started(records.writeStream.foreachBatch(write), checkpoint)]


def three_queries(records: DataFrame, sinks: Sinks, folder: Path) -> list[StreamingQuery]:
    """A query for each sink, all started at once."""
    return [
        _started(records.writeStream.format(form).options(**options), folder / f"ck-{name}")
        for name, (form, options) in sinks.items()
    ]


def measure(bench: Bench, rows: int, batches: int, repetitions: int) -> list[Measurement]:
    """Returns rows a second of both ways to write in a batch function, each beside three queries."""
    sides = {OURS: one_query, GROUP: one_group, THEIRS: three_queries}
    values = interleave({name: partial(bench.rows_per_second, start) for name, start in sides.items()}, repetitions)
    words = f"{rows:,} rows in {batches} batch{'es' if batches > 1 else ''}"
    return [
        Measurement(f"{words}, {how}", "rows/s", "more", {OURS: values[side], THEIRS: values[THEIRS]})
        for how, side in (("each sink by itself", OURS), (GROUP, GROUP))
    ]


def main() -> int:
    """Large batches and small ones."""
    parser = argparse.ArgumentParser(prog="scripts/bench foreach_batch", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows, one repetition")
    arguments = parser.parse_args()
    scale, repetitions = (1, 1) if arguments.quick else (5, 2)
    cases = [(60_000 * scale, 3), (2_000 * scale, 20)]
    name = ".cache/bench-foreach_batch-quick.json" if arguments.quick else "benchmarks/results/foreach_batch.json"
    results = Results(ROOT / name, PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        kafka_server(Path(directory, "kafka"), {"auto.create.topics.enable": "false"}) as kafka,
        cassandra_server(str(Path(directory, "cassandra"))) as cassandra,
    ):
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.memory": "2g"}
        spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        penstock.register(spark)
        try:
            found = []
            for number, (rows, batches) in enumerate(cases):
                folder = Path(directory, f"run-{number}")
                folder.mkdir()
                bench = Bench(spark, folder, kafka.address, cassandra.address, rows, batches)
                found += measure(bench, rows, batches, repetitions)
                bench.close()
        finally:
            spark.stop()
    print(as_table(found).replace("Spark's own", "three queries"), flush=True)
    results.put("foreach_batch", found)
    if not arguments.quick:
        results.write_page("foreach_batch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
