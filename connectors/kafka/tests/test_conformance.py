"""The conformance kit on a real broker."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import penstock_kafka.transactions._producers as producers
from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, SparkSourceSuite
from penstock_kafka import KafkaConnector
from penstock_kafka.source.schema import record_schema
from penstock_kafka.transactions.coordinators import Coordinators


class TestSink(SinkSuite):
    connector = KafkaConnector
    golden = Path(__file__).parent / "golden"
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])

    def batch(self, ids):
        return self.with_texts(ids, [f"row {i}" for i in ids])

    def with_texts(self, ids, texts):
        return pa.record_batch([[str(i) for i in ids], list(texts)], schema=self.schema)

    def id_of(self, row):
        return int(row["key"])

    def text_of(self, row):
        return row["value"].decode()

    @pytest.fixture
    def new_target(self, kafka):
        def make():
            topic = kafka.create_topic(partitions=2)

            def read():
                return [{"key": record.key, "value": record.value} for record in kafka.read(topic)]

            def hidden():
                with closing(Coordinators({"bootstrap_servers": kafka.address})) as coordinators:
                    found = coordinators.describe(coordinators.open_ids(lambda _: True)).values()
                    return [one.ref.transactional_id for one in found if topic in dict(one.partitions)]

            def lose():
                with closing(Coordinators({"bootstrap_servers": kafka.address})) as coordinators:
                    for transactional_id in hidden():
                        coordinators.fence(transactional_id)

            options = {"kafka.bootstrap.servers": kafka.address, "topic": topic, "delivery": "exactly-once"}
            return SinkTarget(options, read, hidden, lose)

        yield make
        for pool in producers._pools.pop(os.getpid(), {}).values():
            pool.close()


class TestSinkOnSpark(SparkSinkSuite):
    connector, golden, schema, new_target = KafkaConnector, TestSink.golden, TestSink.schema, TestSink.new_target
    batch, with_texts, id_of, text_of = TestSink.batch, TestSink.with_texts, TestSink.id_of, TestSink.text_of


class TestSource(SourceSuite):
    connector = KafkaConnector
    schema = record_schema(pa.binary(), pa.binary())
    limit = ("maxOffsetsPerTrigger", "6", 6)
    most_memory_bytes = 256 << 20  # what librdkafka fetches ahead (queued.max.messages.kbytes), and its buffers

    def id_of(self, row):
        return int(row["value"])

    @pytest.fixture
    def origin(self, kafka):
        topic = kafka.create_topic(partitions=2)
        options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest"}
        return SourceOrigin(options, lambda ids: kafka.produce(topic, [str(i).encode() for i in ids]))


class TestSourceOnSpark(SparkSourceSuite):
    connector, schema, origin, id_of = KafkaConnector, TestSource.schema, TestSource.origin, TestSource.id_of
