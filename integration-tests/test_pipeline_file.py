"""A pipeline file from Kafka and files into Kafka, Cassandra and files, under SIGKILL of the driver."""

from __future__ import annotations

import json

import pyarrow.dataset as ds
import pytest

from harness.feeding import put
from harness.oracle import check_once

PROTOCOL = "penstock._commit._two_phase:TwoPhaseCommit"
COMMITTER = "penstock_kafka.sink._committer:KafkaCommitter"
#: In the middle of the second batch: published to the topic and not to the files, or by the first of three decisions.
FAULTS = {"together": f"{COMMITTER}.publish:after:2", "each": f"{PROTOCOL}.commit:after:4"}


def sink(view, kind, **options):
    return {"from": view, "format": f"penstock.{kind}", "options": options}


@pytest.fixture
def fan_out(watched_copy, kafka, cassandra, tmp_path):
    """Returns the pipeline, and what compares its sinks with what it was fed."""
    copy = watched_copy(kafka, partitions=3)
    (tmp_path / "in").mkdir()
    for number in range(2):
        lines = [f"file:{number * 40 + line}" for line in range(40)]
        put(tmp_path / "in" / f"{number}.txt", "".join(f"{line}\n" for line in lines))
        copy.records.expected.update(lines)
    copy.records.add(150)
    keys, table = (
        cassandra.table("key text primary key, weight int"),
        cassandra.table("value text primary key, weight int"),
    )
    cassandra.insert(keys, "key, weight", [("k1", 10), ("file", 20)])
    brokers = {"kafka.bootstrap.servers": kafka.address}
    records = {**brokers, "subscribe": copy.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": 60}
    lines = {"path": "in", "format": "text", "maxFilesPerTrigger": 1}
    pipeline = {
        "name": "fan-out",
        "sources": {
            "records": {"format": "penstock.kafka", "options": records},
            "lines": {"format": "penstock.filesystem", "schema": "value string", "options": lines},
            "keys": {"format": "penstock.cassandra", "read": "batch", "options": {**cassandra.options, "table": keys}},
        },
        "views": {
            "every": "SELECT CAST(value AS STRING) AS value FROM records UNION ALL SELECT value FROM lines",
            "known": "SELECT value, weight FROM every JOIN keys ON key = split(value, ':')[0]",
        },
        "sinks": {
            "topic": sink("every", "kafka", **brokers, topic=copy.target, delivery="exactly-once"),
            "table": sink("known", "cassandra", **cassandra.options, table=table),
            "files": sink("every", "filesystem", path="out", format="parquet", bucketAssigner="basePath"),
        },
        "trigger": "availableNow",
        "checkpoint": "ck",
        "spark": {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"},
    }

    def check():
        copy.check(order=False)
        found = ds.dataset(tmp_path / "out", format="parquet").to_table()
        check_once(found.column("value").to_pylist(), copy.records.expected)
        weights = {"k1": 10, "file": 20}
        known = {(value, weights[key]) for value in copy.records.expected if (key := value.split(":")[0]) in weights}
        check_once(cassandra.rows(table, "value, weight"), known)

    return pipeline, check


@pytest.mark.exhaustive("a broker and a node; a group that is killed half-way, and files to files, are the witnesses")
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("commit", FAULTS)
def test_a_driver_is_killed_between_two_sinks(driver, fan_out, tmp_path, commit):
    pipeline, check = fan_out
    file = tmp_path / "fan-out.yaml"
    file.write_text(json.dumps({**pipeline, "commit": commit}))
    driver("run_pipeline", fault=FAULTS[commit], file=file).wait_for_kill()
    driver("run_pipeline", file=file).wait_for_success()
    check()
