"""The command's round trip: a node that outlives it, is found again, shown, and ended with its data."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.dev import free_ports
from penstock.errors import RetriableError
from penstock_cassandra.dev import CassandraDevServer


def test_the_command_finds_a_node_that_is_there(cassandra, monkeypatch):
    address = f"{cassandra.options['host']}:{cassandra.options['port']}"
    monkeypatch.setenv("PENSTOCK_CASSANDRA_ADDRESS", address)
    done = CliRunner().invoke(app, ["dev", "up", "cassandra", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)
    assert (found["address"], found["started"]) == (address, False)
    (port,) = free_ports(1)
    with pytest.raises(RetriableError, match=f"no server answers at 127.0.0.1:{port}"):
        CassandraDevServer().check(f"127.0.0.1:{port}", 5)


@pytest.mark.exhaustive("a node of its own; core's test_dev_servers, the shared node and the test above stay")
def test_the_command_starts_finds_and_ends_a_node(tmp_path, at_address):
    environment = {k: v for k, v in os.environ.items() if k != "PENSTOCK_CASSANDRA_ADDRESS"}
    environment["PENSTOCK_DEV_HOME"] = str(tmp_path)

    def dev(*arguments):
        command = [sys.executable, "-m", "penstock.cli", "dev", *arguments, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    try:
        started = dev("up", "cassandra", "--with", "process")
        assert started["started"] and started["variable"] == "PENSTOCK_CASSANDRA_ADDRESS"
        cassandra = at_address(started["address"])
        table = cassandra.table("id int primary key")
        cassandra.cql(f"insert into {cassandra.keyspace}.{table} (id) values (7)")
        again = dev("up", "cassandra")
        assert not again["started"] and again["pid"] == started["pid"]
        (one,) = dev("status")
        assert one["running"] and one["pid"] == started["pid"] and one["memory_bytes"] > 100_000_000
        assert cassandra.rows(table) == [(7,)]
    finally:
        ended = dev("down", "cassandra")
    assert ended == {"name": "cassandra", "ended": True, "data_kept": False}
    assert dev("status") == []
    with pytest.raises(RetriableError, match=f"no server answers at {started['address']}"):
        CassandraDevServer().check(started["address"], 5)
    assert not list(tmp_path.rglob("*.log"))
