"""A query that fails where nothing waits for it is said at the end of the script; what was seen is not said twice."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from penstock.spark._last_words import hush_cut_updates
from suite.pages import check_quiet

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCRIPT = """
from pyspark.sql import SparkSession
import penstock
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
penstock.register(spark)
rows = spark.readStream.format("penstock.filesystem").option("format", "csv").schema("id int").load("PLACE/in")
query = rows.writeStream.format("noop").option("checkpointLocation", "PLACE/ck").trigger(availableNow=True).start()
"""
LINE = "does not exist, or is a glob that matches nothing: correct the path, or create it [PENSTOCK-FILES-001]"
POLLING = "import time\nwhile query.isActive: time.sleep(0.1)\ntime.sleep(2)\n"


#: Spark is in the middle of a call when the script is over: the listener's answer takes longer than the rest of it.
SLOW_ANSWER = """
import threading, time
from penstock.spark._listener import PublishingListener
called = threading.Event()
def answer(self, event):
    called.set()
    time.sleep(1)
PublishingListener.onQueryProgress = answer
"""


def run(tmp_path, end: str, script: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    script = (script + end).replace("PLACE", str(tmp_path))
    environment = {name: text for name, text in os.environ.items() if name != "PYSPARK_GATEWAY_PORT"}
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment, timeout=240
    )


def test_a_failure_in_the_background_is_the_last_line(tmp_path):
    pytest.importorskip("penstock_filesystem")
    ended = run(tmp_path, POLLING)
    assert ended.returncode == 0, "a script decides about its own end"
    assert ended.stderr.splitlines()[-1] == f"penstock: {tmp_path}/in {LINE}"


@pytest.mark.exhaustive("a driver for each way to look; the one above is the witness")
@pytest.mark.parametrize(
    ("end", "code", "times"),
    [
        ("query.awaitTermination()", 1, 1),
        ("spark.streams.awaitAnyTermination()", 1, 1),
        ("try: spark.streams.awaitAnyTermination()\nexcept Exception: pass\n", 0, 0),
        (POLLING + "assert 'FILES-001' in penstock.explain(query.exception())", 0, 0),
    ],
)
def test_what_was_seen_is_not_said_again(tmp_path, end, code, times):
    pytest.importorskip("penstock_filesystem")
    ended = run(tmp_path, end)
    assert ended.returncode == code
    assert sum(line == f"penstock: {tmp_path}/in {LINE}" for line in ended.stderr.splitlines()) == times
    assert times == 0 or ended.stderr.splitlines()[-1] == f"penstock: {tmp_path}/in {LINE}"


@pytest.mark.exhaustive("a driver; test_a_failure_in_the_background_is_the_last_line is the witness")
def test_an_event_that_is_handled_when_the_script_ends_is_handled_first(tmp_path):
    pytest.importorskip("penstock_filesystem")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    ended = run(tmp_path, "query.awaitTermination()\ncalled.wait(60)\n", SLOW_ANSWER + SCRIPT.replace("OFF", "ERROR"))
    assert ended.returncode == 0
    check_quiet(ended.stdout + ended.stderr)


def test_updates_that_are_cut_leave_no_trace_and_other_errors_do(capsys):
    class Server:
        def handle_error(self, request, address):
            print(f"a trace of {address}", file=sys.stderr)

    context = SimpleNamespace(_accumulatorServer=Server())
    for _ in range(2):
        hush_cut_updates(context)
    for error in (EOFError(), ValueError("another token")):
        try:
            raise error
        except Exception:
            context._accumulatorServer.handle_error(None, type(error).__name__)
    assert capsys.readouterr().err == "a trace of ValueError\n"


def test_the_session_hushes_its_updates(spark, capsys):
    server = spark.sparkContext._accumulatorServer
    for error in (EOFError(), ValueError("another token")):
        try:
            raise error
        except Exception:
            server.handle_error(None, ("127.0.0.1", 1))
    printed = capsys.readouterr().err
    assert "another token" in printed and "EOFError" not in printed
