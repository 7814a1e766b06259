"""Servers in real containers: of the engine of this machine, or of podman, with images that are built here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from containers import NoEngine, build_images, container_engine
from penstock.dev import open_server
from penstock.errors import BadConfigurationError
from penstock_cassandra.dev import CassandraDevServer
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox
from penstock_pravega.dev import PravegaDevServer
from suite.cassandra import CassandraToolbox

pytestmark = [pytest.mark.exhaustive("builds images of a gigabyte, as root"), pytest.mark.timeout(900)]

PENSTOCK = Path(sys.executable).with_name("penstock")


@pytest.fixture(scope="module")
def engine():
    """Leads this process, and those that it starts, to an engine that has the images."""
    try:
        with container_engine() as variables, pytest.MonkeyPatch.context() as patch:
            for name, value in variables.items():
                patch.setenv(name, value)
            if variables:
                build_images(variables, print)
            yield
    except NoEngine as problem:
        pytest.skip(str(problem))


@pytest.fixture
def with_containers(engine, monkeypatch):
    """As ``PENSTOCK_TEST_WITH=container scripts/test`` does."""
    monkeypatch.setenv("PENSTOCK_TEST_WITH", "container")
    for server in (KafkaDevServer, CassandraDevServer, PravegaDevServer):
        monkeypatch.delenv(server.environment_variable, raising=False)


def test_a_broker_in_a_container_keeps_records(with_containers, tmp_path):
    with open_server(KafkaDevServer({"message.max.bytes": "2000"}), tmp_path) as address:
        kafka = KafkaToolbox(address)
        topic = kafka.create_topic(partitions=2)
        kafka.produce(topic, [{"value": str(number)} for number in range(10)])
        assert {record.value for record in kafka.read(topic)} == {b"%d" % number for number in range(10)}
        with pytest.raises(Exception, match=r"MSG_SIZE_TOO_LARGE|message size"):
            kafka.produce(topic, [{"value": os.urandom(3000)}])
    assert not list(tmp_path.iterdir()), "it ran as a process"


def test_a_node_in_a_container_keeps_rows(with_containers, tmp_path):
    with open_server(CassandraDevServer(), tmp_path) as address:
        toolbox = CassandraToolbox(address)
        table = toolbox.table("id int primary key, text text")
        toolbox.insert(table, "id, text", [(number, f"row {number}") for number in range(10)])
        assert sorted(toolbox.rows(table, "id")) == [(number,) for number in range(10)]
        toolbox.close()
    assert not list(tmp_path.iterdir()), "it ran as a process"


def test_a_server_without_an_image_is_refused(with_containers, tmp_path):
    with (
        pytest.raises(BadConfigurationError, match="can't run as a container: there is no container image"),
        open_server(PravegaDevServer(), tmp_path),
    ):
        pass


@pytest.mark.parametrize("name", ["kafka", "cassandra"])
def test_the_command_starts_shows_and_ends_a_container(engine, name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    def penstock(*arguments: str) -> object:
        done = subprocess.run([PENSTOCK, "dev", *arguments, "--json"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    up = penstock("up", name, "--with", "container")
    try:
        assert up["way"] == "container" and up["started"] and up["container"]
        assert penstock("up", name)["container"] == up["container"]
        (running,) = penstock("status")
        assert running["running"] and running["container"] == up["container"]
    finally:
        ended = penstock("down", name)
    assert ended["ended"] and penstock("status") == []
