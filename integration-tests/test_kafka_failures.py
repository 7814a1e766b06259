"""Kafka to Kafka while brokers, workers, drivers and transactions fail, with a reader of committed records watching."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from penstock_kafka.client.broker import Coordinators
from penstock_kafka.dev import KafkaToolbox
from penstock_kafka.transactions import QueryPrefix

LOG = "penstock._commit._chain:Chain"
WRITER = "penstock_kafka.sink._writer:KafkaTransactionalWriter"
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]


def open_transactions(brokers):
    asked = Coordinators({"bootstrap.servers": brokers})
    try:
        return asked.open_ids(lambda _: True)
    finally:
        asked.close()


def kinds_of_decisions(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["kind"] for path in (folder / "ck/penstock/decisions").glob("*.json")]


@pytest.mark.exhaustive(
    "a time-out of 20 s; connectors/kafka/tests/test_sink_committer.py::"
    "test_transactions_that_time_out_between_decision_and_commit_are_lost_and_said_so is the witness"
)
def test_transactions_expire_between_decision_and_commit(driver, broker, feed, watch, tmp_path):
    """The batch was decided, its driver died, and its transactions timed out: it is written again, nothing is lost."""
    kafka = KafkaToolbox(broker.address)
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source, to=kafka)
    records.add(200)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 100}
    run = driver("copy_kafka", fault=f"{COMMITTER}.publish:before:1", transactionTimeout="20s", **job)
    run.wait()
    assert run.was_hit(), run.tail()
    assert open_transactions(kafka.address), "they should be open, waiting for the commit"
    deadline = time.monotonic() + 90
    while open_transactions(kafka.address):
        assert time.monotonic() < deadline, "the broker never timed them out"
        time.sleep(0.2)
    run = driver("copy_kafka", **job)
    assert run.wait() == 0, run.tail()
    assert "lost" in kinds_of_decisions(tmp_path)
    reader.check(records.expected)
    assert open_transactions(kafka.address) == []


def copying(spark, folder, brokers, source, target, **options):
    """A query of the session from topic to topic, until all is there that was when it started."""
    where = {"kafka.bootstrap.servers": brokers}
    reader = spark.readStream.format("penstock.kafka").options(**where, subscribe=source, startingOffsets="earliest")
    rows = reader.options(maxOffsetsPerTrigger=options.pop("per_trigger")).load().select("key", "value")
    if partitions := options.pop("partitions", None):
        rows = rows.repartition(partitions, "key")
    writer = rows.writeStream.format("penstock.kafka").options(**where, topic=target, delivery="exactly-once")
    return writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()


@pytest.mark.parametrize(
    "restarts",
    [1, pytest.param(3, marks=pytest.mark.exhaustive("at later moments too"))],
)
def test_a_broker_restarts_in_the_middle_of_writes_and_commits(spark, broker, feed, watch, tmp_path, restarts):
    """SIGKILL to the broker while batches come."""
    kafka = KafkaToolbox(broker.address)
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source, to=kafka)
    records.add(1000 + 1000 * restarts)
    query = copying(spark, tmp_path, kafka.address, source, target, per_trigger=200)
    for pause in (0, 1.3, 0.7)[:restarts]:
        reader.wait_for(reader.seen.total() + 1)
        time.sleep(pause)
        broker.kill()
        broker.start()
    # A request that was cut off may end the query. It goes on when it is started again.
    while has_failed(query):
        query = copying(spark, tmp_path, kafka.address, source, target, per_trigger=200)
    reader.check(records.expected)


def has_failed(query):
    """At its end."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        return True
    return False


@pytest.mark.exhaustive(
    "a driver that sleeps, with nothing else going on; "
    "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks is the witness"
)
def test_two_drivers_on_one_checkpoint(driver, kafka, feed, watch):
    """The first sleeps before its decision, the second does the work, the first wakes up."""
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(200)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 50}
    first = driver("copy_kafka", fault=f"{LOG}.create:before:3", action="stop", **job)
    first.wait_for_hits()
    second = driver("copy_kafka", **job)
    assert second.wait() == 0, second.tail()
    reader.check(records.expected)
    first.resume()
    assert first.wait() != 0
    assert "another run has carried this checkpoint on" in first.log.read_text()
    records.add(100)
    third = driver("copy_kafka", **job)
    assert third.wait() == 0, third.tail()
    reader.check(records.expected)


@pytest.mark.exhaustive(
    "other numbers of tasks after kills; connectors/kafka/tests/test_sink_committer.py::"
    "test_lingering_transactions_of_this_query_only_are_aborted is the witness"
)
def test_other_numbers_of_tasks_and_lingering_transactions(driver, kafka, feed, watch, tmp_path):
    """Five tasks killed in the middle of writing: what they left open is found and aborted at the next start."""
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=3)
    reader, records = watch(kafka.address, target, 3), feed(source)
    job = {"brokers": kafka.address, "in": source, "out": target, "mode": "shuffle"}
    for partitions, fault in ((5, f"{WRITER}.close:before:4"), (1, f"{COMMITTER}.publish:before:1"), (3, ""), (2, "")):
        records.add(300)
        run = driver("copy_kafka", fault=fault, partitions=partitions, **job)
        status = run.wait()
        assert run.was_hit() == bool(fault) and (status == 0) == (not fault), run.tail()
        if fault and partitions == 5:
            assert len(open_transactions(kafka.address)) >= 4
    reader.check(records.expected, order=False)
    assert [one for one in open_transactions(kafka.address) if query_of(tmp_path).owns(one)] == []


def query_of(folder: Path) -> QueryPrefix:
    return QueryPrefix("penstock", json.loads((folder / "ck" / "metadata").read_text())["id"])


def test_ids_stay_few(spark, kafka, feed, watch, tmp_path):
    """Ten batches of three transactions each; every batch is there before the next one."""
    source, target = kafka.create_topic(partitions=1), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(1000)
    query = copying(spark, tmp_path, kafka.address, source, target, per_trigger=100, partitions=3)
    query.awaitTermination()
    reader.check(records.expected, order=False)
    for partition in (0, 1):
        numbers = [
            int(one.value.decode().partition(":")[2]) for one in kafka.read(target) if one.partition == partition
        ]
        batches = [number // 100 for number in numbers]
        assert batches == sorted(batches)
    asked = Coordinators({"bootstrap.servers": kafka.address})
    try:
        asked.open_ids(lambda _: False)
        known = [
            one.transactional_id for some in asked._brokers.client.admin.list_transactions().values() for one in some
        ]
    finally:
        asked.close()
    ids = [one for one in known if query_of(tmp_path).owns(one)]
    assert 3 <= len(ids) <= 16, f"{len(ids)} transactional ids after 10 batches of 3 transactions"


@pytest.mark.exhaustive(
    "again and again; test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks loses one"
)
def test_python_workers_killed_in_the_middle(driver, kafka, feed, watch):
    """Killed again and again; Spark starts the tasks anew, their transactions never show."""
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(4000)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 200, "master": "local[2,20]"}
    run = driver("copy_kafka", **job)
    ended = threading.Event()

    def kill_workers():
        while not ended.wait(1.5):
            workers = [pid for pid in python_workers(run.process.pid) if pid != run.process.pid]
            for pid in workers[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_workers)
    killer.start()
    status = run.wait(300)
    ended.set()
    killer.join()
    while status != 0:
        run = driver("copy_kafka", **job)
        status = run.wait(300)
    reader.check(records.expected)


def python_workers(group: int) -> list[int]:
    """Processes of the driver's group that run tasks, those with sockets to the JVM busiest first."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            is_worker = b"pyspark.daemon\0pyspark.worker" in (folder / "cmdline").read_bytes()
            if is_worker and os.getpgid(int(folder.name)) == group:
                found.append(int(folder.name))
    return sorted(found, reverse=True)


@pytest.mark.exhaustive(
    "a kill of this delivery alone; "
    "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks has it among others"
)
def test_at_least_once_loses_nothing_and_batch_writes_work(driver, kafka, feed):
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    records = feed(source)
    records.add(500)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 100, "delivery": "at-least-once"}
    run = driver("copy_kafka", fault="penstock_kafka.sink._writer:KafkaAtLeastOnceWriter.flush:after:3", **job)
    run.wait()
    assert run.was_hit(), run.tail()
    run = driver("copy_kafka", **job)
    assert run.wait() == 0, run.tail()
    values = [record.value.decode() for record in kafka.read(target)]
    assert set(values) == records.expected and len(values) >= 500
