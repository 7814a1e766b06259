"""A bad network between us and the brokers: answers that are lost, and connections that are slow, cut or dead."""

from __future__ import annotations

import uuid
from collections import Counter

import pyarrow as pa
import pytest

import penstock_kafka.transactions._producers as producers
from penstock_kafka import KafkaConnector
from penstock_kafka.client import open_producer
from penstock_kafka.client.broker import _pool
from penstock_kafka.dev import KafkaToolbox
from suite.over_network import FAULTS, every, sink_query, source_query

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])
#: Time limits of requests, so that a connection that is dead is noticed in seconds.
IMPATIENT = {"kafka.socket.timeout.ms": "4000", "kafka.request.timeout.ms": "4000"}
CLIENTS = ("protocol", "librdkafka")
#: Every request of a query that writes exactly once.
ASKED = [
    *("ApiVersions", "Metadata", "FindCoordinator", "ListTransactions", "DescribeTransactions"),
    *("InitProducerId", "AddPartitionsToTxn", "Produce", "AddOffsetsToTxn", "TxnOffsetCommit", "OffsetFetch"),
    *("EndTxn", "DescribeProducers"),
]


@pytest.fixture(autouse=True)
def pools():
    """No test uses what another one has learned of the brokers."""
    yield
    producers._pools.clear()
    _pool._shared.clear()


@pytest.fixture
def toolbox(breakable):
    """Past the network."""
    return KafkaToolbox(breakable.address)


def rows(batch_id, writer, count=20):
    values = [f"{batch_id}.{writer}.{i}" for i in range(count)]
    return pa.record_batch([values, values], schema=SCHEMA)


BATCHES = [[[rows(number, 0)], [rows(number, 1)]] for number in range(3)]
EVERYTHING = Counter(value for shares in BATCHES for share in shares for part in share for value in part[1].to_pylist())


def writing(network, topic, folder, delivery, **more):
    options = {"kafka.bootstrap.servers": network.address, "topic": topic, "delivery": delivery, **IMPATIENT, **more}
    return sink_query(KafkaConnector(), options, SCHEMA, folder / "checkpoint")


def seen(toolbox, topic):
    return Counter(record.value.decode() for record in toolbox.read(topic))


@pytest.mark.parametrize(
    ("client", "kind", "nth", "keep"),
    every(
        CLIENTS,
        ASKED,
        (1, 2),
        (0.0, 0.5),
        witnesses=[("protocol", "EndTxn", 1, 0.0)],
        otherwise="every request of the protocol; that for the end of a transaction is the witness",
    ),
)
def test_an_answer_is_lost(network, toolbox, tmp_path, client, kind, nth, keep):
    topic = toolbox.create_topic(partitions=2)
    loss = network.lose(f"{kind}$", nth, keep=keep)
    query = writing(network, topic, tmp_path, "exactly-once", client=client)
    query.run_all(BATCHES)
    network.mend()
    assert loss.lost or kind in ("DescribeProducers", "OffsetFetch"), network.counts
    assert seen(toolbox, topic) == EVERYTHING


WRITES = every(
    CLIENTS,
    list(FAULTS),
    ("exactly-once", "at-least-once"),
    witnesses=[("protocol", "3 % resets", "exactly-once")],
    otherwise="up to a minute each; connections that are reset are the witness",
)
#: Within these time limits librdkafka does not get a transaction through.
BEYOND_LIBRDKAFKA = ("librdkafka", "2 s latency", "exactly-once")


@pytest.mark.parametrize(("client", "fault", "delivery"), [case for case in WRITES if case.values != BEYOND_LIBRDKAFKA])
def test_a_query_writes_through(network, toolbox, tmp_path, client, fault, delivery):
    topic = toolbox.create_topic(partitions=2)
    query = writing(network, topic, tmp_path, delivery, client=client)
    query.run(0, BATCHES[0])
    with FAULTS[fault](network):
        query.run_all(BATCHES)
    network.mend()
    found = seen(toolbox, topic)
    assert found == EVERYTHING if delivery == "exactly-once" else found >= EVERYTHING


@pytest.mark.parametrize(
    ("client", "fault"),
    every(
        CLIENTS,
        list(FAULTS),
        witnesses=[("protocol", "3 % cut answers")],
        otherwise="seconds each; answers that are cut are the witness",
    ),
)
def test_a_query_reads_through(network, toolbox, client, fault):
    topic = toolbox.create_topic(partitions=2)
    records = [{"value": b"%d" % i, "partition": i % 2} for i in range(2000)]
    toolbox.produce(topic, records)
    query = source_query(
        KafkaConnector(),
        {
            "kafka.bootstrap.servers": network.address,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "500",
            "client": client,
            **IMPATIENT,
        },
    )
    try:
        found = [row["value"] for row in query.run_batch()]
        with FAULTS[fault](network):
            while some := query.run_batch():
                found += [row["value"] for row in some]
    finally:
        query.stop()
    assert sorted(found) == sorted(record["value"] for record in records)


def test_a_coordinator_is_asked_by_another_connection_while_there_is_time(network, toolbox):
    topic, group = toolbox.create_topic(), uuid.uuid4().hex
    settings = {"bootstrap.servers": network.address, "socket.timeout.ms": "500", "request.timeout.ms": "500"}
    producer = open_producer({**settings, "transactional.id": group}, "protocol")
    producer.init_transactions(30_000)
    producer.begin_transaction()
    network.half_open()
    producer.send_offset(group, topic, 0, 1, "", 20_000)
    network.half_open()
    producer.abort_transaction(20_000)
    producer.close()
