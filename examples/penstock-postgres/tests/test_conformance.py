"""What the connector promises, proven with Penstock's conformance kit, on a PostgreSQL of its own."""

from __future__ import annotations

from typing import ClassVar

import pytest
from penstock_postgres import PostgresConnector

from penstock.testing import SinkSuite, SinkTarget, SourceOrigin, SourceSuite, SparkSinkSuite, SparkSourceSuite

#: Options whose values must lead to a table that is there, as the driver looks at it: the kit can't choose others.
WHERE = ("host", "port", "database", "table", "user", "key", "tls.caFile")


class PostgresSinkSuite(SinkSuite):
    connector = PostgresConnector
    table = "id bigint, text text"
    options = ()
    kill_seconds = 3
    option_examples: ClassVar = {name: [] for name in WHERE}

    @pytest.fixture
    def new_target(self, postgres):
        def make():
            table = postgres.table(self.table)

            def read():
                return [{"id": i, "text": text} for i, text in postgres.run(f"select id, text from {table}")]

            def lose():
                for gid in postgres.prepared(table):
                    postgres.run(f"rollback prepared '{gid}'")

            given = {**postgres.options(table), **dict(self.options)}
            return SinkTarget(given, read, lambda: postgres.prepared(table), lose, postgres.stopped)

        return make


class TestExactlyOnce(PostgresSinkSuite):
    pass


@pytest.mark.exhaustive("the kit once more; TestExactlyOnce is the witness")
class TestUpsert(PostgresSinkSuite):
    many = 200_000  # the case about memory is for rows that are kept; here each upsert is committed
    table = "id bigint primary key, text text"
    options = (("delivery", "upsert"), ("key", "id"))


@pytest.mark.exhaustive("on Spark what TestExactlyOnce shows without it")
class TestExactlyOnceOnSpark(SparkSinkSuite):
    option_examples: ClassVar = PostgresSinkSuite.option_examples
    connector, options, table = PostgresConnector, PostgresSinkSuite.options, PostgresSinkSuite.table
    new_target = PostgresSinkSuite.new_target


class TestSource(SourceSuite):
    connector = PostgresConnector
    limit = ("maxRowsPerTrigger", "6", 6)
    many = 3_000  # splits are tiny here, to have several; test_source.py has a split of long rows
    option_examples: ClassVar = {**PostgresSinkSuite.option_examples, "splitColumn": []}

    @pytest.fixture
    def origin(self, postgres):
        table = postgres.table("id bigint primary key")

        def put(ids):
            postgres.run(f"insert into {table} select unnest(%s::bigint[])", [list(ids)])

        return SourceOrigin({**postgres.options(table), "rowsPerSplit": "3"}, put, unreachable=postgres.stopped)


@pytest.mark.exhaustive("on Spark what TestSource shows without it")
class TestSourceOnSpark(SparkSourceSuite):
    connector, option_examples, origin = PostgresConnector, TestSource.option_examples, TestSource.origin
