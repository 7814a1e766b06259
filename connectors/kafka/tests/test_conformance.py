"""The conformance kit on a real broker."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

import penstock_kafka.transactions._producers as producers
from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite
from penstock_kafka import KafkaConnector
from penstock_kafka.client.broker import Coordinators
from penstock_kafka.source._schema import record_schema
from suite.away import standing_still
from suite.kit import (
    ALIKE_IN_BATCH,
    MANY_BATCHES,
    MANY_ROWS,
    TieredSparkSinkSuite,
    TieredSparkSourceSuite,
    by_default,
    only_columns_of,
)

SINK_IMPATIENT = {"kafka.socket.timeout.ms": "3000", "kafka.delivery.timeout.ms": "4000"}


class TestSink(SinkSuite):
    test_a_batch_function_crashes_at_every_step = by_default(
        SinkSuite.test_a_batch_function_crashes_at_every_step, otherwise=ALIKE_IN_BATCH
    )
    connector = KafkaConnector
    many, most_memory_bytes = 200_000, 32 << 20  # of 48 MB, through a queue of 4
    settles_s = 70.0  # kafka-python keeps the timer of an answered request until it would have timed out
    golden = Path(__file__).parent / "golden"
    schedules = 3
    schema = pa.schema([("key", pa.string()), ("value", pa.string())])

    test_a_crash_at_every_step = by_default(
        SinkSuite.test_a_crash_at_every_step,
        otherwise="every step; test_a_crash_loses_and_doubles_nothing has one for each state that is left behind",
    )

    test_many_batches_in_bounded_memory = by_default(
        SinkSuite.test_many_batches_in_bounded_memory, otherwise=MANY_BATCHES
    )

    test_the_system_is_away_for_a_while = by_default(
        SinkSuite.test_the_system_is_away_for_a_while,
        otherwise="a broker that stands still for a minute; test_sink_committer kills one and starts it again",
    )

    test_a_commit_costs_no_more_than_it_has_to = by_default(
        SinkSuite.test_a_commit_costs_no_more_than_it_has_to,
        otherwise="170 transactions; without a server, the files' suite has this case by default",
    )

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
                with closing(Coordinators({"bootstrap.servers": kafka.address})) as coordinators:
                    found = coordinators.describe(coordinators.open_ids(lambda _: True)).values()
                    return [one.ref.transactional_id for one in found if topic in dict(one.partitions)]

            def lose():
                with closing(Coordinators({"bootstrap.servers": kafka.address})) as coordinators:
                    for transactional_id in hidden():
                        coordinators.fence(transactional_id)

            options = {
                "kafka.bootstrap.servers": kafka.address,
                "topic": topic,
                "delivery": "exactly-once",
                "kafka.queue.buffering.max.kbytes": "4096",
            }

            return SinkTarget(
                options,
                read,
                hidden,
                lose,
                prepare=only_columns_of(TestSink.schema),
                unreachable=standing_still(kafka.address),
                impatient=SINK_IMPATIENT,
            )

        yield make
        producers._pools.clear()


class TestSinkOnSpark(TieredSparkSinkSuite):
    connector, golden, schema, new_target = KafkaConnector, TestSink.golden, TestSink.schema, TestSink.new_target
    option_examples = TestSink.option_examples
    batch, with_texts, id_of, text_of = TestSink.batch, TestSink.with_texts, TestSink.id_of, TestSink.text_of


class TestSource(SourceSuite):
    connector = KafkaConnector
    golden = TestSink.golden
    schema = record_schema(pa.binary(), pa.binary())
    limit = ("maxOffsetsPerTrigger", "6", 6)
    settles_s = TestSink.settles_s
    test_many_rows_in_bounded_memory = by_default(SourceSuite.test_many_rows_in_bounded_memory, otherwise=MANY_ROWS)
    test_many_batches_in_bounded_memory = by_default(
        SourceSuite.test_many_batches_in_bounded_memory, otherwise=MANY_BATCHES
    )
    most_memory_bytes = 256 << 20  # what librdkafka fetches ahead (queued.max.messages.kbytes), and its buffers

    def id_of(self, row):
        return int(row["value"])

    @pytest.fixture
    def origin(self, kafka):
        topic = kafka.create_topic(partitions=2)
        options = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest"}
        return SourceOrigin(
            options,
            lambda ids: kafka.produce(topic, [str(i).encode() for i in ids]),
            unreachable=standing_still(kafka.address),
            impatient={"kafka.socket.timeout.ms": "3000"},
        )


class TestSourceOnSpark(TieredSparkSourceSuite):
    connector, schema, origin, id_of = KafkaConnector, TestSource.schema, TestSource.origin, TestSource.id_of
    golden = TestSource.golden
