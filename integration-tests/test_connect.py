"""Over Spark Connect: a server in a process of its own, and clients that have no JVM."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from harness import checkpoint
from harness.connect import ConnectServer
from harness.oracle import check_once
from harness.waiting import wait_until

SECRET = "canary-5ecr3t"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


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
    cassandra.insert(table, "id, name", [(3, "three"), (4, "four")])
    place = {**cassandra.options, "table": table}
    paths = {"in": tmp_path / "in", "out": tmp_path / "out"}
    job = server.client("connect_batch", **paths, secret=SECRET, **place)
    found = json.loads(output_of(job).splitlines()[-1])
    assert {"penstock.cassandra", "penstock.filesystem", "penstock.kafka", "penstock.pravega"} <= set(found["formats"])
    assert (found["read"], found["written"]) == (7, 100)
    assert found["called"] == sum(number**2 for number in range(100))
    assert found["found"] == [[3, "three"], [4, "four"]]
    assert "did you mean 'maxFilesPerTrigger'" in found["misspelt"]
    assert found["directories"] == ["n=1"]
    assert found["counters"] == {}  # Spark has no accumulators there; they are in the progress of streams
    logged = "".join(file.read_text("utf-8", "replace") for file in server.events.rglob("events_*"))
    assert str(tmp_path / "out") in logged and SECRET not in logged


@pytest.mark.exhaustive("a client that runs every line; test_sql.py runs them in a classic session")
def test_the_lines_of_the_sql_page(server, tmp_path):
    assert json.loads(output_of(server.client("connect_sql", folder=tmp_path)).splitlines()[-1]) == {}


def wait_for_commits(client, directory, number):
    """Until so many batches are committed, while the client runs, if there is one."""
    wait_until(
        lambda: checkpoint.committed(directory) >= number,
        lambda: client and client.communicate(timeout=10)[0][-4000:],
        timeout=240,
        may_come=lambda: client is None or client.poll() is None,
    )


def test_server_and_client_are_killed(server, csv_files, kafka, tmp_path):
    expected, topic, directory = csv_files(5, 50), kafka.create_topic(partitions=2), tmp_path / "ck"
    job = {"brokers": kafka.address, "in": tmp_path / "in", "out": topic, "checkpoint": directory}
    client = server.client("connect_stream", **job)
    wait_for_commits(client, directory, 1)
    server.kill()
    client.kill()
    client.communicate(timeout=30)
    server.start()
    client = server.client("connect_stream", **job)
    wait_for_commits(client, directory, 2)
    client.kill()  # the query is the server's: it continues
    client.communicate(timeout=30)
    wait_for_commits(None, directory, 5)
    check_once(values_of(kafka, topic), expected)
    expected = csv_files(1, 50, first=len(expected))
    output_of(server.client("connect_stream", **job))
    check_once(values_of(kafka, topic), expected)


def values_of(kafka, topic):
    return Counter(int(record.value) for record in kafka.read(topic))


@pytest.mark.exhaustive("a client of its own; core/tests/test_metrics.py has the numbers, without the server")
def test_a_client_serves_what_is_in_the_progress(server, csv_files, tmp_path):
    csv_files(2, 50)
    job = {"in": tmp_path / "in", "out": tmp_path / "out", "checkpoint": tmp_path / "checkpoint"}
    scraped = output_of(server.client("connect_metrics", **job)).splitlines()
    assert 'penstock_source_rows_total{query="remote",source="0"} 100.0' in scraped
    assert 'penstock_batches_total{query="remote"} 2.0' in scraped
    assert 'penstock_source_lag_files{query="remote",source="0"} 0.0' in scraped
    assert not [line for line in scraped if line.startswith(("penstock_sink", "penstock_read", "penstock_written"))]


#: How a run ends, and what is said if something stays hidden.
ENDS = {
    "availableNow": None,
    "processAllAvailable": None,
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


@pytest.fixture
def server_of_functions(tmp_path_factory):
    """Its Python workers have what a client needs, and take longer to start."""
    started = ConnectServer(tmp_path_factory.mktemp("connect"))
    started.start(runs_functions=True)
    yield started
    started.kill()


@pytest.mark.exhaustive("a server of its own; only where the run's id comes from differs from a classic session")
def test_a_batch_function_writes_each_sink_once(server_of_functions, csv_files, tmp_path):
    """It fails between two writes; the second client's query runs the batch again."""
    server = server_of_functions
    expected, fails, out = csv_files(3, 20), tmp_path / "fails", tmp_path / "out"
    fails.touch()
    job = {"in": tmp_path / "in", "out": out, "checkpoint": tmp_path / "ck", "fails": fails}
    client = server.client("connect_foreach", **job)
    printed, _ = client.communicate(timeout=300)
    assert client.returncode != 0 and "between the writes" in printed, printed[:3000]
    fails.unlink()
    output_of(server.client("connect_foreach", **job))
    for name in ("first", "second"):
        lines = (line for path in (out / name).glob("*.json") for line in path.read_text().splitlines())
        check_once((json.loads(line)["id"] for line in lines), expected)
    assert "has been written to this sink already" in (tmp_path / "fails-again").read_text()


@pytest.mark.exhaustive("a server of its own; core/tests/test_sink_group.py has groups without one")
def test_a_batch_function_writes_a_group(server_of_functions, csv_files, tmp_path):
    """It fails inside the block; the second client's query runs the batch again. Threads write, too."""
    server = server_of_functions
    expected, fails, out = csv_files(3, 20), tmp_path / "fails", tmp_path / "out"
    fails.touch()
    job = {"in": tmp_path / "in", "out": out, "checkpoint": tmp_path / "ck", "fails": fails}
    client = server.client("connect_group", **job)
    printed, _ = client.communicate(timeout=300)
    assert client.returncode != 0 and "inside the block" in printed, printed[:3000]
    fails.unlink()
    output_of(server.client("connect_group", **job))
    for name in ("first", "second", "third", "fourth", "fifth"):
        lines = (line for path in (out / name).rglob("*.json") for line in path.read_text().splitlines())
        check_once((json.loads(line)["id"] for line in lines), expected)
    assert {path.name for path in (out / "fourth").glob("odd=*")} == {"odd=0", "odd=1"}
