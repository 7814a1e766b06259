"""From a query's rows to records: columns, types, topics, partitions, and deliveries that commit nothing."""

from __future__ import annotations

import logging
import time
import uuid
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from penstock._commit import write_all
from penstock.errors import BadConfigurationError, BadDataError
from penstock.metrics import Metrics
from penstock.sink import WriterContext
from penstock_kafka import KafkaConnector
from penstock_kafka.client import HEADERS_TYPE, DeliveryError
from penstock_kafka.sink._kept_producers import KEPT_PRODUCERS
from penstock_kafka.sink._partitioners import Partitions, create_partitioner
from penstock_kafka.sink._rows import RecordColumns, check_schema

VALUE = pa.schema([("value", pa.string())])


def test_columns_that_no_record_has_are_named(caplog):
    columns = [("value", pa.string()), ("amount", pa.int64()), ("Unit", pa.string()), ("offset", pa.int64())]
    with caplog.at_level(logging.WARNING):
        check_schema(pa.schema(columns), "out", frozenset())
    (said,) = [record.message for record in caplog.records]
    assert "columns amount, Unit." in said and "offset" not in said


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"key": pa.string()}, "a column 'value' is needed"),
        ({"value": pa.int64()}, r"column 'value' is of type bigint.*value\.format"),
        ({"value": pa.string(), "key": pa.list_(pa.string())}, "column 'key'"),
        ({"value": pa.string(), "partition": pa.int64()}, "column 'partition' is of type bigint: it must be int"),
        ({"value": pa.string(), "topic": pa.binary()}, "column 'topic'"),
        ({"value": pa.string(), "timestamp": pa.int64()}, "column 'timestamp'"),
        ({"value": pa.string(), "headers": pa.list_(pa.string())}, "column 'headers'"),
    ],
)
def test_schemas_that_can_not_be_written(schema, message):
    with pytest.raises(BadConfigurationError, match=message):
        check_schema(pa.schema(list(schema.items())), "out", frozenset())


def test_a_topic_is_needed_from_somewhere():
    with pytest.raises(BadConfigurationError, match="option 'topic', or add a column"):
        check_schema(VALUE, None, frozenset())
    check_schema(VALUE, "out", frozenset())
    check_schema(pa.schema([*VALUE, ("topic", pa.string())]), None, frozenset())
    check_schema(pa.schema([("value", pa.struct([("a", pa.int64())]))]), "out", frozenset({"value"}))


def test_columns_by_name_without_regard_to_case_and_the_rest_dropped():
    at = datetime(2026, 1, 2, 3, 4, 5, 678_912, tzinfo=timezone.utc)
    batch = pa.record_batch(
        {
            "note": pa.array(["dropped"]),
            "VALUE": pa.array(["v"]),
            "Topic": pa.array(["theirs"]),
            "timestamp": pa.array([at], pa.timestamp("us", "UTC")),
            "headers": pa.array([[{"key": "h", "value": None}]], HEADERS_TYPE),
        }
    )
    row = RecordColumns(None, {}).convert(batch).to_pylist()[0]
    cut = at.replace(microsecond=678_000)
    headers = [{"key": "h", "value": None}]
    assert row == {"topic": "theirs", "value": "v", "timestamp": cut, "headers": headers}
    assert RecordColumns("ours", {}).convert(batch).column("topic").to_pylist() == ["ours"]


def test_a_row_without_a_topic_is_bad_data():
    batch = pa.record_batch({"value": ["a", "b"], "topic": pa.array(["t", None])})
    with pytest.raises(BadDataError, match="row 1 of a batch has no topic"):
        RecordColumns(None, {}).convert(batch)


def records(topics, partitions=None):
    columns = {"value": pa.array(["v"] * len(topics)), "topic": pa.array(topics)}
    if partitions is not None:
        columns["partition"] = pa.array(partitions, pa.int32())
    return pa.record_batch(columns)


def fill(name, batch, writer_index=1, **counts):
    filled = Partitions(create_partitioner(name, writer_index), counts.__getitem__).fill(batch)
    return filled.column("partition").to_pylist()


def test_partitioners():
    assert fill("round-robin", records(["a"] * 5), a=3) == [1, 2, 0, 1, 2]
    assert fill("task", records(["a"] * 3), writer_index=5, a=3) == [2, 2, 2]
    assert fill("task", records(["a", "b", "a"]), writer_index=5, a=3, b=2) == [2, 1, 2]
    assert fill("round-robin", records(["a"] * 3, [0, None, 0]), a=3) == [0, 2, 0], "a row's own goes before"
    assert create_partitioner("murmur2", 0) is None and create_partitioner("default", 0) is None


def by_length(batch, topic, count):
    return [len(topic) % count] * batch.num_rows


def too_far(batch, topic, count):
    return [count] * batch.num_rows


def too_few(batch, topic, count):
    return []


def test_own_partitioners():
    here = f"{__name__}"
    import sys

    sys.modules.setdefault(here, sys.modules[__name__])
    assert fill(f"{here}:by_length", records(["abc"] * 2), abc=2) == [1, 1]
    with pytest.raises(BadConfigurationError, match="chose partitions 3 to 3 of 'a', which has 3"):
        fill(f"{here}:too_far", records(["a"]), a=3)
    with pytest.raises(BadConfigurationError, match="returned 0 values"):
        fill(f"{here}:too_few", records(["a"]), a=3)
    with pytest.raises(BadConfigurationError, match="can't be imported"):
        create_partitioner("no.such.module:function", 0)


@pytest.fixture
def write(kafka):
    def run(schema, *batches, **options):
        connector = KafkaConnector()
        parsed = connector.sink_options.parse({"kafka.bootstrap.servers": kafka.address, **options}, owner="sink")
        sink = connector.create_sink(parsed, schema)
        sink.validate_schema(schema)
        context = WriterContext("q", schema, Metrics(), attempt_id=uuid.uuid4().hex)
        writer = sink.create_writer(context)
        try:
            write_all(writer, batches)
        finally:
            writer.close()
        return context.metrics.snapshot()

    return run


def test_at_least_once_writes_and_counts(kafka, write):
    topic = kafka.create_topic()
    counts = write(
        VALUE, pa.record_batch([["a", "b"]], schema=VALUE), pa.record_batch([["c"]], schema=VALUE), topic=topic
    )
    assert [record.value for record in kafka.read(topic)] == [b"a", b"b", b"c"]
    assert counts["rows_written"] == 3 and counts["bytes_written"] > 0


def test_structs_as_json(kafka, write):
    topic, kind = kafka.create_topic(), pa.struct([("id", pa.int64()), ("note", pa.string())])
    schema = pa.schema([("key", pa.string()), ("value", kind)])
    batch = pa.record_batch([["k"], pa.array([{"id": 1, "note": None}], kind)], schema=schema)
    write(schema, batch, topic=topic, **{"value.format": "json"})
    assert [(record.key, record.value) for record in kafka.read(topic)] == [(b"k", b'{"id":1}')]


CHANGES = pa.schema(
    [("op", pa.string()), ("id", pa.int64()), ("timestamp", pa.string()), ("no", pa.list_(pa.string()))]
)
KEYED = {"keyColumns": "id", "operationColumn": "op", "key.format": "json", "value.format": "json"}


def changes(*rows):
    return pa.RecordBatch.from_pylist([dict(zip(CHANGES.names, row, strict=True)) for row in rows], CHANGES)


def test_rows_under_a_key_and_a_tombstone_for_a_deleted_one(kafka, write):
    """Columns named as parts of a record are columns of the row; the key's partition is that of its bytes."""
    topic = kafka.create_topic(partitions=3)
    rows = [("c", 1, "a", []), ("u", 2, None, None), ("d", 1, None, ["before.timestamp"]), ("r", 1, "b", [])]
    write(CHANGES, changes(*rows), topic=topic, unavailableColumn="no", **KEYED)
    read = kafka.read(topic)
    assert [record.value for record in read if record.key == b'{"id":1}'] == [
        b'{"id":1,"timestamp":"a"}',
        None,
        b'{"id":1,"timestamp":"b"}',
    ]
    assert [record.value for record in read if record.key == b'{"id":2}'] == [b'{"id":2}']
    assert len({record.partition for record in read if record.key == b'{"id":1}'}) == 1


def test_one_key_column_as_it_is_and_rows_that_are_all_there(kafka, write):
    topic, schema = kafka.create_topic(), pa.schema([("user", pa.string()), ("n", pa.int64())])
    batch = pa.record_batch([["a", "b"], [1, None]], schema=schema)
    write(schema, batch, topic=topic, keyColumns="user", **{"value.format": "json"})
    assert [(record.key, record.value) for record in kafka.read(topic)] == [
        (b"a", b'{"user":"a","n":1}'),
        (b"b", b'{"user":"b"}'),
    ]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("x", 1, "a", []), "column 'op': 'x' is none of c, u, r"),
        (("u", None, "a", []), "key column 'id' is null"),
        (("u", 1, None, ["after.timestamp"]), "column 'no' names 'timestamp': a record has the whole row"),
    ],
)
def test_changes_that_are_refused(kafka, write, row, message):
    with pytest.raises(BadDataError, match=message):
        write(CHANGES, changes(row), topic=kafka.create_topic(), unavailableColumn="no", **KEYED)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "t", "value.format": "json", "keyColumns": "id"}, "id can't be a key as it is.*'key.format'"),
        ({"topic": "t", "keyColumns": "id"}, "only with value.format other than binary"),
        ({"keyColumns": "id", "value.format": "json"}, "option 'keyColumns' needs the option 'topic'"),
        ({"topic": "t", "operationColumn": "op"}, "'operationColumn' takes effect only with 'keyColumns'"),
        (
            {"topic": "t", **KEYED, "partitioner": "task"},
            "'keyColumns' can't be used with partitioner=round-robin or",
        ),
        ({"topic": "t", **KEYED, "keyColumns": "di"}, "option 'keyColumns': the rows have no column 'di'"),
        ({"topic": "t", **KEYED, "orderColumn": "id"}, "has no option 'orderColumn'"),
    ],
)
def test_rows_under_a_key_need(write, options, message):
    with pytest.raises(BadConfigurationError, match=message):
        write(CHANGES, **options)


def test_a_refused_record_is_an_error_and_the_next_task_starts_afresh(kafka, write):
    small, topic = kafka.create_topic(max_message_bytes=500), kafka.create_topic()
    large = pa.record_batch([["x" * 3000]], schema=VALUE)
    with pytest.raises(DeliveryError, match=small):
        write(VALUE, large, topic=small)
    assert write(VALUE, pa.record_batch([["a"]], schema=VALUE), topic=topic)["rows_written"] == 1


def test_failures_are_only_logged_where_nothing_is_promised(kafka, write, caplog):
    topic = kafka.create_topic(max_message_bytes=500)
    schema = pa.schema([("value", pa.string()), ("topic", pa.string())])
    other = kafka.create_topic()
    batch = pa.record_batch([["x" * 3000, "small"], [topic, other]], schema=schema)
    with caplog.at_level(logging.WARNING):
        write(schema, batch, delivery="none", logFailuresOnly="true")
    with pytest.raises(BadConfigurationError, match="logFailuresOnly"):
        write(schema, batch, logFailuresOnly="true")


def test_an_idle_producer_leaves_and_brings_no_deleted_topic_back(kafka, write, monkeypatch):

    KEPT_PRODUCERS.clear()
    monkeypatch.setattr(KEPT_PRODUCERS, "_idle_s", 0.2)
    topic, batch = kafka.create_topic(), pa.record_batch([["a"]], schema=VALUE)
    options = {"topic": topic, "kafka.topic.metadata.refresh.interval.ms": "100"}
    write(VALUE, batch, **options)
    write(VALUE, batch, **options)
    deadline = time.monotonic() + 60
    while KEPT_PRODUCERS.idle() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not KEPT_PRODUCERS.idle()
    kafka.delete_topic(topic)
    time.sleep(0.5)
    assert topic not in kafka._admin().list_topics(timeout=10).topics
    write(VALUE, batch, topic=kafka.create_topic())


def test_another_client_is_another_producer(kafka, write):
    topic, batch, kinds = kafka.create_topic(), pa.record_batch([["a"]], schema=VALUE), []
    for client in ("librdkafka", "protocol", "librdkafka"):
        write(VALUE, batch, topic=topic, client=client)
        kinds += [type(producer).__name__ for producer in KEPT_PRODUCERS.idle()]
    assert kinds == ["LibrdkafkaProducer", "ProtocolProducer", "LibrdkafkaProducer"]
    assert len(kafka.read(topic)) == 3
