"""SIGKILL in the middle of a write, where a simulator has one step: half a file is there. Later batches work."""

from __future__ import annotations

import json
import os
import time
from collections import Counter

import pytest

from harness.oracle import check_files, check_once, hidden_files

pytestmark = pytest.mark.spark

TEMPORARY = "penstock.storage._local:LocalStorage._write_temporary:half"
SEGMENT = f"{TEMPORARY}:2:~/staged/"
PART = "penstock_filesystem.sink.staging._staging:StagedFile.write:half:9"
#: More than the sink needs to clear up once, and again.
BATCHES = 13
ONE_BY_ONE = {"files_per_trigger": 1, "bucketAssigner": "basePath"}
WRITE_AHEAD = {"files_per_trigger": 1, "sink": "write-ahead"}


def sent_rows(directory):
    return Counter(json.loads(line)["id"] for path in directory.glob("*.jsonl") for line in path.open())


def temporaries(directory):
    return [path for path in directory.rglob(".*.tmp") if not path.name.endswith(".crc.tmp")]


def days_pass(files):
    """Makes the files old enough for the clean-up of temporary files."""
    for path in files:
        os.utime(path, times=(time.time() - 2 * 86_400,) * 2)


@pytest.mark.parametrize(
    "is_run_again",
    [True, pytest.param(False, marks=pytest.mark.exhaustive("the same with a restart; the other case is the witness"))],
)
def test_a_task_killed_inside_a_segment(driver, csv_files, tmp_path, is_run_again):
    expected = csv_files(BATCHES, 20)
    master = "local[2,4]" if is_run_again else "local[2]"
    run = driver("copy_files", fault=SEGMENT, scope="worker", action="stop", master=master, **WRITE_AHEAD)
    run.wait_for_hits()
    staged = tmp_path / "ck" / "penstock" / "staged"
    (half,) = temporaries(staged)
    assert half.stat().st_size > 0
    run.kill_stopped()
    run.wait_for_success() if is_run_again else run.wait_for_failure()
    if not is_run_again:
        days_pass([half])
        driver("copy_files", **WRITE_AHEAD).wait_for_success()
    check_once(sent_rows(tmp_path / "out"), expected)
    assert list(staged.iterdir()) == ([half] if is_run_again else []), "it is left for a day: it may be of a live task"


@pytest.mark.exhaustive("another file of a task; test_a_task_killed_inside_a_segment is the witness")
@pytest.mark.parametrize("is_run_again", [True, False])
def test_a_task_killed_inside_a_hidden_part(driver, csv_files, tmp_path, is_run_again):
    expected = csv_files(BATCHES, 20)
    master = "local[2,4]" if is_run_again else "local[2]"
    run = driver("copy_files", fault=PART, scope="worker", action="stop", master=master, **ONE_BY_ONE)
    run.wait_for_hits()
    hidden = [path for path in hidden_files(tmp_path / "out") if path.suffix == ".chunk"]
    assert any(path.stat().st_size > 0 and not path.read_bytes().endswith(b"PAR1") for path in hidden)
    run.kill_stopped()
    run.wait_for_success() if is_run_again else run.wait_for_failure()
    if not is_run_again:
        driver("copy_files", **ONE_BY_ONE).wait_for_success()
    check_files(tmp_path / "out", expected)
    assert hidden_files(tmp_path / "out") == []


@pytest.mark.exhaustive("what a driver was writing; test_a_task_killed_inside_a_segment is the witness")
@pytest.mark.parametrize(("directory", "nth"), [("decisions", 3), ("sent", 2)])
def test_a_driver_killed_inside_its_own_files(driver, csv_files, tmp_path, directory, nth):
    expected = csv_files(18, 20)
    driver("copy_files", fault=f"{TEMPORARY}:{nth}:~/{directory}/", **WRITE_AHEAD).wait_for_kill()
    (half,) = temporaries(tmp_path / "ck" / "penstock" / directory)
    days_pass([half])
    driver("copy_files", **WRITE_AHEAD).wait_for_success()
    check_once(sent_rows(tmp_path / "out"), expected)  # each segment is a file of its name
    assert temporaries(tmp_path / "ck") == []
