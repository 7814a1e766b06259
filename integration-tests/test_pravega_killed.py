"""Pravega to Pravega under SIGKILL before and after every step, while both streams are scaled."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict

import pytest

from penstock.dev import open_server
from penstock_pravega.dev import PravegaDevServer, PravegaToolbox

LOG, PROTOCOL = "penstock.sink.decision_log:DecisionLog", "penstock.sink.two_phase:TwoPhaseCommit"
READER = "penstock.spark._read:StreamReader"
WRITER = "penstock_pravega.sink._writers:TransactionalWriter"
COMMITTER = "penstock_pravega.sink._committer:PravegaCommitter"
NOTES = "penstock_pravega.sink._notes:TransactionNotes"

#: In the order in which a batch goes through them. The number says at which call of the run.
POINTS = [
    f"{COMMITTER}.abort_lingering:before:1",
    f"{NOTES}.write:after:2",
    f"{WRITER}.prepare_commit:before:1",
    f"{WRITER}.prepare_commit:after:2",
    f"{LOG}.append:after:1",
    f"{COMMITTER}._commit_open:before:1",
    f"{COMMITTER}._commit_open:after:1",
    f"{COMMITTER}._forget:before:2",
    f"{LOG}.mark_done:after:2",
]


@pytest.fixture(scope="module")
def pravega(tmp_path_factory):
    with open_server(PravegaDevServer(), tmp_path_factory.mktemp("pravega")) as address:
        toolbox = PravegaToolbox(address, f"killed-{uuid.uuid4().hex[:8]}")
        yield toolbox
        toolbox.close()


def by_key(values):
    found = defaultdict(list)
    for value in values:
        found[value.split(b":")[0]].append(value)
    return found


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_driver_killed_at_every_step(driver, pravega):
    """One query, killed at each point in turn, with new events before every start and a scaling every now and then."""
    source, target = pravega.create_stream(segments=2), pravega.create_stream(segments=2)
    job = {"controller": pravega.address, "within": pravega.scope, "in": source, "out": target, "per_trigger": 100}
    written: list[bytes] = []

    def write(count):
        values = [b"k%d:%06d" % (number % 9, number) for number in range(len(written), len(written) + count)]
        pravega.write(source, [(value.split(b":")[0].decode(), value) for value in values])
        written.extend(values)

    for number, point in enumerate(POINTS):
        write(150)
        if number % 4 == 1:
            pravega.split_all(source if number % 8 == 1 else target)
        if number % 4 == 3:
            pravega.merge_all(source if number % 8 == 3 else target)
        write(150)
        run = driver("copy_pravega", fault=point, **job)
        run.wait(600)
        assert run.was_hit(), f"the run never came to {point}:\n{run.tail()}"
        doubled = [value for value, n in Counter(pravega.values(target)).items() if n > 1]
        assert not doubled, f"doubled after point {number}: {point}"
    run = driver("copy_pravega", **job)
    assert run.wait(600) == 0, run.tail()
    found = pravega.values(target)
    assert Counter(found) == Counter(written)
    assert by_key(found) == by_key(written), "the order within a key changed"


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("point", [f"{WRITER}.write:after:1", f"{WRITER}.prepare_commit:after:2"])
def test_task_killed(driver, pravega, point):
    """Spark runs the task again; the first attempt's transaction never becomes visible."""
    source, target = pravega.create_stream(segments=2), pravega.create_stream(segments=2)
    values = [b"k%d:%06d" % (number % 9, number) for number in range(400)]
    pravega.write(source, [(value.split(b":")[0].decode(), value) for value in values])
    job = {"controller": pravega.address, "within": pravega.scope, "in": source, "out": target, "per_trigger": 100}
    driver("copy_pravega", fault=point, scope="worker", **job).wait(600)
    run = driver("copy_pravega", **job)
    assert run.wait(600) == 0, run.tail()
    assert Counter(pravega.values(target)) == Counter(values)
