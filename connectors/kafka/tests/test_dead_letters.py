"""Dead letters at Kafka: what a letter looks like, and that one transaction holds it and the other rows."""

from __future__ import annotations

import json
import time

import pyarrow as pa
import pytest

from penstock._commit import metrics_of
from penstock.dead_letters import LETTER_TYPE, letters
from penstock.errors import BadConfigurationError
from penstock.testing import SinkQuery
from penstock_kafka import KafkaConnector
from suite.letters import letters_in, sink_with_letters, to_folder

SCHEMA = pa.schema([("key", pa.string()), ("value", pa.string()), ("_bad_record", LETTER_TYPE)])


def rows(good, bad):
    """Rows with these values, and letters of these offsets."""
    errors = pa.array([None] * len(good) + ["no number"] * len(bad), pa.string())
    offsets = pa.array([None] * len(good) + list(bad), pa.int64())
    marked = letters(
        errors,
        stage="source",
        connector="kafka",
        source="in",
        partition=2,
        offset=offsets,
        timestamp=pa.scalar(1_700_000_000_000_000, pa.timestamp("us", tz="UTC")),
        key=b"\xff",
        value=pa.array([str(n).encode() if n is not None else None for n in offsets.to_pylist()], pa.binary()),
        headers=pa.array([[("own", b"\xfe")]] * len(errors), LETTER_TYPE.field("headers").type),
    )
    values = pa.array([*good, *[None] * len(bad)], pa.string())
    return pa.record_batch([values, values, marked], schema=SCHEMA)


@pytest.fixture
def topics(kafka):
    return kafka.create_topic(), kafka.create_topic()


@pytest.fixture
def query(kafka, topics, tmp_path):
    def make(schema=SCHEMA, **options):
        given = {
            "kafka.bootstrap.servers": kafka.address,
            "topic": topics[0],
            "deadLetters.format": "kafka",
            "deadLetters.topic": topics[1],
            "delivery": "exactly-once",
            **{name.replace("__", "."): value for name, value in options.items()},
        }
        given = {name: text for name, text in given.items() if text is not None}
        return SinkQuery(sink_with_letters(KafkaConnector(), schema, given), schema, tmp_path / "checkpoint")

    return make


def test_a_letter_is_the_record_with_headers_that_say_why(kafka, query, topics):
    query().run_all([[[rows(["a", "b"], [7])], [rows([], [9])]]])
    assert sorted(record.value for record in kafka.read(topics[0])) == [b"a", b"b"]
    one, other = sorted(kafka.read(topics[1]), key=lambda record: record.value)
    assert (one.key, one.value, other.value) == (b"\xff", b"7", b"9")
    assert one.timestamp > time.time() * 1000 - 600_000, "the topic's retention counts from when it is written"
    assert list(one.headers) == [
        ("own", b"\xfe"),
        ("__connect.errors.topic", b"in"),
        ("__connect.errors.partition", b"2"),
        ("__connect.errors.offset", b"7"),
        ("__connect.errors.connector.name", b"kafka"),
        ("__connect.errors.stage", b"source"),
        ("__connect.errors.exception.message", b"no number"),
        ("__connect.errors.exception.class.name", b"penstock.errors.BadDataError"),
        ("penstock.errors.timestamp", b"1700000000000"),
    ]


def test_one_transaction_holds_rows_and_letters(kafka, query, topics):
    running = query()
    results = running.tasks(0, [[rows(["a"], [1])], [rows(["b"], [])], [rows([], [2])]])
    stored = [one for result in results for output in result.outputs for one in output.committables]
    committables = [running.sink.committable_serializer.unpack(one) for one in stored]
    assert [set(one.value.topics) for one in committables] == [set(topics), {topics[0]}, {topics[1]}]
    assert metrics_of(results)["rows_written"] == 2 and metrics_of(results)["dead_letters"] == 2
    assert not kafka.read(topics[0]) and not kafka.read(topics[1])
    running.commit(0, results)
    assert [len(kafka.read(topic)) for topic in topics] == [2, 2]


def test_a_query_gets_dead_letters_and_loses_them(kafka, query, topics):
    """What a run without them has left is published by one with them, and the other way round."""
    without = {"deadLetters__format": None, "deadLetters__topic": None}
    plain, routed = query(SCHEMA.remove(2), **without), query()
    routed.query_id = plain.query_id
    stops = [plain, routed, plain]
    for batch, running in enumerate(stops):
        running.done = set(range(batch))
        running.restart()
        batches = [rows([f"v{batch}"], [])]
        if running is plain:
            batches = [one.remove_column(2) for one in batches]
        results = running.tasks(batch, [batches])
        protocol = running.protocol()
        protocol.commit(batch, results)
    assert sorted(record.value for record in kafka.read(topics[0])) == [b"v0", b"v1", b"v2"]


def test_rows_that_make_no_record_become_letters(kafka, query, topics):
    schema = pa.schema([("topic", pa.string()), ("key", pa.string()), ("value", pa.string())])
    given = [(topics[0], "k", "good"), (None, "k", "no topic")]
    batch = pa.record_batch([list(column) for column in zip(*given, strict=True)], schema=schema)
    query(schema, topic=None).run_all([[[batch]]])
    assert [record.value for record in kafka.read(topics[0])] == [b"good"]
    (letter,) = kafka.read(topics[1])
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"k", b"no topic")
    assert headers["__connect.errors.exception.message"] == b"it has no topic"
    assert headers["__connect.errors.stage"] == b"sink" and "__connect.errors.topic" not in headers


def test_a_record_that_is_too_large_goes_to_a_folder(kafka, query, topics, tmp_path):
    schema = SCHEMA.remove(2)
    batch = pa.record_batch([["k"] * 3, ["a", "x" * 2_000_000, "b"]], schema=schema)
    running = query(schema, deadLetters__topic=None, **to_folder(tmp_path / "letters"))
    running.run_all([[[batch]]])
    assert sorted(record.value for record in kafka.read(topics[0])) == [b"a", b"b"]
    (letter,) = letters_in(tmp_path / "letters")
    assert letter["value"] == b"x" * 2_000_000 and letter["key"] == b"k" and letter["source"] == topics[0]
    assert letter["error"] == "a record of 2000002 bytes is larger than message.max.bytes, 1000000"


@pytest.mark.parametrize("part", ["key", "value"])
def test_a_row_is_kept_whole_if_a_format_encodes_a_part_of_it(query, topics, tmp_path, part):
    row = {"key": "k", "value": "x" * 2_000_000, part: {"a": "x" * 2_000_000}}
    batch = pa.RecordBatch.from_pylist([row])
    options = {f"{part}__format": "json", "deadLetters__topic": None, **to_folder(tmp_path / "letters")}
    query(batch.schema, **options).run_all([[[batch]]])
    (letter,) = letters_in(tmp_path / "letters")
    assert json.loads(letter["value"]) == row and letter["key"] is None


def test_at_least_once_sends_letters_at_least_once(kafka, query, topics):
    query(delivery="at-least-once").run_all([[[rows(["a"], [1, 2])]]])
    assert [len(kafka.read(topic)) for topic in topics] == [1, 2]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"deadLetters__topic": None}, "dead letters .options 'deadLetters.*'.: where to write"),
        ({"deadLetters__delivery": "at-least-once"}, "rows are delivered exactly once, and dead letters at least once"),
        ({"deadLetters__topci": "x"}, "no option 'deadLetters.topci'; did you mean 'deadLetters.topic'"),
        ({"deadLetters__format": "nowhere"}, "option 'deadLetters.format': no connector 'nowhere'"),
        ({"deadLetters__format": None}, "'deadLetters.topic' takes effect only with 'deadLetters.format'"),
        ({"deadLetters__format": None, "deadLetters__topic": None}, "holds dead letters, and Kafka has no such column"),
    ],
)
def test_what_is_refused(query, options, why):
    with pytest.raises(BadConfigurationError, match=why) as caught:
        query(**options)
    assert len(str(caught.value).splitlines()) == 1


def test_letters_never_go_where_the_rows_go(query, topics):
    with pytest.raises(BadConfigurationError, match=r"'deadLetters.topic' is that of the rows"):
        query(deadLetters__topic=topics[0])


@pytest.mark.parametrize(
    "name", ["kafka.ssl.key.password", "kafka.sasl.jaas.config", "s3.key", "azure.sas", "password"]
)
def test_secrets_are_neither_shown_nor_stored(name):
    given = {"topic": "t", "deadLetters.format": "kafka", f"deadLetters.{name}": "hunter2"}
    parsed = KafkaConnector.sink_options.parse(given, owner="sink")
    assert "hunter2" not in repr(parsed) and "hunter2" not in str(parsed.texts(secrets=False))
