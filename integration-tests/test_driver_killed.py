"""SIGKILL to the driver between any two steps of the protocol, then counting."""

from __future__ import annotations

import json

import pytest

LOG, PROTOCOL = "penstock.sink.decision_log:DecisionLog", "penstock.sink.two_phase:TwoPhaseCommit"
READER = "penstock.spark._read:StreamReader"
WRITER = "penstock_filesystem.sink._writer:FileWriter"
ROLLER = "penstock_filesystem.sink._roller:FileRoller"
COMMITTER = "penstock_filesystem.sink._committer:FileCommitter"
RENAME = "penstock_filesystem.sink._rename_committer:RenameCommitter"

#: In the order in which a batch goes through them. The number says at which call of the run. What a kill before a step
#: leaves is what one after the step before it leaves: such pairs are here once. The kit has both, without Spark.
POINTS = [
    f"{READER}.latestOffset:after:1",
    f"{READER}.partitions:before:2",
    f"{PROTOCOL}.plan:after:1",
    f"{WRITER}.write:after:2",
    f"{WRITER}.prepare_commit:after:2",
    f"{ROLLER}.roll:after:1",
    f"{PROTOCOL}.commit:before:2",
    f"{LOG}.append:before:2",
    f"{LOG}.append:after:1",
    f"{LOG}.append:after:2",
    f"{RENAME}._rename:after:1",
    f"{COMMITTER}.commit:after:1",
    f"{LOG}.mark_done:after:2",
    f"{PROTOCOL}.commit:after:1",
    f"{PROTOCOL}.roll:after:1",
    f"{COMMITTER}.clean_up:before:1",
]


@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_driver_killed_at_every_step(driver, csv_files, tmp_path, rows_of, exactly_once):
    """One query with a state store, killed at each point in turn, with new files before every start."""
    expected = range(0)
    for number, point in enumerate(POINTS):
        expected = csv_files(4, 50, first=len(expected))
        driver("copy_files", fault=point, mode="distinct", bucketAssigner="basePath", maxPartSize="4kb").wait_for_kill()
        rows = rows_of(tmp_path / "out")
        assert not [i for i, count in rows.items() if count > 1], f"doubled after point {number}: {point}"
    run = driver("copy_files", mode="distinct", bucketAssigner="basePath", maxPartSize="4kb")
    assert run.wait() == 0, run.tail()
    exactly_once(tmp_path / "out", expected)
    left = [p for p in (tmp_path / "out" / ".penstock").rglob("*") if p.is_file()]
    next_batch = 1 + max(int(p.name) for p in (tmp_path / "ck" / "commits").iterdir() if p.name.isdigit())
    assert not [p for p in left if int(p.parent.name) < next_batch], "something lingers"


@pytest.mark.spark
def test_two_drivers_on_one_checkpoint(driver, csv_files, tmp_path, exactly_once):
    """The first sleeps before its decision, the second does the work, the first wakes up."""
    expected = csv_files(4, 50)
    first = driver("copy_files", fault=f"{LOG}.append:before:2", action="stop", bucketAssigner="basePath")
    worker = first.wait_for_hit()
    second = driver("copy_files", bucketAssigner="basePath")
    assert second.wait() == 0, second.tail()
    exactly_once(tmp_path / "out", expected)
    first.resume(worker)
    assert first.wait() != 0
    assert "decided by another driver" in first.log.read_text()
    expected = csv_files(2, 50, first=len(expected))
    third = driver("copy_files", bucketAssigner="basePath")
    assert third.wait() == 0, third.tail()
    exactly_once(tmp_path / "out", expected)


@pytest.mark.spark
def test_rescaling_over_kills(driver, csv_files, tmp_path, exactly_once):
    """Other numbers of tasks after each restart, one of them in the middle of a commit."""
    expected = range(0)
    for partitions, fault in ((5, f"{COMMITTER}.commit:before:2"), (1, f"{LOG}.append:after:2"), (3, ""), (2, "")):
        expected = csv_files(6, 40, first=len(expected))
        run = driver(
            "copy_files",
            fault=fault,
            mode="shuffle",
            partitions=partitions,
            bucketAssigner="basePath",
            maxPartSize="6kb",
        )
        status = run.wait()
        assert run.was_hit() == bool(fault) and (status == 0) == (not fault), run.tail()
    exactly_once(tmp_path / "out", expected)


@pytest.mark.spark
def test_checkpoint_location_is_required(driver, csv_files):
    csv_files(1, 1)
    run = driver("without_checkpoint")
    assert run.wait() != 0
    assert "needs .option('checkpointLocation', ...)" in run.log.read_text()


@pytest.mark.spark
def test_idle_stream_publishes_by_inactivity(driver, csv_files, tmp_path, exactly_once):
    """No batch runs any more, the query lives on, and its open part appears."""
    import time

    expected = csv_files(2, 50)
    run = driver(
        "copy_files",
        mode="idle",
        bucketAssigner="basePath",
        inactivityInterval="1 second",
        **{"spark.sql.streaming.noDataProgressEventInterval": "500"},
    )
    deadline = time.monotonic() + 90
    while not list((tmp_path / "out").glob("*.parquet")):
        assert time.monotonic() < deadline and run.process.poll() is None, run.tail()
        time.sleep(0.2)
    time.sleep(2)
    run.kill()
    run = driver("copy_files", bucketAssigner="basePath")
    assert run.wait() == 0, run.tail()
    exactly_once(tmp_path / "out", expected)
    kinds = [json.loads(p.read_text())["kind"] for p in (tmp_path / "ck/penstock/decisions").glob("*.json")]
    assert "roll" in kinds
