"""Kafka to Cassandra, exactly once, on three nodes with three replicas."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import CassandraCluster
from penstock_kafka.dev import kafka_server
from soak.findings import Findings
from soak.records import KEYS, PollingChecker
from soak.scenes._kafka import kafka_to
from soak.scenes._scene import Scene, keep_copying, node_faults

__all__ = ["cassandra_scene"]

_KEYSPACE = "soak"
_TABLE = "create table soak.records (k text, n bigint, v text, primary key (k, n))"
_NEW = "select n, v from soak.records where k = ? and n >= ?"
_COLUMNS = [
    "split(cast(value as string), ':')[0] as k",
    "bigint(split(cast(value as string), ':')[1]) as n",
    "cast(value as string) as v",
]


class _Reader(PollingChecker):
    """Reads each key from the first number on that is missing, at QUORUM."""

    def __init__(self, client: Client, findings: Findings) -> None:
        super().__init__(findings, ordered=False)
        self._client = client

    def take(self) -> Sequence[str]:
        new: list[str] = []
        for key in KEYS:
            for number, value in self._client.rows(_NEW, (key, self.next[key]), "QUORUM"):
                if value != f"{key}:{number}":
                    self._findings.add(f"the row of {key}:{number} holds {value}")
                if number not in self.early[key]:
                    new.append(value)
        return new


def cassandra_scene(folder: Path, rate: int, findings: Findings) -> Scene:
    """Nodes are killed, shut down, stand still and are restarted."""
    with ExitStack() as stack:
        broker = stack.enter_context(kafka_server(folder / "broker"))
        cluster = stack.enter_context(CassandraCluster(folder / "nodes"))
        host, _, port = cluster.servers[0].address.rpartition(":")
        client = stack.enter_context(Client(ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=10)))
        client.session.cluster.max_schema_agreement_wait = 60
        replication = "{'class': 'NetworkTopologyStrategy', 'datacenter1': 3}"
        client.rows(f"create keyspace {_KEYSPACE} with replication = {replication}")
        client.rows(_TABLE)
        time.sleep(1)  # a node may be asked before it has learned of the table
        feeder, source = kafka_to(broker, "in", rate)
        where = {"host": host, "port": port, "localDatacenter": "datacenter1", "consistency": "LOCAL_QUORUM"}
        supervisor = keep_copying(
            folder,
            findings,
            source=source,
            columns=_COLUMNS,
            sink={
                "format": "penstock.cassandra",
                "options": {**where, "keyspace": _KEYSPACE, "table": "records", "delivery": "exactly-once"},
            },
        )
        stack.callback(supervisor.stop)
        checker = _Reader(client, findings)
        stack.callback(checker.stop)
        return Scene(supervisor, feeder, checker, node_faults(cluster.servers), ends=stack.pop_all())
