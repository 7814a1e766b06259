"""Kafka into several sinks in one batch function, under SIGKILL of the driver between and inside their writes."""

from __future__ import annotations

from collections import Counter

import pyarrow.dataset as ds
import pytest

from harness.oracle import check_once

LOG, PROTOCOL = "penstock._commit._chain:Chain", "penstock._commit._two_phase:TwoPhaseCommit"
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"
ROWS = "penstock_cassandra.sink._row_writer:RowWriter"
RENAME = "penstock_filesystem.sink.staging._rename:RenameCommitter"

#: In the order in which a batch goes through them: topic, table, files. The number says at which call of the run.
POINTS = [
    f"{PROTOCOL}.plan:after:1",
    f"{LOG}.create:after:2",
    f"{COMMITTER}.publish:after:1",
    f"{PROTOCOL}.commit:after:1",
    f"{PROTOCOL}.plan:after:2",
    f"{ROWS}.write:after:1",
    f"{PROTOCOL}.commit:after:2",
    f"{RENAME}._publish:before:1",
    f"{RENAME}.publish:after:1",
    f"{PROTOCOL}.commit:after:3",
    f"{PROTOCOL}.plan:after:5",
]


class FanOut:
    """A topic to feed, and a job that writes it to a topic, a table and files."""

    def __init__(self, copy, cassandra, out):
        self.copy, self._cassandra, self._out = copy, cassandra, out
        self._table = cassandra.table("value text primary key")
        self.job = {**copy.job, **cassandra.options, "table": self._table}

    def check(self):
        expected = self.copy.records.expected
        self.copy.check(order=False)
        check_once((value for (value,) in self._cassandra.rows(self._table, "value")), expected)
        files = ds.dataset(self._out, format="parquet").to_table()
        check_once(files.column("value").to_pylist(), expected)


@pytest.fixture
def fan_out(watched_copy, kafka, cassandra, tmp_path):
    return FanOut(watched_copy(kafka, partitions=3), cassandra, tmp_path / "out")


@pytest.mark.exhaustive(
    "a minute; the simulator has batch functions, and the kit kills one in test_a_batch_function_is_killed"
)
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_driver_is_killed_between_two_sinks(driver, fan_out):
    """The first sink of the second batch is written, the others are not."""
    fan_out.copy.records.add(150)
    driver("write_batches", fault=f"{PROTOCOL}.commit:after:4", **fan_out.job).wait_for_kill()
    driver("write_batches", **fan_out.job).wait_for_success()
    fan_out.check()


@pytest.mark.exhaustive("every step of a batch with three sinks; one kill between two of them stays")
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_a_driver_is_killed_at_every_step(driver, fan_out):
    """One query, killed at each point in turn, with new records before every start."""
    for number, point in enumerate(POINTS):
        fan_out.copy.records.add(80)
        driver("write_batches", fault=point, **fan_out.job).wait_for_kill()
        assert not fan_out.copy.reader.repeated(), f"duplicated after point {number}: {point}"
    driver("write_batches", **fan_out.job).wait_for_success()
    fan_out.check()


#: The same with one decision for all three, in the order in which a batch goes through it.
GROUP_POINTS = [
    f"{PROTOCOL}.plan:after:1",
    "penstock.checkpoint._groups:Prepared.put:after:2",
    f"{PROTOCOL}.commit:before:1",
    f"{LOG}.create:after:2",
    f"{COMMITTER}.publish:after:1",
    f"{RENAME}._publish:before:1",
    f"{RENAME}.publish:after:1",
    f"{LOG}.mark_done:after:1",
    "penstock.checkpoint._groups:Prepared.forget:after:3",
]


@pytest.mark.exhaustive("a kill of a group; the kit has test_a_batch_function_is_killed, and the simulator has groups")
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_driver_is_killed_half_way_through_a_group(driver, fan_out):
    """The topic shows the second batch, the files do not."""
    fan_out.copy.records.add(150)
    driver("write_batches", fault=f"{COMMITTER}.publish:after:2", mode="group", **fan_out.job).wait_for_kill()
    driver("write_batches", mode="group", **fan_out.job).wait_for_success()
    fan_out.check()


@pytest.mark.exhaustive("every step of a batch of a group; the simulator has groups")
@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_a_driver_is_killed_at_every_step_of_a_group(driver, fan_out):
    """One query, killed at each point in turn, with new records before every start."""
    for number, point in enumerate(GROUP_POINTS):
        fan_out.copy.records.add(80)
        driver("write_batches", fault=point, mode="group", **fan_out.job).wait_for_kill()
        assert not fan_out.copy.reader.repeated(), f"duplicated after point {number}: {point}"
    driver("write_batches", mode="group", **fan_out.job).wait_for_success()
    fan_out.check()


@pytest.mark.exhaustive("update mode with a state store; connectors' own tests show upserts")
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_counts_in_update_mode(driver, kafka, cassandra):
    """A changelog by key in the topic, and the table that it makes: the last of each key is its count, in both."""
    source, changes = kafka.create_topic(partitions=2), kafka.create_topic(partitions=1)
    table = cassandra.table("key text primary key, value text")
    values = [f"{number % 7:02}:{number}" for number in range(300)]
    kafka.produce(source, [value.encode() for value in values])
    job = {"brokers": kafka.address, "in": source, "out": changes, **cassandra.options, "table": table}
    for point in (f"{PROTOCOL}.commit:after:1", f"{LOG}.create:after:4"):
        driver("write_batches", fault=point, mode="update", **job).wait_for_kill()
    driver("write_batches", mode="update", **job).wait_for_success()
    wanted = Counter(value[:2] for value in values)
    assert {key: int(value) for key, value in cassandra.rows(table, "key, value")} == wanted
    changelog = [(record.key.decode(), int(record.value)) for record in kafka.read(changes)]
    assert dict(changelog) == wanted, "the last change of each key is its count"
    assert len(set(changelog)) == len(changelog), "no change comes twice"
