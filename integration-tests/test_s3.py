"""Files to S3, killed around the multipart uploads; the server is a process of its own."""

from __future__ import annotations

import pytest

from harness.oracle import check_once

COMMITTER = "penstock_filesystem.sink.staging._multipart:MultipartCommitter"
STAGING = "penstock_filesystem.sink.staging._multipart:MultipartStaging"
POINTS = [
    f"{STAGING}.chunk:after:1",
    f"{STAGING}.part:after:1",
    "penstock_filesystem.sink.staging._uploads:Upload.flush:before:1",
    "penstock._commit._chain:Chain.create:after:3",
    f"{COMMITTER}._publish:before:2",
    f"{COMMITTER}._publish:after:1",
    f"{COMMITTER}._publish:after:2",
    "penstock._commit._chain:Chain.mark_done:before:2",
]


@pytest.mark.exhaustive(
    "every step of an upload; test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks is the witness"
)
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_driver_killed_around_uploads(driver, csv_files, bucket):
    expected = range(0)
    options = {
        "path": f"s3://{bucket.name}/out",
        "s3.endpoint": bucket.endpoint,
        "bucketAssigner": "basePath",
        "maxPartSize": "4kb",
    }
    for point in POINTS:
        expected = csv_files(4, 200, first=len(expected))
        driver("copy_files", fault=point, **options).wait_for_kill()
        assert max(bucket.rows().values(), default=1) == 1, f"duplicated after {point}"
    driver("copy_files", **options).wait_for_success()
    check_once(bucket.rows(), expected)
    # What the last killed attempts left goes with the clean-up of a later batch.
    for _ in range(2):
        expected = csv_files(24, 5, first=len(expected))
        driver("copy_files", **options).wait_for_success()
    assert bucket.open_uploads() == []
    check_once(bucket.rows(), expected)
