"""The source's options: Spark's rules, and ours."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from penstock.errors import BadConfigurationError
from penstock.source.event_time import BoundedOutOfOrderness, Punctuated
from penstock.source.log import (
    Earliest,
    GroupOffsets,
    Latest,
    LogPartition,
    SpecificOffsets,
    Timestamp,
    TimestampsByPartition,
)
from penstock_kafka.options import SOURCE_OPTIONS, SourceOptions

T0, T1 = LogPartition("t", 0), LogPartition("t", 1)


def source(**given):
    options = {"kafka.bootstrap.servers": "h:1", **{name.replace("__", "."): str(v) for name, v in given.items()}}
    return SourceOptions.from_values(SOURCE_OPTIONS.parse(options, owner="source penstock.kafka"))


def refusal(**given):
    with pytest.raises(BadConfigurationError) as caught:
        source(**given)
    return str(caught.value)


def test_defaults_are_those_of_spark():
    made = source(subscribe="t")
    log = made.log
    assert (log.start, log.batch_start, log.stop) == (Latest(), Earliest(), None)
    assert (log.new_partitions_start, log.new_streams_start) == (Earliest(), Earliest())
    assert (log.fail_on_data_loss, log.retries, log.retry_interval_ms) == (True, 3, 10)
    assert (log.max_records, log.min_records, log.max_trigger_delay_ms) == (None, None, 900_000)
    assert (log.min_partitions, log.max_records_per_partition, log.commit_group) == (None, None, None)
    assert (made.include_headers, made.group_id) == (False, None)
    assert (made.group_id_prefix, made.client, log.discovery_interval_ms) == ("spark-kafka-source", "auto", 10_000)
    assert (made.bad_records, made.bad_record_column) == ("fail", "_bad_record")
    assert made.key_format.is_raw and made.value_format.is_raw and made.value_format.type is None
    made.check_batch()


def test_every_option_arrives():
    made = source(
        SUBSCRIBE="t", maxOffsetsPerTrigger="50", minoffsetspertrigger="5", maxTriggerDelay="1m", minPartitions="7",
        maxRecordsPerPartition="9", failOnDataLoss="false", includeHeaders="true", fetchOffset__numRetries="1",
        fetchOffset__retryIntervalMs="20", kafkaConsumer__pollTimeoutMs="512", discoveryInterval="2s",
        newPartitionsStart="latest", newTopicsStart="Latest", groupIdPrefix="p", kafka__group__id="g",
        commitGroupOffsets="lag", client="librdkafka", badRecords="DEADLETTER", badRecordColumn="wrong",
        key__format="string",
    )  # fmt: skip
    log = made.log
    assert (log.max_records, log.min_records, log.max_trigger_delay_ms) == (50, 5, 60_000)
    assert (log.min_partitions, log.max_records_per_partition, log.fail_on_data_loss) == (7, 9, False)
    assert (log.retries, log.retry_interval_ms, log.discovery_interval_ms, log.commit_group) == (1, 20, 2000, "lag")
    assert (log.new_partitions_start, log.new_streams_start) == (Latest(), Latest())
    assert (made.include_headers, made.group_id, made.group_id_prefix) == (True, "g", "p")
    assert (made.client, made.bad_records, made.bad_record_column) == ("librdkafka", "deadLetter", "wrong")
    assert pickle.loads(pickle.dumps(made)) == made


def test_topics():
    assert source(subscribe=" b, a ,b").subscription.topics == ("a", "b")
    pattern = source(subscribePattern="orders-.*").subscription
    assert (pattern.topics, pattern.partitions) == ((), frozenset())
    assert [pattern.matches(topic) for topic in ("orders-1", "my-orders-1", "orders")] == [True, True, False]
    whole = source(subscribePattern="^orders$").subscription
    assert source(subscribePattern=r"\[[a-z\[\]&-]+&&").subscription.pattern is not None
    assert [whole.matches(topic) for topic in ("orders", "my-orders", "orders-1")] == [True, False, False]
    assert not source(subscribePattern=".*").subscription.matches("__consumer_offsets")
    assigned = source(assign='{"t": [1, 0], "u": [2]}').subscription
    assert (assigned.topics, assigned.partitions) == (("t", "u"), {T0, T1, LogPartition("u", 2)})
    assert assigned.matches("t") and not assigned.matches("v")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "source penstock.kafka needs the option 'subscribe', 'subscribePattern' or 'assign'"),
        ({"subscribe": "t", "assign": '{"t": [0]}'}, "'assign' can't be used with 'subscribe'"),
        ({"subscribe": "t", "subscribePattern": "t"}, "'subscribe' can't be used with 'subscribePattern'"),
        ({"subscribe": " , "}, "'subscribe' names no topic"),
        ({"subscribe": "a b"}, "'a b' can't be a topic"),
        ({"subscribePattern": " "}, "'subscribePattern' is empty"),
        ({"subscribePattern": "a("}, "'a(' is no regular expression"),
        ({"subscribePattern": "[a-z&&[^b]]+"}, "which Java and Python read differently"),
        ({"subscribePattern": "[a[b]]"}, "which Java and Python read differently"),
        ({"assign": "t"}, "option 'assign': 't' is not JSON such as"),
        ({"assign": "{}"}, "option 'assign'"),
        ({"assign": '{"t": ' + "[" * 100_000}, "[…' is not JSON such as"),
        ({"assign": '{"t": 0}'}, "topic 't' needs a list of partitions"),
        ({"assign": '{"t": [-1]}'}, "topic 't': -1 is no partition number"),
        ({"assign": '{"t": [true]}'}, "topic 't': true is no partition number"),
        ({"assign": '{"t": []}'}, "names no partition"),
        ({"assign": '{"a b": [0]}'}, "'a b' can't be a topic"),
    ],
)
def test_what_to_read_must_be_clear(given, message):
    assert message in refusal(**given)


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ({"startingOffsets": " Earliest "}, Earliest()),
        ({"startingOffsets": "latest"}, Latest()),
        ({"startingOffsets": '{"t": {"0": 23, "1": -2}}'}, SpecificOffsets({T0: 23, T1: -2})),
        ({"startingOffsets": '{"t": "earliest"}'}, SpecificOffsets({}, {"t": -2})),
        ({"startingOffsets": "group-offsets", "kafka__group__id": "g"}, GroupOffsets("g", "error")),
        (
            {"startingOffsets": "Group-Offsets", "commitGroupOffsets": "c", "groupOffsetsFallback": "latest"},
            GroupOffsets("c", "latest"),
        ),
        (
            {"startingOffsets": "group-offsets", "kafka__group__id": "g", "commitGroupOffsets": "c"},
            GroupOffsets("g", "error"),
        ),
        ({"startingTimestamp": "1000"}, Timestamp(1000, "error")),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 5, "1": 6}}'}, TimestampsByPartition({T0: 5, T1: 6}, "error")),
        (
            {"startingTimestamp": "1000", "startingOffsetsByTimestampStrategy": "LATEST",
             "startingOffsetsByTimestamp": '{"t": {"0": 5}}', "startingOffsets": "earliest"},
            Timestamp(1000, "latest"),
        ),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 5}}', "startingOffsets": "earliest"},
            TimestampsByPartition({T0: 5}, "error"),
        ),
    ],
)  # fmt: skip
def test_where_to_start(given, start):
    log = source(subscribe="t", **given).log
    assert (log.start, log.batch_start) == (start, start)


@pytest.mark.parametrize(
    ("given", "stop"),
    [
        ({"endingOffsets": "LATEST"}, Latest()),
        ({"endingOffsets": '{"t": {"0": 50, "1": -1}}'}, SpecificOffsets({T0: 50, T1: -1})),
        ({"endingOffsetsByTimestamp": '{"t": {"0": 5}}', "endingOffsets": "latest"}, TimestampsByPartition({T0: 5})),
        ({"endingTimestamp": "7", "endingOffsetsByTimestamp": '{"t": {"0": 5}}'}, Timestamp(7, "latest")),
    ],
)
def test_where_to_stop(given, stop):
    assert source(subscribe="t", **given).log.stop == stop


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"startingOffsets": "erliest"},
            "option 'startingOffsets': 'erliest' is not earliest, latest, group-offsets or",
        ),
        ({"startingOffsets": '{"t": {"0": 1'}, "is not earliest, latest, group-offsets or JSON such as"),
        ({"startingOffsets": "[1]"}, "is not earliest"),
        ({"startingOffsets": "{}"}, "is not earliest"),
        ({"startingOffsets": '{"t": 5}'}, "topic 't' needs partitions, as in"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "topic 't' partition 0: -3 is no offset"),
        ({"startingOffsets": '{"t": {"0": 1.5}}'}, "topic 't' partition 0: 1.5 is no whole number"),
        ({"startingOffsets": '{"t": {"0": true}}'}, "partition 0: true is no whole number"),
        ({"startingOffsets": '{"t": {"0": 9223372036854775808}}'}, "is no whole number"),
        ({"startingOffsets": '{"t": {"x": 1}}'}, "topic 't': \"x\" is no partition number"),
        ({"startingOffsets": "group-offsets"}, "set 'kafka.group.id'"),
        ({"startingTimestamp": "yesterday"}, "'yesterday' is not a whole number"),
        ({"startingTimestamp": "-1"}, "below the least value 0"),
        ({"startingOffsetsByTimestamp": '{"t": {"0": -5}}'}, "topic 't' partition 0: -5 is no time"),
        ({"startingOffsetsByTimestamp": "5"}, "option 'startingOffsetsByTimestamp': '5' is not JSON"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "'earliest' is not one of error, latest"),
        ({"endingOffsets": "earliest"}, "option 'endingOffsets': earliest would read nothing"),
        ({"endingOffsets": '{"t": {"1": -2}}'}, "topic 't' partition 1: -2 (earliest) would read nothing"),
        ({"endingOffsets": '{"t": "earliest"}'}, "topic 't': -2 (earliest) would read nothing"),
        ({"endingOffsets": '{"t": {"0": -9}}'}, "-9 is no offset"),
        (
            {"startingOffsets": '{"t": {"0": 1}}', "endingOffsets": '{"t": {"0": 2, "1": 3}}'},
            "must name the same partitions: topic 't' partition 1 is in endingOffsets only",
        ),
        (
            {"startingOffsets": '{"t": {"0": 5}}', "endingOffsets": '{"t": {"0": 2}}'},
            "option 'startingOffsets': topic 't' partition 0: 5 is after the end, 2 in endingOffsets",
        ),
        (
            {"startingOffsetsByTimestamp": '{"t": {"0": 5}}', "endingOffsetsByTimestamp": '{"t": {"0": 2}}'},
            "5 is after the end",
        ),
        ({"startingTimestamp": "5", "endingTimestamp": "4"}, "'startingTimestamp' (5) is after endingTimestamp (4)"),
    ],
)
def test_positions_that_make_no_sense(given, message):
    assert message in refusal(subscribe="t", **given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"groupIdPrefix": "p"}, "groupIdPrefix"),
        ({"groupIdPrefix": "p", "kafka__group__id": "g"}, "groupIdPrefix, kafka.group.id"),
        ({"kafka__group__id": "g", "commitGroupOffsets": "h"}, "kafka.group.id"),
        ({"kafka__group__id": "g", "startingOffsets": "Group-Offsets"}, None),
        ({"kafka__group__id": "g", "groupIdPrefix": "p", "client": "librdkafka"}, None),
        ({}, None),
    ],
)
def test_names_of_groups_that_the_protocol_client_does_not_show_are_one_warning(given, said, caplog, monkeypatch):
    monkeypatch.setattr("penstock_kafka.config._without_effect._reported", set())
    for _ in range(2):
        source(subscribe="t", **given)
    wanted = [] if said is None else [f"no effect unless client=librdkafka: {said}"]
    assert [record.getMessage() for record in caplog.records] == wanted


def test_ends_of_whole_topics_are_not_compared():
    log = source(subscribe="t", startingOffsets='{"t": "earliest"}', endingOffsets='{"t": {"0": 5}}').log
    assert log.stop == SpecificOffsets({T0: 5})
    source(subscribe="t", startingOffsets='{"t": {"0": -1}}', endingOffsets='{"t": {"0": 5}}')


@pytest.mark.parametrize("start", ["latest", '{"t": {"0": 3, "1": -1}}', '{"t": "latest"}'])
def test_a_batch_does_not_start_at_the_latest(start):
    made = source(subscribe="t", startingOffsets=start)
    with pytest.raises(BadConfigurationError, match=r"latest.* would read nothing in a batch"):
        made.check_batch()


def test_a_batch_may_start_at_the_earliest_at_offsets_and_where_a_group_is():
    for start in ("earliest", '{"t": {"0": 3, "1": -2}}', "group-offsets"):
        source(subscribe="t", startingOffsets=start, kafka__group__id="g").check_batch()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribes": "t"}, "source penstock.kafka has no option 'subscribes'; did you mean 'subscribe'?"),
        ({"subscribe": "t", "startingOffset": "x"}, "did you mean 'startingOffsets'?"),
        ({"subscribe": "t", "minPartitions": "0"}, "below the least value 1"),
        ({"subscribe": "t", "maxRecordsPerPartition": "-1"}, "below the least value 1"),
        (
            {"subscribe": "t", "minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"},
            "(6) is above maxRowsPerTrigger",
        ),
        ({"subscribe": "t", "kafka__auto__offset__reset": "earliest"}, "'startingOffsets'"),
        ({"subscribe": "t", "kafka__bootstrap__servers": " "}, "must name the brokers"),
        ({"subscribe": "t", "commitGroupOffsets": "true"}, "takes the name of a consumer group"),
        (
            {"subscribe": "t", "key__format": "string", "badRecords": "deadLetter", "badRecordColumn": "offset"},
            "'offset' is a column already",
        ),
        ({"subscribe": "t", "client": "java"}, "'java' is not one of auto, protocol, librdkafka"),
    ],
)
def test_other_mistakes(given, message):
    assert message in refusal(**given)


def test_only_committed_records_unless_asked():
    assert source(subscribe="t").reads_committed_only
    assert not source(subscribe="t", kafka__isolation__level="READ_UNCOMMITTED").reads_committed_only


def test_what_says_how_event_time_runs():
    given = {"subscribe": "t", "watermark__alignment__maxDrift": "1m"}
    bounded = source(**given, watermark__strategy="bounded", watermark__outOfOrderness="5s").log.event_time
    assert bounded.strategy == BoundedOutOfOrderness(5_000)
    punctuated = source(**given, watermark__strategy="punctuated", watermark__punctuation="mark").log.event_time
    assert punctuated.strategy == Punctuated("mark")


def test_formats():
    made = source(
        subscribe="t", key__format="string", key__format__charset="latin1", value__format="JSON",
        value__schema="id long, at timestamp", value__format__timeZone="UTC",
    )  # fmt: skip
    assert (made.key_format.name, made.key_format.options) == ("string", (("charset", "latin1"),))
    wanted = pa.struct([("id", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])
    assert (made.value_format.name, made.value_format.type) == ("json", wanted)
    avro = source(subscribe="t", value__format="avro", value__schema=' {"type": "long"}').value_format
    assert (dict(avro.options), avro.type) == ({"schema": ' {"type": "long"}'}, None)
    key = source(subscribe="t", key__format="avro", key__schema='"long"', value__format="json", value__schema="id long",
                 value__format__timeZone="Europe/Rome")  # fmt: skip
    assert dict(key.key_format.options) == {"schema": '"long"'}
    assert dict(key.value_format.options) == {"timezone": "Europe/Rome"}
    own = source(subscribe="t", value__format="my.module:Decoder").value_format
    assert own.name == "my.module:Decoder" and not own.is_raw


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"value__schema": "id long"}, "only with value.format other than binary or string"),
        ({"value__schema": '{"type": "long"}'}, "only with value.format other than binary or string"),
        (
            {"value__format": "json", "value__schema": "id lng"},
            "option 'value.schema': 'lng' is not a type; did you mean",
        ),
        (
            {"key__format": "avro", "key__schema": '"long"', "key__format__schema": '"int"'},
            "'key.schema' and 'key.format.schema' are the same",
        ),
        (
            {"value__format": "avro", "value__format__schema__registry__url": "https://u:hunter2@h"},
            "write them as 'value.format.basic.auth.user.info'",
        ),
    ],
)
def test_formats_that_do_not_fit(given, message):
    said = refusal(subscribe="t", **given)
    assert message in said and "hunter2" not in said
