"""Kafka to Kafka while brokers, workers, drivers and transactions fail, with a reader of committed records watching."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest
from kafka import KafkaAdminClient
from pyspark.errors import StreamingQueryException

import penstock
from harness import checkpoint
from harness.kills import restart
from harness.oracle import Outcome
from harness.processes import below, kill
from harness.waiting import wait_until
from penstock.spark._foreach_batch import _attempts
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


def of_query(ids, folder):
    """Those of the transactional ids that the query with this checkpoint has made."""
    prefix = QueryPrefix("penstock", checkpoint.query_id(folder / "ck"))
    return [one for one in ids if prefix.owns(one)]


@pytest.mark.exhaustive(
    "a timeout of 20 s; connectors/kafka/tests/test_sink_committer.py::"
    "test_transactions_that_time_out_between_decision_and_commit_are_lost_and_said_so is the witness"
)
def test_transactions_expire_between_decision_and_commit(driver, broker, watched_copy, tmp_path):
    """The batch was decided, its driver died, and its transactions timed out: it is written again, nothing is lost."""
    kafka = KafkaToolbox(broker.address)
    copy = watched_copy(kafka)
    copy.records.add(200)
    job = {**copy.job, "per_trigger": 100}
    driver("copy_kafka", fault=f"{COMMITTER}.publish:before:1", transactionTimeout="20s", **job).wait_for_kill()
    assert open_transactions(kafka.address), "they should be open, waiting for the commit"
    wait_until(lambda: not open_transactions(kafka.address), lambda: "the broker never timed them out", timeout=90)
    driver("copy_kafka", **job).wait_for_success()
    assert "lost" in checkpoint.decided(tmp_path / "ck")
    copy.check()
    assert open_transactions(kafka.address) == []


def copying(spark, folder, copy, per_trigger, partitions=None):
    """A query of the session from topic to topic, until all is there that was when it started."""
    where = {"kafka.bootstrap.servers": copy.job["brokers"]}
    reader = spark.readStream.format("penstock.kafka").options(**where, subscribe=copy.source)
    reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=per_trigger)
    rows = reader.load().select("key", "value")
    if partitions:
        rows = rows.repartition(partitions, "key")
    writer = rows.writeStream.format("penstock.kafka").options(**where, topic=copy.target, delivery="exactly-once")
    return writer.option("checkpointLocation", str(folder / "ck")).trigger(availableNow=True).start()


@pytest.mark.parametrize(
    "restarts",
    [1, pytest.param(3, marks=pytest.mark.exhaustive("at later moments too"))],
)
def test_a_broker_restarts_in_the_middle_of_writes_and_commits(spark, broker, watched_copy, tmp_path, restarts):
    """SIGKILL to the broker while batches come."""
    copy = watched_copy(KafkaToolbox(broker.address))
    copy.records.add(1000 + 1000 * restarts)
    query = copying(spark, tmp_path, copy, per_trigger=200)
    for pause in (0, 1.3, 0.7)[:restarts]:
        copy.reader.wait_for(copy.reader.seen.total() + 1)
        time.sleep(pause)
        restart(broker)
    # A request that was cut off may end the query. It continues when it is started again.
    while has_failed(query):
        query = copying(spark, tmp_path, copy, per_trigger=200)
    copy.check()


def has_failed(query):
    """At its end."""
    try:
        query.awaitTermination()
    except StreamingQueryException:
        return True
    return False


@pytest.mark.exhaustive(
    "a driver that sleeps, and nothing else; "
    "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks is the witness"
)
def test_two_drivers_on_one_checkpoint(driver, kafka, watched_copy):
    """The first sleeps before its decision, the second does the work, the first wakes up."""
    copy = watched_copy(kafka)
    copy.records.add(200)
    job = {**copy.job, "per_trigger": 50}
    first = driver("copy_kafka", fault=f"{LOG}.create:before:3", action="stop", **job)
    first.wait_for_hits()
    driver("copy_kafka", **job).wait_for_success()
    copy.check()
    first.resume()
    first.wait_for_failure("another run has carried this checkpoint on")
    copy.records.add(100)
    driver("copy_kafka", **job).wait_for_success()
    copy.check()


@pytest.mark.exhaustive(
    "other numbers of tasks after kills; connectors/kafka/tests/test_sink_committer.py::"
    "test_open_transactions_of_this_query_and_earlier_generations_only_are_garbage has it"
)
def test_other_numbers_of_tasks_and_lingering_transactions(driver, kafka, watched_copy, tmp_path):
    """Five tasks killed in the middle of writing: what they left open is found and aborted at the next start."""
    copy = watched_copy(kafka, into=3)
    for partitions, fault in ((5, f"{WRITER}.close:before:4"), (1, f"{COMMITTER}.publish:before:1"), (3, ""), (2, "")):
        copy.records.add(300)
        run = driver("copy_kafka", fault=fault, partitions=partitions, mode="shuffle", **copy.job)
        run.wait_for_kill() if fault else run.wait_for_success()
        if fault and partitions == 5:
            assert len(open_transactions(kafka.address)) >= 4
    copy.check(order=False)
    assert of_query(open_transactions(kafka.address), tmp_path) == []


def test_ids_stay_few(spark, kafka, watched_copy, tmp_path):
    """Ten batches of three transactions each; every batch is there before the next one."""
    copy = watched_copy(kafka, partitions=1)
    copy.records.add(1000)
    copying(spark, tmp_path, copy, per_trigger=100, partitions=3).awaitTermination()
    copy.check(order=False)
    for partition in (0, 1):
        found = [one.value.decode() for one in kafka.read(copy.target) if one.partition == partition]
        numbers = [int(value.partition(":")[2]) for value in found]
        batches = [number // 100 for number in numbers]
        assert batches == sorted(batches)
    with closing(KafkaAdminClient(bootstrap_servers=kafka.address)) as admin:
        known = [one.transactional_id for some in admin.list_transactions().values() for one in some]
    ids = of_query(known, tmp_path)
    assert 3 <= len(ids) <= 16, f"{len(ids)} transactional ids after 10 batches of 3 transactions"


@pytest.mark.exhaustive("core/tests/test_in_batch.py::test_generations_do_not_grow_with_the_batches is the witness")
def test_ids_stay_few_in_a_batch_function(spark, kafka, watched_copy, tmp_path):
    """The function writes every second batch, and the last one twice, as if its first write had failed too late."""
    copy = watched_copy(kafka, partitions=1)
    copy.records.add(2000)
    where = {"kafka.bootstrap.servers": copy.job["brokers"]}
    reader = spark.readStream.format("penstock.kafka").options(**where, subscribe=copy.source)
    rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=100).load().select("key", "value")

    def write(rows, batch_id):
        def save():
            writer = penstock.batch_writer(rows, batch_id, checkpoint=str(tmp_path / "ck"), name="copy")
            writer.format("penstock.kafka").options(**where, topic=copy.target, delivery="exactly-once").save()

        if batch_id % 2 == 0:
            save()
        if batch_id == 18:
            attempts = _attempts[str(tmp_path / "ck"), "copy"]
            attempts.has_returned, attempts.failures = False, 1
            save()

    stream = rows.repartition(3, "key").writeStream.foreachBatch(write).trigger(availableNow=True)
    stream.option("checkpointLocation", str(tmp_path / "ck")).start().awaitTermination()
    assert len(kafka.read(copy.target)) == 1000
    prefix = QueryPrefix("penstock", f"{checkpoint.query_id(tmp_path / 'ck')}-copy")
    with closing(KafkaAdminClient(bootstrap_servers=kafka.address)) as admin:
        known = [one.transactional_id for some in admin.list_transactions().values() for one in some]
    ids = [one for one in known if prefix.owns(one)]
    assert 3 <= len(ids) <= 16, f"{len(ids)} transactional ids after 10 writes of 3 transactions"


@pytest.mark.exhaustive(
    "again and again; test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks loses one"
)
def test_python_workers_killed_in_the_middle(driver, kafka, watched_copy, tmp_path):
    """Killed as soon as a batch is committed, again and again.

    Spark starts the tasks again, and readers never see the transactions of the killed ones.
    """
    copy = watched_copy(kafka)
    copy.records.add(4000)
    job = {**copy.job, "per_trigger": 200, "master": "local[2,20]"}
    run = driver("copy_kafka", **job)
    ended, killed = threading.Event(), []

    def kill_workers():
        done = 0
        while not ended.wait(0.2):
            # The first one only forks the others, which run tasks.
            workers = [one.pid for one in below(run.pid) if "pyspark.worker" in one.command][1:]
            if workers and (committed := checkpoint.committed(tmp_path / "ck")) > done:
                kill(workers[-1])
                killed.append(workers[-1])
                done = committed

    killer = threading.Thread(target=kill_workers)
    killer.start()
    status = run.wait(300)
    ended.set()
    killer.join()
    while status != 0:
        run = driver("copy_kafka", **job)
        status = run.wait(300)
    assert len(killed) > 1
    copy.check()


@pytest.mark.exhaustive(
    "a kill of this delivery alone; "
    "test_every_with_every.py::test_one_sleeps_one_dies_and_one_loses_tasks has it among others"
)
def test_at_least_once_loses_nothing_and_batch_writes_work(driver, kafka, watched_copy):
    copy = watched_copy(kafka)
    copy.records.add(500)
    job = {**copy.job, "per_trigger": 100, "delivery": "at-least-once"}
    flushed = "penstock_kafka.sink._writer:KafkaAtLeastOnceWriter.flush:after:3"
    driver("copy_kafka", fault=flushed, **job).wait_for_kill()
    driver("copy_kafka", **job).wait_for_success()
    values = [record.value.decode() for record in kafka.read(copy.target)]
    assert not Outcome.of(values, copy.records.expected).problems(may_repeat=True)
