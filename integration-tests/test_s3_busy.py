"""S3 to S3 while the store answers with 503 SlowDown: for a moment, and for longer than anybody tries."""

from __future__ import annotations

import re

import pytest

from harness.oracle import check_once
from suite.busy_s3 import busy_s3

pytestmark = pytest.mark.spark

READING = "(GET|HEAD) /[^/]+/in/.+csv"
STAGING = r"PUT .*/\.penstock/.*\.(chunk|upload)\?"
OPENING = r"POST .*\?uploads"
SENDING = "PUT .*partNumber="
PUBLISHING = r"POST .*\?uploadId="
LOOKING = r"GET .*\?.*uploads"
CLEARING = r"POST .*\?delete"

MORE = pytest.mark.exhaustive("another kind of request; test_storage_s3.py and test_sink_s3.py have them without Spark")


@pytest.fixture
def store(new_bucket):
    """The server, the bucket, and the options of a query from and to it."""
    with busy_s3() as server:
        bucket = new_bucket(server.endpoint)
        paths = {"input": f"s3://{bucket.name}/in/", "path": f"s3://{bucket.name}/out"}
        options = {"s3.endpoint": server.endpoint, "bucketAssigner": "basePath", "maxPartSize": "4kb", "log": "OFF"}
        yield server, bucket, {**paths, **options}


@pytest.fixture
def csv_objects(csv_files, tmp_path, store):
    def write(files, rows, first=0):
        expected = csv_files(files, rows, first)
        for path in sorted((tmp_path / "in").glob("*.csv")):
            store[1].client.upload_file(str(path), store[1].name, f"in/{path.name}")
        return expected

    return write


def check(bucket, expected):
    check_once(bucket.rows(), expected)
    assert bucket.open_uploads() == []
    assert not any("/.penstock/" in key for key in bucket.keys())  # noqa: SIM118 - a method of ours


@pytest.mark.exhaustive("a driver; test_storage_s3.py::test_deciding_rides_out_a_short_outage has the store alone")
@pytest.mark.parametrize("late", [True, False])
def test_a_short_outage_is_not_noticed(driver, csv_objects, store, late):
    """Each kind of request is refused three times in a row; late: after it was done."""
    server, bucket, options = store
    expected = csv_objects(4, 200)
    server.refuse(READING, STAGING, OPENING, SENDING, PUBLISHING, LOOKING, CLEARING, times=3, late=late)
    driver("copy_files", **options).wait_for_success()
    assert set(server.refused.values()) == {3}, server.refused
    check(bucket, expected)


@pytest.mark.parametrize("request_", [STAGING, PUBLISHING])
@pytest.mark.exhaustive("ten seconds each; test_sink_s3.py::test_staging_waits_for_a_store_that_is_away has both")
def test_an_outage_that_outlasts_the_libraries_is_waited_for(driver, csv_objects, store, request_):
    """They make a request six times; the query makes it again for retryTimeout."""
    server, bucket, options = store
    expected = csv_objects(4, 200)
    server.refuse(request_, times=8)
    driver("copy_files", **options).wait_for_success()
    assert server.refused == {request_: 8}
    check(bucket, expected)


@pytest.mark.parametrize(
    "request_",
    [READING, STAGING, OPENING, SENDING, PUBLISHING, LOOKING, "(GET|PUT|POST|DELETE|HEAD) .*/out/"],
)
@MORE
def test_a_long_outage_ends_the_query_and_a_restart_goes_on(driver, csv_objects, store, request_):
    server, bucket, options = store
    expected = csv_objects(4, 200)
    server.refuse(request_)
    run = driver("copy_files", retryTimeout="1s", **options)
    run.wait_for_failure()
    said = run.last_words()
    assert re.search(rf"penstock: .*s3://{bucket.name}/.*(SlowDown|503).*retryTimeout=1s", said), run.tail()
    server.accept()
    driver("copy_files", **options).wait_for_success()
    check(bucket, expected)
