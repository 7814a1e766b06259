"""Over Spark Connect: a server in a process of its own, and clients that have no JVM."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JOBS = Path(__file__).parent / "jobs"
#: What the client needs beside PySpark; ``scripts/setup`` puts it there.
CLIENT = Path(sys.prefix) / "connect"
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """Spark's own server, out of the installed package, with two cores."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.address = f"sc://127.0.0.1:{self._port}"
        self._log = folder / "server.log"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when it answers."""
        home = Path(pyspark.__file__).parent
        settings = {
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": self._port,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
        given = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
        command = [home / "bin" / "spark-submit", "--class", SERVER, "--master", "local[2]", *given, "spark-internal"]
        environment = dict(os.environ, SPARK_HOME=str(home), SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable)
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env=environment, cwd=self._folder, start_new_session=True
            )
        deadline = time.monotonic() + 120
        while socket.socket().connect_ex(("127.0.0.1", self._port)):
            assert self._process.poll() is None and time.monotonic() < deadline, self._log.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """SIGKILL to it and its Python workers."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def client(self, job: str, **arguments: object) -> subprocess.Popen[str]:
        """A process that runs ``jobs/<job>.py``."""
        assert (CLIENT / "pandas").is_dir(), f"nothing in {CLIENT}: scripts/setup makes it"
        environment = dict(os.environ, PYTHONPATH=str(CLIENT))
        command = [sys.executable, JOBS / f"{job}.py", f"server={self.address}"]
        command += [f"{name}={value}" for name, value in arguments.items()]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, cwd=self._folder, text=True
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """For the tests of this file: one that kills it starts it again."""
    started = ConnectServer(tmp_path_factory.mktemp("connect"))
    started.start()
    yield started
    started.kill()


def output_of(client):
    printed, _ = client.communicate(timeout=300)
    assert client.returncode == 0, printed[-4000:]
    return printed


def test_batches_look_ups_and_calls(server, csv_files, tmp_path, cassandra):
    csv_files(2, 50)
    table = cassandra.table("id bigint primary key, name text")
    cassandra.set(table, "name", {3: "three", 4: "four"})
    host, _, port = cassandra.job["address"].rpartition(":")
    place = {"host": host, "port": port, "keyspace": cassandra.keyspace, "table": table}
    job = server.client("connect_batch", **{"in": tmp_path / "in", "out": tmp_path / "out"}, **place)
    found = json.loads(output_of(job).splitlines()[-1])
    assert {"penstock.cassandra", "penstock.filesystem", "penstock.kafka", "penstock.pravega"} <= set(found["formats"])
    assert (found["read"], found["written"]) == (7, 100)
    assert found["called"] == sum(number**2 for number in range(100))
    assert found["found"] == [[3, "three"], [4, "four"]]
    assert "did you mean 'maxFilesPerTrigger'" in found["misspelt"]
    assert found["counters"] == {}  # Spark has no accumulators there; they are in the progress of streams


def wait_for_commits(client, checkpoint, number):
    """Until so many batches are committed, while the client runs, if there is one."""
    deadline = time.monotonic() + 240
    while sum(1 for _ in checkpoint.glob("commits/[0-9]*")) < number:
        assert time.monotonic() < deadline, f"less than {number} batches"
        assert client is None or client.poll() is None, client.communicate(timeout=10)[0][-4000:]
        time.sleep(0.02)


def test_server_and_client_are_killed(server, csv_files, kafka, tmp_path):
    expected, topic, checkpoint = csv_files(8, 50), kafka.create_topic(partitions=2), tmp_path / "ck"
    job = {"brokers": kafka.address, "in": tmp_path / "in", "out": topic, "checkpoint": checkpoint}
    client = server.client("connect_stream", **job)
    wait_for_commits(client, checkpoint, 2)
    server.kill()
    client.kill()
    client.communicate(timeout=30)
    server.start()
    client = server.client("connect_stream", **job)
    wait_for_commits(client, checkpoint, 4)
    client.kill()  # the query is the server's: it goes on
    client.communicate(timeout=30)
    wait_for_commits(None, checkpoint, 8)
    assert values_of(kafka, topic) == Counter(str(number) for number in expected)
    expected = csv_files(2, 50, first=len(expected))
    output_of(server.client("connect_stream", **job))
    assert values_of(kafka, topic) == Counter(str(number) for number in expected)


def values_of(kafka, topic):
    return Counter(record.value.decode() for record in kafka.read(topic))


#: How a run ends, and what is said if something stays hidden.
ENDS = {
    "availableNow": None,
    "stop": None,
    "session": None,
    "unreachable": "could not publish what query .* holds open .*; start it again, or run: penstock finish .*/check",
    "other": "query .* was started by another process: .* run: penstock finish CHECKPOINT",
}


_MORE = pytest.mark.exhaustive("a client of its own each; a query that is stopped is the witness")


@pytest.mark.parametrize("end", [one if one == "stop" else pytest.param(one, marks=_MORE) for one in ENDS])
def test_nothing_stays_hidden_unless_it_is_said(server, tmp_path, end):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("1\n2\n3\n")
    places = {name: tmp_path / name for name in ("in", "out", "checkpoint")}
    *said, visible = output_of(server.client("connect_ends", end=end, **places)).splitlines()
    if ENDS[end] is None:
        assert visible == "visible: ['1', '2', '3']" and not [line for line in said if "penstock" in line]
    else:
        assert visible == "visible: []" and re.search(ENDS[end], said[-1]), said
