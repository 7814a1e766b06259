"""Envelopes of Debezium in JSON."""

from __future__ import annotations

import base64
import json
import pickle
from datetime import date, datetime, timezone
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import BadConfigurationError
from penstock.options import OptionSet
from penstock.serialization.ddl import parse_type
from penstock.serialization.formats import FormatSettings, create_decoder, create_encoder, find_format, format_options
from suite.debezium_records import (
    CHANGES,
    COLUMNS,
    EXAMPLE,
    PRECISIONS,
    SOURCE,
    as_read,
    compact,
    connect_schema,
    envelope,
    written,
)

UTC = timezone.utc
READING = OptionSet(format_options("value", reading=True))
WRITING = OptionSet(format_options("value", reading=False))


def decoder(columns=COLUMNS, **options):
    given = {name.replace("__", "."): text for name, text in options.items()}
    return create_decoder("debezium", given, find_format("debezium").column_type(parse_type(columns)))


def decoded(records, columns=COLUMNS, **options):
    """Rows and reasons, of a decoder that has been in a task."""
    found = pickle.loads(pickle.dumps(decoder(columns, **options))).decode(pa.array(records, pa.binary()))
    found.column.validate(full=True)
    assert len(found.column) == len(records)
    return found.column.to_pylist(), [None] * len(records) if found.errors is None else found.errors.to_pylist()


def value(text, type_, meaning=None, **options):
    """What ``text`` becomes in a column ``a``, or the reason behind "!". ``meaning``: what a schema says of it."""
    record = b'{"op":"c","after":{"a":%s}}' % text.encode()
    if meaning is not None:
        row = {"type": "struct", "fields": [{"field": "a", **meaning}], "field": "after"}
        record = b'{"schema":%s,"payload":%s}' % (compact({"type": "struct", "fields": [row]}), record)
    rows, reasons = decoded([record], f"a {type_}", **options)
    return rows[0]["after"]["a"] if reasons[0] is None else "!" + reasons[0]


# --- what a user gets -------------------------------------------------------------------------------------------------


def test_a_change_as_the_documentation_shows_it():
    source = {**SOURCE, "snapshot": True}
    record = envelope("c", None, {"id": 1, "first_name": "Anne"}, source=source, ts_us=1559033904863841)
    record["transaction"] = {"id": "571:53195832", "total_order": 1, "data_collection_order": 2}
    rows, reasons = decoded([compact(record)], "id int, first_name string, since date")
    assert reasons == [None]
    assert rows[0] == {
        "op": "c",
        "before": None,
        "after": {"id": 1, "first_name": "Anne", "since": None},
        "source": {
            **{name: source[name] for name in ("version", "connector", "name", "db", "schema", "table")},
            "snapshot": "true",
            "ts": datetime(2023, 11, 14, 22, 13, 20, 123456, UTC),
            "json": compact(source).decode(),
        },
        "ts": datetime(2019, 5, 28, 8, 58, 24, 863841, UTC),
        "transaction": {
            "id": "571:53195832",
            "total_order": 1,
            "data_collection_order": 2,
            "status": None,
            "event_count": None,
            "data_collections": None,
        },
        "message": None,
        "unavailable": None,
    }


def test_marks_of_transactions_are_rows_without_an_op():
    begin = {"status": "BEGIN", "id": "571:5", "ts_ms": 1486500577125, "event_count": None, "data_collections": None}
    counts = [{"data_collection": "s1.a", "event_count": 1}, {"data_collection": "s2.a", "event_count": 1}]
    end = {**begin, "status": "END", "event_count": 2, "data_collections": counts}
    rows, reasons = decoded([compact(begin), compact(end)])
    assert reasons == [None, None]
    assert [row["op"] for row in rows] == [None, None]
    assert rows[0]["ts"] == datetime(2017, 2, 7, 20, 49, 37, 125000, UTC)
    wanted = {"id": "571:5", "total_order": None, "data_collection_order": None}
    assert rows[1]["transaction"] == {**wanted, "status": "END", "event_count": 2, "data_collections": counts}


def test_a_tombstone_is_a_null_in_its_place():
    change = compact(envelope("d", written(EXAMPLE), None))
    schema = b'{"schema":null,"payload":null}'
    options = {"decimal__handling__mode": "precise", "binary__handling__mode": "bytes", "timestamp__unit": "us"}
    rows, reasons = decoded([change, None, schema, change], **options)
    assert reasons == [None] * 4
    assert [row and row["before"] for row in rows] == [EXAMPLE, None, None, EXAMPLE]


def test_a_truncation_and_a_message():
    truncated = {key: one for key, one in envelope("t", None, None).items() if key not in ("before", "after")}
    message = {**truncated, "op": "m", "message": {"prefix": "foo", "content": "Ymfy"}}
    rows, reasons = decoded([compact(truncated), compact(message)], binary__handling__mode="bytes")
    assert reasons == [None, None]
    assert [row["op"] for row in rows] == ["t", "m"]
    assert rows[1]["message"] == {"prefix": "foo", "content": base64.b64decode("Ymfy")}


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (b"{}", "neither a change"),
        (b'{"ts_ms": 1565787098802}', "heartbeats"),
        (b'{"id": 1, "name": "x"}', "rows without an envelope"),
        (b'{"source": {}, "ddl": "CREATE TABLE t (id int)", "ts_ms": 5}', "changes of a schema"),
        (b'{"status": "OPEN", "id": "1"}', "neither a change"),
        (b'{"op": "x"}', "op x is none of c, u, d, r, t, m"),
        (b'{"op": "c", "after": null}', "op c without 'after'"),
        (b'{"op": "r"}', "op r without 'after'"),
        (b'{"schema": {"type": "struct"}, "payload": [1]}', "payload is not an object"),
        (b'{"schema": {"type": "strct"}, "payload": {"op": "d"}}', "not one of Kafka Connect"),
        (b'{"schema": 5, "payload": {"op": "d"}}', "not one of Kafka Connect"),
        (b'{"op": "c", "after": {"id": "x"}}', "field after.id: .x. is not bigint"),
        (b'{"op": "c", "after": 5}', "field after: 5 is not struct"),
        (b'{"op": "d", "ts_ms": 9223372036854775807}', "overflow"),
        (b"[]", "not a JSON object"),
        (b"\xff", "not UTF-8"),
        (b"", "not JSON"),
    ],
)
def test_what_is_no_envelope_is_a_bad_record_and_harms_no_other(record, reason):
    good = [compact(envelope("c", None, {"id": number})) for number in range(300)]
    rows, reasons = decoded([*good[:150], record, *good[150:]], "id long")
    assert [number for number, one in enumerate(reasons) if one] == [150]
    assert rows.pop(150) is None
    assert [row["after"]["id"] for row in rows] == list(range(300))
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(reasons[150])


def test_a_schema_of_the_users_own_chooses_fields():
    type_ = pa.struct(
        [
            ("after", pa.struct([("id", pa.int64())])),
            ("source", pa.struct([("lsn", pa.int64()), ("ts_ms", pa.int64()), ("txId", pa.string())])),
            ("op", pa.string()),
        ]
    )
    found = create_decoder("debezium", {}, type_).decode(pa.array([compact(envelope("c", None, {"id": 4}))]))
    source = {"lsn": 24023128, "ts_ms": SOURCE["ts_ms"], "txId": "555"}
    assert found.errors is None
    assert found.column.to_pylist() == [{"after": {"id": 4}, "source": source, "op": "c"}]


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (pa.string(), "decodes to a struct, not to string"),
        (pa.struct([("opp", pa.string())]), "no field 'opp'; did you mean 'op'"),
        (pa.struct([("op", pa.int32())]), "'op' is string, not int"),
        (pa.struct([("after", pa.string())]), "'after' is a struct, not string"),
        (pa.struct([("source", pa.struct([("ts", pa.int64())]))]), "'source.ts' is timestamp"),
        (pa.struct([("after", pa.struct([("m", pa.map_(pa.string(), pa.date32()))]))]), "map 'after.m'"),
        (pa.struct([("after", pa.struct([("t", pa.time64("us"))]))]), "no form for 'after.t'"),
        (None, "needs the table's columns in the option 'schema'"),
    ],
)
def test_what_is_no_type_of_an_envelope(type_, words):
    with pytest.raises(BadConfigurationError, match=words):
        create_decoder("debezium", {}, type_)


# --- values -----------------------------------------------------------------------------------------------------------

_DEBEZIUM, _CONNECT = "io.debezium.time.", "org.apache.kafka.connect.data."


@pytest.mark.parametrize(
    ("type_", "text", "meaning", "wanted"),
    [
        ("date", "17798", ("int32", "io.debezium.time.Date"), date(2018, 9, 24)),
        ("date", "-1", ("int32", f"{_CONNECT}Date"), date(1969, 12, 31)),
        ("date", '"2017-09-15Z"', ("string", "io.debezium.time.IsoDate"), date(2017, 9, 15)),
        ("date", "5", ("int64", f"{_DEBEZIUM}Timestamp"), "!io.debezium.time.Timestamp is not a date"),
        ("timestamp_ntz", "-1", ("int64", f"{_DEBEZIUM}Timestamp"), datetime(1969, 12, 31, 23, 59, 59, 999000)),
        ("timestamp_ntz", "1", ("int64", f"{_CONNECT}Timestamp"), datetime(1970, 1, 1, 0, 0, 0, 1000)),
        ("timestamp_ntz", "1", ("int64", f"{_DEBEZIUM}MicroTimestamp"), datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("timestamp_ntz", "-1", ("int64", f"{_DEBEZIUM}NanoTimestamp"), datetime(1969, 12, 31, 23, 59, 59, 999999)),
        ("timestamp_ntz", "1999", ("int64", f"{_DEBEZIUM}NanoTimestamp"), datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("timestamp", "1", ("int64", f"{_DEBEZIUM}Timestamp"), datetime(1970, 1, 1, 0, 0, 0, 1000, UTC)),
        (
            "timestamp",
            '"2011-12-03T10:15:30.1234567+01:00"',
            ("string", f"{_DEBEZIUM}ZonedTimestamp"),
            datetime(2011, 12, 3, 9, 15, 30, 123456, UTC),
        ),
        (
            "timestamp_ntz",
            '"2019-07-09T02:28:57.123456Z"',
            ("string", f"{_DEBEZIUM}IsoTimestamp"),
            datetime(2019, 7, 9, 2, 28, 57, 123456),
        ),
        ("timestamp_ntz", '"2011-12-03T10:15:30Z"', ("string", f"{_DEBEZIUM}ZonedTimestamp"), "!names a zone"),
        ("timestamp", "5", ("int32", f"{_DEBEZIUM}Date"), "!io.debezium.time.Date is not a timestamp"),
        ("timestamp", "5", ("int64", None), "!set 'value.format.timestamp.unit'"),
        ("long", "1529507596945104", ("int64", f"{_DEBEZIUM}MicroTimestamp"), 1529507596945104),
        ("string", '"P1Y2M3DT4H5M6.78S"', ("string", f"{_DEBEZIUM}Interval"), "P1Y2M3DT4H5M6.78S"),
        ("decimal(10,2)", '"-12.345"', ("string", None), Decimal("-12.35")),
        ("decimal(10,2)", "12.5", ("double", None), Decimal("12.50")),
        ("decimal(10,2)", '"NaN"', ("string", None), "!is not decimal"),
        ("binary", '"AQL/"', ("bytes", None), b"\1\2\xff"),
        ("binary", '"AQL/"', ("string", None), "!set 'value.format.binary.handling.mode'"),
        ("binary", '"AQL"', ("bytes", None), "!can't be binary"),
        ("binary", '"A-L_"', ("bytes", None), "!not base64"),
        ("array<int>", "[1,2]", ("array", None), [1, 2]),
        ("struct<x: double, y: double>", '{"x":1.5,"y":2}', ("struct", None), {"x": 1.5, "y": 2.0}),
        ("map<string,string>", '{"k":"v"}', ("map", None), [("k", "v")]),
    ],
)
def test_the_schema_in_a_record_says_what_a_value_means(type_, text, meaning, wanted):
    schema = {"type": meaning[0], "items": {"type": "int32"}, **({"name": meaning[1]} if meaning[1] else {})}
    found = value(text, type_, schema)
    if isinstance(wanted, str) and wanted.startswith("!"):
        assert isinstance(found, str) and found.startswith("!field after.a") and wanted[1:] in found, found
    else:
        assert found == wanted


@pytest.mark.parametrize(("text", "scale"), [("BNI=", 2), ("BNI=", 3), ("/w==", 2), ("AA==", 0)])
def test_unscaled_decimals_have_the_scale_of_the_schema(text, scale):
    meaning = {"type": "bytes", "name": f"{_CONNECT}Decimal", "parameters": {"scale": str(scale)}}
    number = int.from_bytes(base64.b64decode(text), "big", signed=True)
    assert value(f'"{text}"', "decimal(10,3)", meaning) == Decimal(number).scaleb(-scale)
    for size in (16, 17):
        text = base64.b64encode(b"\x7f" * size).decode()
        assert "can't be decimal" in value(f'"{text}"', "decimal(38,3)", meaning)


def test_nothing_is_guessed_where_no_schema_says_it():
    assert "set 'value.format.timestamp.unit'" in value("1700000000000", "timestamp")
    assert value("1700000000000", "timestamp", timestamp__unit="ms") == datetime(2023, 11, 14, 22, 13, 20, 0, UTC)
    assert "set 'value.format.decimal.handling.mode'" in value('"1234"', "decimal(9,2)")
    assert value('"1234"', "decimal(9,2)", decimal__handling__mode="string") == Decimal("1234")
    assert value('"BNI="', "decimal(9,2)", decimal__handling__mode="precise") == Decimal("12.34")
    assert value("12.34", "decimal(9,2)") == Decimal("12.34")
    assert value('{"scale":3,"value":"BNI="}', "decimal(9,3)") == Decimal("1.234")
    assert "set 'value.format.binary.handling.mode'" in value('"abcd"', "binary")
    for mode, text, data in (
        ("hex", "00ff", b"\0\xff"),
        ("base64", "AP8=", b"\0\xff"),
        ("base64-url-safe", "_-8", b"\xff\xef"),
    ):
        assert value(f'"{text}"', "binary", binary__handling__mode=mode) == data
    assert value("17798", "date") == value('"2018-09-24"', "date") == date(2018, 9, 24)
    assert value('"2024-01-01T00:00:00Z"', "timestamp") == datetime(2024, 1, 1, tzinfo=UTC)
    assert "written in different ways" in value('[1,"2024-01-01"]', "array<date>")


def test_times_without_a_zone_are_of_the_zone_that_is_named():
    zoned = {"timeZone": "Europe/Berlin", "timestamp__unit": "ms"}
    assert value("0", "timestamp", **zoned) == datetime(1969, 12, 31, 23, tzinfo=UTC)
    assert value("0", "timestamp_ntz", **zoned) == datetime(1970, 1, 1)


def test_a_text_where_decimals_are_numbers_is_looked_at():
    """Arrow's parser takes "2.50" for a decimal; without a schema it may be base 64."""
    records = [b'{"op":"c","after":{"a":%s,"l":[%s]}}' % (text, text) for text in [b"1.5"] * 300]
    records[200] = b'{"op":"c","after":{"a":"1234","l":[]}}'
    records[250] = b'{"op":"c","after":{"a":1,"l":["1234"]}}'
    records[260] = b'{"op":"c","after":{"\\u0061":"1234"}}'
    rows, reasons = decoded(records, "a decimal(9,2), l array<decimal(9,2)>")
    assert [row for row, reason in enumerate(reasons) if reason] == [200, 250, 260]
    assert all("decimal.handling.mode" in reasons[row] for row in (200, 250, 260))
    assert rows[0]["after"] == {"a": Decimal("1.50"), "l": [Decimal("1.50")]}


UNAVAILABLE = "format.unavailable.value.placeholder"
PLACEHOLDER = "__debezium_unavailable_value"


def test_values_that_the_database_did_not_send_are_null_and_named():
    columns = "a string, b binary, c array<string>, d array<int>, e map<string,string>, f long"
    data = base64.b64encode(PLACEHOLDER.encode()).decode()
    row = {"a": PLACEHOLDER, "b": data, "c": [PLACEHOLDER], "d": list(PLACEHOLDER.encode()), "f": 1}
    full = {"a": "x", "b": "AP8=", "c": ["y", PLACEHOLDER], "d": [1], "f": 2}
    records = [compact(envelope("u", full, row)), compact(envelope("u", row, full))]
    for more in ({}, {"e": {PLACEHOLDER: PLACEHOLDER}}):
        both = [json.loads(record) for record in records]
        both[0]["after"].update(more)
        rows, reasons = decoded(list(map(compact, both)), columns, binary__handling__mode="bytes")
        assert reasons == [None, None]
        names = [f"after.{name}" for name in ("a", "b", "c", "d", *more)]
        assert rows[0]["unavailable"] == names
        assert rows[1]["unavailable"] == ["before.a", "before.b", "before.c", "before.d"]
        assert rows[0]["after"] == {**dict.fromkeys("abcde"), "f": 1}
        assert rows[1]["after"] == {"a": "x", "b": b"\0\xff", "c": ["y", PLACEHOLDER], "d": [1], "e": None, "f": 2}
    own = compact(envelope("u", None, {"a": "gone", "b": base64.b64encode(b"gone").decode()}))
    for text in ("gone", "hex:676F6E65"):
        rows, _ = decoded(
            [own], "a string, b binary", unavailable__value__placeholder=text, binary__handling__mode="bytes"
        )
        assert rows[0]["unavailable"] == ["after.a", "after.b"]


def test_an_unavailable_value_needs_a_place_to_be_said():
    type_ = pa.struct([("op", pa.string()), ("after", pa.struct([("a", pa.string())]))])
    record = compact(envelope("u", None, {"a": PLACEHOLDER}))
    found = create_decoder("debezium", {}, type_).decode(pa.array([record]))
    assert found.column.to_pylist() == [None]
    assert "after.a: its value is unavailable" in found.errors[0].as_py()


# --- any rows ---------------------------------------------------------------------------------------------------------

_WRITERS = st.fixed_dictionaries(
    {
        "precision": st.sampled_from(sorted(PRECISIONS)),
        "decimals": st.sampled_from(["precise", "string"]),
        "binary": st.sampled_from(["base64", "base64-url-safe", "hex"]),
    }
)


@given(st.lists(CHANGES, min_size=1, max_size=4), _WRITERS, st.booleans(), st.data())
@settings(max_examples=40)
def test_rows_come_back_as_they_were(changes, writer, has_schema, data):
    payloads = [envelope(op, written(before, **writer), written(after, **writer)) for op, before, after in changes]
    schema = connect_schema(**writer)
    records = [compact({"schema": schema, "payload": one} if has_schema else one) for one in payloads]
    if data.draw(st.booleans(), label="with blanks"):
        records[0] = json.dumps(json.loads(records[0])).encode()
    options = {"binary__handling__mode": writer["binary"]}
    if not has_schema:
        options["decimal__handling__mode"] = writer["decimals"]
        if unit := PRECISIONS[writer["precision"]][2]:
            options["timestamp__unit"] = unit
    columns = COLUMNS
    if writer["precision"] == "isostring" and not has_schema:
        columns = COLUMNS.replace("timestamp_ntz", "timestamp")  # the texts name a zone
    one = decoder(columns, **options)
    together = one.decode(pa.array(records, pa.binary()))
    again = one.decode(pa.array(records, pa.binary()))
    alone = [decoder(columns, **options).decode(pa.array([record], pa.binary())) for record in records]
    assert together.errors is None and again.errors is None
    rows = together.column.to_pylist()
    assert rows == again.column.to_pylist() == [found.column[0].as_py() for found in alone]
    for row, (op, before, after) in zip(rows, changes, strict=True):
        for found, wanted in ((row["before"], before), (row["after"], after)):
            wanted = as_read(wanted, writer["precision"])
            if wanted is not None and columns is not COLUMNS:
                wanted = {**wanted, "at": wanted["at"] and wanted["at"].replace(tzinfo=UTC)}
            assert found == wanted
        assert row["op"] == op and json.loads(row["source"]["json"]) == SOURCE


@pytest.mark.parametrize("has_schema", [False, True])
def test_records_of_one_layout_are_read_together(has_schema, monkeypatch):
    """Also if the columns that were null at first have values later."""
    empty = {**dict.fromkeys(EXAMPLE), "id": 1}
    payloads = [envelope("c", None, written(row)) for row in (empty, EXAMPLE)] * 50
    payloads.append(envelope("u", written(EXAMPLE), written(empty)))
    schema = connect_schema()
    records = [compact({"schema": schema, "payload": one} if has_schema else one) for one in payloads]
    options = {"binary__handling__mode": "base64", "decimal__handling__mode": "precise", "timestamp__unit": "us"}
    one = decoder(**options)
    first = one.decode(pa.array(records, pa.binary()))
    monkeypatch.setattr(type(one), "_look_at", None)  # a closer look would fail
    column = pa.array([b"", *records * 9, None], pa.binary()).slice(1)
    again = one.decode(column)
    assert first.errors is None and again.errors is None
    assert again.column.slice(0, len(records)).equals(first.column)
    assert [row and row["after"] for row in again.column.to_pylist()] == [*[empty, EXAMPLE] * 50, empty] * 9 + [None]


@given(
    st.lists(st.tuples(CHANGES, _WRITERS, st.booleans()), min_size=2, max_size=5),
    st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from('{}[]",:0xn')), max_size=3),
)
@settings(max_examples=25)
def test_a_record_means_the_same_whatever_is_next_to_it(drawn, damages):
    records = []
    for (op, before, after), writer, has_schema in drawn:
        one = envelope(op, written(before, **writer), written(after, **writer))
        records.append(compact({"schema": connect_schema(**writer), "payload": one} if has_schema else one))
    for place, character in damages:
        row = place % len(records)
        at = place // len(records) % len(records[row])
        records[row] = records[row][:at] + character.encode() + records[row][at + 1 :]
    options = {"binary__handling__mode": "base64", "decimal__handling__mode": "precise", "timestamp__unit": "us"}
    one = decoder(**options)
    column = pa.array(records * 3, pa.binary())
    for found in (one.decode(column), one.decode(column)):
        errors = [None] * len(column) if found.errors is None else found.errors.to_pylist()
        for row, record in enumerate(records):
            alone = decoder(**options).decode(pa.array([record], pa.binary()))
            for copy in range(3):
                assert found.column.slice(row + copy * len(records), 1).equals(alone.column)
                assert (errors[row + copy * len(records)] is None) == (alone.errors is None)


# --- the options ------------------------------------------------------------------------------------------------------


def test_the_schema_of_the_option_has_the_columns_of_the_table():
    values = READING.parse({"value.format": "Debezium", "value.schema": "id long"}, owner="it")
    made = FormatSettings.from_values(values, "value", reading=True)
    type_ = made.create_decoder(None).type
    assert type_.field("after").type == type_.field("before").type == pa.struct([("id", pa.int64())])
    assert made.create_decoder(type_).type == type_
    with pytest.raises(BadConfigurationError, match=r"'value\.schema' is struct<id: bigint>, and \.schema\(…\) says"):
        made.create_decoder(pa.struct([("op", pa.string())]))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs the table's columns in the option 'value.schema'"),
        ({"value.schema": "long"}, "option 'value.schema': format debezium needs the table's columns, not bigint"),
        ({"value.schema": '"long"'}, "is an Avro schema, but 'value.format' is debezium: write DDL"),
        ({"value.schema": "a int", "value.format.timestamp.unit": "s"}, "'value.format.timestamp.unit': 's' is not"),
        (
            {"value.schema": "a int", "value.format.unavailable.value.placeholder": "hex:x"},
            "pairs of hexadecimal digits",
        ),
        ({"value.schema": "a int", "value.format.unavailable.value.placeholder": "hex:"}, "with a character in it"),
        ({"value.schema": "a int", "value.format.charset": "latin-1"}, "has no option"),
        (
            {
                "value.schema": "a int",
                "value.format.schema.registry.url": "http://127.0.0.1:9",
                "value.format.decimal.handling.mode": "string",
            },
            "decimal.handling.mode",
        ),
    ],
)
def test_what_does_not_go_together(given, words):
    values = READING.parse({"value.format": "debezium", **given}, owner="it")
    with pytest.raises(BadConfigurationError, match=words):
        FormatSettings.from_values(values, "value", reading=True).create_decoder(None)


def test_it_is_not_written():
    with pytest.raises(BadConfigurationError) as error:
        WRITING.parse({"value.format": "debezium"}, owner="it")
    assert (
        str(error.value)
        == "option 'value.format': 'debezium' is not a format to write, only to read: write json, avro or protobuf"
    )
    with pytest.raises(BadConfigurationError, match="can't encode"):
        create_encoder("debezium", {}, pa.struct([("a", pa.int64())]))
