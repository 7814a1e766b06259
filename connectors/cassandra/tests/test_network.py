"""A bad network between us and the server: answers that are lost, and connections that are slow, cut or dead."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

from penstock_cassandra import CassandraConnector
from suite.bad_network import BadNetwork
from suite.cassandra import close_clients
from suite.frames import CassandraFrames
from suite.over_network import FAULTS, every, sink_query, source_query

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
IMPATIENT = {"requestTimeout": "4s", "connectTimeout": "4s"}
#: Who waits for a request's time to be over waits too long.
AT_ONCE = {"requestTimeout": "60s", "connectTimeout": "60s", "retryTimeout": "20s"}
#: Every request of a query that writes.
WRITES = {
    "exactly-once": ["OPTIONS", "STARTUP", "REGISTER", "QUERY SELECT", "PREPARE", "BATCH"],
    "at-least-once": ["BATCH"],
    "write-ahead": ["PREPARE", "EXECUTE", "BATCH"],
}


@pytest.fixture
def network(cassandra):
    with BadNetwork(cassandra.address, CassandraFrames) as proxy:
        yield proxy
        close_clients({proxy.port})


def rows(batch_id, writer, count=50):
    keys = [batch_id * 1000 + writer * 100 + i for i in range(count)]
    return pa.record_batch([keys, [f"{key}." for key in keys]], schema=SCHEMA)


BATCHES = [[[rows(number, 0)], [rows(number, 1)]] for number in range(3)]
EVERYTHING = Counter(value for shares in BATCHES for share in shares for part in share for value in part[0].to_pylist())


def options(cassandra, network, **more):
    return {**cassandra.options, "port": str(network.port), **IMPATIENT, **more}


@pytest.fixture
def table(cassandra):
    return cassandra.table("k bigint primary key, v text")


@pytest.fixture
def writing(cassandra, network, table, tmp_path):
    def query(delivery, **more):
        given = options(cassandra, network, table=table, delivery=delivery, **more)
        return sink_query(CassandraConnector(), given, SCHEMA, tmp_path / "checkpoint")

    return query


def seen(cassandra, table):
    return Counter(key for key, _ in cassandra.rows(table, "k, v"))


@pytest.mark.parametrize(
    ("asked", "nth", "keep"),
    every(
        [(delivery, kind) for delivery, kinds in WRITES.items() for kind in kinds],
        (1, 2),
        (0.0, 0.5),
        witnesses=[(("exactly-once", "BATCH"), 1, 0.5)],
        otherwise="every request; that for a batch is the witness",
    ),
)
def test_an_answer_is_lost(cassandra, network, writing, table, asked, nth, keep):
    delivery, kind = asked
    loss = network.lose(kind, nth, keep=keep)
    query = writing(delivery, **AT_ONCE)
    query.run_all(BATCHES)
    network.mend()
    assert loss.lost or nth > 1, network.counts
    assert seen(cassandra, table) == EVERYTHING


@pytest.mark.parametrize(
    ("fault", "delivery"),
    every(
        list(FAULTS),
        list(WRITES),
        witnesses=[("3 % resets", "write-ahead")],
        otherwise="up to a minute each; connections that are reset are the witness",
    ),
)
def test_a_query_writes_through(cassandra, network, writing, table, fault, delivery):
    query = writing(delivery)
    query.run(0, BATCHES[0])
    with FAULTS[fault](network):
        query.run_all(BATCHES)
    network.mend()
    assert seen(cassandra, table) == EVERYTHING


@pytest.mark.parametrize(
    "fault",
    every(
        list(FAULTS),
        witnesses=[("3 % cut answers",)],
        otherwise="seconds each; answers that are cut are the witness",
    ),
)
def test_a_query_reads_through(cassandra, network, table, fault):
    cassandra.insert(table, "k, v", [(i, "x" * 50) for i in range(3000)])
    given = options(cassandra, network, table=table, pageRows="200")
    query = source_query(CassandraConnector(), given)
    half = len(query.read_all_now())
    assert half == 3000
    with FAULTS[fault](network):
        found = [row["k"] for row in query.read_all_now()]
    query.stop()
    assert sorted(found) == list(range(3000))
