"""Partitions aligned by event time on a real broker: record timestamps, fields of values, transactions, idleness."""

from __future__ import annotations

import json
import time
from datetime import datetime, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.functions import window

from penstock.errors import BadConfigurationError
from penstock.source import ReadLimits
from penstock.source.event_time import TimestampAssigner, WatermarkStrategy
from penstock.source.log import LogPartition

DAY = datetime(2026, 1, 1, tzinfo=timezone.utc)
DAY_MS = int(DAY.timestamp() * 1000)
MINUTE = 60_000
HOUR = 60 * MINUTE
#: Partition → (ms from the day's begin, ms to the last record, records): hours apart, of different density.
SKEWED = {0: (0, 2 * HOUR, 3000), 1: (3 * HOUR, 12 * HOUR, 1500), 2: (30 * MINUTE, 24 * HOUR, 600)}


def skewed():
    """Records of each partition in order, as they would be produced; times are offsets into the day."""
    return [
        (partition, start + (end - start) * number // count)
        for partition, (start, end, count) in SKEWED.items()
        for number in range(count)
    ]


def stamped(records):
    return [{"value": f"{ms}", "partition": p, "timestamp": DAY_MS + ms} for p, ms in records]


def as_json(records):
    """The record's own time is that of writing: only the field tells."""
    return [
        {
            "value": json.dumps({"at": (DAY + timedelta(milliseconds=ms)).isoformat(), "late": ms % 7 == 0}),
            "partition": p,
        }
        for p, ms in records
    ]


def batches(source, most=400):
    """The splits of each batch of a run that reads what is there."""
    with source.enumerator() as enumerator:
        enumerator.prepare_for_available_now()
        while splits := enumerator.take_batch(ReadLimits(max_records=most)):
            yield splits


def late(source, done, times_of, delay_ms):
    """Rows read and rows that Spark's watermark, the latest time of all batches before less a delay, would drop."""
    watermark, rows, dropped = float("-inf"), 0, 0
    for splits in done:
        times = [times_of(row) for row in source.read(splits)]
        rows += len(times)
        dropped += sum(ms < watermark for ms in times)
        watermark = max([watermark, *(ms - delay_ms for ms in times)])
    return rows, dropped


def record_time(row):
    return int(row["timestamp"].timestamp() * 1000)


def field_time(row):
    return int(row["value"]["at"].timestamp() * 1000)


ALIGNED = {"watermark.alignment.maxDrift": "10m"}
FIELD = {"value.format": "json", "value.schema": "at timestamp", "watermark.timestamps": "value.at"}


def test_record_timestamps(kafka, kafka_source):
    topic = kafka.create_topic(partitions=3, retention_ms=-1)
    kafka.produce(topic, stamped(skewed()))
    written = [(record.partition, record.timestamp - DAY_MS) for record in kafka.read(topic)]
    assert written == sorted(skewed()), "the data themselves are not in order"
    source = kafka_source(subscribe=topic, startingOffsets="earliest", **ALIGNED)
    done = list(batches(source))
    assert late(source, done, record_time, 10 * MINUTE) == (5100, 0)
    assert all(sum(split.records for split in splits) <= 400 for splits in done) and len(done) < 1.5 * 5100 / 400
    plain = kafka_source(subscribe=topic, startingOffsets="earliest")
    rows, dropped = late(plain, batches(plain), record_time, 10 * MINUTE)
    assert rows == 5100 and dropped > 500, "the data would not tell the difference"


OTHER_CLIENT = pytest.mark.exhaustive("the other client, which test_client_consumer and its like show to do the same")


@pytest.mark.parametrize("client", ["protocol", pytest.param("librdkafka", marks=OTHER_CLIENT)])
def test_a_field_of_the_value(kafka, kafka_source, client):
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, as_json(skewed()))
    source = kafka_source(subscribe=topic, startingOffsets="earliest", client=client, **ALIGNED, **FIELD)
    assert late(source, list(batches(source)), field_time, 10 * MINUTE) == (5100, 0)


def test_transactions_whose_markers_carry_the_time_of_their_commit(kafka, kafka_source):
    topic = kafka.create_topic(partitions=3, retention_ms=-1)
    records = skewed()
    for begin in range(0, len(records), 700):
        part = stamped(records[begin : begin + 700])
        kafka.produce_transaction(topic, part, commit=False)
        kafka.produce_transaction(topic, part)
    source = kafka_source(subscribe=topic, startingOffsets="earliest", **ALIGNED)
    assert late(source, list(batches(source, 800)), record_time, 10 * MINUTE) == (5100, 0)


def test_values_that_cannot_be_decoded_are_left_to_the_tasks(kafka, kafka_source):
    topic = kafka.create_topic(partitions=3)
    records = as_json(skewed())
    kafka.produce(topic, [{**one, "value": "{"} if n % 9 == 0 else one for n, one in enumerate(records)])
    source = kafka_source(subscribe=topic, startingOffsets="earliest", badRecords="null", **ALIGNED, **FIELD)
    done = list(batches(source))
    assert late(source, done, lambda row: field_time(row) if row["value"] else float("inf"), 10 * MINUTE)[0] == 5100


class EveryOther(TimestampAssigner):
    """Times in seconds, behind a word."""

    def timestamps(self, records):
        return pc.multiply(pc.cast(pc.utf8_slice_codeunits(records["value"].cast(pa.string()), 2), pa.int64()), 1000)


class AMinuteBehind(WatermarkStrategy):
    out_of_orderness_ms = 60_000

    def watermark(self, records, timestamps):
        return pc.max(timestamps).as_py() - 60_000


def test_own_assigner_and_strategy(kafka, kafka_source):
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [{"value": f"s:{n * 10 + p * 7200}", "partition": p} for p in (0, 1) for n in range(1000)])
    own = {"watermark.timestamps": f"{__name__}:EveryOther", "watermark.strategy": f"{__name__}:AMinuteBehind"}
    source = kafka_source(subscribe=topic, startingOffsets="earliest", **ALIGNED, **own)
    done = list(batches(source))
    rows, dropped = late(source, done, lambda row: int(row["value"][2:]) * 1000, 12 * MINUTE)
    assert (rows, dropped) == (2000, 0)


def test_a_silent_partition_is_waited_for_until_it_is_idle(kafka, kafka_source):
    topic = kafka.create_topic(partitions=2, retention_ms=-1)
    kafka.produce(topic, stamped([(0, 0), *((1, n * MINUTE) for n in range(120))]))
    given = {**ALIGNED, "watermark.idleTimeout": "3s"}
    source = kafka_source(subscribe=topic, startingOffsets="earliest", **given)
    quiet, busy = LogPartition(topic, 0), LogPartition(topic, 1)
    with source.enumerator() as enumerator:
        started = time.monotonic()
        read = dict.fromkeys((quiet, busy), 0)
        while read[busy] < 120 and time.monotonic() < started + 30:
            source.coordinator.run_handlers()
            for split in enumerator.take_batch(ReadLimits()):
                read[split.log_partition] = split.end
            if time.monotonic() < started + 2:
                assert read[busy] <= 11
                first = enumerator.describe_event_time()
            time.sleep(0.05)
        assert read == {quiet: 1, busy: 120}
        assert first["held"] == [f"{topic}-1"] and first["frontiers"][f"{topic}-0"] == "2026-01-01T00:00:00.000Z"
        assert enumerator.describe_event_time()["idle"] == [f"{topic}-0"]
        kafka.produce(topic, stamped([(0, 2 * HOUR + MINUTE), (1, 4 * HOUR)]))
        while read[quiet] < 2 and time.monotonic() < started + 60:
            for split in enumerator.take_batch(ReadLimits()):
                read[split.log_partition] = split.end
        assert read == {quiet: 2, busy: 120}, "the one that was idle is the slowest again"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"watermark.timestamps": "value.at"}, "no column 'value.at': 'value' is binary"),
        ({"watermark.timestamps": "at"}, "no column 'at': there are key, value, topic"),
        ({"watermark.timestamps": "value"}, "'value' is binary, not a timestamp"),
        ({"watermark.timestamps": "no.such:Thing"}, "no.such:Thing can't be imported"),
        ({"watermark.strategy": "bounded"}, "needs the option 'watermark.outOfOrderness'"),
        (
            {"watermark.outOfOrderness": "5s"},
            "only with watermark.strategy=bounded, and",
        ),
        ({"watermark.strategy": "punctuated", "watermark.punctuation": "mark"}, "no column 'mark'"),
        ({"watermark.strategy": "monotonous"}, "'monotonous' is not one of monotonic, bounded, punctuated"),
        ({"watermark.strategy": "json:JSONDecoder"}, "json:JSONDecoder is not a WatermarkStrategy"),
        ({"watermark.alignment.maxDrift": "0s"}, "below the least value 1"),
    ],
)
def test_what_does_not_fit_is_told_before_anything_is_read(kafka_source, given, message):
    def make():
        source = kafka_source(subscribe="t", **{**ALIGNED, **given})
        source.source.validate_schema(source.schema())

    with pytest.raises(BadConfigurationError, match=message):
        make()


@pytest.mark.spark
@pytest.mark.exhaustive("windows once more; integration-tests/test_kafka_windows.py::test_windowed_counts has them")
def test_a_windowed_count_in_spark_loses_nothing(spark, kafka, tmp_path):
    topic = kafka.create_topic(partitions=3)
    kafka.produce(topic, as_json(skewed()))
    counted = {}

    def take(frame, batch_id):
        counted.update({row.hour: row["count"] for row in frame.selectExpr("window.start as hour", "count").collect()})

    def run():
        given = {"kafka.bootstrap.servers": kafka.address, "subscribe": topic, "startingOffsets": "earliest"}
        rows = spark.readStream.format("penstock.kafka").options(
            **given, **ALIGNED, **FIELD, maxOffsetsPerTrigger="900"
        )
        windows = rows.load().selectExpr("value.at as at").withWatermark("at", "10 minutes")
        windows = windows.groupBy(window("at", "1 hour")).count()
        query = windows.writeStream.outputMode("update").foreachBatch(take)
        query = query.option("checkpointLocation", str(tmp_path / "ck")).trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    query = run()
    assert sum(counted.values()) == 5100
    shown = json.loads(query.recentProgress[-1].sources[0].json)["latestOffset"]
    assert set(shown["eventTime"]["frontiers"]) == {f"{topic}-{n}" for n in range(3)}
    kafka.produce(topic, as_json([(p, 24 * HOUR + n * MINUTE) for p in range(3) for n in range(30)]))
    run()
    assert sum(counted.values()) == 5190
