"""Dead letters: options of every connector, forms, and that each record ends up once, in one of the two."""

from __future__ import annotations

import datetime
import json
import pickle
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock._letters import create_sink, parse_letters
from penstock._plugins import find_connector
from penstock.dead_letters import (
    AS_COLUMNS,
    AS_JSON,
    AS_RECORDS,
    HEADERS_TYPE,
    LETTER_DDL,
    LETTER_SCHEMA,
    LETTER_TYPE,
    is_letter_type,
    letters,
    rows_as_json,
)
from penstock.errors import BadConfigurationError, BadDataError, FatalError
from penstock.serialization import DEAD_LETTER_VERSIONS
from penstock.serialization.ddl import parse_type
from penstock.sink import WriterContext
from penstock.sink._union import Owned
from penstock.testing import SinkQuery
from penstock.testing._faults import Crash
from suite.letters import letters_in, sink_with_letters, to_folder

#: What each connector needs to make a sink, without a look at a server.
GIVEN = {
    "filesystem": {"path": "rows"},
    "kafka": {"kafka.bootstrap.servers": "h:1", "topic": "rows", "delivery": "exactly-once"},
    "cassandra": {"keyspace": "k", "table": "rows"},
    "pravega": {"stream": "s/rows", "delivery": "exactly-once"},
}
#: Where letters go in the connector's own system.
PLACES = {"filesystem": "path", "kafka": "topic", "cassandra": "table", "pravega": "stream"}
#: An option that says how the system is reached.
CONNECTING = {"filesystem": "s3.endpoint", "kafka": "kafka.client.id", "cassandra": "port", "pravega": "scope"}
FRAME = pa.schema([("value", pa.string()), ("_bad_record", LETTER_TYPE)])

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def made(name, schema=FRAME, /, **options):
    connector = find_connector(name).load()
    given = {**GIVEN[name], **{name.replace("__", "."): text for name, text in options.items()}}
    return create_sink(connector, connector.sink_options.parse(given, owner=f"sink penstock.{name}"), schema)


# --- options ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GIVEN)
def test_where_letters_go(name):
    sink = made(name, **to_folder(Path("letters")))
    assert sink.members["letters"].sink.target.endswith("/letters")
    assert sink.members[""].schema.names == ["value"]


@pytest.mark.parametrize("name", GIVEN)
def test_the_letter_column_may_have_another_name(name):
    schema = FRAME.set(1, pa.field("bad", LETTER_TYPE))
    assert made(name, schema, badRecordColumn="bad", **to_folder(Path("letters"))).members[""].schema.names == ["value"]


@pytest.mark.parametrize(
    ("name", "of_rows", "of_letters", "left"),
    [
        ("cassandra", {"retryTimeout": "5m"}, {"retryFor": "1m"}, {"retryTimeout": "1m"}),
        ("cassandra", {"tls": "true", "tls.certFile": "c", "tls.keyFile": "k"}, {"tls": "false"}, {"tls": "false"}),
        ("cassandra", {"user": "u", "password": "p"}, {"authProvider": "a:B"}, {"authProvider": "a:B"}),
        ("cassandra", {"authProvider": "a:B", "authProvider.config": "x=1"}, {"user": "u"}, {"user": "u"}),
        ("pravega", {"user": "u", "password": "p"}, {"token": "t"}, {"token": "t"}),
        (
            "pravega",
            {"user": "u", "password": "p"},
            {"credentials.username": "v", "credentials.password": "q"},
            {"user": "v", "password": "q"},
        ),
        ("kafka", {"kafka.compression.type": "zstd"}, {"kafka.compression.codec": "none"}, {}),
        ("kafka", {"kafka.sasl.username": "u", "kafka.sasl.password": "p"}, {"kafka.sasl.jaas.config": "x"}, {}),
        ("kafka", {"kafka.sasl.jaas.config": "x"}, {"kafka.sasl.username": "u", "kafka.sasl.password": "p"}, {}),
        ("kafka", {"kafka.ssl.truststore.location": "a"}, {"kafka.ssl.ca.location": "b"}, {}),
        ("filesystem", {"azure.sas": "s"}, {"azure.key": "k"}, {"azure.key": "k"}),
        ("filesystem", {"s3.key": "k", "s3.secret": "s"}, {"s3.region": "r"}, {"s3.region": "r"}),
    ],
)
def test_what_is_said_of_letters_replaces_what_it_does_not_go_with(name, of_rows, of_letters, left):
    connector = find_connector(name).load()
    asked = {f"deadLetters.{one}": text for one, text in {PLACES[name]: "bad", **of_letters}.items()}
    options = {**GIVEN[name], **of_rows, "deadLetters.format": name, **asked}
    _, values = parse_letters(connector, connector.sink_options.parse(options, owner="sink"))
    texts = values.texts(secrets=True)
    assert (left or of_letters).items() <= texts.items()
    kept = {"s3.key", "s3.secret"}
    assert not (of_rows.keys() - (left or of_letters).keys() - kept) & texts.keys()
    assert kept & of_rows.keys() <= texts.keys()


@pytest.mark.parametrize(
    ("rows", "of_letters", "is_shared"),
    [
        ("/out", "/out/", True),
        ("file:/out", "/out", True),
        ("file:///out/", "/out/bad", True),
        ("/out/rows", "/out", True),
        ("/out", "/out/_letters", False),
        ("/out", "/out/.bad/letters", False),
        ("/out", "/outer", False),
    ],
)
def test_readers_of_one_directory_do_not_read_the_other(rows, of_letters, is_shared):
    given = {"path": rows, "deadLetters__format": "filesystem", "deadLetters__path": of_letters}
    if is_shared:
        with pytest.raises(BadConfigurationError, match="dead letters need a place of their own"):
            made("filesystem", **given)
    else:
        assert "letters" in made("filesystem", **given).members


def test_tables_of_one_name_are_two_in_two_keyspaces():
    into = {"deadLetters__format": "cassandra", "deadLetters__table": "rows"}
    assert "letters" in made("cassandra", **into, deadLetters__keyspace="other").members
    with pytest.raises(BadConfigurationError, match="is that of the rows, rows: dead letters need a place of"):
        made("cassandra", **into, deadLetters__keyspace="k")


@pytest.mark.parametrize("name", GIVEN)
def test_letters_in_the_same_system_are_reached_as_the_rows_are(name):
    connector = find_connector(name).load()
    place = PLACES[name]
    connecting = {"filesystem": "s3.endpoint", "kafka": "kafka.client.id", "cassandra": "port", "pravega": "scope"}[
        name
    ]
    options = {
        **GIVEN[name],
        connecting: "7000",
        "deadLetters.format": f"penstock.{name}",
        f"deadLetters.{place}": "bad",
    }
    declared = connector.sink_options
    _, own = parse_letters(connector, declared.parse(options, owner="sink"))
    assert own.texts(secrets=True)[connecting] == "7000" and own[place] == "bad"
    assert own["delivery"] == "exactly-once"
    other = {**options, f"deadLetters.{connecting}": "7001"}
    assert parse_letters(connector, declared.parse(other, owner="sink"))[1].texts(secrets=True)[connecting] == "7001"
    address = connector.letter_form().address
    if address:  # another server: nothing of how this one is reached may go there
        other = {**options, f"deadLetters.{address[0]}": "elsewhere:1", "deadLetters.keyspace": "k"}
        if name != "cassandra":
            del other["deadLetters.keyspace"]
        assert connecting not in parse_letters(connector, declared.parse(other, owner="sink"))[1].texts(secrets=True)


@pytest.mark.parametrize("name", GIVEN)
def test_a_place_of_their_own(name):
    place = PLACES[name]
    rows = GIVEN[name][place]
    with pytest.raises(BadConfigurationError, match=f"'deadLetters.{place}' is that of the rows"):
        made(name, deadLetters__format=name, **{f"deadLetters__{place}": rows})


@pytest.mark.parametrize("name", GIVEN)
def test_every_secret_of_a_connector_is_one_for_letters(name):
    declared = find_connector("filesystem").load().sink_options
    for option in find_connector(name).load().sink_options:
        if option.secret and not option.is_prefix:
            assert declared.is_secret(f"deadLetters.{option.name}"), option.name


def test_options_that_do_not_fit_are_told_by_their_whole_name():
    for options, why in (
        ({}, "needs the option 'deadLetters.path'"),
        ({"deadLetters__pth": "x"}, "no option 'deadLetters.pth'; did you mean 'deadLetters.path'"),
        ({"deadLetters__path": "x", "deadLetters__maxPartSize": "a"}, "option 'deadLetters.maxPartSize': 'a' is not a"),
        ({"deadLetters__path": "x", "deadLetters__format": "nil"}, "option 'deadLetters.format': no connector 'nil'"),
    ):
        with pytest.raises(BadConfigurationError, match=why) as caught:
            made("kafka", **{"deadLetters__format": "filesystem", **options})
        assert "\n" not in str(caught.value)
    with pytest.raises(BadConfigurationError, match=r"'deadLetters.path' takes effect only with 'deadLetters.format'"):
        made("kafka", deadLetters__path="x")


def test_the_format_of_files_has_a_name_of_its_own():
    connector = find_connector("kafka").load()
    options = {**GIVEN["kafka"], **to_folder(Path("letters")), "deadLetters.FileFormat": "json"}
    declared = connector.sink_options
    options["deadLetters.ignoreNullFields"] = "false"
    assert parse_letters(connector, declared.parse(options, owner="sink"))[1]["format"] == "json"
    options["deadLetters.FileFormat"] = "xml"
    with pytest.raises(BadConfigurationError, match=r"option 'deadLetters.fileFormat': 'xml' is not one of"):
        parse_letters(connector, declared.parse(options, owner="sink"))


def test_columns_that_hold_something_else():
    folder = to_folder(Path("letters"))
    with pytest.raises(BadConfigurationError, match="column 'value' is of type string, and the one with dead letters"):
        made("kafka", badRecordColumn="value", **folder)
    with pytest.raises(BadConfigurationError, match=r"'_bad_record' holds dead letters: set .* 'badRecordColumn' to"):
        made("kafka", badRecordColumn="other", **folder)
    # Without letters in the frame, rows that the sink refuses are all there is.
    assert made("kafka", FRAME.remove(1), **folder).members[""].schema.names == ["value"]


@pytest.mark.parametrize("name", ["kafka", "pravega"])
def test_letters_are_never_lost_for_want_of_a_place(name):
    with pytest.raises(
        BadConfigurationError, match=r"'_bad_record' holds dead letters.*set deadLetters.format.*\.drop"
    ):
        made(name).validate_schema(FRAME)


def test_both_are_delivered_in_the_same_way():
    with pytest.raises(BadConfigurationError, match="rows are delivered at least once, and dead letters exactly once"):
        made("kafka", delivery="at-least-once", **to_folder(Path("letters")))


# --- forms -----------------------------------------------------------------------------------------------------------

texts = st.none() | st.text(max_size=8)
values = st.none() | st.binary(max_size=8)
numbers = st.none() | st.integers(0, 2**40)
records = st.fixed_dictionaries(
    {
        "error": st.text(max_size=8),
        "stage": st.sampled_from(["source", "sink"]),
        "connector": texts,
        "source": texts,
        "partition": numbers,
        "offset": numbers,
        "timestamp": st.none() | st.datetimes(timezones=st.just(datetime.timezone.utc)),
        "key": values,
        "value": values,
        "headers": st.none()
        | st.lists(st.fixed_dictionaries({"key": st.text(max_size=4), "value": values}), max_size=3),
    }
)


def batch_of(found):
    return pa.RecordBatch.from_pylist(found, schema=LETTER_SCHEMA)


@settings(max_examples=60)
@given(st.lists(records, max_size=6))
def test_forms_keep_the_letter(found):
    batch = batch_of(found)
    for form in (AS_COLUMNS, AS_RECORDS, AS_JSON):
        rows = pickle.loads(pickle.dumps(form)).rows(batch)
        rows.validate(full=True)
        assert rows.schema == form.schema and rows.num_rows == len(found)
    columns = AS_COLUMNS.rows(batch)
    assert columns.drop_columns(["id"]).to_pylist() == batch.to_pylist()
    assert columns.column("id").null_count == 0
    for record, letter in zip(AS_RECORDS.rows(batch).to_pylist(), batch.to_pylist(), strict=True):
        own = letter["headers"] or []
        assert record["headers"][: len(own)] == own
        said = {header["key"]: header["value"] for header in record["headers"][len(own) :]}
        assert said["__connect.errors.exception.message"] == letter["error"].encode()
        assert said.get("__connect.errors.offset") == (None if letter["offset"] is None else b"%d" % letter["offset"])
        time = letter["timestamp"]
        if time is None:
            assert "penstock.errors.timestamp" not in said
        else:
            lost = time - EPOCH - datetime.timedelta(milliseconds=int(said["penstock.errors.timestamp"]))
            assert abs(lost) < datetime.timedelta(milliseconds=1)
        assert (record["key"], record["value"]) == (letter["key"], letter["value"])
    for event, letter in zip(AS_JSON.rows(batch).to_pylist(), batch.to_pylist(), strict=True):
        assert json.loads(event["value"]).get("error") == letter["error"]


def test_a_letter_is_only_where_an_error_is():
    marked = letters(pa.array([None, "why"]), stage="source", offset=pa.array([1, 2]), value=b"x")
    assert marked.to_pylist()[0] is None and marked.to_pylist()[1]["offset"] == 2
    with pytest.raises(TypeError, match="no field nothing"):
        letters(pa.array(["why"]), nothing=1)


def test_an_engine_may_name_elements_in_its_own_way():
    item = pa.field("item", pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())]))
    fields = [pa.field(f.name, pa.list_(item) if f.name == "headers" else f.type) for f in LETTER_SCHEMA]
    assert is_letter_type(pa.struct(fields)) and is_letter_type(LETTER_TYPE)
    assert not is_letter_type(pa.struct(fields[1:])) and not is_letter_type(HEADERS_TYPE)


def test_the_type_as_spark_writes_it():
    assert is_letter_type(parse_type(LETTER_DDL))


def test_rows_that_json_has_no_form_for_are_written_as_text():
    batch = pa.record_batch(
        [[1], [{1: "a"}]], schema=pa.schema([("a", pa.int64()), ("m", pa.map_(pa.int64(), pa.string()))])
    )
    batch = pa.record_batch([pa.array([1]), pa.array([[(1, "a")]], batch.schema.field("m").type)], schema=batch.schema)
    assert json.loads(rows_as_json(batch)[0].as_py()) == {"a": 1, "m": "[(1, 'a')]"}


# --- rows that are refused -------------------------------------------------------------------------------------------


def test_without_dead_letters_a_refused_row_fails_the_batch():
    batch = pa.record_batch([[1, 2, 3]], ["a"])
    with pytest.raises(BadDataError, match="too large, and 1 more in this batch"):
        WriterContext("q", batch.schema).refuse(batch, {2: "null", 1: "too large"})
    assert WriterContext("q", batch.schema).refuse(batch, {}) is batch


# --- stored forms ----------------------------------------------------------------------------------------------------


def test_rows_are_stored_as_without_letters_and_letters_apart(tmp_path):
    sink = made("kafka", **to_folder(tmp_path / "letters"))
    plain = made("kafka", FRAME.remove(1))
    from penstock_kafka.client import TransactionRef
    from penstock_kafka.sink._committable import KafkaCommittable

    committable = KafkaCommittable(TransactionRef("t", 1, 2), 3, "a", 4, 5, ("rows",), 6)
    serializer = sink.committable_serializer
    stored = serializer.pack(Owned("", committable))
    assert stored == plain.committable_serializer.pack(committable)
    assert serializer.unpack(stored) == Owned("", committable)
    golden = Path(__file__).parents[2] / "connectors/filesystem/tests/golden"
    part = serializer._serializer_of("letters")
    packed = serializer.pack(
        Owned("letters", part.deserialize(1, (golden / "committable-v1.bin").read_bytes().splitlines()[0]))
    )
    assert packed.version > DEAD_LETTER_VERSIONS
    assert serializer.unpack(packed).member == "letters"
    assert serializer.pack(serializer.unpack(packed)) == packed
    with pytest.raises(FatalError, match="dead letters were decided and are not published yet"):
        plain.committable_serializer.deserialize(DEAD_LETTER_VERSIONS + 1, b"{}")


# --- each record once, in one of the two -----------------------------------------------------------------------------


def frame(ids):
    """Rows and letters: the odd ones are bad."""
    errors = pa.array(["odd" if one % 2 else None for one in ids], pa.string())
    offsets = pa.array(ids, pa.int64())
    rows = pa.array([None if one % 2 else str(one) for one in ids], pa.string())
    return pa.record_batch([rows, letters(errors, stage="source", source="in", offset=offsets)], schema=FRAME)


def seen(folder):
    files = sorted(path for path in (folder / "rows").rglob("*.parquet") if ".penstock" not in path.parts)
    rows = [int(one) for path in files for one in pq.read_table(path, partitioning=None).column("value").to_pylist()]
    return Counter(rows), Counter(letter["offset"] for letter in letters_in(folder / "letters"))


def files_query(folder, schema=FRAME, query_id="q", done=(), letters_to="letters", **others):
    given = {"path": str(folder / "rows"), "bucketAssigner": "basePath"}
    if schema is FRAME:
        given |= {**to_folder(folder / letters_to), **others}
    sink = sink_with_letters(find_connector("filesystem").load(), schema, given)
    return SinkQuery(sink, schema, folder / "checkpoint", query_id, set(done))


batches = st.lists(st.lists(st.lists(st.booleans(), max_size=5), min_size=1, max_size=3), min_size=1, max_size=4)


@settings(max_examples=40)
@given(shape=batches, seed=st.integers(0, 2**32))
def test_each_record_is_once_in_one_of_the_two_whatever_crashes(tmp_path_factory, shape, seed):
    folder, chance = tmp_path_factory.mktemp("query"), random.Random(seed)
    number, every, plan = 0, [], []
    for tasks in shape:
        shares = []
        for task in tasks:
            ids = [2 * (number + place) + bad for place, bad in enumerate(task)]
            number += len(task)
            every += ids
            shares.append([frame(ids)])
        plan.append(shares)
    query = files_query(folder)
    while len(query.done) < len(plan):
        try:
            with query.crashing_at(chance.randrange(1, 60)):
                for batch_id, shares in enumerate(plan):
                    if batch_id not in query.done:
                        query.run(batch_id, shares)
        except Crash:  # pragma: no cover - swallowed by crashing_at
            pass
    query.restart()
    query.finish()
    rows, bad = seen(folder)
    assert rows == Counter(one for one in every if not one % 2)
    assert bad == Counter(one for one in every if one % 2)


def test_letters_that_go_elsewhere_while_some_are_open_are_refused(tmp_path):
    carried = {"deadLetters.rollOnCheckpoint": "false"}
    files_query(tmp_path, **carried).run(0, [[frame([0, 1])]])
    moved = files_query(tmp_path, done=[0], letters_to="elsewhere", **carried)
    said = r"wrote to \S+/letters \(letters\) before and is to write to \S+/elsewhere, while rows .*: run penstock fin"
    with pytest.raises(BadConfigurationError, match=said):
        moved.run(1, [[frame([2, 3])]])
    files_query(tmp_path, done=[0], **carried).finish()
    moved.run(1, [[frame([2, 3])]])
    moved.finish()
    assert seen(tmp_path) == (Counter([0, 2]), Counter([1]))
    assert len(letters_in(tmp_path / "elsewhere")) == 1


def test_letters_may_come_and_go_while_files_are_open(tmp_path):
    """Open files of rows are carried from batch to batch, in the form that they have without letters."""
    files_query(tmp_path).run(0, [[frame([0, 1])]])
    files_query(tmp_path, FRAME.remove(1), done=[0]).run(1, [[frame([2]).remove_column(1)]])
    last = files_query(tmp_path, done=[0, 1])
    last.run(2, [[frame([4, 5])]])
    last.finish()
    assert seen(tmp_path) == (Counter([0, 2, 4]), Counter([1, 5]))
