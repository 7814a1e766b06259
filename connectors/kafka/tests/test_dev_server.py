"""Development servers of Kafka: the command's round trip, private brokers that are broken, a cluster, the toolbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from penstock.errors import RetriableError
from penstock_kafka.dev import KafkaCluster, KafkaDevServer, KafkaToolbox, kafka_server

LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """A private broker that tests may stop and kill, as long as they start it again."""
    properties = {"transaction.max.timeout.ms": "5000"}
    with kafka_server(tmp_path_factory.mktemp("broker"), properties, quick_start=True) as server:
        yield server


def test_the_command_starts_finds_and_ends_a_broker(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "PENSTOCK_KAFKA_ADDRESS"}
    environment["PENSTOCK_DEV_HOME"] = str(tmp_path)

    def dev(*arguments):
        command = [sys.executable, "-m", "penstock.cli", "dev", *arguments, "--json"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    try:
        started = dev("up", "kafka", "--with", "process")
        assert started["started"] and started["variable"] == "PENSTOCK_KAFKA_ADDRESS"
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


def test_a_fresh_broker_is_warm(broker):
    """What a first transaction and a first group would wait for more than a second for is there."""
    topics = AdminClient({"bootstrap.servers": broker.address}).list_topics(timeout=30).topics
    for name in ("__transaction_state", "__consumer_offsets"):
        assert topics[name].partitions and all(one.leader >= 0 for one in topics[name].partitions.values())


def test_settings_are_the_brokers(broker):
    settings = {"bootstrap.servers": broker.address, "transactional.id": "long", "transaction.timeout.ms": 6000}
    with pytest.raises(KafkaException) as error:
        Producer(settings).init_transactions(30)
    assert error.value.args[0].name() == "INVALID_TRANSACTION_TIMEOUT"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_listens_on_the_loopback_address_only(broker):
    listening = listening_addresses(broker.pid)
    assert {port for _, port in listening} == set(broker.ports)
    assert all(address in LOOPBACK for address, _ in listening)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_it_goes_on_after_a_restart(broker, end):
    toolbox = KafkaToolbox(broker.address)
    topic = toolbox.create_topic()
    toolbox.produce(topic, [b"before"])
    address, first = broker.address, broker.pid
    getattr(broker, end)()
    assert not broker.running
    with pytest.raises(RetriableError, match=f"no broker answers at {address}"):
        broker.server.check(address, 5)
    broker.start()
    assert broker.address == address and broker.pid != first
    toolbox.produce(topic, [b"after"])
    assert [record.value for record in toolbox.read(topic)] == [b"before", b"after"]


def test_a_cluster_survives_its_leader(tmp_path):
    with KafkaCluster(tmp_path) as cluster:
        toolbox = KafkaToolbox(cluster.address)
        topic = toolbox.create_topic()
        toolbox.produce(topic, [b"before"])
        first = toolbox.leaders(topic)[0]
        cluster.servers[first].kill()
        toolbox.produce(topic, [b"after"])
        assert toolbox.leaders(topic)[0] not in (first, -1)
        assert [record.value for record in toolbox.read(topic)] == [b"before", b"after"]
    assert not any(server.running for server in cluster.servers.values())


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
    began = time.monotonic()
    with pytest.raises(RetriableError, match=r"no broker answers at 127\.0\.0\.1:9,127"):
        KafkaDevServer().check("127.0.0.1:9,127.0.0.1:10", 60)
    assert time.monotonic() - began < 30


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
