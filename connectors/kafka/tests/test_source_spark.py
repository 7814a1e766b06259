"""The source inside Spark, and beside Spark's own connector: the same rows, the same columns, the same checkpoint."""

from __future__ import annotations

import json
import time
from itertools import chain

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.spark


class Job:
    """One query with its checkpoint, run again and again, on either connector."""

    def __init__(self, spark, address, checkpoint, **options):
        self.spark, self.checkpoint, self.query = spark, checkpoint, None
        self.options = {"kafka.bootstrap.servers": address, **options}
        self.batches = []
        self.fails = False

    def start(self, connector="penstock.kafka", *, available_now=True, **options):
        rows = self.spark.readStream.format(connector).options(**{**self.options, **options}).load()
        trigger = {"availableNow": True} if available_now else {"processingTime": "0 seconds"}
        writer = rows.selectExpr("cast(value as string) as value").writeStream.foreachBatch(self._take)
        self.query = writer.option("checkpointLocation", str(self.checkpoint)).trigger(**trigger).start()
        return self.query

    def _take(self, frame, batch_id):
        if self.fails:
            raise ValueError("it fails")
        self.batches.append(sorted(row.value for row in frame.collect()))

    def run(self, connector="penstock.kafka", **options):
        """Runs to the end of what is there; the values of each batch."""
        self.batches.clear()
        self.start(connector, **options).awaitTermination()
        return [batch for batch in self.batches if batch]

    def await_rows(self, count):
        deadline = time.monotonic() + 60
        while sum(map(len, self.batches)) < count and time.monotonic() < deadline and self.query.isActive:
            time.sleep(0.05)
        return sorted(value for batch in self.batches for value in batch)


@pytest.fixture
def job(spark, kafka, tmp_path):
    jobs = []

    def new(**options):
        jobs.append(Job(spark, kafka.address, tmp_path / "checkpoint", **options))
        return jobs[-1]

    yield new
    for one in jobs:
        if one.query is not None:
            one.query.stop()


def values(first, last):
    return [f"{number:04}" for number in range(first, last)]


def put(kafka, topic, first, last, partitions=2):
    kafka.produce(topic, [{"value": v, "partition": n % partitions} for n, v in enumerate(values(first, last))])


# --- beside Spark's own connector -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mixed(kafka):
    """Records of all kinds in three partitions, one of them empty."""
    topic = kafka.create_topic(partitions=3, retention_ms=-1)
    records = [
        {
            "key": None if n % 3 == 0 else f"k{n % 5}",
            "value": None if n % 7 == 0 else f"value {n}",
            "partition": n % 2,
            "timestamp": 1_700_000_000_000 + n * 1000,
            "headers": [("a", b"1"), ("a", None), ("ü", b"")][: n % 4] or None,
        }
        for n in range(100)
    ]
    kafka.produce(topic, records)
    return topic


OR_LATEST = {"startingOffsetsByTimestampStrategy": "latest"}


@pytest.mark.parametrize(
    "options",
    [
        {"includeHeaders": "true"},
        {"startingOffsets": {"0": 10, "1": -2, "2": -2}, "endingOffsets": {"0": 40, "1": -1, "2": -1}},
        {"minPartitions": "7"},
        {"startingTimestamp": "1700000030000", "endingTimestamp": "1700000050500", **OR_LATEST},
        {"startingOffsetsByTimestamp": {"0": 1700000090000, "1": 1700000010000, "2": 0}, **OR_LATEST},
    ],
)
def test_same_columns_and_rows_as_sparks(spark, kafka, mixed, options):
    given = {name: json.dumps({mixed: value}) if isinstance(value, dict) else value for name, value in options.items()}

    def frame(connector):
        reader = spark.read.format(connector).option("kafka.bootstrap.servers", kafka.address)
        return reader.option("subscribe", mixed).options(**given).load()

    ours, theirs = frame("penstock.kafka"), frame("kafka")
    assert ours.schema == theirs.schema
    order = ("partition", "offset")
    assert [row.asDict(True) for row in ours.orderBy(*order).collect()] == [
        row.asDict(True) for row in theirs.orderBy(*order).collect()
    ]
    if "minPartitions" in options:
        assert ours.rdd.getNumPartitions() >= 7


def test_fewer_columns(spark, kafka, mixed):
    def frame(connector):
        reader = spark.read.format(connector).option("kafka.bootstrap.servers", kafka.address)
        return reader.option("subscribe", mixed)

    ours = frame("penstock.kafka").schema("value binary, offset long").load()
    theirs = frame("kafka").load().select("value", "offset")
    assert ours.schema == theirs.schema and ours.count() == 100
    assert ours.exceptAll(theirs).count() == theirs.exceptAll(ours).count() == 0
    with pytest.raises(Exception, match="the schema has a column 'headers'"):
        frame("penstock.kafka").schema("value binary, headers string").load().collect()


def test_checkpoint_of_sparks_connector_is_gone_on_with(kafka, job):
    topic = kafka.create_topic(partitions=2)
    put(kafka, topic, 0, 20)
    query = job(subscribe=topic, startingOffsets="earliest")
    assert query.run("kafka") == [values(0, 20)]
    put(kafka, topic, 20, 30)
    assert query.run("kafka") == [values(20, 30)]
    # The second batch was read but not finished when the query ended: the other connector reads it again.
    for name in ("1", ".1.crc"):
        (query.checkpoint / "commits" / name).unlink(missing_ok=True)
    put(kafka, topic, 30, 35)
    assert query.run() == [values(20, 30), values(30, 35)]
    put(kafka, topic, 35, 40)
    assert query.run() == [values(35, 40)]


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive("deletes a topic, which takes long; test_source_replaced_topics.py has the same without Spark")
def test_a_batch_that_was_not_finished_is_not_read_from_a_new_topic_of_the_name(kafka, job):
    topic = kafka.create_topic(partitions=2)
    put(kafka, topic, 0, 20)
    query = job(subscribe=topic, startingOffsets="earliest")
    query.fails = True
    with pytest.raises(Exception, match="it fails"):
        query.run()
    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    put(kafka, topic, 100, 140)
    query.fails = False
    with pytest.raises(Exception, match=f"'{topic}' was deleted and re-created"):
        query.run()
    assert query.batches == []
    # Its first batch has what was planned and is gone: nothing.
    assert query.run(failOnDataLoss="false") == [values(100, 140)]


def test_available_now_goes_on_where_it_ended_and_commits_to_the_group(kafka, job):
    topic = kafka.create_topic(partitions=2)
    group = f"{topic}-group"
    put(kafka, topic, 0, 30)
    query = job(subscribe=topic, startingOffsets="earliest", commitGroupOffsets=group, maxOffsetsPerTrigger="20")
    batches = query.run()
    assert [len(batch) for batch in batches] == [20, 10] and sorted(chain(*batches)) == values(0, 30)
    assert group_offsets(kafka, group) == {0: 15, 1: 15}
    assert query.run() == []
    put(kafka, topic, 30, 40)
    assert query.run() == [values(30, 40)]
    assert group_offsets(kafka, group) == {0: 20, 1: 20}


def group_offsets(kafka, group):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    found = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
    return {partition.partition: partition.offset for partition in found.topic_partitions}


def test_bounded_stream_reads_to_its_stop_and_no_further(kafka, job):
    topic = kafka.create_topic()
    put(kafka, topic, 0, 10, partitions=1)
    stop = json.dumps({topic: {"0": 7}})
    query = job(subscribe=topic, startingOffsets="earliest", endingOffsets=stop, maxOffsetsPerTrigger="5")
    assert query.run() == [values(0, 5), values(5, 7)] and query.run() == []


def test_a_bounded_stream_ends_by_itself_also_when_it_is_started_again(kafka, job):
    topic = kafka.create_topic()
    put(kafka, topic, 0, 10, partitions=1)
    stop = json.dumps({topic: {"0": 7}})
    query = job(subscribe=topic, startingOffsets="earliest", endingOffsets=stop, maxOffsetsPerTrigger="5")
    assert query.start(available_now=False).awaitTermination(90)
    assert [batch for batch in query.batches if batch] == [values(0, 5), values(5, 7)]
    assert query.start(available_now=False).awaitTermination(90)
    query.run()
    unbounded = job(subscribe=topic, startingOffsets="earliest")
    unbounded.checkpoint = query.checkpoint.parent / "unbounded"
    unbounded.run()  # an availableNow run ends too, but not for good
    running = unbounded.start(available_now=False)
    assert not running.awaitTermination(5)
    put(kafka, topic, 10, 12, partitions=1)
    assert unbounded.await_rows(12) == values(0, 12)
    running.stop()


def test_latest_holds_while_the_query_is_down_and_partitions_are_found(kafka, job):
    topic = kafka.create_topic(partitions=2)
    put(kafka, topic, 0, 5)
    query = job(subscribe=topic, discoveryInterval="200ms")
    query.start(available_now=False)
    deadline = time.monotonic() + 60
    while not (query.checkpoint / "commits" / "0").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    query.query.stop()
    put(kafka, topic, 5, 15)
    query.start(available_now=False)
    assert query.await_rows(10) == values(5, 15)
    kafka.add_partitions(topic, 3)
    kafka.produce(topic, [{"value": value, "partition": 2} for value in values(15, 20)])
    assert query.await_rows(15) == values(5, 20)
    deadline = time.monotonic() + 60
    while len(lag(query)) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert lag(query) == {"records": 0, f"{topic}-0": 0, f"{topic}-1": 0, f"{topic}-2": 0}
    kafka.delete_topic(topic)
    with pytest.raises(Exception, match=r"can't be found any more|does not exist any more"):
        query.query.awaitTermination(60)


def lag(query):
    progress = query.query.lastProgress
    return json.loads(progress.sources[0].latestOffset)["backlog"] if progress and progress.sources else {}
