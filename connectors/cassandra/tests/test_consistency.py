"""``consistency`` applies to the rows of tables. System tables are read at ONE, whatever the level.

Every node keeps system tables for itself, so a level that needs two replicas of them can never be met.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from penstock_cassandra import CassandraConnector, Lookup
from penstock_cassandra.client import shared_client
from penstock_cassandra.options import SINK_OPTIONS, SOURCE_OPTIONS
from suite.over_network import sink_query
from suite.sources import SourceHarness

SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.string())])
ROWS = pa.record_batch([[1, 99], ["one", "more"]], schema=SCHEMA)
#: Levels that a server of one node can't meet.
OF_SEVERAL = ("TWO", "THREE")


def levels(options):
    (option,) = (one for one in options if one.name == "consistency")
    return option.choices


@pytest.fixture
def table(cassandra):
    name = cassandra.table("k int primary key, v text")
    cassandra.insert(name, "k, v", [(k, f"v{k}") for k in range(10)])
    return name


@pytest.mark.parametrize("level", levels(SOURCE_OPTIONS))
def test_reads_are_planned_at_any_level(cassandra, table, level):
    given = {**cassandra.options, "table": table, "consistency": level}
    harness = SourceHarness(CassandraConnector(), given)
    assert harness.schema() == SCHEMA and harness.list_splits() and harness.source.explain()
    lookup = Lookup(given, {"k": "k"}, ["v"])
    assert lookup._prepare(shared_client(lookup._options.connection)).columns


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "write-ahead"])
@pytest.mark.parametrize("level", levels(SINK_OPTIONS))
def test_rows_are_written_at_any_level(cassandra, table, tmp_path, level, delivery):
    given = {**cassandra.options, "table": table, "consistency": level, "delivery": delivery}
    if level in OF_SEVERAL:
        connector = CassandraConnector()
        connector.create_sink(connector.sink_options.parse(given, owner="sink"), SCHEMA).validate_schema(SCHEMA)
    else:
        sink_query(CassandraConnector(), given, SCHEMA, tmp_path).run(0, [[ROWS]])
        assert set(ROWS.column("v").to_pylist()) <= {v for _, v in cassandra.rows(table, "k, v")}
