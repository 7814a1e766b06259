"""Kafka to Kafka under SIGKILL between any two steps, with a reader of committed records watching."""

from __future__ import annotations

import pytest

LOG, PROTOCOL = "penstock._commit._chain:Chain", "penstock._commit._two_phase:TwoPhaseCommit"
READER = "penstock.spark._read:StreamReader"
WRITER = "penstock_kafka.sink._writer:KafkaTransactionalWriter"
PROOF = "penstock_kafka.sink._writer:_Proof"
POOL = "penstock_kafka.transactions._producers:ProducerPool"
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"
COORDINATORS = "penstock_kafka.client.broker._coordinators:Coordinators"

#: In the order in which a batch goes through them. The number says at which call of the run. What a kill before a step
#: leaves is what one after the step before it leaves: such pairs are here once. The kit has both, without Spark.
POINTS = [
    f"{READER}.latestOffset:after:1",
    f"{PROTOCOL}.plan:after:1",
    f"{COMMITTER}.clear:before:1",
    f"{POOL}.take:after:1",
    f"{PROOF}._send:before:1",
    f"{PROOF}._send:after:2",
    f"{WRITER}.write:after:2",
    f"{WRITER}.prepare_commit:after:1",
    f"{WRITER}.close:after:2",
    f"{PROTOCOL}.commit:before:2",
    f"{LOG}.create:after:2",
    f"{LOG}.create:after:3",
    f"{COORDINATORS}.end:after:1",
    f"{COMMITTER}.publish:after:2",
    f"{LOG}.mark_done:after:2",
    f"{COORDINATORS}.open_ids:after:2",
]


@pytest.mark.exhaustive(
    "every step of the protocol; test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks is the witness"
)
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_driver_killed_at_every_step(driver, kafka, watched_copy):
    """One query with a state store, killed at each point in turn, with new records before every start."""
    copy = watched_copy(kafka, partitions=3)
    job = {**copy.job, "mode": "distinct", "per_trigger": 60}
    for number, point in enumerate(POINTS):
        copy.records.add(150)
        driver("copy_kafka", fault=point, **job).wait_for_kill()
        assert not copy.reader.repeated(), f"duplicated after point {number}: {point}"
    driver("copy_kafka", **job).wait_for_success()
    copy.check(order=False)  # a state store gives rows back in any order
    everything = kafka.read(copy.target, "read_uncommitted")
    assert len(everything) > len(copy.records.expected), "nothing was ever aborted: too tame"
