"""SIGKILL to the driver between any two steps of the protocol, then counting."""

from __future__ import annotations

import pytest

from harness import checkpoint
from harness.oracle import check_files, hidden_files, rows_of, visible_files
from harness.waiting import wait_until

LOG, PROTOCOL = "penstock._commit._chain:Chain", "penstock._commit._two_phase:TwoPhaseCommit"
READER = "penstock.spark._read:StreamReader"
WRITER = "penstock_filesystem.sink._writer:FileSystemWriter"
ROLLER = "penstock_filesystem.sink._rolling:FileSystemRoller"
COMMITTER = "penstock_filesystem.sink._committer:FileSystemCommitter"
RENAME = "penstock_filesystem.sink.staging._rename:RenameCommitter"

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
    f"{LOG}.create:before:3",
    f"{LOG}.create:after:2",
    f"{LOG}.create:after:3",
    f"{RENAME}._publish:after:1",
    f"{RENAME}.publish:after:1",
    f"{LOG}.mark_done:after:2",
    f"{PROTOCOL}.commit:after:1",
    f"{PROTOCOL}.close:after:1",
    f"{COMMITTER}.clear:before:1",
]


#: What a driver says when another one has continued.
OURS, SPARKS = "another run has carried this checkpoint on", "only one streaming job runs on a specific checkpoint"
WITNESS = "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks is the witness"


@pytest.mark.exhaustive(f"every step of the protocol; {WITNESS}")
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_driver_killed_at_every_step(driver, csv_files, tmp_path):
    """One query with a state store, killed at each point in turn, with new files before every start."""
    expected = range(0)
    for number, point in enumerate(POINTS):
        expected = csv_files(4, 50, first=len(expected))
        driver("copy_files", fault=point, mode="distinct", bucketAssigner="basePath", maxPartSize="4kb").wait_for_kill()
        rows = rows_of(tmp_path / "out")
        assert not [i for i, count in rows.items() if count > 1], f"duplicated after point {number}: {point}"
    driver("copy_files", mode="distinct", bucketAssigner="basePath", maxPartSize="4kb").wait_for_success()
    check_files(tmp_path / "out", expected)
    assert not hidden_files(tmp_path / "out"), "something lingers"


@pytest.mark.exhaustive(f"a driver that sleeps, and nothing else; {WITNESS}")
@pytest.mark.spark
@pytest.mark.parametrize(
    ("point", "said"),
    [
        (f"{LOG}.create:before:3", OURS),
        (f"{LOG}.create:after:3", OURS),
        (f"{RENAME}._publish:before:2", SPARKS),
        (f"{LOG}.mark_done:before:2", SPARKS),
        (f"{COMMITTER}.clear:before:2", SPARKS),
    ],
)
def test_two_drivers_on_one_checkpoint(driver, csv_files, tmp_path, point, said):
    """The first sleeps inside a commit, the second does the work, the first wakes up.

    If nothing of its batch is left to do, it learns of the other when Spark notes the batch.
    """
    options = {"bucketAssigner": "basePath", "maxPartSize": "4kb"}
    expected = csv_files(4, 200)
    first = driver("copy_files", fault=point, action="stop", **options)
    first.wait_for_hits()
    driver("copy_files", **options).wait_for_success()
    check_files(tmp_path / "out", expected)
    first.resume()
    first.wait_for_failure(said)
    check_files(tmp_path / "out", expected)
    expected = csv_files(2, 200, first=len(expected))
    driver("copy_files", **options).wait_for_success()
    check_files(tmp_path / "out", expected)


@pytest.mark.exhaustive("other numbers of tasks after kills; the kit has them without Spark")
@pytest.mark.spark
def test_rescaling_over_kills(driver, csv_files, tmp_path):
    """Other numbers of tasks after each restart, one of them in the middle of a commit."""
    expected = range(0)
    for partitions, fault in ((5, f"{RENAME}.publish:before:2"), (1, f"{LOG}.create:after:3"), (3, ""), (2, "")):
        expected = csv_files(6, 40, first=len(expected))
        run = driver(
            "copy_files",
            fault=fault,
            mode="shuffle",
            partitions=partitions,
            bucketAssigner="basePath",
            maxPartSize="6kb",
        )
        run.wait_for_kill() if fault else run.wait_for_success()
    check_files(tmp_path / "out", expected)


@pytest.mark.spark
def test_checkpoint_location_is_required(spark, csv_files, tmp_path):
    """One that comes from the session's configuration a Python sink cannot see."""
    csv_files(1, 1)
    rows = spark.readStream.format("penstock.filesystem").schema("id long").option("format", "csv")
    writer = rows.load(f"{tmp_path}/in").writeStream.format("penstock.filesystem").option("path", f"{tmp_path}/out")
    spark.conf.set("spark.sql.streaming.checkpointLocation", f"{tmp_path}/ck")
    try:
        with pytest.raises(Exception, match=r"needs .option\('checkpointLocation', ...\)"):
            writer.trigger(availableNow=True).start().awaitTermination()
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


@pytest.mark.spark
def test_idle_stream_publishes_by_inactivity(spark, csv_files, tmp_path):
    """No batch runs any more, the query lives on, and its open part appears; and so does what comes later."""
    rows = spark.readStream.format("penstock.filesystem").schema("id long, at timestamp, note string")
    rows = rows.option("format", "csv").option("header", True).option("maxFilesPerTrigger", 2).load(f"{tmp_path}/in")
    sink = {"format": "parquet", "path": f"{tmp_path}/out", "bucketAssigner": "basePath", "inactivityInterval": "200ms"}
    writer = rows.writeStream.format("penstock.filesystem").options(**sink)
    writer = writer.option("checkpointLocation", f"{tmp_path}/ck")
    expected = csv_files(2, 50)
    often = "spark.sql.streaming.noDataProgressEventInterval"
    before = spark.conf.get(often)
    spark.conf.set(often, "200")
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        for parts in (1, 2):
            wait_until(
                lambda parts=parts: len(visible_files(tmp_path / "out", "parquet")) == parts,
                query.exception,
                may_come=lambda: query.isActive,
            )
            check_files(tmp_path / "out", expected)
            if parts == 1:
                expected = csv_files(1, 50, first=len(expected))
    finally:
        query.stop()
        spark.conf.set(often, before)
    writer.trigger(availableNow=True).start().awaitTermination()
    check_files(tmp_path / "out", expected)
    assert "roll" in checkpoint.decided(tmp_path / "ck")
