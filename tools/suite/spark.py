"""One Spark session for all tests of a process: a JVM, a context and its Python workers take seconds to come up.

Tests keep their data apart by name, and undo what they change in the session. Those that need another master, or
other settings of the context, start a driver as a process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from spark_jars import spark_avro_jars, spark_kafka_jars

__all__ = ["penstock_spark", "spark"]

#: The tests that compare with connectors of Spark's own. A JVM takes jars when it starts, or never.
_JARS = {
    "connectors/kafka/": spark_kafka_jars,
    "connectors/filesystem/": spark_avro_jars,
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The session: two cores, tasks that fail are run again, all connectors registered."""
    from pyspark.sql import SparkSession

    import penstock

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.streaming.noDataProgressEventInterval": "1000",
    }
    nodeids = [item.nodeid for item in request.session.items]
    jars = [jar for place, found in _JARS.items() if any(one.startswith(place) for one in nodeids) for jar in found()]
    if jars:
        settings["spark.jars"] = ",".join(jars)
    builder = SparkSession.builder.master("local[2,4]").appName("penstock tests").config(map=settings)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    penstock.register(session)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def penstock_spark(spark: Any) -> Any:
    """The kit's session, which authors get from the kit's own plugin."""
    return spark
