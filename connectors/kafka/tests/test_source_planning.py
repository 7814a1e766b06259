"""What the source asks the brokers: partitions, positions, groups; and what it says when they don't answer."""

from __future__ import annotations

import json
import time

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient

from penstock.errors import BadConfigurationError, DataLostError, FatalError, RetriableError
from penstock.source import ReadLimits
from penstock.source.log import LogPartition
from penstock_kafka.client._errors import Code, request_error
from penstock_kafka.client.broker import KafkaAdmin, kafka_admin, problem_of_code
from penstock_kafka.options import Subscription
from penstock_kafka.source._enumerator import KafkaLogClient

ALL = ReadLimits()
OR_LATEST = {"startingOffsetsByTimestampStrategy": "latest"}


def ranges(splits):
    return [(split.partition, split.start, split.end) for split in splits]


def records(count, **fields):
    return [{"value": str(number), "partition": 0, **fields} for number in range(count)]


def go_on(source, enumerator, until=1, limits=ALL):
    """Takes batches, as Spark's triggers do, until there are so many splits."""
    found = []
    deadline = time.monotonic() + 60
    while len(found) < until and time.monotonic() < deadline:
        source.coordinator.run_handlers()
        found += enumerator.take_batch(limits)
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def topic(kafka):
    """Ten records at times 1000 to 10000 ms in partition 0, five in partition 1, none in partition 2."""
    topic = kafka.create_topic(partitions=3, retention_ms=-1)
    stamped = [
        {"value": str(n), "partition": p, "timestamp": (n + 1) * 1000} for p, k in ((0, 10), (1, 5)) for n in range(k)
    ]
    kafka.produce(topic, stamped)
    return topic


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [(0, 0, 10), (1, 0, 5)]),
        ({"startingTimestamp": 6000, **OR_LATEST}, [(0, 5, 10)]),
        ({"startingTimestamp": 3000, "endingTimestamp": 5500, **OR_LATEST}, [(0, 2, 5), (1, 2, 5)]),
        ({"startingOffsetsByTimestamp": {"0": 9000, "1": 0, "2": 0}, **OR_LATEST}, [(0, 8, 10), (1, 0, 5)]),
        ({"startingOffsets": {"0": 3, "1": -2, "2": -2}}, [(0, 3, 10), (1, 0, 5)]),
        ({"endingOffsets": {"0": -1, "1": 2, "2": 0}}, [(0, 0, 10), (1, 0, 2)]),
        ({"minPartitions": 6}, [(0, 0, 2), (0, 2, 5), (0, 5, 7), (0, 7, 10), (1, 0, 2), (1, 2, 5)]),
    ],
)
def test_batch_ranges(kafka_source, topic, options, expected):
    given = {name: json.dumps({topic: value}) if isinstance(value, dict) else value for name, value in options.items()}
    assert ranges(kafka_source(subscribe=topic, **given).list_splits()) == expected


@pytest.mark.parametrize(
    ("subscription", "selected"),
    [
        (Subscription(topics=("a",)), [True, True, False]),
        (Subscription(pattern="a|b"), [True, True, True]),
        (Subscription(topics=("a",), partitions=frozenset([LogPartition("a", 1)])), [False, True, False]),
    ],
)
def test_what_is_not_asked_for_any_more_is_not_selected(subscription, selected):
    partitions = [LogPartition("a", 0), LogPartition("a", 1), LogPartition("b", 0)]
    assert [KafkaLogClient(None, subscription).selects(one) for one in partitions] == selected


def test_timestamp_without_a_record_is_an_error(kafka_source, topic):
    with pytest.raises(BadConfigurationError, match=f"no record of {topic}-1 is at or after 6000"):
        kafka_source(subscribe=topic, startingTimestamp=6000).list_splits()


def test_ways_to_name_what_is_read(kafka, kafka_source, topic):
    assigned = kafka_source(assign=json.dumps({topic: [1]})).list_splits()
    assert ranges(assigned) == [(1, 0, 5)]
    other = kafka.create_topic(f"{topic}-other")
    kafka.produce(other, [b"x"])
    both = kafka_source(subscribe=f"{topic},{other}").list_splits()
    assert {split.stream for split in both} == {topic, other}
    assert {split.stream for split in kafka_source(subscribePattern=f"{topic}.*").list_splits()} == {topic, other}
    assert {split.stream for split in kafka_source(subscribePattern=f"{topic}$").list_splits()} == {topic}
    assert {split.stream for split in kafka_source(subscribePattern=topic).list_splits()} == {topic, other}
    assert kafka_source(subscribePattern="no-topic-is-called-so.*").list_splits() == []


def test_kafkas_own_topics_are_not_found_by_a_pattern(kafka, kafka_source, topic):
    assert "__consumer_offsets" in KafkaAdmin({"bootstrap.servers": kafka.address}, read_committed=True).topic_names()
    found = kafka_source(subscribePattern=f"__.*|{topic}$").list_splits()
    assert {split.stream for split in found} == {topic}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "not-there-1,not-there-2"}, "topic 'not-there-1', topic 'not-there-2' can't be read"),
        ({"assign": '{"not-there": [0]}'}, "topic 'not-there' can't be read"),
        ({"assign": '{"%s": [0, 7]}'}, "partition .*-7 can't be read"),
    ],
)
def test_missing_topic_is_named(kafka_source, topic, options, message):
    options = {name: text.replace("%s", topic) for name, text in options.items()}
    with pytest.raises(BadConfigurationError, match=message):
        kafka_source(**options).list_splits()


def test_start_at_latest_makes_no_sense_in_a_batch(kafka_source, topic):
    with pytest.raises(BadConfigurationError, match="startingOffsets"):
        kafka_source(subscribe=topic, startingOffsets="latest").list_splits()


def test_latest_is_asked_without_a_pause(kafka, topic):
    """It is on the path of every trigger. A client that waits for anything of its own waits every time."""
    admin = KafkaAdmin({"bootstrap.servers": kafka.address}, read_committed=True)
    partitions = [LogPartition(topic, number) for number in range(3)]
    assert list(admin.latest(partitions)) == partitions, "in the order of the question"
    times = []
    for _ in range(20):
        began = time.perf_counter()
        assert admin.latest(partitions)[partitions[0]] == 10
        times.append(time.perf_counter() - began)
    assert min(times) < 0.1


def test_open_transaction_holds_the_latest_back(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, records(3))
    producer = Producer({"bootstrap.servers": kafka.address, "transactional.id": f"{topic}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    producer.flush()
    assert ranges(kafka_source(subscribe=topic).list_splits()) == [(0, 0, 3)]
    uncommitted = kafka_source(subscribe=topic, **{"kafka_isolation_level": "read_uncommitted"})
    assert ranges(uncommitted.list_splits()) == [(0, 0, 4)]
    # A query that has read the open record under the other isolation waits; nothing is lost.
    stored = uncommitted.source.adopt_offset({topic: {"0": 4}})
    committed = kafka_source(subscribe=topic)
    with committed.enumerator(stored) as enumerator:
        assert enumerator.take_batch(ALL) == []
        producer.abort_transaction()
        kafka.produce(topic, [b"after"])
        # Brokers apply an abort some time after they acknowledge it.
        assert ranges(go_on(committed, enumerator)) == [(0, 4, 6)]
    assert [row["value"] for row in committed.read(committed.list_splits())] == [b"0", b"1", b"2", b"after"]


def test_group_offsets_are_a_start_and_are_kept_up_to_date(kafka, kafka_source):
    topic = kafka.create_topic(partitions=2)
    group = f"{topic}-group"
    kafka.produce(topic, [*records(10), *records(4, partition=1)])
    source = kafka_source(subscribe=topic, startingOffsets="earliest", commitGroupOffsets=group)
    with source.enumerator() as enumerator:
        first = enumerator.take_batch(ReadLimits(max_records=7))
        enumerator.notify_checkpoint_complete(first)
    following = kafka_source(subscribe=topic, startingOffsets="group-offsets", commitGroupOffsets=group)
    assert ranges(following.list_splits()) == [(0, 5, 10), (1, 2, 4)]
    unknown = kafka_source(subscribe=topic, startingOffsets="group-offsets", **{"kafka_group_id": f"{group}-unknown"})
    with pytest.raises(BadConfigurationError, match=f"'{group}-unknown' has committed nothing for {topic}-0"):
        unknown.list_splits()
    fallback = kafka_source(
        subscribe=topic, startingOffsets="group-offsets", groupOffsetsFallback="earliest", kafka_group_id=f"{group}-x"
    )
    assert ranges(fallback.list_splits()) == [(0, 0, 10), (1, 0, 4)]


def test_partitions_and_topics_that_appear_are_read_from_their_beginning(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, records(3))
    source = kafka_source(subscribePattern=f"{topic}.*", startingOffsets="latest", discoveryInterval="50ms")
    with source.enumerator() as enumerator:
        assert enumerator.take_batch(ALL) == []
        kafka.add_partitions(topic, 2)
        kafka.produce(topic, [{"value": "new", "partition": 1}])
        other = kafka.create_topic(f"{topic}-later")
        kafka.produce(other, [b"other"])
        found = go_on(source, enumerator, until=2)
        assert sorted(str(split.log_partition) for split in found) == sorted([f"{topic}-1", f"{other}-0"])
        assert set(enumerator.snapshot_state().incarnations) == {topic, other}


def test_topic_made_anew_is_told_by_its_id(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, records(3))
    source = kafka_source(subscribe=topic, startingOffsets="earliest")
    with source.enumerator() as enumerator:
        enumerator.take_batch(ALL)
        state = enumerator.snapshot_state()
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, records(10))
    again = kafka_source(subscribe=topic)
    with (
        again.enumerator(state) as enumerator,
        pytest.raises(DataLostError, match=f"'{topic}' was deleted and re-created"),
    ):
        enumerator.take_batch(ALL)
    lenient = kafka_source(subscribe=topic, failOnDataLoss="false")
    with lenient.enumerator(state) as enumerator:
        assert ranges(enumerator.take_batch(ALL)) == [(0, 0, 10)]


def test_topic_that_is_deleted_in_mid_query_ends_it(kafka, kafka_source):
    topic = kafka.create_topic()
    kafka.produce(topic, records(3))
    source = kafka_source(subscribe=topic, startingOffsets="earliest", discoveryInterval="50ms")
    with source.enumerator() as enumerator:
        enumerator.take_batch(ALL)
        kafka.delete_topic(topic)
        with pytest.raises(DataLostError, match=f"{topic}-0 can't be found any more"):
            go_on(source, enumerator)


def test_unreachable_brokers_are_named(monkeypatch, kafka_source):
    impatient = lambda config, **_: KafkaAdmin(config, read_committed=True, patience_s=0.5)  # noqa: E731
    monkeypatch.setattr("penstock_kafka.source._source.KafkaAdmin", impatient)
    with pytest.raises(RetriableError, match=r"no answer from the brokers at 127\.0\.0\.1:1: "):
        kafka_source("127.0.0.1:1", subscribe="t").list_splits()


@pytest.mark.parametrize(
    ("code", "kind", "message"),
    [
        (Code.TOPIC_AUTHORIZATION_FAILED, BadConfigurationError, "it needs Describe and Read on the topic"),
        (Code.GROUP_AUTHORIZATION_FAILED, BadConfigurationError, "needs Describe and Read on the consumer group"),
        (Code.CLUSTER_AUTHORIZATION_FAILED, BadConfigurationError, "the Kafka brokers refuse to ask"),
        (Code.SASL_AUTHENTICATION_FAILED, BadConfigurationError, "here:9092 refuses the connection"),
        (Code.UNKNOWN_MEMBER_ID, FatalError, "it has members"),
        (Code.OFFSET_NOT_AVAILABLE, RetriableError, "no answer from the brokers at here:9092"),
        (Code.UNSTABLE_OFFSET_COMMIT, RetriableError, "no answer from the brokers at here:9092"),
        (Code.INVALID_TOPIC_EXCEPTION, FatalError, "could not ask: .*INVALID_TOPIC_EXCEPTION"),
    ],
)
def test_what_brokers_refuse_says_what_to_do(code, kind, message):
    error = request_error(problem_of_code(code), "ask", "here:9092", 10.0)
    with pytest.raises(kind, match=message):
        raise error
    assert type(error) is kind


def test_topic_ids_are_those_that_checkpoints_hold(kafka):
    """Both clients have stored them: a change of their spelling would be a topic that was made anew."""
    topic = kafka.create_topic()
    other = AdminClient({"bootstrap.servers": kafka.address})
    (described,) = other.describe_topics(TopicCollection([topic])).values()
    admin = KafkaAdmin({"bootstrap.servers": kafka.address}, read_committed=True)
    assert admin.describe([topic, "not-there"]) == {topic: (str(described.result().topic_id), 1)}


def test_partitions_are_counted_for_who_writes(kafka):
    topic = kafka.create_topic(partitions=3)
    admin = kafka_admin({"bootstrap.servers": kafka.address})
    assert admin.partition_count(topic) == 3
    kafka.add_partitions(topic, 5)
    assert admin.partition_count(topic) == 3, "asked once a minute"
    assert kafka_admin({"bootstrap.servers": kafka.address, "linger.ms": "5"}) is admin, "the connections are the same"
    with pytest.raises(BadConfigurationError, match=f"'{topic}-missing' can't be written to"):
        admin.partition_count(f"{topic}-missing")


@pytest.mark.parametrize("client", ["protocol", "librdkafka"])
def test_what_retention_has_deleted_is_counted_once(kafka, kafka_source, client):
    """A reader slower than retention: before planning, and between planning and reading."""
    topic = kafka.create_topic()
    source = kafka_source(
        subscribe=topic,
        startingOffsets="earliest",
        failOnDataLoss="false",
        maxOffsetsPerTrigger=10,
        discoveryInterval="50ms",
        client=client,
    )
    kafka.produce(topic, records(100))
    seen = []
    limits = ReadLimits(max_records=10)
    with source.enumerator() as enumerator:
        for deleted in (5, 30, 31, 64, 90):
            splits = go_on(source, enumerator, limits=limits)
            kafka.delete_records(topic, 0, before=deleted)
            seen += [row["offset"] for row in source.read(splits)]
        seen += [row["offset"] for row in source.read(go_on(source, enumerator))]
    assert seen == sorted(set(seen)) and seen[-1] == 99
    assert source.metrics.snapshot()["records_lost"] == 100 - len(seen) > 0
