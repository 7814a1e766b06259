"""JSON records."""

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

from penstock.errors import BadConfigurationError, BadDataError
from penstock.serialization.formats import create_decoder, create_encoder
from penstock.serialization.values import TimeParser

UTC = timezone.utc
ALL = pa.struct(
    [
        ("flag", pa.bool_()),
        ("tiny", pa.int8()),
        ("big", pa.int64()),
        ("ratio", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("text", pa.string()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("lat", pa.float64()), ("visits", pa.list_(pa.struct([("n", pa.int32())])))])),
    ]
)
WITH_SLOW = pa.struct([*ALL, pa.field("blob", pa.binary()), pa.field("counts", pa.map_(pa.string(), pa.int32()))])
ROW = {
    "flag": True,
    "tiny": -5,
    "big": 2**62,
    "ratio": 0.5,
    "price": Decimal("12.50"),
    "text": 'é"\\\n\t\x01 ',
    "day": date(2024, 2, 29),
    "at": datetime(2024, 1, 1, 12, 0, 0, 123456, UTC),
    "local": datetime(2024, 1, 1, 12),
    "tags": ["a", None, ""],
    "place": {"lat": 1.5, "visits": [{"n": 1}, {"n": None}, None]},
}
SLOW = {**ROW, "blob": b"\0\xff", "counts": [("a", 1), ("b", None)]}


def binary(values):
    return pa.array(values, pa.binary())


def decode(type_, *values, **options):
    return create_decoder("json", options, pa.struct(type_)).decode(binary(list(values)))


def one(type_, value, **options):
    """The single field ``a`` of one record, or the error's text behind "!"."""
    decoded = decode([("a", type_)], b'{"a":%s}' % value.encode(), **options)
    return decoded.column[0].as_py()["a"] if decoded.errors is None else "!" + decoded.errors[0].as_py()


@pytest.mark.parametrize(("type_", "row"), [(ALL, ROW), (WITH_SLOW, SLOW)])
def test_what_is_written_is_read_again(type_, row):
    empty = dict.fromkeys(row)
    column = pa.array([row, None, empty, row], type_)
    records = create_encoder("json", {}, type_).encode(column)
    decoder = pickle.loads(pickle.dumps(create_decoder("json", {}, type_)))
    decoded = decoder.decode(records)
    assert decoded.errors is None
    assert decoded.column.type == type_
    assert decoded.column.to_pylist() == [row, None, empty, row]
    assert decoder.decode(records.slice(1)).column.to_pylist() == [None, empty, row]
    assert create_encoder("json", {}, type_).encode(column.slice(1, 2)).to_pylist() == records.to_pylist()[1:3]


def test_the_text_of_a_record():
    column = pa.array([SLOW], WITH_SLOW)
    record = json.loads(create_encoder("json", {}, WITH_SLOW).encode(column)[0].as_py())
    expected = {**SLOW, "price": 12.5, "day": "2024-02-29", "at": "2024-01-01T12:00:00.123456Z"}
    expected |= {"local": "2024-01-01T12:00:00.000000", "blob": base64.b64encode(b"\0\xff").decode()}
    expected |= {"counts": {"a": 1, "b": None}, "place": {"lat": 1.5, "visits": [{"n": 1}, {}, None]}}
    assert record == expected


def test_null_fields_are_left_out_or_written():
    type_ = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    column = pa.array([{"a": None, "b": {"c": None}}, {"a": 1, "b": None}, None], type_)
    assert create_encoder("json", {}, type_).encode(column).to_pylist() == [b'{"b":{}}', b'{"a":1}', None]
    written = create_encoder("json", {"ignoreNullFields": "false"}, type_).encode(column).to_pylist()
    assert written == [b'{"a":null,"b":{"c":null}}', b'{"a":1,"b":null}', None]


def test_floats_that_json_lacks():
    type_ = pa.struct([("a", pa.float64())])
    column = pa.array([{"a": a} for a in (float("nan"), float("inf"), float("-inf"), 1e300, -0.0, 3.0, None)], type_)
    records = create_encoder("json", {}, type_).encode(column)
    texts = [b'{"a":"NaN"}', b'{"a":"Infinity"}', b'{"a":"-Infinity"}', b'{"a":1e+300}', b'{"a":-0.0}', b'{"a":3.0}']
    assert records.to_pylist() == [*texts, b"{}"]
    decoded = create_decoder("json", {}, type_).decode(records)
    assert decoded.errors is None and str(decoded.column.to_pylist()) == str(column.to_pylist())


def test_bad_records_do_not_harm_their_neighbours():
    bad = [b"", b"garbage", b"[1]", b"null", b'{"a":', b'{"a":1}}', b'{"a":1}{"a":2}', b'{"a":"x\ny"}', b"\xff\xfe"]
    bad += [b'{"a":1}\n{"a":2}', b"{}{}{}", b'{"a":"x}', b'"{}"', b'{"a":true}', b'{"b":"\xff"}', b"{,}", b" {} x"]
    rows = [b'{"a":%d}' % n for n in range(3000)]
    places = {50 + 131 * n: value for n, value in enumerate(bad)} | {0: b"", 2999: b"{}{}", 1500: b'{"a":'}
    for place, value in places.items():
        rows[place] = value
    rows[1501] = b"1}"
    rows[7] = None
    decoded = decode([("a", pa.int64())], *rows)
    wrong = {*places, 1501}
    assert [n for n, e in enumerate(decoded.errors.to_pylist()) if e] == sorted(wrong)
    for n, row in enumerate(decoded.column.to_pylist()):
        assert row == (None if n in wrong or n == 7 else {"a": n})


_PIECES = ['{"a":1}', '{"a":2}', "{}", "{", "}", '{"a":', "1", ",", '"', "\n", " ", "[", "]", '{"b":[{}]}']


@given(st.lists(st.lists(st.sampled_from(_PIECES), max_size=4).map("".join), max_size=12))
@settings(max_examples=200)
def test_objects_never_move_between_rows(texts):
    decoded = decode([("a", pa.int64())], *(t.encode() for t in texts))
    for text, row in zip(texts, decoded.column.to_pylist(), strict=True):
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        fits = isinstance(value, dict) and isinstance(value.get("a", 0), int)
        assert row == ({"a": value.get("a")} if fits else None)


_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4)
    | st.sampled_from(["2024-01-01", "2024-01-01T00:00:00Z", "NaN", "1.5"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=2),
    max_leaves=4,
)


WIDE = pa.struct([*ALL, pa.field("wide", pa.decimal128(38, 9)), pa.field("whole", pa.decimal128(38, 0))])
_TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
#: Values that mostly fit, at the ends of their ranges too.
_FITTING = {
    "flag": st.booleans(),
    "tiny": st.integers(-129, 128),
    "big": st.integers(-(2**63), 2**63 - 1),
    "ratio": st.floats(allow_nan=False, allow_infinity=False) | st.integers(),
    "price": st.decimals(-(10**8), 10**8, places=2).map(str),
    "text": st.text(max_size=4),
    "day": st.dates(),
    "at": _TIMES.map(lambda at: f"{at}Z"),
    "local": _TIMES,
    "tags": st.lists(st.none() | st.text(max_size=2), max_size=2),
    "place": st.fixed_dictionaries({}, optional={"lat": st.floats(allow_nan=False, allow_infinity=False)}),
    "wide": st.integers(-(10**38), 10**38).map(lambda digits: f"{digits // 10**9}.{digits % 10**9:09}"),
    "whole": st.integers(-(10**38), 10**38),
}
_ANY = st.dictionaries(st.sampled_from([field.name for field in WIDE]), _JSON)
_OBJECTS = st.lists(_ANY | st.fixed_dictionaries({}, optional=_FITTING), min_size=1, max_size=8)


@given(_OBJECTS)
@settings(max_examples=40)
def test_batches_and_single_rows_are_read_alike(objects):
    """A good row means the same whether Arrow reads it with its batch or Python reads it after a bad neighbour."""
    are_read_alike(objects)


@pytest.mark.exhaustive("a thousand batches; test_batches_and_single_rows_are_read_alike has forty")
@given(_OBJECTS)
@settings(max_examples=1000)
def test_many_batches_and_single_rows_are_read_alike(objects):
    are_read_alike(objects)


def are_read_alike(objects):
    decoder = create_decoder("json", {}, WIDE)
    rows = [json.dumps(o, default=str).encode() for o in objects]
    together = decoder.decode(binary([*rows, b"bad"]))
    for n, row in enumerate(rows):
        alone = decoder.decode(binary([row]))
        assert (alone.errors is None) == (together.errors[n].as_py() is None)
        assert str(alone.column[0]) == str(together.column[n])


def test_pretty_printed_records_are_read_in_one_go(monkeypatch):
    decoder = create_decoder("json", {}, pa.struct([("a", pa.int64())]))
    monkeypatch.setattr(decoder, "_parse_rows", lambda *_: pytest.fail("a closer look"))
    rows = [json.dumps({"a": n, "x": [n]}, indent=2).encode() + b" \r\n" for n in range(50)]
    assert [row["a"] for row in decoder.decode(binary(rows)).column.to_pylist()] == list(range(50))


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (pa.int64(), "1.0", "!field a: 1.0 is not bigint"),
        (pa.int8(), "300", "!field a: 300 is not tinyint"),
        (pa.int64(), '"1"', '!field a: "1" is not bigint'),
        (pa.int64(), "true", "!field a: true is not bigint"),
        (pa.bool_(), "1", "!field a: 1 is not boolean"),
        (pa.string(), "1.50", "1.50"),
        (pa.string(), '{"x": [1.10, null]}', '{"x":[1.10,null]}'),
        (pa.string(), "true", "true"),
        (pa.float64(), '"NaN"', None),
        (pa.float64(), "7", 7.0),
        (pa.float64(), '"1.5"', '!field a: "1.5" is not double'),
        (pa.decimal128(5, 2), "1.255", Decimal("1.26")),
        (pa.decimal128(5, 2), '"1.2"', Decimal("1.20")),
        (pa.decimal128(5, 2), "12345", "!field a: 12345 is not decimal(5,2)"),
        (pa.decimal128(5, 2), '"x"', '!field a: "x" is not decimal(5,2)'),
        (pa.date32(), '"2024-02-30"', '!field a: "2024-02-30" is not date'),
        (pa.date32(), '"2024-02-29T10:00:00"', date(2024, 2, 29)),
        (pa.timestamp("us", "UTC"), '"2024-01-01T01:00:00.5+01:00"', datetime(2024, 1, 1, 0, 0, 0, 500000, UTC)),
        (pa.timestamp("us", "UTC"), '"2024-01-01 00:00:00"', datetime(2024, 1, 1, tzinfo=UTC)),
        (pa.timestamp("us", "UTC"), '"2024-01-01T00:00:00.123456789Z"', datetime(2024, 1, 1, 0, 0, 0, 123456, UTC)),
        (pa.timestamp("us", "UTC"), "60", datetime(1970, 1, 1, 0, 1, tzinfo=UTC)),
        (pa.timestamp("us"), '"2024-01-01T00:00:00"', datetime(2024, 1, 1)),
        (pa.timestamp("us"), '"2024-01-01T00:00:00Z"', '!field a: "2024-01-01T00:00:00Z" is not timestamp_ntz'),
        (pa.timestamp("us", "UTC"), "9999999999999999", "!field a: 9999999999999999 is not timestamp"),
        (pa.binary(), '"AP8="', b"\0\xff"),
        (pa.binary(), '"?"', '!field a: "?" is not binary'),
        (pa.list_(pa.int8()), "[1, 2.5]", "!field a[]: 2.5 is not tinyint"),
        (pa.struct([("b", pa.int8())]), '{"b": {}}', "!field a.b: {} is not tinyint"),
        (pa.map_(pa.string(), pa.int8()), '{"k": "v"}', '!field a.k: "v" is not tinyint'),
        (pa.map_(pa.string(), pa.int8()), "[]", "!field a: [] is not map<string, tinyint>"),
    ],
)
def test_values_as_spark_reads_them_or_an_error(type_, text, value):
    found = one(type_, text)
    assert found != found if text == '"NaN"' else found == value


def test_the_zone_of_timestamps_without_one():
    assert one(pa.timestamp("us", "UTC"), '"2024-07-01T12:00:00"', timeZone="Europe/Rome") == datetime(
        2024, 7, 1, 10, tzinfo=UTC
    )
    assert one(pa.timestamp("us", "UTC"), '"2024-07-01 12:0:00"', timeZone="Europe/Rome") == datetime(
        2024, 7, 1, 10, tzinfo=UTC
    )
    with pytest.raises(BadConfigurationError, match="'Mars/Base' is not an IANA time zone"):
        decode([("a", pa.int8())], timeZone="Mars/Base")


@pytest.mark.parametrize("text", ['"\\ud800"', "[" * 100_000, "1" * 5000, '"' + "x" * 5000 + '"'])
def test_hostile_values_are_short_errors(text):
    found = one(pa.int64(), text)
    assert found.startswith("!") and len(found) < 250
    assert one(pa.string(), '"\\ud800"').startswith("!field a")


def test_an_empty_batch_and_a_batch_of_nulls():
    assert decode([("a", pa.int8())]).column.equals(pa.array([], pa.struct([("a", pa.int8())])))
    decoded = decode([("a", pa.int8())], None, None)
    assert decoded.errors is None and decoded.column.null_count == 2
    type_ = pa.struct([("a", pa.int8())])
    assert create_encoder("json", {}, type_).encode(pa.array([], type_)).equals(binary([]))


def test_columns_without_a_json_form_are_refused():
    for create in (create_decoder, create_encoder):
        with pytest.raises(BadConfigurationError, match="needs"):
            create("json", {}, None)
        with pytest.raises(BadConfigurationError, match="for struct columns, not bigint"):
            create("json", {}, pa.int64())
        with pytest.raises(BadConfigurationError, match=r"no form for 'a\.element\.b' of type duration"):
            create("json", {}, pa.struct([("a", pa.list_(pa.struct([("b", pa.duration("s"))])))]))
        with pytest.raises(BadConfigurationError, match="keys of the map 'm' must be strings"):
            create("json", {}, pa.struct([("m", pa.map_(pa.int64(), pa.int64()))]))


def test_a_value_without_a_text_is_named_by_its_row():
    type_ = pa.struct([("at", pa.timestamp("s"))])
    column = pa.array([{"at": 0}, {"at": 2**62}], type_)
    with pytest.raises(BadDataError, match="row 1 of the batch"):
        create_encoder("json", {}, type_).encode(column)


def test_a_time_that_is_none_is_named():
    times = TimeParser("UTC")
    with pytest.raises(ValueError, match="'yesterday' is not a date"):
        times.date("yesterday")
    with pytest.raises(ValueError, match="'yesterday' is not a timestamp"):
        times.timestamp("yesterday", pa.timestamp("us"))
