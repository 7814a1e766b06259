"""``scripts/bench pravega``: penstock.pravega beside pravega_client, on the same server, without Spark.

The client runs alone in one process; ours with one, two and four tasks, a process each, as Spark's workers are. Ours
reads into Arrow batches and writes in transactions, with everything acknowledged; the client reads events one by one
and writes plainly, with a flush at the end and 10,000 events in flight (its default, none, waits for each). It gets an
environment of its own, in .cache/pravega-client.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.measuring import Measurement, Results, as_table, interleave

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pyarrow", "penstock", "penstock-pravega", "grpcio", "numpy")
SIZE, SEGMENTS, TASKS = 100, 4, (1, 2, 4)

#: Children say "ready", wait for a line, work, and say "done": start and connecting are not measured, as in a worker
#: that is used again.
READ_OURS = """
from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock_pravega.options import SOURCE_OPTIONS, SourceOptions
from penstock_pravega.source import PravegaSource
from penstock.spark._coordinator import Coordinator
options = {"controller": address, "scope": scope, "stream": stream}
source = PravegaSource(SourceOptions.from_values(SOURCE_OPTIONS.parse(options, owner="bench")))
schema = source.fixed_schema()
source.validate_schema(schema)
splits = list(source.list_splits(Coordinator()))[task::tasks]
ready()
count = sum(batch.num_rows for batch in SourceReader(source, ReaderContext(schema, Metrics())).read(splits))
"""
WRITE_OURS = """
import uuid
import pyarrow as pa
from penstock.metrics import Metrics
from penstock.sink import SinkContext, WriterContext
from penstock_pravega.options import SINK_OPTIONS, SinkOptions
from penstock_pravega.sink import create_sink
options = {"controller": address, "scope": scope, "stream": stream, "delivery": "exactly-once"}
schema = pa.schema([("routing_key", pa.string()), ("value", pa.binary())])
sink = create_sink(SinkOptions.from_values(SINK_OPTIONS.parse(options, owner="bench")), schema)
sink = sink.start(SinkContext("bench", schema))
batch = pa.record_batch([[f"key-{n % 1000}" for n in range(10_000)], [b"x" * size] * 10_000], schema=schema)
count = rows // tasks
writer = sink.create_writer(WriterContext("bench", schema, Metrics(), attempt_id=uuid.uuid4().hex))
ready()
for _ in range(count // 10_000):
    writer.write(batch)
committables = writer.prepare_commit().committables
finished()
writer.close()
sink.create_committer(SinkContext("bench", schema)).abort(committables, [])
"""
READ_CLIENT = """
import asyncio
import uuid
import pravega_client
manager = pravega_client.StreamManager(address.removeprefix("tcp://"), False, False)
reader = manager.create_reader_group(uuid.uuid4().hex, scope, stream).create_reader("one")
ready()
async def read():
    seen = 0
    while seen < rows:
        part = await reader.get_segment_slice_async()
        for event in part:
            event.data()
            seen += 1
        reader.release_segment(part)
    return seen
count = asyncio.run(read())
"""
WRITE_CLIENT = """
import pravega_client
manager = pravega_client.StreamManager(address.removeprefix("tcp://"), False, False)
writer = manager.create_writer(scope, stream, 10_000)
value = b"x" * size
ready()
for number in range(rows):
    writer.write_event_bytes(value, routing_key=f"key-{number % 1000}")
writer.flush()
count = rows
"""
HEAD = """
import sys
address, scope, stream = sys.argv[1:4]
task, tasks, rows, size = map(int, sys.argv[4:])
told = []
def ready():
    print("ready", flush=True)
    sys.stdin.readline()
def finished():
    told.append(1)
    print("done", flush=True)
"""
TAIL = """
if not told:
    finished()
"""


class Bench:
    """One server, one stream that is read."""

    def __init__(self, address: str, rows: int, client: str) -> None:
        from penstock_pravega.dev import PravegaToolbox

        self.toolbox = PravegaToolbox(address)
        self.rows, self.client = rows, client
        self.source = self.toolbox.create_stream(segments=SEGMENTS)
        for first in range(0, rows, 20_000):
            numbers = range(first, first + 20_000)
            self.toolbox.write(self.source, [(f"key-{n % 1000}", b"x" * SIZE) for n in numbers])

    def rate(self, code: str, stream: str, tasks: int = 1, python: str = sys.executable) -> float:
        """Events a second of all tasks together, from the common start to the last one's end."""
        children = []
        for task in range(tasks):
            words = [self.toolbox.address, self.toolbox.scope, stream, *map(str, (task, tasks, self.rows, SIZE))]
            command = [python, "-c", HEAD + code + TAIL, *words]
            children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        try:
            for child in children:
                _await(child, "ready")
            started = time.perf_counter()
            for child in children:
                assert child.stdin is not None
                child.stdin.write("go\n")
                child.stdin.flush()
            for child in children:
                _await(child, "done")
            return self.rows / (time.perf_counter() - started)
        finally:
            for child in children:
                assert child.stdin is not None
                child.stdin.close()
                child.wait(60)

    def compare(self, name: str, ours: str, theirs: str, repetitions: int, fresh: bool) -> list[Measurement]:
        """Ours with each number of tasks; the client in every round of them."""

        def stream() -> str:
            return self.toolbox.create_stream(segments=SEGMENTS) if fresh else self.source

        def ours_by(tasks: int) -> float:
            return self.rate(ours, stream(), tasks)

        found = []
        for tasks in TASKS:
            sides: dict[str, Callable[[], float]] = {
                "penstock": partial(ours_by, tasks),
                "spark": lambda: self.rate(theirs, stream(), python=self.client),
            }
            words = "1 task" if tasks == 1 else f"{tasks} tasks"
            found.append(Measurement(f"{name}, {words}", "events/s", "more", interleave(sides, repetitions)))
        return found


def client_python() -> str:
    """A Python that has the package pravega; made the first time."""
    folder = ROOT / ".cache" / "pravega-client"
    python = folder / "bin" / "python"
    if not python.exists():
        print("installing pravega_client, once", file=sys.stderr)
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pravega"], check=True)
    return str(python)


def table(found: list[Measurement]) -> str:
    """With the right name over the other side's column."""
    return as_table(found).replace("Spark's own", "pravega_client")


def _await(child: subprocess.Popen[str], word: str) -> None:
    assert child.stdout is not None and child.stdout.readline() == f"{word}\n"


def main() -> int:
    """Runs the cases."""
    parser = argparse.ArgumentParser(prog="scripts/bench pravega", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer events, one repetition")
    arguments = parser.parse_args()
    client = client_python()
    from penstock_pravega.dev import pravega_server

    rows, repetitions = (200_000, 1) if arguments.quick else (1_000_000, 3)
    name = ".cache/bench-pravega-quick.json" if arguments.quick else "benchmarks/results/pravega.json"
    results = Results(ROOT / name, PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        pravega_server(folder, heap_mb=3000) as server,
    ):
        bench = Bench(server.address, rows, client)
        for case, ours, theirs, fresh in (
            ("read", READ_OURS, READ_CLIENT, False),
            ("write", WRITE_OURS, WRITE_CLIENT, True),
        ):
            found = bench.compare(f"{case} {SIZE}-byte events", ours, theirs, repetitions, fresh)
            print(table(found), flush=True)
            results.put(case, found)
        bench.toolbox.close()
    if not arguments.quick:
        results.write_page(ROOT / "docs" / "performance.md", "pravega", theirs="pravega_client")
    return 0


if __name__ == "__main__":
    sys.exit(main())
