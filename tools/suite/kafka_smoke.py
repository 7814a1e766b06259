"""What works with a broker: reading, both deliveries, and a query that is killed. By hand::

    PYTHONPATH=tools python -m suite.kafka_smoke 127.0.0.1:9092

prints a JSON object: use → "ok", or what was wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from penstock_kafka.dev import KafkaToolbox

__all__ = ["smoke"]

_ROWS, _PER_BATCH, _KILLS = 300, 20, 3
_SECONDS = 180.0
_CLIENTS = ("protocol", "librdkafka")
_TOOLS = Path(__file__).parent.parent


def smoke(
    address: str, folder: Path, settings: Mapping[str, str] | None = None, uses: tuple[str, ...] | None = None
) -> dict[str, str]:
    """Returns use → ``ok``, or what was wrong, for reading, each delivery and a kill, with each client.

    ``settings``: options of source and sink (``kafka.…``). ``uses``: of the result's keys, those that are tried.
    """
    kafka, options = KafkaToolbox(address), {"kafka.bootstrap.servers": address, **(settings or {})}
    found = {}
    for use in uses or tuple(f"{use} {client}" for client in _CLIENTS for use in _USES):
        name, client = use.split()
        with contextlib.suppress(FileExistsError):
            (folder / f"{name}-{client}").mkdir(parents=True)
        try:
            _USES[name](kafka, folder / f"{name}-{client}", {**options, "client": client})
            found[use] = "ok"
        except AssertionError as error:
            found[use] = str(error)
    return found


def _fed(kafka: KafkaToolbox) -> tuple[str, set[bytes]]:
    """A topic with records, some of them in a transaction that was committed, and in one that was aborted."""
    topic, values = kafka.create_topic(partitions=2), [b"%d" % number for number in range(_ROWS)]
    kafka.produce(topic, [{"key": value, "value": value} for value in values[: _ROWS // 2]])
    kafka.produce_transaction(topic, [b"aborted"] * 10, commit=False)
    kafka.produce_transaction(topic, [{"key": value, "value": value} for value in values[_ROWS // 2 :]])
    return topic, set(values)


def _reads(kafka: KafkaToolbox, folder: Path, options: Mapping[str, str]) -> None:
    topic, values = _fed(kafka)
    with _job("read", folder, topic, "", options) as process:
        _await_end(process, folder)
    read = set(json.loads((folder / "read.json").read_text()))
    assert read == {value.decode() for value in values}, f"read {len(read)} of {len(values)} records"


def _writes(delivery: str) -> Callable[[KafkaToolbox, Path, Mapping[str, str]], None]:
    def copies(kafka: KafkaToolbox, folder: Path, options: Mapping[str, str]) -> None:
        topic, values = _fed(kafka)
        out = kafka.create_topic(partitions=2)
        with _job("copy", folder, topic, out, {**options, "delivery": delivery}) as process:
            _await_end(process, folder)
        _compare(kafka, out, values)

    return copies


def _is_killed(kafka: KafkaToolbox, folder: Path, options: Mapping[str, str]) -> None:
    topic, values = _fed(kafka)
    out, options = kafka.create_topic(partitions=2), {**options, "delivery": "exactly-once"}
    for _ in range(_KILLS):
        seen = len(kafka.read(out, "read_uncommitted"))
        with _job("copy", folder, topic, out, options) as process:
            deadline = time.monotonic() + _SECONDS
            while process.poll() is None and len(kafka.read(out, "read_uncommitted")) == seen:
                assert time.monotonic() < deadline, f"no record in {_SECONDS:.0f} s: {_last_words(folder)}"
            time.sleep(random.random() * 0.5)
            assert process.poll() is None, f"it ended before it was killed: {_last_words(folder)}"
        _no_value_twice(kafka, out)
    with _job("copy", folder, topic, out, options) as process:
        _await_end(process, folder)
    _compare(kafka, out, values)


_USES: Mapping[str, Callable[[KafkaToolbox, Path, Mapping[str, str]], None]] = {
    "read": _reads,
    "at-least-once": _writes("at-least-once"),
    "exactly-once": _writes("exactly-once"),
    "kill": _is_killed,
}


def _no_value_twice(kafka: KafkaToolbox, topic: str) -> list[bytes | None]:
    values = [record.value for record in kafka.read(topic)]
    assert len(values) == len(set(values)), f"{len(values) - len(set(values))} records are there twice"
    return values


def _compare(kafka: KafkaToolbox, topic: str, expected: set[bytes]) -> None:
    values = set(_no_value_twice(kafka, topic))
    assert values == expected, f"{len(expected - values)} records are missing, {len(values - expected)} too many"


@contextlib.contextmanager
def _job(what: str, folder: Path, topic: str, out: str, options: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A driver in a session of its own, which ends with the block."""
    command = [sys.executable, "-m", "suite.kafka_smoke", what, topic, out, json.dumps(dict(options))]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdout=log,
            stderr=log,
            text=True,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(_TOOLS), os.environ.get("PYTHONPATH", "")])},
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_end(process: subprocess.Popen[str], folder: Path) -> None:
    try:
        status = process.wait(_SECONDS)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end in {_SECONDS:.0f} s: {_last_words(folder)}") from None
    assert status == 0, _last_words(folder)


def _last_words(folder: Path) -> str:
    lines = [line for line in (folder / "log").read_text("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error: " in line]
    return " | ".join((errors or lines)[-2:])[-1000:]


def _run(what: str, topic: str, out: str, options: Mapping[str, str]) -> None:
    """The driver."""
    from pyspark.sql import SparkSession

    import penstock

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    penstock.register(spark)
    where = {name: text for name, text in options.items() if name != "delivery"}
    if what == "read":
        rows = spark.read.format("penstock.kafka").options(**where).option("subscribe", topic).load()
        values = [row.text for row in rows.selectExpr("cast(value as string) text").collect()]
        Path("read.json").write_text(json.dumps(values))
        return
    source = spark.readStream.format("penstock.kafka").options(**where).option("subscribe", topic)
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", str(_PER_BATCH))
    sink = source.load().select("key", "value").writeStream.format("penstock.kafka").options(**options)
    sink = sink.option("topic", out).option("checkpointLocation", "ck/").trigger(availableNow=True)
    sink.start().awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) == 2:
        with tempfile.TemporaryDirectory() as made:
            print(json.dumps(smoke(sys.argv[1], Path(made)), indent=2))
    else:
        _run(sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))
