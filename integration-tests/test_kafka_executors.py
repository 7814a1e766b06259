"""Lost executors and speculative attempts on a standalone cluster, with a reader of committed records watching."""

from __future__ import annotations

import pytest

from harness.cluster import SPECULATION
from harness.oracle import check_speculated

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.exhaustive(
        "by themselves, with larger data and two kills; "
        "test_every_with_every.py::test_a_cluster_has_stragglers_and_loses_executors is the witness"
    ),
]


def test_executor_killed_while_it_writes(driver, kafka, watched_copy, tmp_path, cluster):
    copy = watched_copy(kafka)
    copy.records.add(20_000)
    run = driver("copy_kafka", **copy.job, per_trigger=2000, master=cluster.url)
    cluster.kill_executors(run, tmp_path / "ck")
    run.wait_for_success()
    copy.check()


def test_speculative_attempts(driver, kafka, watched_copy, tmp_path, cluster):
    copy = watched_copy(kafka)
    copy.records.add(400)
    driver("copy_kafka", **copy.job, mode="straggler", master=cluster.url, **SPECULATION).wait_for_success()
    check_speculated(tmp_path / "attempts")
    copy.check(order=False)
