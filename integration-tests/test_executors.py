"""Lost tasks, lost executors and speculative attempts; the latter two on a standalone cluster."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.exhaustive(
    "by themselves, with larger data and two kills; "
    "test_every_with_every.py::test_a_cluster_has_stragglers_and_loses_executors is the witness"
)

WRITER = "penstock_filesystem.sink._writer:FileSystemWriter"


@pytest.mark.spark
@pytest.mark.parametrize("point", ["write:after:2", "prepare_commit:after:2"])
def test_worker_killed_in_a_task(point, driver, csv_files, tmp_path, exactly_once):
    expected = csv_files(4, 50)
    run = driver(
        "copy_files", fault=f"{WRITER}.{point}", scope="worker", master="local[2,4]", bucketAssigner="basePath"
    )
    assert run.wait() == 0, run.tail()
    assert run.was_hit()
    exactly_once(tmp_path / "out", expected)


@pytest.mark.spark
def test_executor_killed_while_it_writes(driver, csv_files, tmp_path, exactly_once, cluster):
    expected = csv_files(40, 2000)
    run = driver("copy_files", master=cluster.url, files_per_trigger=4, bucketAssigner="basePath")
    cluster.kill_executors(run, tmp_path / "ck" / "commits")
    assert run.wait() == 0, run.tail()
    exactly_once(tmp_path / "out", expected)


@pytest.mark.spark
def test_speculative_attempts(driver, csv_files, tmp_path, exactly_once, cluster):
    expected = csv_files(4, 50)
    run = driver(
        "copy_files",
        master=cluster.url,
        mode="straggler",
        files_per_trigger=4,
        bucketAssigner="basePath",
        **{
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.multiplier": "1.1",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.minTaskRuntime": "200ms",
        },
    )
    assert run.wait() == 0, run.tail()
    attempts = [line.split() for line in (tmp_path / "attempts").read_text().splitlines()]
    assert any(attempt[2] != "0" for attempt in attempts), f"Spark did not speculate: {attempts}"
    exactly_once(tmp_path / "out", expected)
