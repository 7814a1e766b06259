"""What a simulator can't see: Spark's own logs, its listener and its triggers, around the protocol."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from harness.feeding import put
from harness.oracle import lines_of
from harness.waiting import wait_until
from penstock._commit import BatchPendingError, GaveWayError
from penstock.checkpoint import finish, restore_offsets

pytestmark = pytest.mark.spark


class Lines:
    """A query from files to files, of which each holds one line."""

    def __init__(self, spark, folder, source="penstock.filesystem"):
        self.spark, self.folder, self.source = spark, folder, source
        self.checkpoint, self.out = folder / "checkpoint", folder / "out"
        (folder / "in").mkdir()
        self.written = 0

    def put(self, count=1):
        for _ in range(count):
            put(self.folder / "in" / f"{self.written}.txt", f"{self.written}\n")
            self.written += 1

    def start(self, *, per_batch=1, checkpoint=None, change=lambda rows: rows, options=(), **trigger):
        rows = self.spark.readStream.format(self.source).schema("value string").option("format", "text")
        rows = (
            rows.option("discoveryInterval", "100ms")
            .option("maxFilesPerTrigger", per_batch)
            .load(str(self.folder / "in"))
        )
        writer = change(rows).writeStream.format("penstock.filesystem").option("format", "text")
        writer = writer.option("bucketAssigner", "basePath").option("path", str(self.out)).options(**dict(options))
        return writer.option("checkpointLocation", str(checkpoint or self.checkpoint)).trigger(**trigger).start()

    def run(self, **options):
        assert self.start(availableNow=True, **options).awaitTermination(120), "it still runs"

    def wait_until_read(self, query):
        """Spark does not wait for what a source in Python has not found yet."""

        def is_read():
            return sum(progress.numInputRows for progress in query.recentProgress) >= self.written

        wait_until(is_read, query.exception, may_come=lambda: query.isActive)

    def visible(self):
        return sorted(map(int, lines_of(self.out)))

    def everything(self):
        return list(range(self.written))


@pytest.mark.parametrize(
    "deleted", [pytest.param(1, marks=pytest.mark.exhaustive("one batch; two of them are the witness")), 2]
)
def test_offsets_that_were_deleted_are_refused_and_can_be_restored(spark, tmp_path, deleted):
    """The newest files of offsets/ and commits/ are gone, and there is more to read than before."""
    lines = Lines(spark, tmp_path)
    lines.put(4)
    lines.run()
    for directory in ("offsets", "commits"):
        for number in range(4 - deleted, 4):
            for name in (f"{number}", f".{number}.crc"):
                (lines.checkpoint / directory / name).unlink(missing_ok=True)
    lines.put(3)
    with pytest.raises(Exception, match=r"penstock restore-offsets"):
        lines.run(per_batch=100)
    assert lines.visible() == [0, 1, 2, 3], "nothing is lost silently"
    restore_offsets(str(lines.checkpoint))
    lines.run(per_batch=100)
    assert lines.visible() == lines.everything()


def test_a_copy_of_a_checkpoint_is_refused(spark, tmp_path):
    lines = Lines(spark, tmp_path)
    lines.put(2)
    lines.run()
    shutil.copytree(lines.checkpoint, tmp_path / "copy")
    lines.put()
    with pytest.raises(Exception, match=r"was copied or moved.*penstock adopt"):
        lines.run(checkpoint=tmp_path / "copy")
    lines.run()
    assert lines.visible() == lines.everything()


@pytest.mark.exhaustive(
    "a query with a state store; the file sink's test_a_roll_beside_a_running_batch_takes_nothing_from_its_tasks has it"
)
def test_finish_beside_a_batch_whose_tasks_start_long_after_its_plan(spark, tmp_path):
    """As those of any query with a state store do: what is carried is published meanwhile, and the tasks merge it."""
    from pyspark.sql.functions import col, udf

    reached, gate = str(tmp_path / "reached"), str(tmp_path / "gate")

    @udf("string", useArrow=False)
    def held_up(value):
        if value == "3":
            open(reached, "w").close()
            while not os.path.exists(gate):
                time.sleep(0.05)
        return value

    lines = Lines(spark, tmp_path)
    lines.put(3)
    query = lines.start(
        change=lambda rows: rows.select(held_up(col("value")).alias("value")).dropDuplicates(["value"]),
        options={"maxOpenChunks": 2},
        processingTime="0 seconds",
    )
    try:
        lines.wait_until_read(query)
        lines.put()
        wait_until(Path(reached).exists, query.exception, may_come=lambda: query.isActive)
        assert finish(str(lines.checkpoint)) and lines.visible() == [0, 1, 2]
        Path(gate).touch()
        lines.wait_until_read(query)
    finally:
        Path(gate).touch()
        query.stop()
    assert query.exception() is None and lines.visible() == lines.everything()


@pytest.mark.exhaustive("two drivers; test_everything_is_visible_after_a_script is the witness")
def test_a_query_that_is_stopped_in_the_middle_of_a_commit_comes_to_its_end(driver, tmp_path):
    """The commit continues while ``query.stop()`` waits for it, and nothing is hidden when that returns."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.txt").write_text("0\n1\n")
    decided = "penstock._commit._chain:Chain.create:after:2"
    run = driver("stop_query", until="stop", fault=decided, scope="worker", action="stop")
    run.wait_for_hits()
    (tmp_path / "stop").touch()
    wait_until((tmp_path / "stopping").exists, run.tail, may_come=lambda: run.is_running)
    run.resume()
    run.wait_for_success()
    assert lines_of(tmp_path / "out") == ["0", "1"]
    (tmp_path / "in" / "1.txt").write_text("2\n")
    driver("stop_query", until="end").wait_for_success()
    assert lines_of(tmp_path / "out") == ["0", "1", "2"]


@pytest.mark.exhaustive("half a minute; the simulator has it with every order of calls")
def test_finish_beside_a_query_that_is_busy(spark, tmp_path):
    """Called all the time, while tasks run and batches are committed. The query does not notice."""
    from pyspark.sql.functions import col, udf

    @udf("string")
    def slowly(value):
        time.sleep(0.3)
        return value

    lines, ended, answers = Lines(spark, tmp_path), threading.Event(), set()

    def finish_all_the_time():
        while not ended.is_set():
            try:
                answers.add("done" if finish(str(lines.checkpoint)) else "nothing to do")
            except (BatchPendingError, GaveWayError) as error:
                answers.add(type(error).__name__)
            except Exception as error:
                answers.add(f"unexpected: {type(error).__name__}: {error}")

    lines.put(2)
    query = lines.start(
        change=lambda rows: rows.select(slowly(col("value")).alias("value")), processingTime="0 seconds"
    )
    beside = threading.Thread(target=finish_all_the_time)
    try:
        lines.wait_until_read(query)
        beside.start()
        for _ in range(10):
            lines.put(2)
            lines.wait_until_read(query)
    finally:
        ended.set()
        beside.join(60)
        query.stop()
    assert query.exception() is None
    assert not [one for one in answers if one.startswith("unexpected")], answers
    assert "done" in answers, answers
    assert lines.visible() == lines.everything()


@pytest.mark.parametrize(
    "runs", [2, pytest.param(12, marks=pytest.mark.exhaustive("a loop; the first runs of it stay"))]
)
def test_everything_is_visible_when_a_run_returns_whatever_the_source(spark, tmp_path, runs):
    """Spark's own source does not say which batch is the last. The listener is at work beside it."""
    lines = Lines(spark, tmp_path, source="text")
    for _ in range(runs):
        lines.put(3)
        lines.run()
        assert lines.visible() == lines.everything()


def _in_turns(queries):
    while not queries.awaitAnyTermination(1):
        pass


def _while_running(query):
    while query.isActive:
        time.sleep(0.01)


def _while_any_runs(queries):
    while queries.active:
        time.sleep(0.01)


def test_a_query_with_state_starts_where_a_kill_hit_its_first_note(spark, tmp_path):
    """Of Spark's file for the first batch only the temporary one is there: Spark itself refuses to start on that."""
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.adf1b5ed-aae1-416c-9323-01bd1eec07bf.tmp").write_text("v1\n")
    (offsets / "..0.adf1b5ed-aae1-416c-9323-01bd1eec07bf.tmp.crc").write_bytes(b"crc")
    lines = Lines(spark, tmp_path, "penstock.filesystem")
    lines.put(2)
    lines.run(change=lambda rows: rows.dropDuplicates(["value"]))
    assert lines.visible() == lines.everything()


#: How a process can wait for the end of a run, or for all that is there.
WAITS = {
    "awaitTermination": lambda query, queries: query.awaitTermination(),
    "awaitAnyTermination": lambda query, queries: queries.awaitAnyTermination(),
    "awaitAnyTermination(1)": lambda query, queries: _in_turns(queries),
    "isActive": lambda query, queries: _while_running(query),
    "streams.active": lambda query, queries: _while_any_runs(queries),
    "processAllAvailable": lambda query, queries: query.processAllAvailable(),
}


_OTHER_WAITS = pytest.mark.exhaustive("more ways to wait; isActive of a run on Spark's own source is the witness")


@pytest.mark.parametrize(
    ("source", "how", "trigger"),
    [
        pytest.param(*one, marks=[] if one == ("text", "isActive", "availableNow") else _OTHER_WAITS)
        for one in itertools.product(("text", "penstock.filesystem"), WAITS, ("availableNow", "once"))
    ],
)
def test_everything_is_visible_however_a_run_is_waited_for(spark, tmp_path, source, how, trigger):
    lines = Lines(spark, tmp_path, source)
    lines.put(3)
    spark.streams.resetTerminated()
    query = lines.start(per_batch=2, **{trigger: True})
    WAITS[how](query, spark.streams)
    assert lines.visible() == lines.everything()


@pytest.mark.parametrize(
    "source", ["text", pytest.param("penstock.filesystem", marks=pytest.mark.exhaustive("text is the witness"))]
)
def test_what_a_query_has_processed_is_visible_while_it_runs(spark, tmp_path, source):
    lines = Lines(spark, tmp_path, source)
    query = lines.start(processingTime="0 seconds")
    for _ in range(2):
        lines.put(2)
        lines.wait_until_read(query)
        query.processAllAvailable()
        assert lines.visible() == lines.everything()
    query.stop()


@pytest.mark.exhaustive("three runs; test_a_source_of_sparks_may_be_at_its_end_in_a_run_that_ends is the witness")
def test_a_run_whose_sources_know_their_ends_rolls_once(spark, tmp_path):
    """Batches of one row each. With a source of Spark's beside Penstock's, any batch may be the last."""
    files = {}
    for source, other in [("penstock.filesystem", None), ("text", None), ("penstock.filesystem", "text")]:
        folder = tmp_path / f"{source}-{other}"
        folder.mkdir()
        lines = Lines(spark, folder, source)
        lines.put(4)
        (folder / "other").mkdir()
        beside = spark.readStream.schema("value string").text(str(folder / "other"))
        lines.run(change=lambda rows, other=other, beside=beside: rows.union(beside) if other else rows)
        assert lines.visible() == lines.everything()
        files[source, other] = len(list(lines.out.glob("*.txt")))
    assert files == {("penstock.filesystem", None): 1, ("text", None): 4, ("penstock.filesystem", "text"): 1}


@pytest.mark.exhaustive("sixty runs; test_everything_is_visible_when_a_run_returns_whatever_the_source is the witness")
@pytest.mark.parametrize("source", ["text", "penstock.filesystem"])
def test_two_queries_run_in_turn_beside_the_listener(spark, tmp_path, source):
    """What the listener still does for the one is no matter to the other, nor to the next run of the same."""
    both = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        both.append(Lines(spark, tmp_path / name, source))
    for _ in range(30):
        for lines in both:
            lines.put(2)
            lines.run()
            assert lines.visible() == lines.everything()
    for lines in both:
        lines.run()
        assert lines.visible() == lines.everything()


@pytest.mark.parametrize(
    "end", ["nothing", pytest.param("stop", marks=pytest.mark.exhaustive("a driver; an end without it is the witness"))]
)
def test_everything_is_visible_after_a_script(tmp_path, end):
    """With ``spark.stop()``, and without."""
    (tmp_path / "in").mkdir()
    for number in range(3):
        (tmp_path / "in" / f"{number}.txt").write_text(f"{number}\n")
    script = tmp_path / "job.py"
    script.write_text(f"""
import sys, time
from pyspark.sql import SparkSession
import penstock
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
penstock.register(spark)
rows = spark.readStream.schema("value string").text("in")
writer = rows.writeStream.format("penstock.filesystem").options(format="text", bucketAssigner="basePath", path="out")
query = writer.option("checkpointLocation", "checkpoint").start()
while sum(progress.numInputRows for progress in query.recentProgress) < 3:
    time.sleep(0.1)
{"spark.stop()" if end == "stop" else ""}
""")
    ended = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert lines_of(tmp_path / "out") == ["0", "1", "2"] and "Traceback" not in ended.stderr, ended.stderr[-2000:]
    assert ended.returncode == 0, ended.stderr[-2000:]
