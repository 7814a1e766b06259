"""``query.stop()`` while a plan waits for a system that is away: on real Spark, which ends the process of the plan."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from penstock.connector import Capability, Connector
from penstock.dev._process import identify
from penstock.errors import RetriableError
from penstock.options import Option, OptionSet
from penstock.source import SimpleSource
from penstock.testing._spark_source import data_source

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


class AwaySource(SimpleSource):
    """Says which process asks, and that its system is away."""

    def __init__(self, path):
        self.path = path

    def find_splits(self):
        new = Path(f"{self.path}.new")
        new.write_text(str(os.getpid()))
        new.replace(self.path)
        raise RetriableError("the cluster is away")

    def read_split(self, split, context):
        raise AssertionError("there is none")


class Away(Connector):
    source_options = OptionSet([Option("path", "Where to say which process asks", required=True)])
    capabilities = frozenset({Capability.STREAM_READ})

    def create_source(self, options):
        return AwaySource(options["path"])

    def describe_guarantee(self):
        return ""


def test_a_query_whose_plan_waits_stops_at_once(spark, tmp_path):
    asked = tmp_path / "asked"
    spark.dataSource.register(data_source(Away))
    rows = spark.readStream.format("penstock.under_test").schema("id long").options(path=str(asked), retryTimeout="1h")
    query = rows.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "ck")).start()
    while not asked.exists():
        assert query.isActive, query.exception()
        time.sleep(0.05)
    planner = identify(int(asked.read_text()))
    assert planner is not None and query.isActive
    query.stop()  # without an end of the plan this waits for the hour of retryTimeout
    assert not query.isActive
    while identify(planner.pid) == planner:
        time.sleep(0.05)
