"""``df.write``: everything becomes visible or nothing, whoever is killed and whoever ends it, at whatever moment.

A write runs with the very classes that Spark calls. Each change that it makes to the disk is a step: it can be killed
before and after each of them, and another process can come in between.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import pickle

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import penstock.storage._local
from penstock._commit import DisplacedError, GaveWayError
from penstock.checkpoint import finish, resolve, take_over
from penstock.cli import app
from penstock.errors import BadConfigurationError, DataLostError, RetriableError
from penstock.retry import NO_RETRIES, RetryPolicy
from penstock.spark._write import BatchWriter
from penstock.storage._contract import is_temporary
from penstock.testing import Crash, Fuse
from penstock_filesystem.options import SINK_OPTIONS, SinkOptions
from penstock_filesystem.sink import create_sink

SCHEMA = pa.schema([("id", pa.int64()), ("half", pa.string())])
#: Each task publishes its own part; or the driver merges what they leave into one part for each bucket.
WAYS = {"as it is": {"rollOnCheckpoint": "true", "bucketAssigner": "basePath"}, "merged": {"partitionColumns": "half"}}
SHARES = [[0, 1], [2], [3, 4, 5]]
ROWS = sorted(row for share in SHARES for row in share)
#: Every call by which a local storage changes the disk.
CHANGES = ["link", "unlink", "rename", "replace", "rmdir"]


@pytest.fixture
def steps(monkeypatch):
    """A function that has ``step(what)`` called before and after every change; ``None`` ends that."""
    told = [None]

    def stepping(name, call):
        def wrapped(*arguments, **given):
            step = told[0]
            if step is None:
                return call(*arguments, **given)
            path = os.path.basename(str(arguments[0]))
            step(f"before {name} {path}")
            result = call(*arguments, **given)
            step(f"after {name} {path}")
            return result

        return wrapped

    for name in CHANGES:
        monkeypatch.setattr(os, name, stepping(name, getattr(os, name)))
    opening = penstock.storage._local._in_its_directory
    monkeypatch.setattr(penstock.storage._local, "_in_its_directory", stepping("open", opening))

    def use(step):
        told[0] = step

    return use


def new_process(value):
    return pickle.loads(pickle.dumps(value))


class Write:
    """One ``df.write`` to ``root``, as Spark takes it through its processes."""

    def __init__(self, root, way="merged", retry=NO_RETRIES):
        values = SINK_OPTIONS.parse({"path": str(root), "format": "json", **WAYS[way]}, owner="sink")
        self.root = root
        self.writer = BatchWriter(
            create_sink(SinkOptions.from_values(values), SCHEMA), SCHEMA, "filesystem", values, None, retry
        )

    def task(self, rows):
        halves = ["even" if row % 2 == 0 else "odd" for row in rows]
        batch = pa.record_batch([pa.array(rows), pa.array(halves)], schema=SCHEMA)
        return new_process(new_process(self.writer).write(iter([batch])))

    def commit(self, messages):
        """What Spark does with the messages of tasks: abort follows a commit that failed, and may fail, too."""
        try:
            new_process(self.writer).commit(messages)
        except Exception:
            with contextlib.suppress(OSError, RetriableError):
                new_process(self.writer).abort(messages)
            raise

    def run(self):
        self.commit([self.task(share) for share in SHARES])


def visible(root):
    paths = [path for path in root.rglob("*") if path.is_file() and ".penstock" not in path.parts]
    return sorted(json.loads(line)["id"] for path in paths for line in path.read_text().splitlines())


def left(root):
    """What is there besides finished files, and besides what a storage sweeps away by itself."""
    paths = [path for path in root.rglob("*") if ".penstock" in path.parts and not is_temporary(path.name)]
    return [str(path.relative_to(root)) for path in paths if path.is_file() or not any(path.iterdir())]


def end(root):
    """A person ends what is open: what was decided is published, else it is undone."""
    try:
        finish(str(root))
    except BadConfigurationError:
        assert [one for one in left(root) if (root / one).is_file()] == []
    except GaveWayError:
        assert visible(root) == []
        take_over(str(root))


def count(root, steps, work):
    fuse = Fuse()
    steps(fuse.step)
    work(root)
    steps(None)
    return fuse.steps


@pytest.fixture(params=WAYS)
def write(request):
    """A function that does one write."""
    return lambda root, retry=NO_RETRIES: Write(root, request.param, retry).run()


def test_a_write_leaves_its_rows_and_nothing_else(tmp_path, write):
    write(tmp_path)
    assert visible(tmp_path) == ROWS and left(tmp_path) == []


def test_finishing_a_path_twice_is_no_error(tmp_path, write):
    with pytest.raises(BadConfigurationError, match="it is empty, or does not exist"):
        finish(str(tmp_path))
    write(tmp_path)
    assert finish(str(tmp_path)) == take_over(str(tmp_path)) == []
    result = CliRunner().invoke(app, ["finish", str(tmp_path)])
    assert result.exit_code == 0 and "nothing was open (no batch write; and it is no checkpoint)" in result.stdout


def killed_and_ended(root, steps, write, at, again=None):
    """A write is killed at one of its steps, and who ends it at one of theirs; then somebody else ends it.

    Returns whether there was such a step.
    """
    for fuse, work in ((Fuse(at), write), (Fuse(again), end)):
        steps(fuse.step)
        with contextlib.suppress(Crash):
            work(root)
        steps(None)
        assert len(visible(root)) == len(set(visible(root)))
    end(root)
    where = f"killed at {at}, then at {again}: {fuse.steps}"
    assert visible(root) in ([], ROWS), where
    assert [one for one in left(root) if (root / one).is_file()] == [], where
    return again is None or len(fuse.steps) > again


def test_killed_at_every_step_and_ended_by_a_person(tmp_path, steps, write):
    """Who ends it finds all of it or nothing, and leaves nothing."""
    made = count(tmp_path / "dry", steps, write)
    assert len(made) > 60
    outcomes = set()
    for at in range(1, len(made)):
        killed_and_ended(tmp_path / f"{at}", steps, write, at)
        outcomes.add(len(visible(tmp_path / f"{at}")))
    assert outcomes == {0, len(ROWS)}


@pytest.mark.exhaustive("seconds; test_killed_at_every_step_and_ended_by_a_person is the witness")
def test_who_ends_it_is_killed_too(tmp_path, steps, write):
    for at in range(1, len(count(tmp_path / "dry", steps, write))):
        for again in itertools.count():
            if not killed_and_ended(tmp_path / f"{at}-{again}", steps, write, at, again):
                break


@pytest.mark.parametrize("command", [finish, take_over])
def test_somebody_ends_it_while_it_runs(tmp_path, steps, write, command):
    """Between any two steps. It fails and nothing is visible, or has written everything."""
    made = count(tmp_path / "dry", steps, write)
    outcomes = set()
    for at, what in enumerate(made):
        root, fuse = tmp_path / f"{command.__name__}-{at}", Fuse()

        def step(done, root=root, fuse=fuse, at=at):
            fuse.step(done)
            if len(fuse.steps) == at + 1:
                steps(None)
                with contextlib.suppress(GaveWayError, BadConfigurationError):
                    command(str(root))
                steps(step)

        steps(step)
        try:
            write(root)
        except (DisplacedError, DataLostError):
            assert visible(root) == [], f"{command.__name__} at {what}"
        else:
            assert visible(root) == ROWS, f"{command.__name__} at {what}"
        finally:
            steps(None)
        assert left(root) == [], f"{command.__name__} at {what}"
        outcomes.add(len(visible(root)))
    assert outcomes == ({len(ROWS)} if command is finish else {0, len(ROWS)})


def test_a_failure_at_every_step_tells_the_truth(tmp_path, steps, write):
    """A disk that refuses one change, which is made again: a write that fails all the same is not visible, and leaves
    nothing that it does not name.
    """
    for at, what in enumerate(count(tmp_path / "dry", steps, write)):
        if what.startswith("after"):
            continue
        root, fuse = tmp_path / str(at), Fuse()

        def step(done, fuse=fuse, at=at):
            fuse.step(done)
            if len(fuse.steps) == at + 1:
                raise OSError(errno.EIO, "input/output error", done)

        steps(step)
        with contextlib.suppress(OSError):
            write(root, RetryPolicy(60))
            assert visible(root) == ROWS, f"failed at {what}"
        steps(None)
        seen = visible(root)
        assert seen in ([], ROWS)
        if root.exists():
            end(root)
        assert visible(root) == seen and not [one for one in left(root) if (root / one).is_file()], f"failed at {what}"


def test_a_write_that_is_decided_and_fails_is_not_to_be_repeated(tmp_path, steps, write):
    """A disk that refuses everything from some step on: an error that does not name the command means that nothing is
    visible, or ever will be.
    """
    told = set()
    for at, what in enumerate(count(tmp_path / "dry", steps, write)):
        if what.startswith("after"):
            continue
        root, fuse = tmp_path / str(at), Fuse()

        def step(done, fuse=fuse, at=at):
            fuse.step(done)
            if len(fuse.steps) > at and done.startswith("before"):
                raise OSError(errno.EIO, "input/output error", done)

        error = None
        steps(step)
        try:
            write(root)
        except (OSError, RetriableError) as raised:
            error = raised
        steps(None)
        is_named = f"penstock finish {root}" in str(error)
        if root.exists():
            end(root)
        assert visible(root) == (ROWS if error is None or is_named else []), f"refused from {what} on: {error}"
        told.add((error is None, is_named))
    assert told == {(True, False), (False, True), (False, False)}


def test_a_task_that_fails_undoes_all(tmp_path):
    one = Write(tmp_path)
    messages = [one.task([0]), one.task([1])]
    new_process(one.writer).abort(messages)
    assert visible(tmp_path) == [] and left(tmp_path) == []


def decided_and_killed(root, steps):
    """Killed with one of its parts published. Returns the writer, and what its tasks have reported."""
    one = Write(root)
    messages = [one.task(share) for share in SHARES]

    def step(what):
        if what.startswith("after rename"):
            raise Crash(what)

    steps(step)
    with pytest.raises(Crash):
        one.commit(messages)
    steps(None)
    return one.writer, messages


def test_an_abort_that_publishes_says_so(tmp_path, steps, caplog):
    """Spark calls it if the process that commits has died, and reports a failure."""
    writer, messages = decided_and_killed(tmp_path, steps)
    new_process(writer).abort(messages)
    assert visible(tmp_path) == ROWS and left(tmp_path) == []
    assert "all of it is visible now" in caplog.text and "do not write it again" in caplog.text


def test_an_abort_that_publishes_nothing_says_nothing(tmp_path, caplog):
    one = Write(tmp_path)
    new_process(one.writer).abort([one.task([0]), None])
    assert visible(tmp_path) == [] and caplog.text == ""


def lose_what_is_hidden(root):
    for path in (root / ".penstock").rglob("*"):
        if path.is_file() and path.suffix not in (".json", ".done"):
            path.unlink()


def test_the_command_says_what_it_published(tmp_path, steps):
    def call(*arguments):
        return CliRunner().invoke(app, ["finish", str(tmp_path), *arguments])

    decided_and_killed(tmp_path, steps)
    first = call("--json")
    assert first.exit_code == 0 and json.loads(first.stdout)["decisions"] == 1
    assert visible(tmp_path) == ROWS
    again = call()
    assert again.exit_code == 0 and "nothing was open" in again.stdout

    Write(tmp_path).task([6])
    gave_way = call()
    assert gave_way.exit_code == 3 and "has not decided anything yet" in gave_way.stderr
    assert f"penstock finish --take-over {tmp_path}" in gave_way.stderr
    assert call("--take-over").exit_code == 0
    assert visible(tmp_path) == ROWS and left(tmp_path) == []


@pytest.mark.parametrize("write_all_again", [True, False])
def test_what_is_lost_in_part_is_for_a_person(tmp_path, steps, write_all_again):
    decided_and_killed(tmp_path, steps)
    seen = visible(tmp_path)
    lose_what_is_hidden(tmp_path)
    assert 0 < len(seen) < len(ROWS)
    with pytest.raises(DataLostError, match="penstock resolve"):
        finish(str(tmp_path))
    resolve(str(tmp_path), write_all_again=write_all_again)
    assert visible(tmp_path) == seen and left(tmp_path) == []


def test_a_write_that_is_lost_is_said_to_be(tmp_path, steps):
    one = Write(tmp_path)
    messages = [one.task(share) for share in SHARES]

    def step(what):
        if what.startswith("before rename"):
            raise Crash(what)

    steps(step)
    with pytest.raises(Crash):
        one.commit(messages)
    steps(None)
    lose_what_is_hidden(tmp_path)
    with pytest.raises(DataLostError, match="Nothing of it is visible"):
        finish(str(tmp_path))
    assert visible(tmp_path) == [] and left(tmp_path) == []
