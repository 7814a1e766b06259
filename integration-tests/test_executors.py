"""Lost tasks, lost executors and speculative attempts; the latter two on a standalone cluster."""

from __future__ import annotations

import pytest

from harness.cluster import SPECULATION
from harness.oracle import check_files, check_speculated

pytestmark = pytest.mark.exhaustive(
    "by themselves, with larger data and two kills; "
    "test_every_with_every.py::test_a_cluster_has_stragglers_and_loses_executors is the witness"
)

WRITER = "penstock_filesystem.sink._writer:FileSystemWriter"


@pytest.mark.spark
@pytest.mark.parametrize("point", ["write:after:2", "prepare_commit:after:2"])
def test_worker_killed_in_a_task(point, driver, csv_files, tmp_path):
    expected = csv_files(4, 50)
    run = driver(
        "copy_files", fault=f"{WRITER}.{point}", scope="worker", master="local[2,4]", bucketAssigner="basePath"
    )
    run.wait_for_success()
    assert run.was_hit()
    check_files(tmp_path / "out", expected)


@pytest.mark.spark
def test_executor_killed_while_it_writes(driver, csv_files, tmp_path, cluster):
    expected = csv_files(40, 2000)
    run = driver("copy_files", master=cluster.url, files_per_trigger=4, bucketAssigner="basePath")
    cluster.kill_executors(run, tmp_path / "ck")
    run.wait_for_success()
    check_files(tmp_path / "out", expected)


@pytest.mark.spark
def test_speculative_attempts(driver, csv_files, tmp_path, cluster):
    expected = csv_files(4, 50)
    driver(
        "copy_files",
        master=cluster.url,
        mode="straggler",
        files_per_trigger=4,
        bucketAssigner="basePath",
        **SPECULATION,
    ).wait_for_success()
    check_speculated(tmp_path / "attempts")
    check_files(tmp_path / "out", expected)
