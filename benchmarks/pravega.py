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
JOBS = Path(__file__).parent / "pravega_jobs"
OURS, THEIRS = "penstock_job.py", "client_job.py"
SIZE, SEGMENTS, TASKS = 100, 4, (1, 2, 4)


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

    def rate(self, job: str, what: str, stream: str, tasks: int = 1, python: str = sys.executable) -> float:
        """Events a second of all tasks together, from the common start to the last one's end."""
        children = []
        for task in range(tasks):
            words = [self.toolbox.address, self.toolbox.scope, stream, *map(str, (task, tasks, self.rows, SIZE))]
            command = [python, str(JOBS / job), what, *words]
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
            seconds = time.perf_counter() - started
        finally:
            for child in children:
                assert child.stdin is not None
                child.stdin.close()
                child.wait(60)
        assert not any(child.returncode for child in children), "a task failed once it was measured (above)"
        return self.rows / seconds

    def compare(self, what: str, repetitions: int, fresh: bool) -> list[Measurement]:
        """Ours with each number of tasks; the client in every round of them."""

        def stream() -> str:
            return self.toolbox.create_stream(segments=SEGMENTS) if fresh else self.source

        def ours_by(tasks: int) -> float:
            return self.rate(OURS, what, stream(), tasks)

        found = []
        for tasks in TASKS:
            sides: dict[str, Callable[[], float]] = {
                "penstock": partial(ours_by, tasks),
                "spark": lambda: self.rate(THEIRS, what, stream(), python=self.client),
            }
            words = "1 task" if tasks == 1 else f"{tasks} tasks"
            values = interleave(sides, repetitions)
            found.append(Measurement(f"{what} {SIZE}-byte events, {words}", "events/s", "more", values))
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
        for case, fresh in (("read", False), ("write", True)):
            found = bench.compare(case, repetitions, fresh)
            print(table(found), flush=True)
            results.put(case, found)
        bench.toolbox.close()
    if not arguments.quick:
        results.write_page("pravega")
    return 0


if __name__ == "__main__":
    sys.exit(main())
