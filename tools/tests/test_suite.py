"""How the suite itself is run: tiers, balance, what a change can break, the report."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from suite import runs, scratch
from suite.balance import LONGEST_UNIT_S, Units
from suite.changed import Affected, Graph, changed_files
from suite.durations import Durations
from suite.journal import Journal

ROOT = Path(__file__).parents[2]

PLUGINS = ("-p", "xdist.plugin", "-p", "pytest_timeout", "-p", "penstock.testing._plugin")

TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.exhaustive("every number; test_plain is the witness")
@pytest.mark.parametrize("number", [1, 2])
def test_numbers(number):
    pass

@pytest.mark.parametrize("size", [1, pytest.param(2, marks=pytest.mark.exhaustive("large"))])
def test_sizes(size):
    pass
"""


@pytest.fixture
def suite(tmp_path):
    """Runs pytest with our plugin in a directory of its own; gives the exit status and what was printed."""
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["suite.plugin"]\n')
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT / 'tools'}\naddopts = --strict-markers\n")

    def run(*arguments, **files):
        for name, text in files.items():
            (tmp_path / f"{name}.py").write_text(text)
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *PLUGINS, *arguments]
        env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take longer to load than these tests
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=env)
        return done.returncode, done.stdout + done.stderr

    return run


def test_the_second_tier_runs_only_with_all(suite):
    status, text = suite(test_one=TESTS)
    assert status == 0 and "2 passed, 3 deselected" in text
    assert "3 more tests run with --all" in text
    status, text = suite("--all")
    assert status == 0 and "5 passed" in text and "deselected" not in text and "more tests" not in text


def test_a_test_that_is_named_runs(suite):
    status, text = suite("test_one.py::test_numbers", test_one=TESTS)
    assert status == 0 and "2 passed" in text


def test_the_tiers_are_shown_with_their_reasons(suite):
    _, text = suite("--tiers", test_one=TESTS)
    lines = text.splitlines()
    at = lines.index("test_one.py")
    assert lines[at : at + 5] == [
        "test_one.py",
        "  every number; test_plain is the witness",
        "    test_numbers (2 cases)",
        "  large",
        "    test_sizes",
    ]
    assert "passed" not in text


OTHER_MARKERS = pytest.mark.exhaustive("a run of pytest each; the marker without parentheses is the witness")


@pytest.mark.parametrize(
    "marker",
    [
        "exhaustive",
        *(pytest.param(f"exhaustive({text})", marks=OTHER_MARKERS) for text in ("", "reason='x'", "3")),
    ],
)
def test_a_marker_without_a_reason_is_an_error(suite, marker):
    status, text = suite(test_one=f"import pytest\n\n@pytest.mark.{marker}\ndef test_it():\n    pass\n")
    assert status != 0 and "test_it: the marker 'exhaustive' takes the reason as its only argument" in text


def test_two_processes_run_every_test_once(suite, tmp_path):
    body = "import pytest\n\n@pytest.mark.parametrize('n', range(30))\ndef test_{0}(n):\n"
    body += "    with open('ran', 'a') as file:\n        file.write('{0}%d\\n' % n)\n"
    files = {f"test_{letter}": body.format(letter) for letter in "abcdefg"}
    status, text = suite("-n", "2", "--dist", "loadscope", **files)
    assert status == 0 and "210 passed" in text and "210 tests in 2 processes: seconds" in text
    assert sorted((tmp_path / "ran").read_text().split()) == sorted(f"{x}{n}" for x in "abcdefg" for n in range(30))


def test_the_kit_kills_for_a_shorter_time_without_all(suite):
    cases = (
        "class TestKit:\n    kill_seconds = 15.0\n\n    def test_it(self):\n        assert self.kill_seconds == {}\n"
    )
    status, text = suite(test_one=cases.format("1.0"))
    assert status == 0, text
    status, text = suite("--all", test_one=cases.format("15.0"))
    assert status == 0, text


@pytest.mark.exhaustive("two processes once more; test_two_processes_run_every_test_once is the witness")
def test_two_processes_say_what_was_left(suite):
    _, text = suite("-n", "2", "--dist", "loadscope", test_one=TESTS)
    assert "3 more tests run with --all" in text


def test_the_report_names_the_slowest_and_those_over_their_budget(suite):
    slow = "import pytest, threading\n\n@pytest.mark.budget(0.01)\ndef test_slow():\n    threading.Event().wait(0.05)\n"
    _, text = suite("--where", "where.jsonl", test_one=slow)
    assert "slowest tests    0.1 s  test_one.py::test_slow" in text
    assert "over budget      0.1 s  test_one.py::test_slow (budget 0 s)" in text
    assert "by file" not in text
    assert "cores were busy" in text or not Path("/proc/stat").exists()


def test_the_report_adds_up_files(suite):
    waits = "import threading\n\ndef test_one():\n    threading.Event().wait(0.1)\n\n"
    _, text = suite(test_a=waits + waits.replace("test_one", "test_two"), test_b=waits)
    by_file = text.partition("by file")[2].splitlines()
    assert [line.split() for line in by_file[:2]] == [["0.2", "s", "test_a.py"], ["0.1", "s", "test_b.py"]]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not say what is open")
def test_the_report_names_what_leaves_files_open(suite):
    opens = "import os\n\nOPEN = []\n\ndef test_it():\n    OPEN.extend(os.open('/dev/null', 0) for _ in range(50))\n"
    closes = "import os\n\ndef test_it():\n    for _ in range(100):\n        os.close(os.open('/dev/null', 0))\n"
    _, text = suite(test_a=opens, test_b=closes)
    (line,) = (line for line in text.splitlines() if line.startswith("left open"))
    _, _, count, _, name = line.split()
    assert name == "test_a.py" and 50 <= int(count) < 60  # pytest opens some of its own


@pytest.mark.parametrize("processes", [(), ("-n", "2", "--dist", "loadscope")], ids=["one", "two"])
def test_a_failure_is_said_at_once(suite, processes):
    """The seed of a schedule is in it, and the run may be ended before its report."""
    _, text = suite(*processes, test_one="def test_it():\n    assert False, 'seed 7'\n")
    before, _, _ = text.partition("= FAILURES =")
    assert "test_one.py::test_it: AssertionError: seed 7" in before


FLAKY = """
import os, pytest

@pytest.mark.parametrize("n", range(6))
def test_it(n):
    with open("ran", "a") as file:
        file.write(f"{n} ")
    if n == 1:
        pytest.skip("not here")
    if n == 3 and os.environ.get("ENDS"):
        os.kill(os.getppid() if os.environ.get("PYTEST_XDIST_WORKER") else os.getpid(), 9)
        os._exit(1)
    assert n != 2 or not os.environ.get("ENDS")
"""


@pytest.mark.exhaustive("four runs of a suite; test_a_record_has_the_tests_of_all_pieces is the witness")
@pytest.mark.budget(20)
@pytest.mark.parametrize("processes", [(), ("-n", "1", "--dist", "loadscope")], ids=["one", "two"])
def test_a_run_that_was_killed_continues(suite, tmp_path, monkeypatch, processes):
    (tmp_path / ".gitignore").write_text(".cache\nran\n__pycache__\n")
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    monkeypatch.setenv("ENDS", "1")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)  # of the run that this test is part of
    status, text = suite(*processes, "--all", test_one=FLAKY)
    assert status < 0, text
    assert (tmp_path / "ran").read_text().split() == ["0", "1", "2", "3"]
    monkeypatch.delenv("ENDS")
    assert "5 passed, 1 skipped" in suite(*processes)[1]  # another run in between changes nothing
    (tmp_path / "ran").unlink()
    status, text = suite(*processes, "--all", "--resume")
    assert status == 0 and "4 passed" in text and "2 tests have passed or were skipped before" in text, text
    assert (tmp_path / "ran").read_text().split() == ["2", "3", "4", "5"]
    # In a tree that was changed, everything runs.
    assert "5 passed, 1 skipped" in suite(*processes, "--all", "--resume", test_one=FLAKY + "\n")[1]


def test_only_a_run_of_everything_continues(suite):
    assert "give both" in suite("--resume", test_one=TESTS)[1]


def test_a_record_has_the_tests_of_all_pieces(tmp_path):
    def journal():
        return Journal(tmp_path / "run.jsonl", "as it is", resumes=True)

    def report(name, when="call", outcome="passed"):
        return SimpleNamespace(nodeid=name, when=when, outcome=outcome, duration=2.0)

    first = journal()
    for name, outcome in (("a", "passed"), ("b", "failed"), ("c", "skipped")):
        first.add(report(name, outcome=outcome))
        first.add(report(name, when="teardown"))
    first.add(report("d"))  # it was running when the run ended
    second = journal()
    assert second.done == {"a": "passed", "c": "skipped"} and second.seconds == {"a": 4.0, "c": 4.0}
    assert second.counts({"passed": [1, 2], "": [3]}) == {"passed": 3, "skipped": 1, "": 1}


def test_where_the_time_went(suite, tmp_path):
    sleeper = "import time, subprocess, sys\n\ndef test_it():\n    time.sleep(0.2)\n"
    sleeper += "    subprocess.run([sys.executable, '-c', 'import time; time.sleep(0.1)'])\n"
    suite("--where", "where.jsonl", test_one=sleeper)
    (line,) = (tmp_path / "where.jsonl").read_text().splitlines()
    found = json.loads(line)
    assert found["id"] == "test_one.py::test_it"
    assert found["seconds"]["sleep"] >= 0.2 and found["seconds"]["process"] >= 0.1


def test_a_long_file_is_taken_apart_and_a_short_one_is_not():
    long, short = LONGEST_UNIT_S, 1.0
    made = Units(
        ["a/test_x.py::test_1[p]", "a/test_x.py::test_1[q]", "a/test_x.py::test_2", "a/test_y.py::test_1"],
        Durations({"a/test_x.py::test_1[p]": long, "a/test_x.py::test_2": long, "a/test_y.py::test_1": short}),
    )
    assert made.of("a/test_x.py::test_1[p]") == made.of("a/test_x.py::test_1[q]") == "a/test_x.py::test_1"
    assert made.of("a/test_x.py::test_2") == "a/test_x.py::test_2"
    assert made.of("a/test_y.py::test_1") == "a/test_y.py"


def test_a_process_stays_in_its_directory_and_then_takes_the_longest_free_one():
    made = Units(
        [f"{name}/test_{number}.py::t" for name in "abc" for number in (1, 2)],
        Durations({"a/test_1.py::t": 2, "a/test_2.py::t": 3, "b/test_1.py::t": 9, "b/test_2.py::t": 1}),
    )
    waiting = [f"{name}/test_{number}.py" for name in "abc" for number in (1, 2)]
    a, b, c = (f"{name}/test_1.py" for name in "abc")
    assert made.next(waiting, None, []) == b
    assert made.next(waiting, a, [a, b]) == a
    assert made.next(waiting, None, [b]) == "a/test_2.py"
    left = [unit for unit in waiting if not unit.startswith("c")]
    assert made.next(left, c, [c, b]) == "a/test_2.py"
    assert made.next(["b/test_2.py"], c, [c, b]) == "b/test_2.py"  # nothing else is left: help


def test_a_process_stays_in_its_file_and_then_takes_the_longest_free_one():
    """Else its module's fixtures, such as servers, would be made again and again."""
    long = {"test_x.py": (40, 20, 1), "test_y.py": (30, 10, 2)}
    seconds = {f"a/{file}::{n}": one for file, numbers in long.items() for n, one in enumerate(numbers)}
    made = Units(list(seconds), Durations(seconds))
    waiting = list(seconds)
    order, last = [], None
    while waiting:
        last = made.next(waiting, last, ["a/test_z.py::0"])
        order.append(last)
        waiting.remove(last)
    assert order == [f"a/{file}::{n}" for file in long for n in range(3)]
    left = ["a/test_x.py::1", "a/test_x.py::2", "a/test_y.py::2"]
    assert made.next(left, "a/test_z.py::0", ["a/test_x.py::0"]) == "a/test_y.py::2", "in the other, one is at work"
    assert made.next(left[:2], "a/test_z.py::0", ["a/test_x.py::0"]) == "a/test_x.py::1", "nothing else is left: help"


def test_durations_come_back(tmp_path):
    path = tmp_path / "durations.json"
    Durations({"x.py::b": 2.04, "x.py::a": 1, "x.py::c": 0.01, "x.py::d": 0.03}).save(path)
    assert json.loads(path.read_text()) == {"x.py": 0.02, "x.py::a": 1, "x.py::b": 2.0}
    part = Durations.load(path).renewed({"x.py::a": 5.0, "y.py::c": 0.1}, complete=False)
    assert part.of(["x.py::a", "x.py::b"]) == 7.0
    assert part.of(["x.py::c", "x.py::new"]) == 0.04, "short ones, as those of their file"
    part.save(path)
    assert json.loads(path.read_text()) == {"x.py": 0.02, "x.py::a": 5.0, "x.py::b": 2.0, "y.py": 0.1}
    assert part.renewed({"x.py::a": 5.0}, complete=True).of(["x.py::a", "x.py::b"]) < 6
    assert 0 < Durations.load(tmp_path / "none").of(["a"]) < 0.1


def test_a_complete_run_is_recorded(tmp_path):
    runs.record({"passed": 5, "skipped": 1}, 61.26, tmp_path / "run.json")
    found = json.loads((tmp_path / "run.json").read_text())
    assert (found["passed"], found["failed"], found["skipped"], found["minutes"]) == (5, 0, 1, 61.3)
    assert found["date"].startswith("20") and found["pyspark"][0].isdigit()


@pytest.fixture(scope="module")
def graph():
    return Graph(ROOT)


KAFKA, CASSANDRA = "connectors/kafka/tests", "connectors/cassandra/tests"
#: A changed file, a test file that it can break, and one that it can't.
CHANGES = [
    (
        "connectors/kafka/src/penstock_kafka/sink/_writer.py",
        f"{KAFKA}/test_sink_rows.py",
        "core/tests/test_storage.py",
    ),
    (
        "connectors/kafka/src/penstock_kafka/client/codec/native/decoder.c",
        f"{KAFKA}/test_client_fetching.py",
        f"{CASSANDRA}/test_keys.py",
    ),
    (
        "connectors/pravega/src/penstock_pravega/options/_source.py",
        "connectors/pravega/tests/test_conformance.py",
        f"{KAFKA}/test_options_ddl.py",
    ),
    ("core/src/penstock/_commit/_two_phase.py", "connectors/filesystem/tests/test_sink_exactly_once.py", ""),
    (
        "integration-tests/harness/jobs/copy_kafka.py",
        "integration-tests/test_kafka_killed.py",
        "integration-tests/test_driver_killed.py",
    ),
    ("integration-tests/conftest.py", "integration-tests/test_s3.py", "core/tests/test_options.py"),
    (f"{CASSANDRA}/test_keys.py", f"{CASSANDRA}/test_keys.py", f"{CASSANDRA}/test_types.py"),
    ("docs/authors/write-a-sink.md", "integration-tests/test_author_pages.py", f"{CASSANDRA}/test_types.py"),
    (
        "examples/penstock-sqlite/src/penstock_sqlite/_upsert.py",
        "integration-tests/test_third_party.py",
        "core/tests/test_options.py",
    ),
    ("scripts/setup", "core/tests/test_options.py", ""),
    ("pyproject.toml", f"{CASSANDRA}/test_types.py", ""),
]


@pytest.mark.parametrize(("file", "broken", "whole"), CHANGES, ids=[file for file, *_ in CHANGES])
def test_what_a_change_can_break(graph, file, broken, whole):
    assert (ROOT / file).exists(), "the example is out of date"
    affected = Affected(graph, [file])
    assert affected.includes(ROOT / broken)
    assert not (ROOT / whole).is_file() or not affected.includes(ROOT / whole)


def test_no_change_breaks_nothing(graph):
    assert not Affected(graph, []).includes(ROOT / "core/tests/test_import_direction.py")


def test_files_that_differ_are_found(tmp_path):
    def git(*arguments):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    for name in ("kept", "edited", "committed"):
        (tmp_path / name).write_text("1")
    git("add", ".")
    git("commit", "-m", "one")
    git("checkout", "-b", "change")
    (tmp_path / "committed").write_text("2")
    git("commit", "-am", "two")
    (tmp_path / "edited").write_text("2")
    (tmp_path / "new").write_text("1")
    assert changed_files(tmp_path, "main") == ["committed", "edited", "new"]
    with pytest.raises(pytest.UsageError, match="merge-base"):
        changed_files(tmp_path, "nowhere")


@pytest.mark.exhaustive("two runs of scripts/test by itself; test_where_the_time_went writes the same file")
def test_a_file_to_write_to_is_no_test(tmp_path):
    """pytest would take one that exists for a test, and our options for unknown."""
    where = tmp_path / "where.jsonl"
    for lines in (1, 2):
        command = [ROOT / "scripts" / "test", "--where", where, "-q", f"{__file__}::test_durations_come_back"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        assert len(where.read_text().splitlines()) == lines


MAKES_A_DIRECTORY = """
import os, sys
from pathlib import Path
from suite import scratch
scratch._DISK_BYTES = 0
os.environ.update(scratch.in_memory(Path(sys.argv[1]), Path(sys.argv[2])))
"""
RUNS_TESTS = MAKES_A_DIRECTORY + "os.execve(sys.executable, [sys.executable, '-m', 'pytest', '-q'], os.environ)"
WAITS = MAKES_A_DIRECTORY + "print('up', flush=True); sys.stdin.read()"


@pytest.fixture
def memory(tmp_path, monkeypatch):
    """A directory in place of the one in memory, and what the system says is available."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(scratch, "_DISK_BYTES", 0)
    disk, meminfo = tmp_path / "disk", tmp_path / "meminfo"
    disk.mkdir()
    meminfo.write_text("MemTotal:       24000000 kB\nMemAvailable:   20000000 kB\n")
    return disk, meminfo


def test_files_are_in_memory_where_there_is_plenty(memory, monkeypatch):
    disk, meminfo = memory
    variables = scratch.in_memory(disk, meminfo)
    assert Path(variables["TMPDIR"]).parent == disk
    assert Path(variables["TMPDIR"]).stat().st_mode & 0o7777 == 0o1777  # not all servers run as this user
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert scratch.own() == Path(variables["TMPDIR"])
    monkeypatch.setattr(os, "getpid", lambda: -1)  # a run that a test starts
    assert scratch.own() is None


def test_files_are_on_the_disk_where_memory_is_short(memory, tmp_path, monkeypatch):
    disk, meminfo = memory
    assert scratch.in_memory(disk, tmp_path / "missing") == {}
    assert scratch.in_memory(tmp_path / "missing", meminfo) == {}
    meminfo.write_text("MemAvailable:   11000000 kB\n")
    assert scratch.in_memory(disk, meminfo) == {}
    meminfo.write_text("MemAvailable:   20000000 kB\n")
    monkeypatch.setattr(scratch, "_DISK_BYTES", 1 << 60)
    assert scratch.in_memory(disk, meminfo) == {}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(scratch, "_DISK_BYTES", 0)
    assert scratch.in_memory(disk, meminfo) == {}
    assert not list(disk.iterdir())


@pytest.mark.parametrize("passes", [True, False])
def test_files_in_memory_go_with_a_run_that_passes(suite, memory, tmp_path, passes):
    suite("--collect-only", test_one=f"def test_one(tmp_path):\n    (tmp_path / 'a').touch()\n    assert {passes}\n")
    disk, _ = memory
    command = [sys.executable, "-c", RUNS_TESTS, *memory]

    def run():
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)

    said = run().stdout
    if passes:
        assert "1 passed" in said and not list(disk.iterdir())
    else:
        (left,) = disk.iterdir()
        assert f"the tests' files are in {left}, until the next run" in said and list(left.rglob("a"))
        run()
        assert len(list(disk.iterdir())) == 1 and not left.exists()


def test_files_in_memory_stay_while_their_run_goes_on(memory):
    disk, _ = memory
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools")}
    command = [sys.executable, "-c", WAITS, *memory]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout.readline() == b"up\n"
        (held,) = disk.iterdir()
        scratch.in_memory(*memory)
        assert held.exists()
        run.communicate(timeout=60)
    scratch.in_memory(*memory)
    assert not held.exists()
