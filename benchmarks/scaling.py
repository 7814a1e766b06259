"""``scripts/bench scaling``: what a batch of many tasks costs the driver, from 10 to 10,000.

The sinks and the driver's side of the protocol are the real ones, and so are the servers, except for S3: there each
request of the driver waits as long as a request to S3 takes, on top of a model of S3 in this process. Tasks write one
row each, one after the other; what they take is not counted. Counted are the driver's steps: planning, deciding and
publishing, and in the second batch throwing away what its tasks have made.

There is nothing to compare with: the page shows seconds, and milliseconds for each task.
"""

from __future__ import annotations

import argparse
import contextlib
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measuring import OURS, Measurement, Results, as_rows
from benchmarks.model_s3 import ModelS3, model_s3
from penstock.connector import Connector
from penstock.retry import RetryPolicy
from penstock.testing._sink_engine import SinkQuery
from penstock_filesystem import FileSystemConnector
from penstock_kafka import KafkaConnector
from penstock_kafka.dev import KafkaToolbox, kafka_server
from penstock_pravega import PravegaConnector
from penstock_pravega.dev import PravegaToolbox, pravega_server

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pyarrow", "penstock", "penstock-filesystem", "penstock-kafka", "penstock-pravega")
TASKS = (10, 100, 1_000, 10_000)
SEGMENTS = 4
#: Of a small request to S3 from the same region, about. It was not measured here.
S3_REQUEST_S = 0.05
ROWS = {
    "filesystem": pa.record_batch({"id": [1], "note": ["one"]}),
    "kafka": pa.record_batch({"value": [b"one row"]}),
    "pravega": pa.record_batch({"value": [b"one row"]}),
}


@dataclass
class Found:
    """What one number of tasks took, in seconds of the clock and of this process's processors."""

    tasks: int
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    sent_bytes: int = 0

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times the block."""
        started, cpu = time.perf_counter(), time.process_time()
        yield
        self.seconds[name] = time.perf_counter() - started
        self.cpu_seconds[name] = time.process_time() - cpu


class Target:
    """A sink, and what slows its driver's requests down."""

    def __init__(self, connector: Connector, name: str, **options: str) -> None:
        self._connector, self._row = connector, ROWS[name]
        self._options = {key.replace("_", "."): text for key, text in options.items()}

    def driver(self) -> contextlib.AbstractContextManager[Any]:
        """Around each of the driver's steps."""
        return contextlib.nullcontext()

    def measure(self, tasks: int, folder: Path) -> Found:
        """Two batches of ``tasks``: one is committed, one is given up."""
        assert self._connector.sink_options is not None
        schema = self._row.schema
        values = self._connector.sink_options.parse(self._options, owner="sink")
        query = SinkQuery(self._connector.create_sink(values, schema), schema, folder, retry=RetryPolicy(120))
        found = Found(tasks)
        query.run(0, [[self._row]])  # claims the log, and connects
        with self.driver(), found.step("plan"):
            plan = query.plan(1)
        results = [query.attempt(plan, 1, task, [self._row]) for task in range(tasks)]
        found.sent_bytes = len(pickle.dumps(results))
        with self.driver(), found.step("commit"):
            query.commit(1, results)
        plan = query.plan(2)
        results = [query.attempt(plan, 2, task, [self._row]) for task in range(tasks)]
        with self.driver(), found.step("abort"):
            query.abort(2, results)
        query.finish()
        return found


class S3Target(Target):
    """Files on a model of S3 whose answers take their time."""

    def __init__(self, model: ModelS3, **options: str) -> None:
        super().__init__(FileSystemConnector(), "filesystem", **options)
        self.model = model

    @contextlib.contextmanager
    def driver(self) -> Iterator[None]:
        self.model.request_s = S3_REQUEST_S
        try:
            yield
        finally:
            self.model.request_s = 0.0


@contextlib.contextmanager
def files(folder: Path) -> Iterator[Target]:
    """On this machine's disk, published with each batch."""
    yield Target(FileSystemConnector(), "filesystem", path=str(folder / "out"), rollOnCheckpoint="true")


@contextlib.contextmanager
def s3(folder: Path) -> Iterator[Target]:
    """See :class:`S3Target`."""
    options = {"s3_key": "a", "s3_secret": "b", "s3_region": "us-east-1", "rollOnCheckpoint": "true"}
    with model_s3() as model:
        yield S3Target(model, path="s3://bench/out", **options)


@contextlib.contextmanager
def kafka(folder: Path) -> Iterator[Target]:
    """One broker, which is the coordinator of every transaction."""
    with kafka_server(folder / "broker") as server:
        topic = KafkaToolbox(server.address).create_topic(partitions=SEGMENTS)
        options = {"kafka_bootstrap_servers": server.address, "topic": topic, "delivery": "exactly-once"}
        yield Target(KafkaConnector(), "kafka", **options)


@contextlib.contextmanager
def pravega(folder: Path) -> Iterator[Target]:
    """One server with one controller."""
    with pravega_server(folder / "pravega") as server:
        toolbox = PravegaToolbox(server.address)
        stream = toolbox.create_stream(segments=SEGMENTS)
        options = {"controller": toolbox.address, "scope": toolbox.scope, "stream": stream}
        yield Target(PravegaConnector(), "pravega", delivery="exactly-once", **options)


CASES = {"files": files, "s3": s3, "kafka": kafka, "pravega": pravega}
WORDS = {
    "files": "files, local disk",
    "s3": f"files, S3 at {S3_REQUEST_S * 1000:.0f} ms a request",
    "kafka": "Kafka, one broker",
    "pravega": "Pravega, one server",
}


def measurements(case: str, found: Found) -> list[Measurement]:
    """One for each step, and one for what the tasks send to the driver."""
    made = []
    for step, seconds in found.seconds.items():
        name = f"{WORDS[case]}: {found.tasks:,} tasks: {step}"
        made.append(Measurement(name, "s", "less", {OURS: [seconds]}))
        made.append(Measurement(f"{name}, processor", "s", "less", {OURS: [found.cpu_seconds[step]]}))
    name = f"{WORDS[case]}: {found.tasks:,} tasks: sent to the driver"
    made.append(Measurement(name, "bytes a task", "less", {OURS: [found.sent_bytes / found.tasks]}))
    return made


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(prog="scripts/bench scaling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 100 tasks")
    parser.add_argument("--most", type=int, default=TASKS[-1], metavar="TASKS", help="no more tasks than so many")
    parser.add_argument("--only", action="append", choices=CASES, help="renew only this case (may be given again)")
    arguments = parser.parse_args()
    name = ".cache/bench-scaling-quick.json" if arguments.quick else "benchmarks/results/scaling.json"
    results = Results(ROOT / name, PACKAGES)
    for case, target_in in CASES.items():
        if arguments.only and case not in arguments.only:
            continue
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, target_in(Path(folder)) as target:
            made: list[Measurement] = []
            for tasks in TASKS[:2] if arguments.quick else [n for n in TASKS if n <= arguments.most]:
                found = target.measure(tasks, Path(folder) / f"checkpoint-{tasks}")
                made += measurements(case, found)
                print(as_rows(measurements(case, found)), flush=True)
            results.put(case, made)
    if not arguments.quick:
        results.write_page("scaling")
    return 0


if __name__ == "__main__":
    sys.exit(main())
