"""Files on Azure's blob storage, read and written: the kit, crashes at every step, and Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from suite.azure import ACCOUNT
from suite.object_store import (
    ObjectStore,
    SinkOnStore,
    SourceOnStore,
    check_replaced_driver,
    check_spark,
    crash_at_steps,
)

AS_ON_A_DISK = pytest.mark.exhaustive("the kit on another storage; test_sink_azure.py has that storage")


@pytest.fixture
def store(azure_server):
    server = azure_server
    return ObjectStore(
        server.endpoint.split("/")[2],
        server.options(),
        server.storage(),
        server.new_container,
        server.url,
        lambda address: {"azure.endpoint": f"http://{address}/{ACCOUNT}"},
    )


@AS_ON_A_DISK
@pytest.mark.timeout(1000)
class TestSink(SinkOnStore):
    pass


@AS_ON_A_DISK
class TestSource(SourceOnStore):
    golden = Path(__file__).parent / "golden"


@pytest.mark.budget(60)
def test_a_crash_at_every_tenth_step(store):
    """Each run takes others; the local disk has them all."""
    crash_at_steps(store, 10)


def test_a_driver_that_was_replaced_is_refused(store):
    check_replaced_driver(store)


@pytest.mark.spark
def test_reading_and_writing_in_spark(store, spark, tmp_path):
    check_spark(store, spark, str(tmp_path / "ck"))
