"""Three nodes: who holds what, and a node that dies while rows are read and written."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from cassandra import ConsistencyLevel

from penstock.errors import BadConfigurationError
from penstock.metrics import Metrics
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.source import ReaderContext, SourceReader
from penstock.spark._coordinator import Coordinator
from penstock_cassandra import CassandraConnector
from penstock_cassandra.client import Client, ConnectionSettings
from penstock_cassandra.dev import CassandraCluster
from suite.away import standing_still
from suite.cassandra import close_clients
from suite.over_network import sink_query

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.exhaustive(
        "three nodes start, and take twenty seconds to believe that one is dead; "
        "test_the_system_is_away_for_a_while in test_conformance.py and "
        "test_source.py::test_pieces_cover_the_ring_once_and_know_their_replicas are the witnesses"
    ),
]

ROWS = 3_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with CassandraCluster(tmp_path_factory.mktemp("nodes")) as cluster:
        yield cluster
        close_clients({server.ports[0] for server in cluster.servers})


@pytest.fixture
def nodes(cluster):
    """All of them alive, whatever the test before this one did to them."""
    cluster.restart()
    return cluster.servers


class Keyspace:
    """On three nodes, each row on so many of them."""

    def __init__(self, nodes, copies):
        hosts = tuple(node.address for node in nodes)
        host, _, port = hosts[0].rpartition(":")
        self.client = Client(ConnectionSettings(hosts=(host,), port=int(port), request_timeout_s=60))
        # All nodes are to know the table before rows are written: on a busy machine that takes longer than 10 s.
        self.client.session.cluster.max_schema_agreement_wait = 120
        self.name = f"k{copies}_{time.time_ns()}"
        replication = f"{{'class': 'NetworkTopologyStrategy', 'datacenter1': {copies}}}"
        self.client.rows(f"create keyspace {self.name} with replication = {replication}")
        self._create_table()
        self.options = {
            "host": host,
            "port": port,
            "keyspace": self.name,
            "table": "t",
            "localDatacenter": "datacenter1",
        }

    def _create_table(self):
        """A node that has just started may be asked before it has heard of the keyspace."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self.client.rows(f"create table if not exists {self.name}.t (id bigint primary key, v text)")
                return
            except BadConfigurationError as error:
                if "doesn't exist" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def fill(self):
        """Every node has every row of its own when this returns."""
        statement = self.client.prepare(f"insert into {self.name}.t (id, v) values (?, ?)")
        statement.prepared.consistency_level = ConsistencyLevel.ALL
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


def rows_of(source, splits, metrics=None, retry=NO_RETRIES):
    schema = source.fixed_schema()
    source.validate_schema(schema)
    for batch in SourceReader(source, ReaderContext(schema, metrics or Metrics(), retry)).read(splits):
        yield from batch.to_pylist()


@pytest.mark.budget(20)  # three nodes start
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
@pytest.mark.budget(60)  # the nodes take twenty seconds to believe that another one is dead
def test_nodes_die_while_rows_are_written_and_read(spark, keyspace, nodes):
    """One of three, then another one: what is asked for is a majority while writing, and anybody while reading."""
    filled, written = keyspace(copies=3), keyspace(copies=3)
    filled.fill()
    patient = {"requestTimeout": "5s", "retryTimeout": "120s", "maxRowsPerSecond": "1500"}

    def strike():
        deadline = time.monotonic() + 120
        while not written.client.rows(f"select id from {written.name}.t limit 1"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        nodes[2].kill()

    with ThreadPoolExecutor(1) as pool:
        striking = pool.submit(strike)
        rows = spark.range(0, ROWS, 1, 2).selectExpr("id", "concat('v', id) v")
        sink = rows.write.format("penstock.cassandra").options(**written.options, **patient, consistency="QUORUM")
        sink.mode("append").save()
        striking.result(120)
    assert not nodes[2].running
    reader = spark.read.format("penstock.cassandra").options(**written.options, consistency="QUORUM", splits="6")
    assert sorted((row.id, row.v) for row in reader.load().collect()) == [(n, f"v{n}") for n in range(ROWS)]

    source = filled.source(splits="6", pageRows="200", **patient)
    found: Counter[int] = Counter()
    for row in rows_of(source, splits_of(source), retry=RetryPolicy()):
        found[row["id"]] += 1
        if found.total() == ROWS // 4:
            nodes[1].kill()
    assert found == Counter(range(ROWS))


@pytest.mark.exhaustive("half a minute in which a node stands still; one that dies is the witness")
@pytest.mark.budget(60)
def test_a_node_stands_still_while_rows_are_written_and_read(keyspace, nodes, tmp_path):
    """Its connections stay open, and it answers nothing: after ``requestTimeout`` another one is asked."""
    filled, written = keyspace(copies=3), keyspace(copies=3)
    filled.fill()
    patient = {"requestTimeout": "2s", "consistency": "LOCAL_QUORUM"}
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    options = {**written.options, **patient, "delivery": "exactly-once"}
    query = sink_query(CassandraConnector(), options, schema, tmp_path / "checkpoint")
    batches = [
        [[pa.record_batch([ids := [*range(start, start + 500)], [f"v{n}" for n in ids]], schema=schema)]]
        for start in range(0, ROWS, 500)
    ]
    query.run(0, batches[0])
    source = filled.source(splits="6", pageRows="200", **patient)
    splits = splits_of(source)
    with standing_still(nodes[2].address)():
        query.run_all(batches)
        rows = list(rows_of(source, splits, retry=RetryPolicy()))
    assert Counter(row["id"] for row in rows) == Counter(range(ROWS))
    assert sorted(written.client.rows(f"select id, v from {written.name}.t")) == [(n, f"v{n}") for n in range(ROWS)]
