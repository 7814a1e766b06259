"""Files on Google Cloud Storage, read and written: the kit, crashes at every step, and Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.object_store import (
    ObjectStore,
    SinkOnStore,
    SourceOnStore,
    check_replaced_driver,
    check_spark,
    crash_at_steps,
)

AS_ON_A_DISK = pytest.mark.exhaustive("the kit on another storage; test_sink_gcs.py has that storage")


@pytest.fixture
def store(gcs_server):
    server = gcs_server
    return ObjectStore(
        server.endpoint.split("/")[2],
        server.options(),
        server.storage(),
        server.new_bucket,
        server.url,
        lambda address: {"gcs.endpoint": f"http://{address}"},
    )


@AS_ON_A_DISK
@pytest.mark.timeout(1000)
class TestSink(SinkOnStore):
    pass


@AS_ON_A_DISK
class TestSource(SourceOnStore):
    golden = Path(__file__).parent / "golden"


@pytest.mark.parametrize(
    "stride", [20, pytest.param(1, marks=pytest.mark.exhaustive("all steps; each run of the others takes some"))]
)
def test_a_crash_at_many_steps(store, stride):
    crash_at_steps(store, stride)


def test_a_driver_that_was_replaced_is_refused(store):
    check_replaced_driver(store)


@pytest.mark.spark
@pytest.mark.exhaustive("a Spark job over another store; test_azure.py has one")
def test_reading_and_writing_in_spark(store, spark, tmp_path):
    check_spark(store, spark, str(tmp_path / "ck"))
