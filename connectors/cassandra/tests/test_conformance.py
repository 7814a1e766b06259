"""The conformance kit on a real server."""

from __future__ import annotations

import pytest

from penstock.plugins import BATCH_WRITE
from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, SparkSourceSuite
from penstock_cassandra import CassandraConnector


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


class TestUpsertOnSpark(SparkSinkSuite):
    connector, delivery, new_target = CassandraConnector, "exactly-once", CassandraSinkSuite.new_target


class TestWriteAhead(CassandraSinkSuite):
    delivery = "write-ahead"


class StreamsOnly(CassandraConnector):
    """Write-ahead keeps rows in a checkpoint, which a batch write does not have."""

    capabilities = CassandraConnector.capabilities - {BATCH_WRITE}


class TestWriteAheadOnSpark(SparkSinkSuite):
    connector, delivery, new_target = StreamsOnly, "write-ahead", CassandraSinkSuite.new_target


class TestSource(SourceSuite):
    connector = CassandraConnector
    limit = ("maxSplitsPerTrigger", "5", 25)
    many = 20_000  # put there one by one

    @pytest.fixture
    def origin(self, cassandra):
        table = cassandra.table("id bigint primary key")

        def put(ids):
            for number in ids:
                cassandra.cql(f"insert into {cassandra.keyspace}.{table} (id) values ({number})")

        return SourceOrigin({**cassandra.options, "table": table, "splits": "20"}, put)


class TestSourceOnSpark(SparkSourceSuite):
    connector, origin = CassandraConnector, TestSource.origin
