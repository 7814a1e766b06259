"""Files on S3, read and written: the kit, crashes at every step, and Spark."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from penstock.storage import open_storage
from suite.object_store import (
    ObjectStore,
    SinkOnStore,
    SourceOnStore,
    check_replaced_driver,
    check_spark,
    crash_at_steps,
)

AS_ON_A_DISK = pytest.mark.exhaustive("the kit on another storage; test_sink_s3.py has that storage")


@pytest.fixture
def store(s3_server):
    client, options = s3_server.client, s3_server.options()

    def new_bucket():
        bucket = f"b{uuid.uuid4().hex[:12]}"
        client.create_bucket(Bucket=bucket)
        return bucket

    def begun(bucket):
        return client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])

    def uploads(bucket):
        return [f"{one['Key']} {one['UploadId']}" for one in begun(bucket)]

    def abort(bucket):
        for one in begun(bucket):
            client.abort_multipart_upload(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"])

    return ObjectStore(
        s3_server.endpoint.removeprefix("http://"),
        options,
        open_storage("s3a://any", options)[0],
        new_bucket,
        lambda bucket: f"s3://{bucket}",
        lambda address: {"s3.endpoint": f"http://{address}"},
        uploads,
        abort,
    )


@AS_ON_A_DISK
@pytest.mark.timeout(1000)
class TestSink(SinkOnStore):
    case_seconds = 600  # the server is Python, and answers a request after the other


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
