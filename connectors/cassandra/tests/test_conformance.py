"""The conformance kit on a real server."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.connector import Capability
from penstock.testing import SPARK_TYPES, SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite
from penstock_cassandra import CassandraConnector
from suite.away import standing_still
from suite.kit import (
    MANY_BATCHES,
    MANY_ROWS,
    WITHOUT_SPARK,
    OneCrashOfEachKind,
    TieredSparkSinkSuite,
    TieredSparkSourceSuite,
    by_default,
)

IMPATIENT = {"connectTimeout": "3s", "requestTimeout": "3s", "retryTimeout": "3s"}
#: Collections are frozen: of others, Cassandra does not tell an empty one from none. Its timestamps have milliseconds,
#: and those of Spark microseconds: the sink warns of what is cut off.
CQL_TYPES = {
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "decimal(38,18)": "decimal",
    "string": "text",
    "binary": "blob",
    "date": "date",
    "array": "frozen<list<text>>",
    "struct": "frozen<tuple<int, text>>",
    "map": "frozen<map<text, bigint>>",
}


def cql_type(arrow):
    for name, (kind, _) in SPARK_TYPES.items():
        if kind == arrow and name in CQL_TYPES:
            return CQL_TYPES[name]
    raise NotImplementedError


def as_arrow(value, kind):
    """What the driver gives, as Arrow takes it."""
    if value is None:
        return None
    if pa.types.is_date(kind):
        return value.date()
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_list(kind):
        return list(value)
    if pa.types.is_struct(kind):
        return dict(zip([field.name for field in kind], value, strict=True))
    return value


class CassandraSinkSuite(OneCrashOfEachKind):
    connector = CassandraConnector
    delivery = "exactly-once"
    many = 100_000  # the server takes some 20,000 rows a second here
    test_many_batches_in_bounded_memory = by_default(
        SinkSuite.test_many_batches_in_bounded_memory, otherwise=MANY_BATCHES
    )
    test_many_rows_in_bounded_memory = by_default(SinkSuite.test_many_rows_in_bounded_memory, otherwise=MANY_ROWS)

    @pytest.fixture
    def new_target(self, cassandra):
        def make():
            table = cassandra.table("id bigint primary key, text text")

            def read():
                return [{"id": i, "text": text} for i, text in cassandra.rows(table, "id, text")]

            def prepare(field):
                cassandra.cql(f'alter table {cassandra.keyspace}.{table} add "{field.name}" {cql_type(field.type)}')

            def read_table(schema):
                rows = cassandra.rows(table, ", ".join(f'"{name}"' for name in schema.names))
                columns = [
                    pa.array([as_arrow(value, field.type) for value in values], field.type)
                    for field, values in zip(schema, zip(*rows, strict=True), strict=True)
                ]
                return pa.Table.from_arrays(columns, schema=schema)

            return SinkTarget(
                {**cassandra.options, "table": table, "delivery": self.delivery},
                read,
                hidden=list,  # a row that is there is visible
                unreachable=standing_still(cassandra.address),
                read_table=read_table,
                prepare=prepare,
                impatient=IMPATIENT,
            )

        return make


class TestUpsert(CassandraSinkSuite):
    most_memory_bytes = 72 << 20


class TestUpsertOnSpark(TieredSparkSinkSuite):
    connector, delivery, new_target = CassandraConnector, "exactly-once", CassandraSinkSuite.new_target


class TestWriteAhead(CassandraSinkSuite):
    delivery = "write-ahead"
    equal_rows = False  # a row with the key of another one replaces it
    most_memory_bytes = 80 << 20  # segments are larger than batches


def streams_only():
    """Write-ahead keeps rows in a checkpoint, which a batch write does not have."""

    # Inside of a function it goes to Spark's processes by value: they can't import what this module does.
    class StreamsOnly(CassandraConnector):
        capabilities = CassandraConnector.capabilities - {Capability.BATCH_WRITE}

    return StreamsOnly


class TestWriteAheadOnSpark(TieredSparkSinkSuite):
    connector, delivery, new_target = streams_only(), "write-ahead", CassandraSinkSuite.new_target
    test_every_type_comes_through = by_default(SparkSinkSuite.test_every_type_comes_through, otherwise=WITHOUT_SPARK)


class TestSource(SourceSuite):
    connector = CassandraConnector
    golden = Path(__file__).parent / "golden" / "stored"
    ordered = False  # rows come in the order of their tokens
    equal_rows = False  # the number is the key
    test_many_rows_in_bounded_memory = by_default(SourceSuite.test_many_rows_in_bounded_memory, otherwise=MANY_ROWS)
    test_many_batches_in_bounded_memory = by_default(
        SourceSuite.test_many_batches_in_bounded_memory, otherwise=MANY_BATCHES
    )
    limit = ("maxSplitsPerTrigger", "5", 25)
    many = 20_000

    @pytest.fixture
    def origin(self, cassandra):
        table = cassandra.table("id bigint primary key")

        def put(ids):
            cassandra.insert(table, "id", [(number,) for number in ids])

        options = {**cassandra.options, "table": table, "splits": "20"}
        return SourceOrigin(options, put, unreachable=standing_still(cassandra.address), impatient=IMPATIENT)


class TestSourceOnSpark(TieredSparkSourceSuite):
    connector, origin, golden = CassandraConnector, TestSource.origin, TestSource.golden
