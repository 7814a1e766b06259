"""Three nodes: who holds what, and a node that dies while rows are read and written."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.metrics import Metrics
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import CassandraCluster

pytestmark = pytest.mark.timeout(900)

ROWS = 6_000


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with CassandraCluster(tmp_path_factory.mktemp("nodes")) as cluster:
        yield cluster.servers


class Keyspace:
    """On three nodes, each row on so many of them."""

    def __init__(self, nodes, copies):
        hosts = tuple(node.address for node in nodes)
        host, _, port = hosts[0].rpartition(":")
        self.client = Client(ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=60))
        self.name = f"k{copies}_{time.time_ns()}"
        replication = f"{{'class': 'NetworkTopologyStrategy', 'datacenter1': {copies}}}"
        self.client.rows(f"create keyspace {self.name} with replication = {replication}")
        self.client.rows(f"create table {self.name}.t (id bigint primary key, v text)")
        self.options = {
            "host": host,
            "port": port,
            "keyspace": self.name,
            "table": "t",
            "localDatacenter": "datacenter1",
        }

    def fill(self):
        statement = self.client.prepare(f"insert into {self.name}.t (id, v) values (?, ?)")
        for start in range(0, ROWS, 500):
            futures = [
                self.client.session.execute_async(statement.prepared, (n, f"v{n}")) for n in range(start, start + 500)
            ]
            for future in futures:
                future.result()

    def source(self, **options):
        connector = CassandraConnector()
        values = connector.source_options.parse({**self.options, **options}, owner="source penstock.cassandra")
        return connector.create_source(values)


@pytest.fixture
def keyspace(nodes):
    made = []

    def new(copies):
        made.append(Keyspace(nodes, copies))
        return made[-1]

    yield new
    for one in made:
        one.client.close()


def splits_of(source):
    coordinator = Coordinator()
    try:
        return list(source.list_splits(coordinator))
    finally:
        coordinator.close()


def rows_of(source, splits, metrics=None):
    schema = source.fixed_schema()
    source.validate_schema(schema)
    for batch in SourceReader(source, ReaderContext(schema, metrics or Metrics())).read(splits):
        yield from batch.to_pylist()


def test_a_split_knows_who_holds_it_and_is_asked_there(keyspace, nodes):
    one = keyspace(copies=1)
    one.fill()
    source = one.source(splits="12")
    splits = splits_of(source)
    held = {piece.replicas for split in splits for piece in split.ranges}
    assert held == {(node.address,) for node in nodes}
    assert Counter(row["id"] for row in rows_of(source, splits)) == Counter(range(ROWS))
    three = keyspace(copies=3)
    assert {len(piece.replicas) for split in splits_of(three.source(splits="4")) for piece in split.ranges} == {3}
    statement = one.client.prepare(f"select id from {one.name}.t limit 1")
    for node in nodes:
        asked = one.client.execute_async(statement, [], replicas=(node.address,))
        asked.result()
        assert str(asked.coordinator_host.endpoint) == node.address


@pytest.mark.spark
def test_a_node_dies_while_rows_are_written(spark, keyspace, nodes):
    three = keyspace(copies=3)
    options = {**three.options, "consistency": "QUORUM", "requestTimeout": "5s", "retryFor": "120s"}
    victim = nodes[2]

    def strike():
        deadline = time.monotonic() + 120
        while not three.client.rows(f"select id from {three.name}.t limit 1"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        victim.kill()

    try:
        with ThreadPoolExecutor(1) as pool:
            striking = pool.submit(strike)
            rows = spark.range(0, ROWS, 1, 2).selectExpr("id", "concat('v', id) v")
            limited = {**options, "maxRowsPerSecond": "1500"}
            rows.write.format("penstock.cassandra").options(**limited).mode("append").save()
            striking.result(120)
        assert not victim.running
        found = spark.read.format("penstock.cassandra").options(**options, splits="6").load()
        assert sorted((row.id, row.v) for row in found.collect()) == [(n, f"v{n}") for n in range(ROWS)]
    finally:
        victim.start()


def test_a_node_dies_while_rows_are_read(keyspace, nodes):
    three = keyspace(copies=3)
    three.fill()
    source = three.source(
        splits="6",
        consistency="QUORUM",
        pageRows="200",
        maxRowsPerSecond="1500",
        requestTimeout="5s",
        retryFor="120s",
    )
    found, victim = Counter(), nodes[1]
    for row in rows_of(source, splits_of(source)):  # the last test: nobody starts it again
        found[row["id"]] += 1
        if found.total() == ROWS // 4:
            victim.kill()
    assert found == Counter(range(ROWS))
