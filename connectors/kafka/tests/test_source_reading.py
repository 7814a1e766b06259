"""Reading ranges in a task: exactly the records of the range, and an end whatever happens to the log."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest
from confluent_kafka import Producer

import penstock_kafka.source._reader as reader
import penstock_kafka.source._source as asking
from penstock.errors import BadConfigurationError, BadDataError, DataLostError, RetriesExhaustedError
from penstock.source import ReaderContext, ReadLimits, SourceReader
from penstock.source.log import LogSplit
from penstock_kafka.dev import KafkaToolbox
from penstock_kafka.source._kept_consumers import KEPT_CONSUMERS

NAMES = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


OTHER_CLIENT = pytest.mark.exhaustive("the other client, which test_client_consumer and its like show to do the same")


@pytest.fixture(params=["protocol", pytest.param("librdkafka", marks=OTHER_CLIENT)])
def client(request):
    return request.param


def test_columns_are_sparks(kafka, kafka_source, client):
    topic = kafka.create_topic()
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    kafka.produce(
        topic, [{"key": "k", "value": "v", "timestamp": 1_700_000_000_123, "headers": headers}, {"value": None}]
    )
    source = kafka_source(subscribe=topic, includeHeaders="true", client=client)
    assert source.schema().names == [*NAMES, "headers"]
    first, second = source.rows()
    stamp = first.pop("timestamp")
    assert stamp.timestamp() == 1_700_000_000.123
    pairs = [{"key": key, "value": value} for key, value in headers]
    constants = {"topic": topic, "partition": 0, "timestampType": 0}
    assert first == {"key": b"k", "value": b"v", "offset": 0, "headers": pairs, **constants}
    assert second.items() >= {"key": None, "value": None, "offset": 1, "headers": None, **constants}.items()


def test_only_asked_columns_in_the_asked_order(kafka, kafka_source):
    topic = kafka.create_topic(message_timestamp_type="LogAppendTime")
    kafka.produce(topic, [b"0", b"1"])
    source = kafka_source(subscribe=topic)
    schema = pa.schema([source.schema().field(name) for name in ("offset", "timestampType", "value", "topic")])
    expected = [{"offset": n, "timestampType": 1, "value": b"%d" % n, "topic": topic} for n in range(2)]
    assert [list(row.items()) for row in source.rows(schema)] == [list(row.items()) for row in expected]
    with pytest.raises(BadConfigurationError, match="column 'headers'"):
        source.source.validate_schema(pa.schema([("headers", pa.string())]))
    with pytest.raises(BadConfigurationError, match="'offset' as int"):
        source.source.validate_schema(pa.schema([("offset", pa.int32())]))


def test_ranges_meet_without_gap_or_overlap(kafka, kafka_source, client):
    topic = kafka.create_topic(partitions=2)
    kafka.produce(topic, [{"value": str(n), "partition": n % 2} for n in range(200)])
    source = kafka_source(subscribe=topic, minPartitions=14, client=client)
    splits = source.list_splits()
    assert len(splits) == 14
    together = source.read(splits)
    alone = [row for split in splits for row in source.read([split])]
    for rows in (together, alone):
        assert sorted((row["partition"], row["offset"]) for row in rows) == [(p, n) for p in (0, 1) for n in range(100)]
        assert {int(row["value"]) % 2 == row["partition"] for row in rows} == {True}
    counted = source.metrics.snapshot()
    assert counted["rows_read"] == 400 and counted["bytes_read"] > 400


def test_gaps_of_transactions_are_no_loss_and_end(kafka, kafka_source, client):
    topic = kafka.create_topic()
    kafka.produce_transaction(topic, [b"a", b"b"])
    kafka.produce_transaction(topic, [b"never", b"never"], commit=False)
    source = kafka_source(subscribe=topic, client=client)
    (split,) = source.list_splits()
    assert split.end == 6  # two of them control records
    assert [row["value"] for row in source.read([split])] == [b"a", b"b"]
    assert source.read([LogSplit(topic, 0, 2, 6)]) == [] and source.read([LogSplit(topic, 0, 3, 5)]) == []
    assert "records_lost" not in source.metrics.snapshot()


def test_gaps_of_compaction_are_no_loss(kafka, kafka_source, client):
    at_once = {"segment_ms": 1, "min_cleanable_dirty_ratio": 0.01, "max_compaction_lag_ms": 1}
    topic = kafka.create_topic(cleanup_policy="compact", **at_once)
    kafka.produce(topic, [{"key": "k", "value": str(n)} for n in range(50)])
    time.sleep(0.05)
    kafka.produce(topic, [{"key": "last", "value": "last"}])
    source = kafka_source(subscribe=topic, client=client)
    rows = source.rows()
    assert {row["key"]: row["value"] for row in rows} == {b"k": b"49", b"last": b"last"}


def test_range_dropped_before_it_was_read(kafka, kafka_source, client):
    topic = kafka.create_topic()
    kafka.produce(topic, [str(n).encode() for n in range(10)])
    kafka.delete_records(topic, 0, before=4)
    strict = kafka_source(subscribe=topic, client=client)
    with pytest.raises(DataLostError, match=rf"{topic}-0: offsets 2 to 3 were dropped.*failOnDataLoss"):
        strict.read([LogSplit(topic, 0, 2, 10)])
    lenient = kafka_source(subscribe=topic, client=client, failOnDataLoss="false")
    splits = [LogSplit(topic, 0, 0, 2), LogSplit(topic, 0, 2, 7), LogSplit(topic, 0, 7, 10)]
    assert [row["offset"] for row in lenient.read(splits)] == [4, 5, 6, 7, 8, 9]
    assert lenient.metrics.snapshot()["records_lost"] == 4


def test_log_that_was_cut_off_ends(kafka, kafka_source, client, monkeypatch):
    """The topic was made anew, shorter: part of the range, or all of it, is behind its end."""
    monkeypatch.setattr("penstock_kafka.source._reader._LOOK_AFTER_SECONDS", 0.0)
    monkeypatch.setattr("penstock_kafka.source._reader._POLL_MS", 50)
    topic = kafka.create_topic()
    kafka.produce(topic, [str(n).encode() for n in range(5)])
    strict = kafka_source(subscribe=topic, client=client)
    for split, message in (
        (LogSplit(topic, 0, 3, 9), f"{topic}-0 ends at 5: offsets 5 to 8"),
        (LogSplit(topic, 0, 7, 9), f"{topic}-0 ends at 5: offsets 7 to 8"),
    ):
        with pytest.raises(DataLostError, match=message):
            strict.read([split])
    lenient = kafka_source(subscribe=topic, client=client, failOnDataLoss="false")
    assert [row["offset"] for row in lenient.read([LogSplit(topic, 0, 3, 6), LogSplit(topic, 0, 7, 9)])] == [3, 4]
    assert lenient.metrics.snapshot()["records_lost"] == 3


def test_deleted_topic_ends(kafka, kafka_source, client):
    topic, other = kafka.create_topic(), kafka.create_topic()
    kafka.produce(other, [b"x"])
    kafka.delete_topic(topic)
    options = {"client": client, "kafka_topic_metadata_propagation_max_ms": 100}
    strict = kafka_source(subscribe=topic, **options)
    with pytest.raises(DataLostError, match=f"{topic}-0 does not exist any more: offsets 0 to 4 are gone"):
        strict.read([LogSplit(topic, 0, 0, 5)])
    lenient = kafka_source(subscribe=topic, failOnDataLoss="false", **options)
    rows = lenient.read([LogSplit(topic, 0, 0, 5), LogSplit(other, 0, 0, 1)])
    assert [row["value"] for row in rows] == [b"x"] and lenient.metrics.snapshot()["records_lost"] == 5


def test_range_that_is_not_readable_yet_gives_up_after_the_time_set(kafka, kafka_source, client, monkeypatch):
    """It can't be planned so; but it must not hang."""
    topic = kafka.create_topic()
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"{topic}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    monkeypatch.setattr(reader, "_LOOK_AFTER_SECONDS", 0.2)
    source = kafka_source(subscribe=topic, client=client, **{"kafkaConsumer_pollTimeoutMs": 100})
    message = rf"reading: nothing came for \d s of {topic}-0 from offset 0 to 0 \(the brokers hold 0 to 0\); tried"
    with pytest.raises(RetriesExhaustedError, match=message):
        source.read([LogSplit(topic, 0, 0, 1)])
    producer.abort_transaction()


def test_killed_task_stops_at_once(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, [b"x" * 1000] * 1000)
    source = kafka_source(subscribe=topic)
    source.source.validate_schema(source.schema())
    splits = [LogSplit(topic, 0, 0, 1000), LogSplit(topic, 0, 1000, 99_999)]
    batches = SourceReader(source.source, ReaderContext(source.schema(), source.metrics)).read(splits)
    before = set(threading.enumerate())
    next(batches)
    batches.close()
    started = set(threading.enumerate()) - before
    assert not any(thread.name == "penstock-fetcher" for thread in started)


@pytest.mark.budget(10)
def test_broker_that_restarts_is_waited_for(kafka_source, breakable, monkeypatch):
    toolbox = KafkaToolbox(breakable.address)
    topic = toolbox.create_topic()
    toolbox.produce(topic, [b"x" * 100] * 1000)
    soon = {"kafka_reconnect_backoff_max_ms": 100}
    source = kafka_source(breakable.address, subscribe=topic, startingOffsets="earliest", **soon)
    with source.enumerator() as enumerator:
        first = enumerator.take_batch(ReadLimits(max_records=400))
        breakable.kill()
        later = threading.Thread(target=breakable.start)
        later.start()
        rows = source.read(first)
        rest = enumerator.take_batch(ReadLimits())
        later.join()
    assert [row["offset"] for row in [*rows, *source.read(rest)]] == list(range(1000))
    breakable.kill()
    monkeypatch.setattr(asking, "_READER_PATIENCE_SECONDS", 0.1)
    monkeypatch.setattr(reader, "_LOOK_AFTER_SECONDS", 0.2)
    impatient = kafka_source(breakable.address, subscribe=topic, **{"kafkaConsumer_pollTimeoutMs": 100})
    with pytest.raises(RetriesExhaustedError, match=f"of {topic}-0 from offset 0 to 999; the brokers can't be asked"):
        impatient.read([LogSplit(topic, 0, 0, 1000)])


def test_consumers_are_kept_for_the_next_task(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, [{"value": "a"}, {"value": "b"}])
    KEPT_CONSUMERS.clear()
    source = kafka_source(subscribe=topic)
    source.read([LogSplit(topic, 0, 0, 1)])
    kept = KEPT_CONSUMERS.idle()
    source.read([LogSplit(topic, 0, 1, 2)])
    assert KEPT_CONSUMERS.idle() == kept and len(kept) == 1
    for options in ({"client": "librdkafka"}, {"kafka.client.id": "other"}):
        assert len(kafka_source(subscribe=topic, **options).read([LogSplit(topic, 0, 0, 2)])) == 2
    assert len(set(KEPT_CONSUMERS.idle()) - set(kept)) == 2
    KEPT_CONSUMERS.clear()


# --- decoding ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jsons(kafka):
    topic = kafka.create_topic()
    values = ['{"id": 1, "name": "one"}', "broken", None, '{"id": 2}']
    kafka.produce(topic, [{"key": f"k{n}", "value": value} for n, value in enumerate(values)])
    return topic


JSON = {"key_format": "string", "value_format": "json", "value_schema": "id long, name string"}


def test_decoded_columns(kafka_source, jsons):
    source = kafka_source(subscribe=jsons, badRecords="null", **JSON)
    assert source.schema().field("value").type == pa.struct([("id", pa.int64()), ("name", pa.string())])
    assert [(row["key"], row["value"]) for row in source.rows()] == [
        ("k0", {"id": 1, "name": "one"}),
        ("k1", None),
        ("k2", None),
        ("k3", {"id": 2, "name": None}),
    ]
    assert source.metrics.snapshot()["bad_rows"] == 1


def test_users_schema_says_what_to_decode_to(kafka_source, jsons):
    source = kafka_source(subscribe=jsons, badRecords="null", value_format="json")
    with pytest.raises(BadConfigurationError):
        source.schema()
    schema = pa.schema([("value", pa.struct([("name", pa.string())])), ("offset", pa.int64())])
    assert source.rows(schema)[0] == {"value": {"name": "one"}, "offset": 0}


def test_bad_record_fails_by_default_and_is_named(kafka_source, jsons):
    with pytest.raises(BadDataError, match=f"topic '{jsons}' partition 0 offset 1: value: "):
        kafka_source(subscribe=jsons, **JSON).rows()


def test_dead_letter_column_keeps_the_record(kafka_source, jsons):
    source = kafka_source(subscribe=jsons, badRecords="deadLetter", badRecordColumn="bad", **JSON)
    assert source.schema().names == [*NAMES, "bad"]
    rows = source.rows()
    assert [row["bad"] is None for row in rows] == [True, False, True, True]
    bad = rows[1]["bad"]
    assert (bad["key"], bad["value"]) == (b"k1", b"broken") and bad["error"].startswith("value: ")
    assert rows[1]["key"] == "k1" and rows[1]["value"] is None


def test_both_parts_bad_are_both_told(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(
        topic, [{"key": b"\xff", "value": "broken"}, {"key": "k", "value": "{}"}, {"key": b"\xff", "value": "{}"}]
    )
    rows = kafka_source(subscribe=topic, badRecords="deadLetter", **JSON).rows()
    first, second, third = (row["_bad_record"] for row in rows)
    assert "key: " in first["error"] and "; value: " in first["error"] and first["key"] == b"\xff"
    assert second is None and "value" not in third["error"]


def test_timestamp_beyond_the_columns_range_is_told(kafka, kafka_source):
    topic = kafka.create_topic(message_timestamp_after_max_ms=(1 << 63) - 1)
    kafka.produce(topic, [{"value": b"ok"}, {"value": b"nanoseconds", "timestamp": 1_700_000_000_123_456_789}])
    with pytest.raises(BadDataError, match=f"topic '{topic}' partition 0 offset 1: the timestamp 1700000000123456789"):
        kafka_source(subscribe=topic).rows()
