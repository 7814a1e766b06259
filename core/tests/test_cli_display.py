"""Numbers, drawings, progress and causes: what a run shows."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from penstock._causes import root_cause
from penstock._monitoring import NOTICEABLE
from penstock.cli._display import JsonReporter, LiveReporter, PlainReporter
from penstock.cli._draw import bar, human_bytes, human_count, human_duration, human_lag, plural, sparkline
from penstock.cli._panel import RunView, panel
from penstock.cli._progress import BatchProgress, batch_progress
from penstock.cli._session import _settings
from penstock.cli._waits import collecting_waits, waits_in
from penstock.errors import DataLostError, RetriableError, RetriesExhaustedError
from penstock.retry import Retries, RetryPolicy

ROOT = Path(__file__).parents[2]
SPARK_PROGRESS = {
    "timestamp": "2026-01-31T12:00:00.123Z",
    "batchId": 7,
    "batchDuration": 250,
    "numInputRows": 1000,
    "sources": [
        {
            "latestOffset": '{"backlog": {"files": 3, "bytes": 81920, "tracked_files": 9}, "metrics": {"late": 1}, '
            '"eventTime": {"frontiers": {"t-0": "2026-01-01T00:00:00.000Z"}, "held": [], "idle": ["t-1"]}}',
            "metrics": {},
        },
        {"latestOffset": {"topic": {"0": 5}}, "metrics": {"maxOffsetsBehindLatest": "12", "other": "1"}},
        {"latestOffset": None, "metrics": None},
    ],
}


def test_progress_from_spark():
    progress = batch_progress(SPARK_PROGRESS, commits=8, counters={"rows_read": 5000, "late": 2})
    assert json.loads(progress.to_json()) == {
        "time": "2026-01-31T12:00:00.123Z",
        "batch": 7,
        "rows": 1000,
        "rows_per_second": 4000.0,
        "batch_ms": 250,
        "commits": 8,
        "lag": {"files": 3, "bytes": 81920, "maxOffsetsBehindLatest": 12.0},
        "metrics": {"rows_read": 5000, "late": 3},
        "event_time": {"frontiers": {"t-0": "2026-01-01T00:00:00.000Z"}, "held": [], "idle": ["t-1"]},
        "pending": {},
    }


def progress(batch: int, rows: int, lag: dict[str, float] | None = None) -> BatchProgress:
    return BatchProgress("2026-01-31T12:00:00Z", batch, rows, rows * 4.0, 250, batch + 1, lag or {}, {"bad_rows": 2})


def test_drawings():
    assert sparkline([0, 1, 4, 8], 10) == " ▂▅█"
    assert sparkline([1, 2, 3], 2) == "▆█"
    assert sparkline([], 5) == ""
    assert bar(0.5, 4) == "██  "
    assert bar(0.53125, 4) == "██▏ "
    assert (bar(7, 2), bar(-1, 2)) == ("██", "  ")


def test_numbers_for_people():
    assert [human_count(n) for n in (0, 1234, 1_234_567, 9.9e9, 10**15)] == [
        "0",
        "1,234",
        "1.23 M",
        "9.90 G",
        "1000.00 T",
    ]
    assert [human_bytes(n) for n in (0, 1023, 3565158, 2**50)] == ["0 B", "1023 B", "3.4 MiB", "1.0 PiB"]
    assert [human_duration(n) for n in (5, 65, 3723)] == ["0:05", "1:05", "1:02:03"]
    assert human_lag({"files": 12, "bytes": 2048}) == "12 files, 2.0 KiB"
    assert human_lag({"records": 30, "orders-0": 10, "orders-1": 20, "orders-2": 0}) == "30 records in 2 partitions"
    assert human_lag({"records": 0, "orders-0": 0}) == "none"
    assert human_lag({"orders-0": 3}) == "3 orders-0"
    assert (human_lag({"files": 0}), human_lag({})) == ("none", "not told")
    assert (plural(1, "batch"), plural(1200, "batch"), plural(0, "row")) == ("1 batch", "1,200 batches", "0 rows")


def test_log_lines():
    out = io.StringIO()
    reporter = PlainReporter(RunView("flights", ("a", "b")), out, seconds_between=0)
    reporter.batch(progress(0, 1000, {"files": 3}))
    reporter.batch(progress(1, 1))
    reporter.end("finished")
    lines = [line[9:] for line in out.getvalue().splitlines()]
    assert lines[:2] == [
        "batch 0: 1,000 rows in 250 ms (4,000 rows/s), lag 3 files, 1 commit, bad rows: 2",
        "batch 1: 1 row in 250 ms (4 rows/s), 2 commits",
    ]
    assert lines[2].startswith("flights: finished after 0:0")
    assert lines[2].endswith("1,001 rows in 2 batches, 2 commits, all published, bad rows: 2")


def test_counters_of_several_queries_are_said_once():
    """Tasks' counters are those of the whole run, those of a source only its own query's."""
    out = io.StringIO()
    reporter = PlainReporter(RunView("flights", ("a", "b")), out, seconds_between=3600)
    counters = {"one": {"bad_rows": 2}, "two": {"bad_rows": 5, "data_losses": 1}}
    for query, counts in (*counters.items(), ("one", {"bad_rows": 5})):
        reporter.batch(replace(progress(0, 1), query=query, metrics=counts))
    reporter.end("finished")
    noted = [line.partition("commit")[2] for line in out.getvalue().splitlines()]
    assert noted[:3] == [", bad rows: 2", "", ", bad rows: 3, data losses: 1"]
    assert noted[3:] == ["s, all published, bad rows: 5, data losses: 1"]


#: Counters of what goes well, or of what waits and then goes well.
OF_NO_NOTE = {
    *("rows_read", "bytes_read", "rows_written", "bytes_written", "bytes_staged", "pages_read", "segments_sent"),
    *("chunks_merged", "parts_published", "cleaned_files", "transactions_opened", "transactions_committed"),
    *("retries", "retry_ms", "held_back_ms"),
}


def test_each_counter_of_a_connector_is_said_or_of_no_note():
    counted = re.compile(r"(?:\.add|_count)\(\s*\"([a-z_]+)\"")
    used = {
        name
        for package in (ROOT / "core/src", *ROOT.glob("connectors/*/src"))
        for path in package.rglob("*.py")
        for name in counted.findall(path.read_text())
    }
    assert used == OF_NO_NOTE | set(NOTICEABLE)


def test_json_lines_keep_everything_else_off_standard_output(capsys):
    reporter = JsonReporter(RunView("flights", ("a", "b")))
    reporter.line("printed by user code")
    reporter.batch(progress(0, 1000))
    reporter.end("failed", "why")
    captured = capsys.readouterr()
    first, last = map(json.loads, captured.out.splitlines())
    assert first["rows_per_second"] == 4000.0
    assert {name: last[name] for name in ("state", "rows", "batches", "commits", "error")} == {
        "state": "failed",
        "rows": 1000,
        "batches": 1,
        "commits": 1,
        "error": "why",
    }
    assert last["metrics"] == {"bad_rows": 2}
    assert captured.err == "printed by user code\n"


@pytest.mark.parametrize("width", [80, 120])
def test_the_live_panel(width):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=40, color_system=None)
    with LiveReporter(
        RunView("flights", ("penstock.filesystem in", "SQL", "penstock.filesystem out")), console
    ) as reporter:
        reporter.line("said by a worker")
        for batch, rows in enumerate((1000, 4000, 2000)):
            reporter.batch(progress(batch, rows, {"files": 30 - 10 * batch}))
        reporter.end("finished")
    text = console.file.getvalue()
    assert "said by a worker" in text
    final = text[text.rindex("╭") :]
    assert all(len(line) == min(width, 84) for line in final.splitlines() if line.startswith("│"))
    for piece in ("● finished", "8,000", "▃█▅", "10 files", "bad rows 2", "flights: finished after"):
        assert piece in final


def test_no_unit_is_cut_off_at_80_columns():
    view = RunView("flights", ("penstock.filesystem in", "penstock.filesystem out"))
    for batch in range(40):
        view.add(
            replace(progress(batch, 10**6, {"files": 3, "bytes": 81920}), batch_ms=120_000, rows_per_second=999_999)
        )
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=40, color_system=None)
    console.print(panel(view))
    for piece in ("120,000 ms", "median 120,000 ms", "peak 999,999", "3 files, 80.0 KiB", "peak 80.0 KiB"):
        assert f"{piece} " in console.file.getvalue()


@contextmanager
def something_fails(*errors):
    """The clock of the retries stands still, and what fails is not tried again before the block ends."""
    retries = [Retries(RetryPolicy(60), doing) for doing, _ in errors]
    for one, (_, error) in zip(retries, errors, strict=True):
        one.failed(error)
    yield
    for one in retries:
        one.worked()


def keep_failing(retries, error):
    while True:
        time.sleep(retries.failed(error))


def test_what_is_tried_again_is_known_as_long_as_it_lasts():
    down = RetriableError("10.0.0.1:9042 is down")
    with collecting_waits() as folder:
        with something_fails(("planning", down), ("reading", ConnectionResetError("gone"))):
            first, second = waits_in(folder)
            assert first == "0:00: planning: 10.0.0.1:9042 is down" and second == "0:00: reading: gone"
        assert waits_in(folder) == []
        with pytest.raises(RetriesExhaustedError):
            keep_failing(Retries(RetryPolicy(0.01)), down)
        assert waits_in(folder) == [] == list(folder.iterdir())
    assert not folder.exists()
    with something_fails(("planning", down)):
        assert not folder.exists()


def test_what_nobody_tries_any_more_is_not_shown():
    with collecting_waits() as folder:
        now = time.time()
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        (folder / f"{gone.pid}-1").write_text(f"{now - 9}\na process that was killed")
        (folder / f"{os.getpid()}-1").write_text(f"{now - 90}\na task that was killed")
        os.utime(folder / f"{os.getpid()}-1", (now - 70, now - 70))
        (folder / f"{os.getpid()}-2").write_text("")  # is being written
        (folder / f"{os.getpid()}-3").write_text(f"{now - 90}\nstill tried")
        assert waits_in(folder) == ["1:30: still tried"]


def test_the_live_panel_shows_what_is_waited_for():
    console = Console(file=io.StringIO(), force_terminal=True, width=84, height=40, color_system=None)
    with LiveReporter(RunView("flights", ("penstock.kafka", "penstock.filesystem out")), console) as reporter:
        reporter.waits(["0:12: planning: 127.0.0.1:9092 refuses connections,\n and more " + "x" * 80, "0:03: reading"])
        reporter.batch(progress(0, 1000))
        reporter.end("stopped")
    lines = console.file.getvalue()[console.file.getvalue().rindex("╭") :].splitlines()
    (line,) = [line for line in lines if "waiting" in line]
    assert line.startswith("│ waiting (2) 0:12: planning: 127.0.0.1:9092 refuses connections, and more xxx")
    assert len(line) == 84


PYTHON_IN_JAVA = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Lost task 0.0 in stage 3.0
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/site/pyspark/worker.py", line 3, in main
    process()
  File "/site/x.py", line 9, in fetch
    raise BadDataError(
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:500)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Driver stacktrace:
 SQLSTATE: 38000
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            PYTHON_IN_JAVA.format(error="penstock.errors.BadDataError: in/a.csv: row 7: not a number\nchange it"),
            "in/a.csv: row 7: not a number\nchange it",
        ),
        (PYTHON_IN_JAVA.format(error="ValueError: row 7 is bad"), "ValueError: row 7 is bad (x.py, line 9, in fetch)"),
        (
            "Job aborted\nCaused by: org.apache.spark.SparkException: outer\n\tat a.b(C.scala:1)\n"
            "Caused by: java.io.FileNotFoundException: /no/file\n\tat a.b(C.scala:1)\n",
            "FileNotFoundException: /no/file",
        ),
        (
            "[UNRESOLVED_COLUMN] A column `valu` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;\n'Project\n",
            "[UNRESOLVED_COLUMN] A column `valu` cannot be resolved. line 1 pos 7",
        ),
        ("something else", "Exception: something else"),
    ],
)
def test_the_cause_is_found_among_the_traces(text, expected):
    assert root_cause(Exception(text)) == expected


def test_penstocks_own_errors_speak_for_themselves():
    assert root_cause(DataLostError("part 3 is gone: restore it")) == "part 3 is gone: restore it"


def test_sessions_are_local_and_quiet_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("MASTER", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    local = _settings("flights", {"spark.master": "local[3]", "spark.driver.extraJavaOptions": "-Da=b"}, quiet=True)
    assert local["spark.sql.shuffle.partitions"] == "3"
    assert local["spark.driver.extraJavaOptions"].startswith("-Dlog4j2.configurationFile=file:///")
    assert local["spark.driver.extraJavaOptions"].endswith("log4j2.properties -Da=b")
    assert _settings("flights", {}, quiet=False)["spark.master"] == "local[*]"
    cluster = _settings("flights", {"spark.master": "spark://host:7077"}, quiet=False)
    assert "spark.sql.shuffle.partitions" not in cluster
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert "spark.master" not in _settings("flights", {}, quiet=False)


def test_the_plan_and_sparks_advice_on_catalogs_are_left_out():
    plan = "Sort [id#46L ASC NULLS FIRST], true\n+- Project [id#46L]\n   +- SubqueryAlias source"
    assert (
        root_cause(Exception(f"Sorting is not supported on streams;\n{plan}"))
        == "Exception: Sorting is not supported on streams"
    )
    text = (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `a` cannot be found. Verify the spelling and correctness of the "
        "schema and catalog.\nIf you did not qualify the name with a schema, verify the current_schema() output.\n"
        "To tolerate the error on drop use DROP VIEW IF EXISTS or DROP TABLE IF EXISTS. SQLSTATE: 42P01; line 1 pos 14;"
        "\n'Project [*]"
    )
    assert root_cause(Exception(text)) == (
        "[TABLE_OR_VIEW_NOT_FOUND] The table or view `a` cannot be found: correct the name, or make the view or table "
        "first"
    )
