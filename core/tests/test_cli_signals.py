"""SIGTERM, SIGINT and SIGHUP end ``penstock run`` with 143, 130 and 129, at whatever moment, and without a trace."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock._command import ending_signals
from penstock.cli._run import _Run
from penstock.cli._signals import Stopped, Stops

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

PENSTOCK = [sys.executable, "-c", "import sys; print('begun', flush=True)\nfrom penstock._command import main; main()"]
PIPELINE = """
source: {format: rate, options: {rowsPerSecond: 5}}
sink: {format: noop}
trigger: {processingTime: 200ms}
checkpoint: ck
spark: {spark.master: "local[1]"}
"""
#: In the environment of a run and of all that it starts.
MARK = "PENSTOCK_TEST_SIGNALS"
NAMES = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 129}


def started(tmp_path: Path) -> subprocess.Popen[str]:
    (tmp_path / "p.yaml").write_text(PIPELINE)
    hidden = ("PYSPARK_GATEWAY_PORT", "MASTER")
    environment = {name: text for name, text in os.environ.items() if name not in hidden} | {MARK: str(tmp_path)}
    process = subprocess.Popen(
        [*PENSTOCK, "run", str(tmp_path / "p.yaml"), "--plain"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None and process.stdout.readline() == "begun\n"
    return process


def assert_ended(process: subprocess.Popen[str], number: signal.Signals, tmp_path: Path) -> None:
    out, err = process.communicate(timeout=120)
    assert process.returncode == NAMES[number], (out, err)
    assert not re.search(r"Traceback|Exception|Error|\tat ", out + err), (out, err)
    deadline = time.monotonic() + 30
    while left := left_behind(tmp_path):
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def left_behind(tmp_path: Path) -> list[str]:
    """Command lines of processes that a run has started and left."""
    mark, found = f"{MARK}={tmp_path}".encode(), []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                found.append(environment.with_name("cmdline").read_text().replace("\0", " ")[:200])
    return found


def send(process: subprocess.Popen[str], number: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(number)


#: From the first imports to the first batch: these are about 5 s on a quiet machine.
MOMENTS = [0.3, 0.6, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0]


@pytest.fixture(autouse=True)
def as_in_a_terminal():
    """Also where the tests themselves run under ``nohup``, which their children inherit."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def stops(as_in_a_terminal):
    before = {number: signal.getsignal(number) for number in NAMES}
    yield Stops()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", list(NAMES), ids=lambda one: one.name)
def test_signals_raise_at_once_or_at_the_second_time(stops, number):
    stops.take(at_once=True)
    with pytest.raises(Stopped) as caught:
        signal.raise_signal(number)
    assert stops.exit_code(caught.value) == NAMES[number]
    again = Stops()
    again.take(at_once=False)
    assert again.exit_code(ValueError()) is None
    signal.raise_signal(number)
    assert (again.asked, again.exit_code(ValueError())) == (number, NAMES[number])
    with pytest.raises(Stopped):
        signal.raise_signal(signal.SIGTERM)
    assert again.asked == number, "the first one counts"
    again.ignore()
    signal.raise_signal(number)
    assert again.exit_code(KeyboardInterrupt()) == 130


def test_nohup_keeps_a_command_from_the_end_of_its_terminal():
    assert ending_signals() == (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    assert ending_signals() == (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_streams_that_the_shell_has_closed(closed, tmp_path):
    words = [*PENSTOCK[:2], "from penstock._command import main; main()", "run", "--check", str(tmp_path / "none.yaml")]
    command = f"exec {shlex.join(words)} {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stdout + done.stderr


def test_a_signal_while_spark_starts(tmp_path):
    process = started(tmp_path)
    time.sleep(2.5)
    send(process, signal.SIGTERM)
    assert_ended(process, signal.SIGTERM, tmp_path)


@pytest.mark.exhaustive("a run for each moment; test_a_signal_while_spark_starts is one of them")
@pytest.mark.parametrize("after_s", MOMENTS)
@pytest.mark.parametrize("number", list(NAMES), ids=lambda one: one.name)
def test_a_signal_at_any_moment(tmp_path, number, after_s):
    process = started(tmp_path)
    time.sleep(after_s)
    send(process, number)
    assert_ended(process, number, tmp_path)


@pytest.mark.exhaustive("starts Spark; as above")
def test_pyspark_handles_no_signal(tmp_path):
    """Its handler calls the JVM, even in the middle of another call."""
    code = (
        "import signal\n"
        "from penstock.cli._session import start_session\n"
        "own = lambda number, frame: None\n"
        "signal.signal(signal.SIGINT, own)\n"
        "spark = start_session('signals', {'spark.master': 'local[1]'}, print)\n"
        "assert signal.getsignal(signal.SIGINT) is own\n"
        "spark.stop()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.exhaustive("as above")
@pytest.mark.parametrize("again_after_s", [0.0, 0.2, 0.5, 1.0])
def test_a_signal_while_it_stops(tmp_path, again_after_s):
    process = started(tmp_path)
    assert process.stdout is not None
    next(line for line in process.stdout if "batch 0:" in line)
    send(process, signal.SIGTERM)
    time.sleep(again_after_s)
    send(process, signal.SIGTERM)
    assert_ended(process, signal.SIGTERM, tmp_path)


@pytest.mark.exhaustive("as above")
def test_a_signal_that_reaches_the_jvm_as_well(tmp_path):
    """As a supervisor sends it, which ends a group of processes."""
    process = started(tmp_path)
    assert process.stdout is not None
    next(line for line in process.stdout if "batch 0:" in line)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for one in children:
        os.kill(int(one), signal.SIGTERM)
    send(process, signal.SIGTERM)
    assert_ended(process, signal.SIGTERM, tmp_path)


TRACE = ['Exception in thread "heartbeat" java.io.IOException', "\tat a.B.c(B.scala:1)", "Caused by: x", "\t... 8 more"]


@pytest.mark.parametrize(("asked", "shown"), [(None, [*TRACE, "a line"]), (signal.SIGTERM, ["a line"])])
def test_traces_of_a_jvm_that_the_signal_ends_as_well_are_left_out(asked, shown):
    said = []
    run = SimpleNamespace(_stops=SimpleNamespace(asked=asked), _reporter=SimpleNamespace(line=said.append), _redact=str)
    for line in [*TRACE, "a line"]:
        _Run._show_of_jvm(run, line)
    assert said == shown
