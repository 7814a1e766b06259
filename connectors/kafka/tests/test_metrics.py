"""Metrics of a stream from Kafka to Kafka, exactly once: lag by partition, and transactions of every end."""

from __future__ import annotations

import json
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

import penstock
from penstock.spark import SessionMetrics

pytestmark = pytest.mark.spark


@pytest.fixture
def seen(spark):
    """What a scrape says of a query, by the metric's name and by the labels that are not the query's."""
    server = penstock.serve_metrics(spark, port=0)

    def look(query):
        with urllib.request.urlopen(server.address, timeout=10) as answer:
            text = answer.read().decode()
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.labels.get("query") == query.name:
                    labels = (value for name, value in sorted(sample.labels.items()) if name != "query")
                    found[(sample.name.removeprefix("penstock_"), *labels)] = sample.value
        return found

    yield look
    SessionMetrics.of(spark).close()


def until(condition, seconds=60):
    """Waits for Spark's events, which come on threads of their own."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.05)


def copy(kafka, spark, topics, checkpoint, **trigger):
    rows = spark.readStream.format("penstock.kafka").option("kafka.bootstrap.servers", kafka.address)
    rows = rows.option("subscribe", topics[0]).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 4)
    text = "cast(value as string)"
    rows = rows.load().selectExpr(f"if({text} = 'poison', raise_error('poison'), {text}) as value")
    writer = rows.writeStream.format("penstock.kafka").option("kafka.bootstrap.servers", kafka.address)
    writer = writer.option("topic", topics[1]).option("delivery", "exactly-once").queryName(f"copy {topics[0]}")
    return writer.option("checkpointLocation", str(checkpoint)).trigger(**trigger).start()


def test_lag_and_transactions(kafka, spark, seen, tmp_path):
    topics = [kafka.create_topic(partitions=2), kafka.create_topic(partitions=1)]
    kafka.produce(topics[0], [{"value": f"v{n}", "partition": n % 2} for n in range(10)])
    query = copy(kafka, spark, topics, tmp_path / "ck", processingTime="1 hour")
    try:
        until(lambda: (now := seen(query)).get(("sink_commits_total",)) == now.get(("batches_total",)) == 1)
        found, waiting = seen(query), json.loads(query.lastProgress.sources[0].latestOffset)["backlog"]
        assert found["source_lag_records", "0"] == waiting["records"] == 6
        of_partitions = {key[1]: value for key, value in found.items() if key[0] == "source_partition_lag_records"}
        assert of_partitions == {name: lag for name, lag in waiting.items() if name != "records"}
        assert len(of_partitions) == found["source_partitions", "0"] == 2 and sum(of_partitions.values()) == 6
    finally:
        query.stop()
    query = copy(kafka, spark, topics, tmp_path / "ck", availableNow=True)
    query.awaitTermination()
    until(lambda: (now := seen(query)).get(("sink_commits_total",)) == now.get(("batches_total",)) == 3)
    found = seen(query)
    assert found["source_rows_total", "0"] == found["sink_committed_rows_total",] == len(kafka.read(topics[1])) == 10
    opened = found["transactions_opened_total", "penstock.kafka"]
    assert opened == found["transactions_committed_total", "commits"] == found["sink_published_total",] == 6
    assert found["source_lag_records", "0"] == found["sink_pending_committables",] == 0


def test_what_a_failed_batch_has_opened_is_counted_as_aborted(kafka, spark, seen, tmp_path):
    topics = [kafka.create_topic(partitions=2), kafka.create_topic(partitions=1)]
    kafka.produce(topics[0], [{"value": "good", "partition": 0}, {"value": "poison", "partition": 1}])
    query = copy(kafka, spark, topics, tmp_path / "ck", availableNow=True)
    with pytest.raises(Exception, match="poison"):
        query.awaitTermination()
    until(lambda: seen(query).get(("query_running",)) == 0)
    found = seen(query)
    assert found["transactions_aborted_total", "commits"] == 1
    assert ("transactions_committed_total", "commits") not in found and not found.get(("sink_commits_total",))
    assert kafka.read(topics[1]) == []
