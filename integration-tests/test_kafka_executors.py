"""Lost executors and speculative attempts on a standalone cluster, with a reader of committed records watching."""

from __future__ import annotations

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(1200),
    pytest.mark.exhaustive(
        "by themselves, with larger data and two kills; "
        "test_every_with_every.py::test_a_cluster_has_stragglers_and_loses_executors is the witness"
    ),
]


def test_executor_killed_while_it_writes(driver, kafka, feed, watch, tmp_path, cluster):
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(20_000)
    job = {"brokers": kafka.address, "in": source, "out": target, "per_trigger": 2000, "master": cluster.url}
    run = driver("copy_kafka", **job)
    cluster.kill_executors(run, tmp_path / "ck" / "commits")
    assert run.wait() == 0, run.tail()
    reader.check(records.expected)


def test_speculative_attempts(driver, kafka, feed, watch, tmp_path, cluster):
    source, target = kafka.create_topic(partitions=2), kafka.create_topic(partitions=2)
    reader, records = watch(kafka.address, target, 2), feed(source)
    records.add(400)
    settings = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "200ms",
    }
    job = {"brokers": kafka.address, "in": source, "out": target, "mode": "straggler", "master": cluster.url}
    run = driver("copy_kafka", **job, **settings)
    assert run.wait() == 0, run.tail()
    attempts = [line.split() for line in (tmp_path / "attempts").read_text().splitlines()]
    assert any(attempt[2] != "0" for attempt in attempts), f"Spark did not speculate: {attempts}"
    reader.check(records.expected, order=False)
