"""A topic that is deleted and re-created: the records of the new one are not taken for those that were planned."""

from __future__ import annotations

import time

import pytest

from penstock.errors import DataLostError
from penstock.source import ReaderContext, ReadLimits
from penstock.source.log import LogSplit

CLIENTS = ["protocol", "librdkafka"]


def replace(kafka, topic, records):
    """Deletes the topic, and makes another one of its name."""
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, records)


def numbered(word, count):
    return [f"{word} {number}".encode() for number in range(count)]


def read_to_the_end(reader):
    deadline = time.monotonic() + 60
    while not reader.fetch().finished_splits:
        assert time.monotonic() < deadline


@pytest.mark.parametrize("client", CLIENTS)
def test_a_batch_that_is_read_again_is_not_read_from_the_new_topic(kafka, kafka_source, client):
    topic, other = kafka.create_topic(), kafka.create_topic()
    kafka.produce(topic, numbered("old", 5))
    kafka.produce(other, [b"other"])
    strict = kafka_source(subscribe=f"{topic},{other}", client=client)
    splits = strict.list_splits()
    assert all(split.incarnation for split in splits)
    assert len(strict.read(splits)) == 6
    replace(kafka, topic, numbered("new", 9))
    with pytest.raises(DataLostError, match=f"'{topic}' was deleted and re-created.*{topic}-0 offsets 0 to 4 are gone"):
        strict.read(splits)
    lenient = kafka_source(subscribe=f"{topic},{other}", client=client, failOnDataLoss="false")
    assert [row["value"] for row in lenient.read(splits)] == [b"other"]
    assert lenient.metrics.snapshot()["records_lost"] == 5
    assert len(lenient.read(lenient.list_splits())) == 10


@pytest.mark.parametrize("client", CLIENTS)
def test_a_topic_that_is_replaced_while_it_is_read(kafka, kafka_source, client):
    """Answers are small, so that nothing is fetched far ahead."""
    topic = kafka.create_topic()
    kafka.produce(topic, [b"old" + bytes(20_000) for _ in range(200)])
    few = {"kafka_fetch_max_bytes": 100_000, "kafka_max_partition_fetch_bytes": 100_000}
    source = kafka_source(
        subscribe=topic, client=client, kafka_queued_max_messages_kbytes=100, kafka_message_max_bytes=90_000, **few
    )
    splits = source.list_splits()
    reader = source.source.create_reader(ReaderContext(source.schema(), source.metrics, source.retry))
    try:
        reader.handle_splits_changes(splits)
        while not reader.fetch().records:
            pass
        replace(kafka, topic, numbered("new", 300))
        with pytest.raises(DataLostError, match=f"'{topic}' was deleted and re-created"):
            read_to_the_end(reader)
    finally:
        reader.close()


def test_splits_of_checkpoints_without_ids_are_read_by_name(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, numbered("old", 3))
    source = kafka_source(subscribe=topic)
    assert len(source.read([LogSplit(topic, 0, 0, 3)])) == 3
    replace(kafka, topic, numbered("new", 3))
    assert [row["value"] for row in source.read([LogSplit(topic, 0, 0, 3)])] == numbered("new", 3)


def test_a_stream_plans_with_the_id_of_the_topic(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, numbered("old", 3))
    source = kafka_source(subscribe=topic, startingOffsets="earliest", minPartitions=2)
    with source.enumerator() as enumerator:
        splits = enumerator.take_batch(ReadLimits())
        assert {split.incarnation for split in splits} == {enumerator.snapshot_state().incarnations[topic]}
        assert len(splits) == 2
