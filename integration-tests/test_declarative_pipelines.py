"""Spark's Declarative Pipelines, by Spark's own command: what docs/declarative-pipelines.md says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyspark.pipelines
import pytest

from harness.driver import PipelinesRun
from harness.oracle import check_once

PAGE = Path(__file__).parents[1] / "docs" / "declarative-pipelines.md"
FILE = re.compile(r"^```\w+\n(?:#|--) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUICK = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
#: A flow that fails is not tried again: Spark would wait in between.
ONCE = {"spark.sql.pipelines.maxFlowRetryAttempts": "0"}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def pipelines(tmp_path):
    """``pipelines(job, fault="", **arguments)`` starts the command in the test's directory."""
    started = []

    def start(job="run", fault="", **arguments):
        settings = {**QUICK, **ONCE} if job == "run" else QUICK
        started.append(PipelinesRun(tmp_path, job, {**arguments, **settings}, fault))
        return started[-1]

    yield start
    for one in started:
        one.close()


def write(folder, files):
    """Writes a pipeline, with its storage in ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("/data/notes", str(folder)))


@pytest.fixture
def example(tmp_path):
    """The page's files."""
    files = dict(FILE.findall(PAGE.read_text()))
    assert len(files) == 3
    write(tmp_path, files)
    return files


def archived(folder):
    lines = (line for path in (folder / "out").glob("*.json") for line in path.read_text().splitlines())
    return [json.loads(line)["id"] for line in lines]


def test_what_this_release_of_pyspark_lacks():
    assert not hasattr(pyspark.pipelines, "foreach_batch_sink"), "the page has another way"


@pytest.mark.budget(30)
def test_a_run_delivers_once(pipelines, example, csv_files, tmp_path):
    expected = csv_files(3, 20)[2:]
    pipelines().wait_for_success()
    check_once(archived(tmp_path), expected)


@pytest.mark.exhaustive(
    "two runs of the command; test_a_run_delivers_once is the witness, and of such a kill "
    "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks"
)
def test_a_run_is_killed(pipelines, example, csv_files, tmp_path):
    """Once the batch is decided, and before it is published."""
    expected = csv_files(3, 20)[2:]
    pipelines(fault="penstock._commit._two_phase:TwoPhaseCommit.commit:after:1").wait_for_kill()
    pipelines().wait_for_success()
    check_once(archived(tmp_path), expected)


@pytest.mark.exhaustive("seven runs of the command; test_a_run_delivers_once is the witness")
def test_runs_and_a_full_refresh(pipelines, example, csv_files, tmp_path):
    """What the page's example does, from run to run."""
    csv_files(2, 20)
    pipelines("dry-run").wait_for_success()
    assert archived(tmp_path) == [] and not (tmp_path / "storage").exists()
    pipelines().wait_for_success()
    expected = csv_files(1, 20, first=40)[2:]
    pipelines().wait_for_success()
    check_once(archived(tmp_path), expected)

    excluded = pipelines(**{"--full-refresh": "archive"})
    excluded.wait_for_success()
    assert "Flow 'keep' is EXCLUDED" in excluded.output()
    checkpoints = tmp_path / "storage/_checkpoints/archive/keep"
    refused = pipelines(**{"--full-refresh-all": ""})
    refused.wait_for_failure("a full refresh would write every row a second time")
    assert refused.last_words().startswith("penstock: sink penstock.filesystem: a full refresh"), refused.tail()
    assert f"or delete {checkpoints.as_uri()}/1 to go back" in refused.last_words()
    check_once(archived(tmp_path), expected)

    shutil.rmtree(checkpoints / "1")  # as the error says: without the refresh
    expected = csv_files(1, 20, first=60)[2:]
    pipelines().wait_for_success()
    check_once(archived(tmp_path), expected)
    pipelines(**{"--full-refresh-all": ""}).wait_for_failure()
    shutil.rmtree(checkpoints / "0")  # and with it
    shutil.rmtree(tmp_path / "out")
    pipelines().wait_for_success()
    check_once(archived(tmp_path), expected)


SECOND_FLOW = """

@dp.append_flow(target="archive")
def moved():
    return spark.readStream.table("notes").selectExpr("id + 1000 AS id", "note")
"""


@pytest.mark.exhaustive("three runs of the command; test_a_run_delivers_once is the witness")
def test_two_flows_into_one_sink(pipelines, example, csv_files, tmp_path):
    """Killed once one of them is decided, and run again for new rows."""
    with (tmp_path / "definitions/notes.py").open("a") as file:
        file.write(SECOND_FLOW)
    expected = csv_files(2, 20)
    pipelines(fault="penstock._commit._two_phase:TwoPhaseCommit.commit:after:1").wait_for_kill()
    pipelines().wait_for_success()
    check_once(archived(tmp_path), [*expected[2:], *(one + 1000 for one in expected)])
    expected = csv_files(1, 20, first=40)
    pipelines().wait_for_success()
    check_once(archived(tmp_path), [*expected[2:], *(one + 1000 for one in expected)])
