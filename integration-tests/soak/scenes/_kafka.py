"""Kafka to Kafka, exactly once, on three brokers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as Partition

from penstock.dev import LocalServer
from penstock_kafka.dev import KafkaToolbox
from soak.findings import Findings
from soak.records import Checker, Feeder
from soak.scenes._scene import Scene, keep_copying, network_faults, node_faults
from soak.transactions import TransactionWatch
from suite.kafka_network import ClusterBehindNetwork

__all__ = ["kafka_scene", "kafka_to"]

PARTITIONS_IN, PARTITIONS_OUT = 4, 3
_MOVING_SECONDS = 20.0


def kafka_scene(folder: Path, rate: int, findings: Findings) -> Scene:
    """Brokers are killed, shut down, stand still and are restarted; partitions move; the network is bad."""
    with ExitStack() as stack:
        cluster = stack.enter_context(ClusterBehindNetwork(folder / "brokers"))
        kafka = KafkaToolbox(cluster.address)
        source, target = kafka.create_topic("in", PARTITIONS_IN), kafka.create_topic("out", PARTITIONS_OUT)
        transactions = TransactionWatch(cluster.address, findings)
        stack.callback(transactions.close)
        where = {"kafka.bootstrap.servers": cluster.network_address}
        supervisor = keep_copying(
            folder,
            findings,
            source=reading(where, source),
            columns=["key", "value"],
            sink={"format": "penstock.kafka", "options": {**where, "topic": target, "delivery": "exactly-once"}},
        )
        stack.callback(supervisor.stop)
        feeder = Feeder(cluster.address, source, rate)
        checker = Checker(cluster.address, target, PARTITIONS_OUT, findings)
        stack.callback(checker.stop)

        @contextmanager
        def partitions_move(dice: random.Random) -> Iterator[str]:
            with closing(KafkaAdminClient(bootstrap_servers=cluster.address)) as admin:
                for replicas in (2, len(cluster.servers)):
                    partitions = [Partition(topic, n) for topic in (source, target) for n in kafka.leaders(topic)]
                    _move(admin, {one: dice.sample([*cluster.servers], replicas) for one in partitions})
                    if replicas == 2:
                        yield "to two brokers each, and back to three"
            elect = AdminClient({"bootstrap.servers": cluster.address, "log_level": 0}).elect_leaders
            elect(ElectionType.PREFERRED, None).result(30)

        faults = {
            **node_faults([*cluster.servers.values()]),
            **network_faults([*cluster.networks.values()]),
            "partitions move": partitions_move,
        }
        return Scene(supervisor, feeder, checker, faults, transactions.look, stack.pop_all())


def reading(where: dict[str, str], topic: str) -> dict[str, object]:
    """Returns the source of a job: all records of a topic."""
    options = {**where, "subscribe": topic, "startingOffsets": "earliest", "discoveryInterval": "1s"}
    return {"format": "penstock.kafka", "options": options}


def _move(admin: KafkaAdminClient, wanted: dict[Partition, list[int]]) -> None:
    """Gives each partition its replicas, and waits until they have everything."""
    admin.alter_partition_reassignments(wanted)
    deadline = time.monotonic() + _MOVING_SECONDS
    while admin.list_partition_reassignments() and time.monotonic() < deadline:
        time.sleep(0.2)


def kafka_to(server: LocalServer, topic: str, rate: int) -> tuple[Feeder, dict[str, object]]:
    """Returns a feeder of a topic on a broker to which nothing happens, and the source of a job that reads it."""
    KafkaToolbox(server.address).create_topic(topic, PARTITIONS_IN)
    return Feeder(server.address, topic, rate), reading({"kafka.bootstrap.servers": server.address}, topic)
