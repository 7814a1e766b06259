"""Pravega to Pravega: SIGKILL to the driver between any two steps of the protocol, and to tasks, then counting."""

from __future__ import annotations

from collections import Counter

import pytest

pytestmark = pytest.mark.exhaustive(
    "every step of the protocol, and tasks at two of them; "
    "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks is the witness"
)

LOG, PROTOCOL = "penstock._commit._chain:Chain", "penstock._commit._two_phase:TwoPhaseCommit"
READER = "penstock.spark._read:StreamReader"
WRITER = "penstock_pravega.sink._writer:PravegaTransactionalWriter"
NOTES = "penstock_pravega.sink._transaction_log:TransactionLog"
COMMITTER = "penstock_pravega.sink._committer:PravegaCommitter"
CONTROLLER = "penstock_pravega.client._controller:Controller"

#: In the order in which a batch goes through them. The number says at which call of the run. What a kill before a step
#: leaves is what one after the step before it leaves: such pairs are here once. The kit has both, without Spark.
POINTS = [
    f"{READER}.latestOffset:after:1",
    f"{PROTOCOL}.plan:after:1",
    f"{CONTROLLER}.begin_transaction:after:2",
    f"{NOTES}.write:after:1",
    f"{WRITER}.write:after:2",
    f"{WRITER}.prepare_commit:after:1",
    f"{PROTOCOL}.commit:before:2",
    f"{LOG}.create:after:2",
    f"{LOG}.create:after:3",
    f"{CONTROLLER}.commit_transaction:after:1",
    f"{COMMITTER}.publish:after:2",
    f"{LOG}.mark_done:after:2",
]


class Feed:
    """Writes values ``k<key>:<number>``; ``expected`` is all of them so far."""

    def __init__(self, pravega, stream):
        self._pravega, self._stream = pravega, stream
        self.expected = []

    def add(self, events):
        start = len(self.expected)
        values = [b"k%d:%06d" % (number % 9, number) for number in range(start, start + events)]
        self._pravega.write(self._stream, [(value.split(b":")[0].decode(), value) for value in values])
        self.expected += values


def check(pravega, target, feed):
    """Every event once, and those of a routing key in order."""
    found = pravega.values(target)
    assert Counter(found) == Counter(feed.expected)
    last = {}
    for value in found:
        key, number = value.split(b":")
        assert last.get(key, b"") < number, f"{value!r} comes behind {last[key]!r}"
        last[key] = number


@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_driver_killed_at_every_step(driver, pravega):
    """One query, killed at each point in turn, with new events before every start."""
    source, target = pravega.create_stream(segments=2), pravega.create_stream(segments=2)
    feed = Feed(pravega, source)
    job = {"controller": pravega.address, "within": pravega.scope, "in": source, "out": target, "per_trigger": 60}
    for number, point in enumerate(POINTS):
        feed.add(150)
        driver("copy_pravega", fault=point, **job).wait_for_kill()
        doubled = [value for value, count in Counter(pravega.values(target)).items() if count > 1]
        assert not doubled, f"doubled after point {number}: {point}"
    run = driver("copy_pravega", **job)
    assert run.wait() == 0, run.tail()
    check(pravega, target, feed)


@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", [f"{WRITER}.write:after:1", f"{WRITER}.prepare_commit:after:2"])
def test_task_killed(driver, pravega, point):
    """Spark runs the task again; the first attempt's transaction never becomes visible."""
    source, target = pravega.create_stream(segments=2), pravega.create_stream(segments=2)
    feed = Feed(pravega, source)
    feed.add(400)
    job = {"controller": pravega.address, "within": pravega.scope, "in": source, "out": target, "per_trigger": 100}
    driver("copy_pravega", fault=point, scope="worker", **job).wait(600)
    run = driver("copy_pravega", **job)
    assert run.wait(600) == 0, run.tail()
    check(pravega, target, feed)
