"""``scripts/bench cassandra``: penstock.cassandra beside spark-cassandra-connector 3.5.1 and the plain driver.

All on the same server, which is started for the run. The connector has no release for Spark 4: it runs on its own
pyspark 3.5 (installed once into ``.cache``). Every side has its defaults. A job's own time is taken: sessions are open
before. ``large`` is a table of ten million rows: what a task's memory and the splits are.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks import cassandra_large
from benchmarks.cassandra_connector_jars import connector_jars, old_spark
from benchmarks.measuring import OURS, THEIRS, Measurement, Results, as_table, interleave
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import CassandraServer, cassandra_server

ROOT = Path(__file__).resolve().parents[1]
JOBS = Path(__file__).parent / "cassandra_jobs"
PACKAGES = ("pyspark", "pyarrow", "penstock", "penstock-cassandra", "cassandra-driver")
KEYSPACE = "bench"
#: Drivers hear of a new table by an event, and wait for others of its kind; spark-cassandra-connector looks just once.
SCHEMA_SETTLES_S = 4
SETTINGS = {
    "memtable_heap_space": "512MiB",
    "memtable_offheap_space": "512MiB",
    "commitlog_total_space": "1024MiB",
    # Cassandra's default.
    "commitlog_sync": "periodic",
    "commitlog_sync_period": "10000ms",
    "commitlog_sync_group_window": None,
}


class Job:
    """A process that does what it is told, a line at a time."""

    def __init__(self, *command: object) -> None:
        ours = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "PYTHONPATH")
        environment = {name: text for name, text in os.environ.items() if name not in ours}
        environment["PYSPARK_PYTHON"] = str(command[0])
        self._process = subprocess.Popen(
            [str(part) for part in command],
            env=environment,
            cwd=JOBS,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._answer("ready")

    def _answer(self, word: str) -> str:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(word):
                return line
        raise SystemExit(f"{self._process.args!r}: ended with {self._process.wait()}")

    def seconds(self, *words: object) -> float:
        """Of one job."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return float(self._answer("took").split()[1])

    def close(self) -> None:
        """Its input ends, and so does it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


class Bench:
    """One server, a keyspace, and a job for each side and number of tasks."""

    def __init__(self, server: CassandraServer, rows: int, repetitions: int, stack: ExitStack) -> None:
        self.server, self.rows, self.repetitions = server, rows, repetitions
        host, _, port = server.address.rpartition(":")
        self.client = stack.enter_context(Client(ConnectionSettings((host,), int(port), request_timeout_s=120)))
        self.client.rows(
            f"create keyspace {KEYSPACE} with replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
        )
        jars, python = connector_jars(), old_spark(ROOT / ".cache" / "spark-3.5")
        where = (host, port, KEYSPACE)
        self.driver = Job(sys.executable, JOBS / "driver_job.py", *where)
        self.jobs: dict[tuple[str, int], Job] = {}
        for tasks in (1, 2):
            for side, executable in ((OURS, sys.executable), (THEIRS, python)):
                job = Job(executable, JOBS / "spark_job.py", side, *where, tasks, jars)
                stack.callback(job.close)
                self.jobs[side, tasks] = job
        stack.callback(self.driver.close)
        self._tables = 0

    def table(self) -> str:
        """A new one."""
        self._tables += 1
        name = f"t{self._tables}"
        self.client.rows(f"create table {KEYSPACE}.{name} (id bigint primary key, name text, note text)")
        time.sleep(SCHEMA_SETTLES_S)
        return name

    def write(self) -> list[Measurement]:
        """Into a new table each time, which is dropped again."""

        def rate(job: Job, rows: int) -> float:
            table = self.table()
            took = job.seconds("write", table, rows)
            self.client.rows(f"drop table {KEYSPACE}.{table}")
            return rows / took

        # The driver's way is slow: a tenth of the rows tells its rate as well.
        return self._compare("write", lambda job: rate(job, self.rows), lambda: rate(self.driver, self.rows // 10))

    def read(self) -> list[Measurement]:
        """All of them the same table, flushed and compacted, with estimates of its size."""
        table = self.table()
        self.jobs[OURS, 2].seconds("write", table, self.rows)
        for words in (("flush", KEYSPACE), ("compact", KEYSPACE, table), ("refreshsizeestimates",)):
            self.server.nodetool(*words)
        return self._compare(
            "read",
            lambda job: self.rows / job.seconds("read", table),
            lambda: self.rows / self.driver.seconds("read", table),
        )

    def _compare(self, what: str, spark: Callable[[Job], float], driver: Callable[[], float]) -> list[Measurement]:
        found = []
        for tasks in (1, 2):
            sides: dict[str, Callable[[], float]] = {
                side: partial(spark, self.jobs[side, tasks]) for side in (OURS, THEIRS)
            }
            if tasks == 1:
                sides["driver"] = driver
            values = interleave(sides, self.repetitions)
            plain = values.pop("driver", None)
            words = f"{what}, {tasks} task{'s' if tasks > 1 else ''}"
            found.append(Measurement(words, "rows/s", "more", values))
            if plain is not None:
                beside = Measurement(f"{words}, compared with the plain driver in one process", "rows/s", "more")
                beside.values = {OURS: values[OURS], THEIRS: plain}
                found.append(beside)
        return found

    def large(self) -> list[Measurement]:
        """See :mod:`cassandra_large`."""
        return cassandra_large.measure(self.server, self.client, KEYSPACE, self.rows * 10)


def main() -> int:
    """Runs the cases."""
    cases = ("write", "read", "large")
    parser = argparse.ArgumentParser(prog="scripts/bench cassandra", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one repetition")
    parser.add_argument("--only", action="append", choices=cases, help="renew only this case (may be given again)")
    arguments = parser.parse_args()
    rows, repetitions = (100_000, 1) if arguments.quick else (1_000_000, 2)
    name = ".cache/bench-cassandra-quick.json" if arguments.quick else "benchmarks/results/cassandra.json"
    results = Results(ROOT / name, PACKAGES)
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder,
        cassandra_server(folder, SETTINGS, heap_mb=3000) as server,
        ExitStack() as stack,
    ):
        bench = Bench(server, rows, repetitions, stack)
        for case in cases:
            if not arguments.only or case in arguments.only:
                found = getattr(bench, case)()
                print(as_table(found).replace("Spark's own", "spark-cassandra-connector, or as it says"), flush=True)
                results.put(case, found)
    if not arguments.quick:
        results.write_page("cassandra")
    return 0


if __name__ == "__main__":
    sys.exit(main())
