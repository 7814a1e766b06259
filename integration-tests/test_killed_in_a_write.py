"""SIGKILL in the middle of a write, where a simulator has one step: half a file is there. Batches go on behind it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter

import pytest

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
    """For whoever removes temporary files that are old."""
    for path in files:
        os.utime(path, times=(time.time() - 2 * 86_400,) * 2)


def kill_what_was_stopped(run):
    """The only one that a fault point has stopped."""
    run.wait_for_hits()
    ((_, pid),) = run.hits
    os.kill(pid, signal.SIGKILL)


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
    kill_what_was_stopped(run)
    assert (run.wait() == 0) == is_run_again, run.tail()
    if not is_run_again:
        days_pass([half])
        run = driver("copy_files", **WRITE_AHEAD)
        assert run.wait() == 0, run.tail()
    assert sent_rows(tmp_path / "out") == Counter(expected)
    assert list(staged.iterdir()) == ([half] if is_run_again else []), "it is left for a day: it may be of a live task"


@pytest.mark.parametrize(
    "is_run_again",
    [True, pytest.param(False, marks=pytest.mark.exhaustive("the same with a restart; the other case is the witness"))],
)
def test_a_task_killed_inside_a_hidden_part(driver, csv_files, tmp_path, exactly_once, is_run_again):
    expected = csv_files(BATCHES, 20)
    master = "local[2,4]" if is_run_again else "local[2]"
    run = driver("copy_files", fault=PART, scope="worker", action="stop", master=master, **ONE_BY_ONE)
    run.wait_for_hits()
    hidden = [path for path in (tmp_path / "out" / ".penstock").rglob("*.chunk") if path.is_file()]
    assert any(path.stat().st_size > 0 and not path.read_bytes().endswith(b"PAR1") for path in hidden)
    kill_what_was_stopped(run)
    assert (run.wait() == 0) == is_run_again, run.tail()
    if not is_run_again:
        run = driver("copy_files", **ONE_BY_ONE)
        assert run.wait() == 0, run.tail()
    exactly_once(tmp_path / "out", expected)
    assert [path for path in (tmp_path / "out" / ".penstock").rglob("*") if path.is_file()] == []


@pytest.mark.exhaustive("what a driver was writing; test_a_task_killed_inside_a_segment is the witness")
@pytest.mark.parametrize(("directory", "nth"), [("decisions", 3), ("sent", 2)])
def test_a_driver_killed_inside_its_own_files(driver, csv_files, tmp_path, directory, nth):
    expected = csv_files(18, 20)
    run = driver("copy_files", fault=f"{TEMPORARY}:{nth}:~/{directory}/", **WRITE_AHEAD)
    run.wait_for_kill()
    (half,) = temporaries(tmp_path / "ck" / "penstock" / directory)
    days_pass([half])
    run = driver("copy_files", **WRITE_AHEAD)
    assert run.wait() == 0, run.tail()
    assert sent_rows(tmp_path / "out") == Counter(expected), "each segment is a file of its name"
    assert temporaries(tmp_path / "ck") == []
