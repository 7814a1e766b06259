"""Brokers of other versions, and of another maker: what works on all of them. A query under SIGKILL is in
`scripts/compat kafka`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import Counter
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import penstock_kafka.transactions._producers as producers
from penstock.errors import BadConfigurationError
from penstock.testing import Crash, Fuse, SinkQuery, SourceQuery
from penstock_kafka import KafkaConnector
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.dev import KafkaDevServer, KafkaToolbox, kafka_server

OTHERS = pytest.mark.exhaustive("a broker of each version; the newest in every other test, and one that lists nothing")
VERSIONS = ("2.8.2", "3.0.2", "3.4.1", "3.9.1", "4.0.1", "4.4.0")
KFAKE = Path(__file__).parent / "kfake"
SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string())])


@contextmanager
def kfake(folder):
    """franz-go's implementation, built from its published source."""
    shutil.copytree(KFAKE, folder / "source")
    binary = folder / "kfake"
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=folder / "source", check=True, timeout=900)
    with subprocess.Popen([str(binary)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def version(folder, number):
    with kafka_server(folder, quick_start=True, version=number) as server:
        yield server.address


@pytest.fixture(scope="module", params=[*VERSIONS, "kfake"])
def other(request, tmp_path_factory):
    """A :class:`KafkaToolbox` on a broker of another kind."""
    folder = tmp_path_factory.mktemp("broker")
    with kfake(folder) if request.param == "kfake" else version(folder, request.param) as address:
        yield KafkaToolbox(address)
    producers._pools.clear()


@pytest.fixture(params=["protocol", "librdkafka"])
def client(request):
    return request.param


def rows(*values):
    return pa.record_batch([[f"k{value}" for value in values], list(values)], schema=SCHEMA)


def sink_query(kafka, checkpoint, **options):
    settings = {"kafka.bootstrap.servers": kafka.address, **options}
    parsed = KafkaConnector.sink_options.parse(settings, owner="sink penstock.kafka")
    return SinkQuery(KafkaConnector().create_sink(parsed, SCHEMA), SCHEMA, checkpoint)


def read_all(kafka, topic, client):
    settings = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "client": client}
    parsed = KafkaConnector.source_options.parse(
        {**settings, "startingOffsets": "earliest"}, owner="source penstock.kafka"
    )
    source = KafkaConnector().create_source(parsed)
    query = SourceQuery(source, source.fixed_schema())
    try:
        return Counter(row["value"].decode() for row in query.run_batch())
    finally:
        query.stop()


class DiesAt(Fuse):
    """Ends a driver at a step that has this name."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def step(self, what):
        super().step(what)
        if what == self.name:
            raise Crash(what)


COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@OTHERS
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_reading_what_another_library_has_written(other, client, compression):
    topic = other.create_topic(partitions=2)
    other.produce(topic, [{"key": f"k{n}", "value": f"{n} " * 9} for n in range(50)], compression_type=compression)
    other.produce_transaction(topic, [b"aborted"], commit=False)
    other.produce_transaction(topic, [b"committed"])
    assert read_all(other, topic, client) == Counter([*(f"{n} " * 9 for n in range(50)), "committed"])


@OTHERS
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_writing_at_least_once(other, client, compression, tmp_path):
    topic = other.create_topic(partitions=2)
    query = sink_query(other, tmp_path / "ck", topic=topic, client=client, **{"kafka.compression.type": compression})
    query.run(0, [[rows("a", "b" * 5000)], [rows("c")]])
    assert Counter(one.value.decode() for one in other.read(topic)) == Counter(["a", "b" * 5000, "c"])


@OTHERS
def test_writing_exactly_once(request, other, client, tmp_path):
    """With drivers that die when they have decided, when they have committed, and before either."""
    if client == "librdkafka" and request.node.callspec.params["other"] == "kfake":
        pytest.skip("librdkafka 2.16.1 crashes in a transaction on kfake (segmentation fault)")
    topic = other.create_topic(partitions=2)
    query = sink_query(other, tmp_path / "ck", topic=topic, client=client, delivery="exactly-once")
    query.run(0, [[rows("a", "b")], [rows("c")]])
    for number, step in enumerate(("before publish", "after publish", "after prepare_commit"), 1):
        query.restart(DiesAt(step))
        with pytest.raises(Crash):
            query.run(number, [[rows(f"{number}a")], [rows(f"{number}b")]])
        query.restart()
        query.run(number, [[rows(f"{number}a")], [rows(f"{number}b")]])
    expected = Counter(["a", "b", "c", *(f"{n}{task}" for n in (1, 2, 3) for task in "ab")])
    assert Counter(one.value.decode() for one in other.read(topic)) == expected
    assert read_all(other, topic, client) == expected


# --- what a broker can't do -------------------------------------------------------------------------------------------


def test_reading_from_brokers_that_can_not_is_refused_at_the_start(kafka, lacking):
    lacking("Fetch")
    topic = kafka.create_topic()
    with pytest.raises(BadConfigurationError, match=r"brokers at .* can't give records.*Fetch 4.* from 0\.11 on"):
        read_all(kafka, topic, "protocol")


def test_writing_exactly_once_to_brokers_that_can_not_is_refused_at_the_start(kafka, lacking, tmp_path):
    lacking("AddOffsetsToTxn", "EndTxn")
    with pytest.raises(
        BadConfigurationError, match=r"can't write exactly once.*AddOffsetsToTxn 0, EndTxn 0.*delivery=at-least-once"
    ) as refused:
        sink_query(kafka, tmp_path, topic="out", delivery="exactly-once")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("delivery", ["none", "at-least-once", "exactly-once"])
def test_writing_to_brokers_that_can_not_is_refused_at_the_start(kafka, lacking, tmp_path, delivery):
    lacking("Produce")
    with pytest.raises(BadConfigurationError, match=r"brokers at .* can't .*Produce 3, which.* from ") as refused:
        sink_query(kafka, tmp_path, topic="out", delivery=delivery)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [{"delivery": "at-least-once"}, {"delivery": "none", "kafka.acks": "all"}],
    ids=lambda one: one["delivery"],
)
def test_brokers_without_producer_ids_are_refused_at_the_start(kafka, lacking, tmp_path, options):
    lacking("InitProducerId")
    with pytest.raises(BadConfigurationError, match=r"idempotent.*InitProducerId 0.*kafka\.enable\.idempotence=false"):
        sink_query(kafka, tmp_path, topic="out", **options)


@pytest.mark.parametrize(
    "options",
    [{"delivery": "none"}, {"delivery": "at-least-once", "kafka.enable.idempotence": "false"}],
    ids=lambda one: one["delivery"],
)
def test_a_producer_that_numbers_nothing_needs_no_producer_ids(kafka, lacking, tmp_path, options):
    lacking("InitProducerId")
    topic = kafka.create_topic()
    sink_query(kafka, tmp_path, topic=topic, **options).run(0, [[rows("a", "b")]])
    assert len(kafka.read(topic)) == 2


@pytest.mark.parametrize("request_name", ["ListTransactions", "DescribeTransactions", "DescribeProducers"])
def test_without_one_of_the_requests_that_list_transactions_none_is_sent(kafka, lacking, tmp_path, request_name):
    lacking(request_name)
    topic = kafka.create_topic()
    query = sink_query(kafka, tmp_path / "ck", topic=topic, delivery="exactly-once")
    query.run(0, [[rows("a", "b")]])
    assert len(kafka.read(topic)) == 2
    with (
        closing(Coordinators({"bootstrap.servers": kafka.address})) as coordinators,
        pytest.raises(BadConfigurationError, match=rf"can't list and describe.*{request_name} 0.*from 3\.0 on"),
    ):
        coordinators.open_ids(lambda _: True)


# --- starting one -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "4", "4.0", "newest", "3.9.1-rc1", "2.3.1"])
def test_what_is_no_version_that_can_be_started(text):
    with pytest.raises(BadConfigurationError, match=r"no version of Kafka|too old"):
        KafkaDevServer().of_version(text)


def test_a_java_that_is_too_old_is_said_so(tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadConfigurationError, match=r"needs Java 17 or newer, and .* is Java 11"):
        kafka_server(tmp_path / "kafka").launch()


def test_data_of_another_version_is_left_alone(tmp_path):
    (tmp_path / "version").write_text("3.9.1")
    with pytest.raises(BadConfigurationError, match=r"is of Kafka 3\.9\.1"):
        kafka_server(tmp_path).launch()
    assert os.listdir(tmp_path) == ["version"]
