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

from penstock_kafka.dev import KafkaToolbox, kafka_server
from penstock_kafka.transactions import QueryPrefix
from penstock_kafka.transactions.coordinators import Coordinators

LOG = "penstock.sink.decision_log:DecisionLog"
WRITER = "penstock_kafka.sink._writers:TransactionalWriter"
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"
QUICK_TIMEOUTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}

pytestmark = [pytest.mark.spark, pytest.mark.timeout(2400)]


@pytest.fixture
def own_broker(tmp_path_factory):
    with kafka_server(tmp_path_factory.mktemp("broker"), QUICK_TIMEOUTS, quick_start=True) as server:
        yield server


def open_transactions(brokers):
    asked = Coordinators({"bootstrap_servers": brokers})
    try:
        return asked.open_ids(lambda _: True)
    finally:
        asked.close()


def kinds_of_decisions(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["kind"] for path in (folder / "ck/penstock/decisions").glob("*.json")]


def test_transactions_expire_between_decision_and_commit(driver, own_broker, feed, watch, tmp_path):
    """The batch was decided, its driver died, and its transactions timed out: it is written again, nothing is lost."""
    kafka = KafkaToolbox(own_broker.address)
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source, to=kafka)
    records.add(200)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 100}
    run = driver("copy_kafka", fault=f"{COMMITTER}.commit:before:1", transactionTimeout="20s", **job)
    run.wait()
    assert run.was_hit(), run.tail()
    assert open_transactions(kafka.address), "they should be open, waiting for the commit"
    deadline = time.monotonic() + 90
    while open_transactions(kafka.address):
        assert time.monotonic() < deadline, "the broker never timed them out"
        time.sleep(0.2)
    run = driver("copy_kafka", **job)
    assert run.wait() == 0, run.tail()
    assert "withdrawal" in kinds_of_decisions(tmp_path)
    reader.check(records.expected)
    assert open_transactions(kafka.address) == []


def test_a_broker_restarts_in_the_middle_of_writes_and_commits(driver, own_broker, feed, watch):
    """SIGKILL to the broker at a dozen moments of one long query."""
    kafka = KafkaToolbox(own_broker.address)
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source, to=kafka)
    records.add(6000)
    run = driver("copy_kafka", **{"brokers": kafka.address, "in": source, "out": target, "per_trigger": 300})
    for pause in (0.2, 1.3, 0.7):
        seen, deadline = len(reader.seen), time.monotonic() + 120
        while len(reader.seen) == seen and run.process.poll() is None:
            assert time.monotonic() < deadline, run.tail()
            time.sleep(0.01)
        time.sleep(pause)
        own_broker.kill()
        own_broker.start()
    status = run.wait(300)
    while status != 0:  # a request that was cut off may end the query; it goes on when it is started again
        run = driver("copy_kafka", **{"brokers": kafka.address, "in": source, "out": target, "per_trigger": 300})
        status = run.wait(300)
    reader.check(records.expected)


def test_two_drivers_on_one_checkpoint(driver, kafka, feed, watch):
    """The first sleeps before its decision, the second does the work, the first wakes up."""
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(200)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 50}
    first = driver("copy_kafka", fault=f"{LOG}.append:before:2", action="stop", **job)
    worker = first.wait_for_hit()
    second = driver("copy_kafka", **job)
    assert second.wait() == 0, second.tail()
    reader.check(records.expected)
    first.resume(worker)
    assert first.wait() != 0
    assert "decided by another driver" in first.log.read_text()
    records.add(100)
    third = driver("copy_kafka", **job)
    assert third.wait() == 0, third.tail()
    reader.check(records.expected)


def test_other_numbers_of_tasks_and_lingering_transactions(driver, kafka, feed, watch, tmp_path):
    """Five tasks killed in the middle of writing: what they left open is found and aborted at the next start."""
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=3)
    reader, records = watch(kafka.address, target, 3), feed(source)
    job = {"brokers": kafka.address, "in": source, "out": target, "mode": "shuffle"}
    for partitions, fault in ((5, f"{WRITER}.close:before:4"), (1, f"{COMMITTER}.commit:before:1"), (3, ""), (2, "")):
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


def test_batches_appear_as_a_whole_and_ids_stay_few(driver, kafka, feed, watch, tmp_path):
    """Two input partitions: each batch of 100 records comes from two tasks, and becomes visible at once."""
    source, target = kafka.create_topic(partitions=1), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(2000)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 100}
    run = driver("copy_kafka", mode="shuffle", partitions=3, **job)
    assert run.wait() == 0, run.tail()
    reader.check(records.expected, order=False)
    spread = []
    for batch in range(20):
        times = [reader.when[f"k{number % 8}:{number}"] for number in range(batch * 100, batch * 100 + 100)]
        spread.append(max(times) - min(times))
    assert sorted(spread)[10] < 0.3 and max(spread) < 2.0, f"batches were seen in part for {spread}"
    asked = Coordinators({"bootstrap_servers": kafka.address})
    try:
        asked.open_ids(lambda _: False)
        known = [one.transactional_id for some in asked._brokers.admin.list_transactions().values() for one in some]
    finally:
        asked.close()
    ids = [one for one in known if query_of(tmp_path).owns(one)]
    assert 3 <= len(ids) <= 16, f"{len(ids)} transactional ids after 20 batches of 3 transactions"


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


def test_at_least_once_loses_nothing_and_batch_writes_work(driver, kafka, feed):
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    records = feed(source)
    records.add(500)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 100, "delivery": "at-least-once"}
    run = driver("copy_kafka", fault="penstock_kafka.sink._writers:DeliveringWriter.prepare_commit:after:3", **job)
    run.wait()
    assert run.was_hit(), run.tail()
    run = driver("copy_kafka", **job)
    assert run.wait() == 0, run.tail()
    values = [record.value.decode() for record in kafka.read(target)]
    assert set(values) == records.expected and len(values) >= 500
