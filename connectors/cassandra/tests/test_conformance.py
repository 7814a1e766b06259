"""The conformance kit on a real server."""

from __future__ import annotations

import pytest

from penstock.connector import Capability
from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, SparkSourceSuite
from penstock_cassandra import CassandraConnector
from suite.kit import WITHOUT_SPARK, TieredSparkSinkSuite, by_default


class CassandraSinkSuite(SinkSuite):
    connector = CassandraConnector
    delivery = "exactly-once"
    many = 100_000  # the server takes some 20,000 rows a second here

    @pytest.fixture
    def new_target(self, cassandra):
        def make():
            table = cassandra.table("id bigint primary key, text text")

            def read():
                return [{"id": i, "text": text} for i, text in cassandra.rows(table, "id, text")]

            return SinkTarget({**cassandra.options, "table": table, "delivery": self.delivery}, read)

        return make


class TestUpsert(CassandraSinkSuite):
    pass


class TestUpsertOnSpark(TieredSparkSinkSuite):
    connector, delivery, new_target = CassandraConnector, "exactly-once", CassandraSinkSuite.new_target
    test_a_process_is_killed = by_default(
        SparkSinkSuite.test_a_process_is_killed,
        "after prepare_commit",  # a task; on the driver nothing is published
        otherwise="a kill at every other step; one kill and TestUpsert's crash at every step stay",
    )


class TestWriteAhead(CassandraSinkSuite):
    delivery = "write-ahead"


def streams_only():
    """Write-ahead keeps rows in a checkpoint, which a batch write does not have."""

    # Inside of a function it goes to Spark's processes by value: they can't import what this module does.
    class StreamsOnly(CassandraConnector):
        capabilities = CassandraConnector.capabilities - {Capability.BATCH_WRITE}

    return StreamsOnly


class TestWriteAheadOnSpark(SparkSinkSuite):
    connector, delivery, new_target = streams_only(), "write-ahead", CassandraSinkSuite.new_target
    test_a_process_is_killed = by_default(
        SparkSinkSuite.test_a_process_is_killed,
        "half way through publish",
        otherwise="a kill at every other step; one kill and TestWriteAhead's crash at every step stay",
    )
    test_batches_without_rows = by_default(SparkSinkSuite.test_batches_without_rows, otherwise=WITHOUT_SPARK)
    test_every_type_comes_through = by_default(SparkSinkSuite.test_every_type_comes_through, otherwise=WITHOUT_SPARK)
    test_metrics_count_rows = by_default(SparkSinkSuite.test_metrics_count_rows, otherwise=WITHOUT_SPARK)
    test_scale_up_and_down = by_default(SparkSinkSuite.test_scale_up_and_down, otherwise=WITHOUT_SPARK)
    test_text_arrives_as_it_is = by_default(SparkSinkSuite.test_text_arrives_as_it_is, otherwise=WITHOUT_SPARK)
    test_a_huge_row_is_written_or_refused = by_default(
        SparkSinkSuite.test_a_huge_row_is_written_or_refused, otherwise=WITHOUT_SPARK
    )


class TestSource(SourceSuite):
    connector = CassandraConnector
    limit = ("maxSplitsPerTrigger", "5", 25)
    many = 20_000

    @pytest.fixture
    def origin(self, cassandra):
        table = cassandra.table("id bigint primary key")

        def put(ids):
            cassandra.insert(table, "id", [(number,) for number in ids])

        return SourceOrigin({**cassandra.options, "table": table, "splits": "20"}, put)


class TestSourceOnSpark(SparkSourceSuite):
    connector, origin = CassandraConnector, TestSource.origin
    test_a_reader_is_killed = by_default(
        SparkSourceSuite.test_a_reader_is_killed,
        "after fetch",
        otherwise="a kill at the other step; the one after a fetch stays",
    )
