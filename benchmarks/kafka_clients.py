"""``scripts/bench kafka_clients``: the two clients of penstock.kafka beside each other, read by Spark.

Each client reads each kind of records in Spark sessions of its own, since a JVM that has read with one client would
favour the other; sessions of the two take turns. Beside the rows per second the run says what processor time the
session used, its JVM and Python workers together, without the broker. ``--quick`` takes less data; its results go to
``.cache/bench-kafka-clients-quick.json``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from benchmarks.kafka_setup import BROKER_PROPERTIES, Shape, start_spark, stop_spark
from benchmarks.measuring import OURS, THEIRS, Measurement, Results, as_table
from penstock_kafka.client import HEADERS_TYPE, open_producer
from penstock_kafka.dev import KafkaToolbox, kafka_server

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pyspark", "pyarrow", "penstock", "penstock-kafka", "confluent-kafka")
SHAPES = (Shape(100, False, 4), Shape(100, True, 4), Shape(1000, False, 4))
CLIENTS = {OURS: "protocol", THEIRS: "librdkafka"}
_FULL, _QUICK = {100: 4_000_000, 1000: 1_000_000}, {100: 400_000, 1000: 100_000}
_REPETITIONS = 3
_ROWS_OF_A_BATCH = 16_000
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Runs everything, or as a process of its own one session."""
    parser = argparse.ArgumentParser(prog="scripts/bench kafka_clients", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data, one session of each client")
    parser.add_argument("--session", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.session:
        _session(*arguments.session)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that broker and data go
    where = ".cache/bench-kafka-clients-quick.json" if arguments.quick else "benchmarks/results/kafka-clients.json"
    results = Results(ROOT / where, PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as directory,
        kafka_server(Path(directory) / "broker", BROKER_PROPERTIES) as broker,
    ):
        rows = _QUICK if arguments.quick else _FULL
        found = _read(KafkaToolbox(broker.address), rows, sessions=1 if arguments.quick else 2)
    print(as_table(found), flush=True)
    results.put("read", found)
    if not arguments.quick:
        results.write_page("kafka-clients")
    return 0


def _read(toolbox: KafkaToolbox, scale: dict[int, int], sessions: int) -> list[Measurement]:
    measurements = []
    for shape in SHAPES:
        rows = scale[shape.value_bytes]
        topic = toolbox.create_topic(partitions=shape.partitions)
        _fill(toolbox.address, topic, shape, rows)
        rates: dict[str, list[float]] = {side: [] for side in CLIENTS}
        costs: dict[str, list[float]] = {side: [] for side in CLIENTS}
        order = list(CLIENTS)
        for _ in range(sessions):
            for side in order:
                given = (toolbox.address, topic, CLIENTS[side], str(shape.headers).lower(), str(rows))
                command = [sys.executable, "-m", "benchmarks.kafka_clients", "--session", *given]
                output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
                values = [line.split()[1:] for line in output.splitlines() if line.startswith("measured ")]
                rates[side] += [float(rate) for rate, _ in values]
                costs[side] += [float(cost) for _, cost in values]
                load = os.getloadavg()[0]
                print(f"{shape}, client={CLIENTS[side]}: {values}, load {load:.1f}", file=sys.stderr, flush=True)
            order.reverse()
        toolbox.delete_topic(topic)
        measurements.append(Measurement(f"read {shape}", "rows/s", "more", rates))
        measurements.append(Measurement(f"read {shape}", "CPU s per million rows", "less", costs))
    return measurements


def _fill(address: str, topic: str, shape: Shape, rows: int) -> None:
    """Writes random values, which do not compress, evenly over the partitions."""
    producer = open_producer({"bootstrap.servers": address})
    for start in range(0, rows, _ROWS_OF_A_BATCH):
        producer.produce(_batch(topic, shape, min(_ROWS_OF_A_BATCH, rows - start)))
    producer.flush()
    producer.close()


def _batch(topic: str, shape: Shape, rows: int) -> pa.RecordBatch:
    width = shape.value_bytes
    data = os.urandom(rows * width)
    columns = {
        "value": pa.array([data[at : at + width] for at in range(0, len(data), width)], pa.binary()),
        "topic": pa.array([topic] * rows),
        "partition": pa.array([row % shape.partitions for row in range(rows)], pa.int32()),
    }
    if shape.headers:
        headers = [{"key": "source", "value": b"bench"}, {"key": "trace", "value": data[:16]}]
        columns["headers"] = pa.array([headers] * rows, HEADERS_TYPE)
    return pa.record_batch(columns)


def _session(address: str, topic: str, client: str, headers: str, rows: str) -> None:
    """Reads the topic in a session of this process, and prints a line for each time."""
    spark = start_spark()
    options = {"kafka.bootstrap.servers": address, "subscribe": topic, "includeHeaders": headers, "client": client}
    frame = spark.read.format("penstock.kafka").options(**options).load()
    for number in range(_REPETITIONS + 1):
        wall_s, cpu_s = time.perf_counter(), _cpu_seconds(os.getpid())
        frame.write.format("noop").mode("overwrite").save()
        wall_s, cpu_s = time.perf_counter() - wall_s, _cpu_seconds(os.getpid()) - cpu_s
        if number:  # the first one warms up
            print(f"measured {int(rows) / wall_s:.0f} {cpu_s / int(rows) * 1e6:.3f}", flush=True)
    stop_spark(spark)


def _cpu_seconds(process: int) -> float:
    """Returns what a process and all below it have used so far, with those that have ended.

    The deepest come first: what a process used that ends meanwhile is added to the one above it.
    """
    return sum(_ticks(one) for one in [*_below(process), process]) / _TICKS


def _below(process: int) -> Iterator[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{process}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield from _below(child)
                yield child


def _ticks(process: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        fields: Sequence[str] = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
