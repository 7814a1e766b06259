"""Development servers of Kafka: the command's round trip, private brokers that are broken, the toolbox."""

from __future__ import annotations

import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from typer.testing import CliRunner

from penstock.cli import app
from penstock.errors import RetriableError
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox, _toolbox

LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


def test_the_command_starts_finds_and_ends_a_broker(tmp_path, monkeypatch):
    monkeypatch.delenv("PENSTOCK_KAFKA_ADDRESS", raising=False)
    monkeypatch.setenv("PENSTOCK_DEV_HOME", str(tmp_path))

    def dev(*arguments):
        done = CliRunner().invoke(app, ["dev", *arguments, "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    try:
        # In a process that ends.
        command = [sys.executable, "-m", "penstock.cli", "dev", "up", "kafka", "--with", "process", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        started = json.loads(done.stdout)
        assert started["started"] and started["variable"] == "PENSTOCK_KAFKA_ADDRESS"
        assert_warm(started["address"])
        toolbox = KafkaToolbox(started["address"])
        topic = toolbox.create_topic()
        toolbox.produce(topic, [b"outlives the command"])
        again = dev("up", "kafka")
        assert not again["started"] and again["pid"] == started["pid"]
        (one,) = dev("status")
        assert one["running"] and one["pid"] == started["pid"] and one["memory_bytes"] > 100_000_000
        assert [record.value for record in toolbox.read(topic)] == [b"outlives the command"]
    finally:
        ended = dev("down", "kafka")
    assert ended == {"name": "kafka", "ended": True, "data_kept": False}
    assert dev("status") == []
    with pytest.raises(RetriableError):
        KafkaDevServer().check(started["address"], 5)
    assert not list(tmp_path.rglob("*.log"))


def assert_warm(address):
    """What a first transaction and a first group would wait for more than a second for is there."""
    topics = AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics
    for name in ("__transaction_state", "__consumer_offsets"):
        assert topics[name].partitions and all(one.leader >= 0 for one in topics[name].partitions.values())


def test_settings_are_the_brokers(breakable):
    settings = {"bootstrap.servers": breakable.address, "transactional.id": "long", "transaction.timeout.ms": 600_001}
    with pytest.raises(KafkaException) as error:
        Producer(settings).init_transactions(30)
    assert error.value.args[0].name() == "INVALID_TRANSACTION_TIMEOUT"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_listens_on_the_loopback_address_only(breakable, network):
    listening = listening_addresses(breakable.pid)
    assert {f"127.0.0.1:{port}" for _, port in listening} == {
        network.target,
        *(f"127.0.0.1:{port}" for port in breakable.ports),
    }
    assert all(address in LOOPBACK for address, _ in listening)


KILLED = pytest.mark.exhaustive("a kill without anything else; every test that kills the broker starts it again")


@pytest.mark.parametrize("end", [pytest.param("kill", marks=KILLED), "stop"])
@pytest.mark.budget(10)
def test_it_goes_on_after_a_restart(breakable, end):
    toolbox = KafkaToolbox(breakable.address)
    topic = toolbox.create_topic()
    toolbox.produce(topic, [b"before"])
    address, first = breakable.address, breakable.pid
    getattr(breakable, end)()
    assert not breakable.running
    with pytest.raises(RetriableError, match=f"no broker answers at {address}"):
        breakable.server.check(address, 5)
    breakable.start()
    assert breakable.address == address and breakable.pid != first
    toolbox.produce(topic, [b"after"])
    assert [record.value for record in toolbox.read(topic)] == [b"before", b"after"]


class DeafAdmin:
    """Sends each request, and its answer is not heard: waiting for it ends as after a timeout."""

    def __init__(self, admin):
        self._admin = admin

    def __getattr__(self, name):
        def ask(wanted, **settings):
            answers = getattr(self._admin, name)(wanted, **settings)
            for answer in answers.values():
                answer.result(30)
            return {key: unheard() for key in answers}

        return ask


def unheard():
    answer = concurrent.futures.Future()
    answer.set_exception(concurrent.futures.TimeoutError())
    return answer


def test_the_toolbox_asks_again_when_no_answer_comes(kafka, monkeypatch):
    connect = KafkaToolbox._admin
    topic = kafka.create_topic()

    def deaf_once():
        clients = iter([lambda toolbox: DeafAdmin(connect(toolbox))])
        monkeypatch.setattr(KafkaToolbox, "_admin", lambda toolbox: next(clients, connect)(toolbox))

    deaf_once()
    other = kafka.create_topic()
    deaf_once()
    kafka.add_partitions(topic, 3)
    assert sorted(kafka.leaders(topic)) == [0, 1, 2]
    deaf_once()
    kafka.produce(other, [b"1", b"2"])
    kafka.delete_records(other, 0, 1)
    assert kafka.begin_offsets(other) == {0: 1}
    deaf_once()
    kafka.delete_topic(topic)
    monkeypatch.setattr(KafkaToolbox, "_admin", lambda toolbox: DeafAdmin(connect(toolbox)))
    with pytest.raises(KafkaException, match="no answer from"):
        kafka.delete_records(other, 0, 1)


def test_the_toolbox_waits_for_a_broker_that_missed_its_heartbeats(monkeypatch):
    """Its controller takes it for gone, and nothing has a place to be created."""
    fenced = KafkaException(KafkaError(KafkaError.INVALID_REPLICATION_FACTOR, "All brokers are currently fenced"))
    answers, pauses = [fenced, fenced, None], []
    monkeypatch.setattr(_toolbox, "AdminClient", lambda settings: settings["bootstrap.servers"])
    # Only the toolbox's own: threads of other tests sleep as well.
    monkeypatch.setattr(_toolbox, "time", SimpleNamespace(sleep=pauses.append))

    def request(admin):
        answer = concurrent.futures.Future()
        error = answers.pop(0)
        answer.set_exception(error) if error else answer.set_result(None)
        return answer

    toolbox = KafkaToolbox("127.0.0.1:1")
    assert toolbox._ask(request, None) == "127.0.0.1:1" and pauses == [3.0, 3.0]
    answers = [fenced] * 9
    with pytest.raises(KafkaException, match="fenced"):
        toolbox._ask(request, None)
    assert len(answers) == 5


def test_the_toolbox_shows_what_readers_see(kafka):
    topic = kafka.create_topic(partitions=2, retention_ms=-1)
    headers = [("a", b"1"), ("a", None)]
    record = {"key": b"k", "value": None, "partition": 1, "headers": headers, "timestamp": 1_700_000_000_123}
    kafka.produce(topic, [record, {"value": "text", "partition": 0}])
    kafka.produce_transaction(topic, [{"value": b"kept", "partition": 1}])
    kafka.produce_transaction(topic, [{"value": b"dropped", "partition": 1}], commit=False)
    plain, first, kept = kafka.read(topic)
    assert (plain.partition, plain.value, plain.headers) == (0, b"text", ())
    assert (first.key, first.value, first.timestamp) == (b"k", None, 1_700_000_000_123)
    assert first.headers == tuple(headers) and (kept.value, kept.offset) == (b"kept", 1)
    assert [one.value for one in kafka.read(topic, "read_uncommitted")] == [b"text", None, b"kept", b"dropped"]
    assert kafka.end_offsets(topic) == {0: 1, 1: 5}
    kafka.delete_records(topic, 1, 1)
    assert kafka.begin_offsets(topic) == {0: 0, 1: 1}
    assert [one.value for one in kafka.read(topic)] == [b"text", b"kept"]
    kafka.add_partitions(topic, 3)
    assert kafka.end_offsets(topic) == {0: 1, 1: 5, 2: 0}
    kafka.delete_topic(topic)
    with pytest.raises(KafkaException):
        kafka.read(topic)


def test_a_container_is_told_where_it_will_be_reached():
    image = KafkaDevServer({"transaction.max.timeout.ms": "5000"}).container(12_345)
    assert image.environment["KAFKA_ADVERTISED_LISTENERS"] == "PLAINTEXT://127.0.0.1:12345"
    assert image.environment["KAFKA_TRANSACTION_MAX_TIMEOUT_MS"] == "5000"
    assert f":{image.port}," in image.environment["KAFKA_LISTENERS"]


def test_an_address_where_nobody_is():
    with pytest.raises(RetriableError, match=r"no broker answers at 127\.0\.0\.1:9,127"):
        KafkaDevServer().check("127.0.0.1:9,127.0.0.1:10", 60)


def listening_addresses(pid):
    sockets = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                address, _, port = fields[1].partition(":")
                found.append((address, int(port, 16)))
    return found
