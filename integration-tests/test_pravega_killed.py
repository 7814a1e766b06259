"""Pravega to Pravega: SIGKILL to the driver between any two steps of the protocol, and to tasks, then counting."""

from __future__ import annotations

import pytest

from harness.feeding import Feed
from harness.oracle import KeyOrder, Outcome, check_once

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


class Copy:
    """A stream that is fed, and one that jobs copy the first into. ``job`` is for ``copy_pravega``."""

    def __init__(self, pravega):
        self._pravega = pravega
        source, self._target = pravega.create_stream(segments=2), pravega.create_stream(segments=2)
        self.events = Feed.of_stream(pravega, source)
        self.job = {"controller": pravega.address, "within": pravega.scope, "in": source, "out": self._target}

    def values(self):
        return [value.decode() for value in self._pravega.values(self._target)]

    def check(self):
        """Every event once, and those of a routing key in order."""
        order = KeyOrder()
        for value in self.values():
            order.note(value)
        order.check()
        check_once(self.values(), self.events.expected)


@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_driver_killed_at_every_step(driver, pravega):
    """One query, killed at each point in turn, with new events before every start."""
    copy = Copy(pravega)
    job = {**copy.job, "per_trigger": 60}
    for number, point in enumerate(POINTS):
        copy.events.add(150)
        driver("copy_pravega", fault=point, **job).wait_for_kill()
        repeated = Outcome.of(copy.values(), copy.events.expected).repeated
        assert not repeated, f"duplicated after point {number}: {point}"
    driver("copy_pravega", **job).wait_for_success()
    copy.check()


@pytest.mark.spark
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("point", [f"{WRITER}.write:after:1", f"{WRITER}.prepare_commit:after:2"])
def test_task_killed(driver, pravega, point):
    """Spark runs the task again; the first attempt's transaction never becomes visible."""
    copy = Copy(pravega)
    copy.events.add(400)
    job = {**copy.job, "per_trigger": 100}
    driver("copy_pravega", fault=point, scope="worker", **job).wait(600)
    driver("copy_pravega", **job).wait_for_success(600)
    copy.check()
